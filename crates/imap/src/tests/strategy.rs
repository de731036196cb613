//! Values to test with: any command and response that this crate can make.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::client::{BodyName, FetchData, Value};
use crate::types::*;

pub(super) fn tag() -> impl Strategy<Value = Tag> {
    "[A-Za-z0-9.\\]]{1,8}".prop_map(|tag| Tag::new(&tag).unwrap())
}

pub(super) fn atom() -> impl Strategy<Value = Atom> {
    "[A-Za-z0-9$+.=!-]{1,10}".prop_map(|atom| Atom::new(&atom).unwrap())
}

pub(super) fn astring() -> impl Strategy<Value = AString> {
    prop_oneof![
        "[A-Za-z0-9]{0,6}",
        "[ -~]{0,10}",
        Just("NIL".to_owned()),
        "[\\x01-\\x7f\"\\\\]{0,10}",
        Just("x".repeat(1100)),
    ]
    .prop_map(|text| AString::new(text).unwrap())
}

/// Bytes of any kind, for strings that imap-codec does not parse further.
pub(super) fn bytes() -> impl Strategy<Value = AString> {
    vec(1u8..=255, 0..12).prop_map(|bytes| AString::new(bytes).unwrap())
}

pub(super) fn mailbox() -> impl Strategy<Value = Mailbox> {
    prop_oneof![
        Just("inbox".to_owned()),
        Just("NIL".to_owned()),
        "[A-Za-z0-9/&\"% *\\\\-]{1,8}",
        "\\PC{1,6}",
    ]
    .prop_map(|name| Mailbox::new(&name).unwrap())
}

pub(super) fn flag() -> impl Strategy<Value = Flag> {
    let system = [Flag::Seen, Flag::Answered, Flag::Flagged, Flag::Deleted, Flag::Draft];
    prop_oneof![
        proptest::sample::select(system.to_vec()),
        atom().prop_map(Flag::Keyword),
        "[a-z]{5,6}x".prop_map(|name| Flag::Extension(Atom::new(&name).unwrap())),
    ]
}

pub(super) fn sequence_set() -> impl Strategy<Value = SequenceSet> {
    let number = prop_oneof![
        1 => Just(SeqNumber::STAR),
        4 => (1u32..).prop_map(|n| SeqNumber::new(n).unwrap()),
        4 => (1u32..40).prop_map(|n| SeqNumber::new(n).unwrap()),
    ];
    let range = (number, option::of(1u32..))
        .prop_map(|(start, end)| SeqRange { start, end: end.and_then(SeqNumber::new).unwrap_or(start) });
    vec(range, 1..6).prop_map(|ranges| SequenceSet::new(ranges).unwrap())
}

/// Ascending numbers without `*`, as UIDs in response codes.
pub(super) fn uid_set() -> impl Strategy<Value = SequenceSet> {
    vec(1u32..50, 1..8).prop_map(|mut uids| {
        uids.sort_unstable();
        uids.dedup();
        SequenceSet::from_numbers(uids).unwrap()
    })
}

pub(super) fn date() -> impl Strategy<Value = Date> {
    (-25_000i64..50_000).prop_map(Date::from_days)
}

pub(super) fn date_time() -> impl Strategy<Value = DateTime> {
    (date(), 0u8..24, 0u8..60, 0u8..60, -720i16..840).prop_map(|(date, hour, minute, second, zone)| {
        DateTime::new(date, hour, minute, second, zone).unwrap()
    })
}

pub(super) fn section() -> impl Strategy<Value = Section> {
    let names = || vec("[A-Za-z-]{1,10}".prop_map(|name| AString::from(&*name)), 1..4);
    let text = prop_oneof![
        Just(SectionText::Everything),
        Just(SectionText::Header),
        Just(SectionText::Text),
        Just(SectionText::Mime),
        names().prop_map(SectionText::HeaderFields),
        names().prop_map(SectionText::HeaderFieldsNot),
    ];
    (vec((1u32..99).prop_map(|n| n.try_into().unwrap()), 0..4), text).prop_map(|(path, text)| match text {
        SectionText::Mime if path.is_empty() => Section { path, text: SectionText::Header },
        text => Section { path, text },
    })
}

/// A section that is a part number and nothing else (RFC 3516 §7, `section-binary`).
fn part() -> impl Strategy<Value = Section> {
    section().prop_map(|section| Section { text: SectionText::Everything, ..section })
}

fn fetch_item() -> impl Strategy<Value = FetchItem> {
    let partial = option::of(
        (any::<u32>(), 1u32..)
            .prop_map(|(start, count)| Partial { start: u64::from(start), count: u64::from(count) }),
    );
    prop_oneof![
        proptest::sample::select(vec![
            FetchItem::Uid,
            FetchItem::Flags,
            FetchItem::InternalDate,
            FetchItem::Rfc822Size,
            FetchItem::ModSeq,
            FetchItem::Envelope,
            FetchItem::Body,
            FetchItem::BodyStructure,
            FetchItem::Rfc822,
            FetchItem::Rfc822Header,
            FetchItem::Rfc822Text,
        ]),
        (section(), partial.clone(), any::<bool>())
            .prop_map(|(section, partial, peek)| { FetchItem::BodySection { section, partial, peek } }),
        (part(), partial, any::<bool>()).prop_map(|(section, partial, peek)| FetchItem::Binary {
            section,
            partial,
            peek
        }),
        part().prop_map(FetchItem::BinarySize),
    ]
}

fn modseq_entry() -> impl Strategy<Value = ModSeqEntry> {
    let scopes = vec![ModSeqScope::Private, ModSeqScope::Shared, ModSeqScope::All];
    (flag(), proptest::sample::select(scopes)).prop_map(|(flag, scope)| ModSeqEntry { flag, scope })
}

fn modseq() -> impl Strategy<Value = u64> {
    1u64..1 << 63
}

fn select_parameters() -> impl Strategy<Value = Vec<SelectParameter>> {
    let matches = (uid_set(), uid_set()).prop_map(|(numbers, uids)| SequenceMatch { numbers, uids });
    let qresync = (1u32.., modseq(), option::of(uid_set()), option::of(matches)).prop_map(
        |(uid_validity, modseq, known_uids, matches)| {
            SelectParameter::QResync(QResync { uid_validity, modseq, known_uids, matches })
        },
    );
    (option::of(Just(SelectParameter::CondStore)), option::of(qresync))
        .prop_map(|(a, b)| a.into_iter().chain(b).collect())
}

fn fetch_modifiers() -> impl Strategy<Value = Vec<FetchModifier>> {
    (option::of(modseq().prop_map(FetchModifier::ChangedSince)), any::<bool>()).prop_map(
        |(since, vanished)| since.into_iter().chain(vanished.then_some(FetchModifier::Vanished)).collect(),
    )
}

fn store_modifiers() -> impl Strategy<Value = Vec<StoreModifier>> {
    option::of((0u64..1 << 63).prop_map(StoreModifier::UnchangedSince))
        .prop_map(|modifier| modifier.into_iter().collect())
}

fn notify() -> impl Strategy<Value = Notify> {
    let names = || vec(mailbox(), 1..3);
    let other = prop_oneof![
        Just(MailboxFilter::Inboxes),
        Just(MailboxFilter::Personal),
        Just(MailboxFilter::Subscribed),
        names().prop_map(MailboxFilter::Subtree),
        names().prop_map(MailboxFilter::Mailboxes),
    ];
    let messages = |items: Vec<FetchItem>, flags: bool| {
        let mut events = vec![NotifyEvent::MessageNew(items), NotifyEvent::MessageExpunge];
        events.extend(flags.then_some(NotifyEvent::FlagChange));
        events
    };
    let selected =
        (any::<bool>(), vec(fetch_item(), 0..3), any::<bool>()).prop_map(move |(delayed, items, flags)| {
            let mailboxes = if delayed {
                NotifyFilter::SelectedDelayed
            } else {
                NotifyFilter::Mailboxes(MailboxFilter::Selected)
            };
            EventGroup { mailboxes, events: messages(items, flags) }
        });
    let of_mailboxes = || {
        proptest::sample::select(vec![
            NotifyEvent::MailboxName,
            NotifyEvent::SubscriptionChange,
            NotifyEvent::MailboxMetadataChange,
            NotifyEvent::ServerMetadataChange,
            NotifyEvent::Other(Atom::new("Weather").unwrap()),
        ])
    };
    let others = (other, any::<bool>(), vec(of_mailboxes(), 0..3)).prop_map(move |(filter, flags, more)| {
        let mut events = if flags { messages(Vec::new(), true) } else { Vec::new() };
        events.extend(more);
        EventGroup { mailboxes: NotifyFilter::Mailboxes(filter), events }
    });
    let set =
        (any::<bool>(), option::of(selected), vec(others, 1..4)).prop_map(|(status, selected, others)| {
            Notify::Set { status, groups: selected.into_iter().chain(others).collect() }
        });
    prop_oneof![1 => Just(Notify::None), 4 => set]
}

fn search_key() -> impl Strategy<Value = SearchKey> {
    let settable = || {
        prop_oneof![
            proptest::sample::select(vec![
                Flag::Seen,
                Flag::Answered,
                Flag::Flagged,
                Flag::Deleted,
                Flag::Draft
            ]),
            Just(Flag::Recent),
            atom().prop_map(Flag::Keyword)
        ]
    };
    let leaf = prop_oneof![
        Just(SearchKey::All),
        Just(SearchKey::New),
        settable().prop_map(SearchKey::Flag),
        settable().prop_map(SearchKey::NotFlag),
        date().prop_map(SearchKey::Before),
        date().prop_map(SearchKey::On),
        date().prop_map(SearchKey::Since),
        date().prop_map(SearchKey::SentBefore),
        date().prop_map(SearchKey::SentOn),
        date().prop_map(SearchKey::SentSince),
        astring().prop_map(SearchKey::Bcc),
        astring().prop_map(SearchKey::Cc),
        astring().prop_map(SearchKey::From),
        astring().prop_map(SearchKey::Subject),
        astring().prop_map(SearchKey::To),
        bytes().prop_map(SearchKey::Body),
        bytes().prop_map(SearchKey::Text),
        ("[A-Za-z-]{1,8}", astring()).prop_map(|(name, text)| SearchKey::Header(AString::from(&*name), text)),
        any::<u32>().prop_map(|n| SearchKey::Larger(u64::from(n))),
        any::<u32>().prop_map(|n| SearchKey::Smaller(u64::from(n))),
        (option::of(modseq_entry()), 0u64..1 << 63)
            .prop_map(|(entry, modseq)| SearchKey::ModSeq { entry, modseq }),
        sequence_set().prop_map(SearchKey::Sequence),
        sequence_set().prop_map(SearchKey::Uid),
    ];
    leaf.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|key| SearchKey::Not(Box::new(key))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| SearchKey::Or(Box::new(a), Box::new(b))),
            vec(inner, 1..4).prop_map(SearchKey::And),
        ]
    })
}

fn pattern() -> impl Strategy<Value = ListPattern> {
    prop_oneof!["[A-Za-z/%*]{0,8}", "\\PC{0,6}"].prop_map(|pattern| ListPattern::new(&pattern).unwrap())
}

/// STATUS items that imap-codec knows too, all of them numbers.
const NUMBERS: [StatusItem; 6] = [
    StatusItem::Messages,
    StatusItem::Recent,
    StatusItem::UidNext,
    StatusItem::UidValidity,
    StatusItem::Unseen,
    StatusItem::HighestModSeq,
];

/// Commands of RFC 3501 and of the extensions that imap-codec knows too.
pub(super) fn common_body() -> impl Strategy<Value = CommandBody> {
    let secret = || astring().prop_map(|text| Secret::new(text.into_bytes()));
    let items = vec(proptest::sample::select(NUMBERS.to_vec()), 1..5);
    let plain = proptest::sample::select(vec![
        CommandBody::Capability,
        CommandBody::Noop,
        CommandBody::Logout,
        CommandBody::StartTls,
        CommandBody::Namespace,
        CommandBody::Idle,
        CommandBody::Check,
        CommandBody::Close,
        CommandBody::Unselect,
        CommandBody::Expunge { uids: None },
    ]);
    let action = proptest::sample::select(vec![StoreAction::Replace, StoreAction::Add, StoreAction::Remove]);
    let list = (mailbox(), pattern()).prop_map(|(reference, pattern)| List {
        selection: None,
        reference,
        patterns: vec![pattern],
        returns: Vec::new(),
    });
    let account = prop_oneof![
        plain,
        (astring(), secret()).prop_map(|(user, password)| CommandBody::Login { user, password }),
        option::of(Just(Secret::new(b"AG1lAHg=".to_vec()))).prop_map(|initial| CommandBody::Authenticate {
            mechanism: Atom::new("PLAIN").unwrap(),
            initial
        }),
        vec(atom(), 1..3).prop_map(CommandBody::Enable),
        (mailbox(), any::<bool>(), select_parameters()).prop_map(|(mailbox, read_only, parameters)| {
            CommandBody::Select { mailbox, read_only, parameters }
        }),
        mailbox().prop_map(|mailbox| CommandBody::Create { mailbox, special_use: Vec::new() }),
        mailbox().prop_map(CommandBody::Delete),
        (mailbox(), mailbox()).prop_map(|(from, to)| CommandBody::Rename { from, to }),
        mailbox().prop_map(CommandBody::Subscribe),
        mailbox().prop_map(CommandBody::Unsubscribe),
        list.prop_map(CommandBody::List),
        (mailbox(), pattern()).prop_map(|(reference, pattern)| CommandBody::Lsub { reference, pattern }),
        (mailbox(), items).prop_map(|(mailbox, items)| CommandBody::Status { mailbox, items }),
        id().prop_map(CommandBody::Id),
    ];
    let messages = prop_oneof![
        sequence_set().prop_map(|uids| CommandBody::Expunge { uids: Some(uids) }),
        (any::<bool>(), option::of(Just(AString::from("UTF-8"))), vec(search_key(), 1..4)).prop_map(
            |(uid, charset, keys)| CommandBody::Search(Search { uid, returns: None, charset, keys })
        ),
        (any::<bool>(), sequence_set(), vec(fetch_item(), 1..4), fetch_modifiers())
            .prop_map(|(uid, set, items, modifiers)| CommandBody::Fetch { uid, set, items, modifiers }),
        (any::<bool>(), sequence_set(), store_modifiers(), action, any::<bool>(), vec(flag(), 0..4))
            .prop_map(|(uid, set, modifiers, action, silent, flags)| {
                CommandBody::Store(Store { uid, set, modifiers, action, silent, flags })
            }),
        (any::<bool>(), sequence_set(), mailbox()).prop_map(|(uid, set, mailbox)| CommandBody::Copy {
            uid,
            set,
            mailbox
        }),
        (any::<bool>(), sequence_set(), mailbox()).prop_map(|(uid, set, mailbox)| CommandBody::Move {
            uid,
            set,
            mailbox
        }),
    ];
    prop_oneof![account.boxed(), messages.boxed()]
}

/// Every command.
pub(super) fn body() -> impl Strategy<Value = CommandBody> {
    let list = (
        option::of(vec(
            proptest::sample::select(vec![
                SelectionOption::SpecialUse,
                SelectionOption::Remote,
                SelectionOption::Subscribed,
            ]),
            0..3,
        )),
        mailbox(),
        vec(pattern(), 1..3),
        vec(return_option(), 0..3),
    )
        .prop_map(|(selection, reference, patterns, returns)| List {
            selection,
            reference,
            patterns,
            returns,
        });
    prop_oneof![
        5 => common_body().boxed(),
        1 => proptest::sample::select(vec![
            CommandBody::Unauthenticate,
            CommandBody::Compress(Atom::new("DEFLATE").unwrap()),
        ]),
        2 => extended_searches().boxed(),
        1 => notify().prop_map(CommandBody::Notify).boxed(),
        1 => list.prop_map(CommandBody::List).boxed(),
        1 => (option::of(named()), option::of(0u64..1 << 63), depth(), vec(entry(), 1..3)).prop_map(
            |(mailbox, max_size, depth, entries)| {
                CommandBody::GetMetadata(GetMetadata { mailbox, max_size, depth, entries })
            }
        ),
        1 => (option::of(named()), vec((entry(), metadata_value()), 1..3))
            .prop_map(|(mailbox, entries)| CommandBody::SetMetadata(SetMetadata { mailbox, entries })),
        1 => prop_oneof![
            astring().prop_map(CommandBody::GetQuota),
            mailbox().prop_map(CommandBody::GetQuotaRoot),
            (astring(), vec((atom(), 0u64..1 << 63), 0..3)).prop_map(|(root, limits)| {
                let limits = limits.into_iter().map(|(name, limit)| QuotaLimit { name, limit }).collect();
                CommandBody::SetQuota { root, limits }
            }),
        ],
        1 => (mailbox(), vec(attribute(), 0..3))
            .prop_map(|(mailbox, special_use)| CommandBody::Create { mailbox, special_use }),
    ]
}

pub(super) fn append_head() -> impl Strategy<Value = AppendHead> {
    let number = prop_oneof![Just(SeqNumber::STAR), (1u32..).prop_map(|n| SeqNumber::new(n).unwrap())];
    let replaces = (any::<bool>(), number).prop_map(|(uid, number)| Replaces { uid, number });
    (tag(), mailbox(), option::of(replaces)).prop_map(|(tag, mailbox, replaces)| AppendHead {
        tag,
        mailbox,
        replaces,
    })
}

pub(super) fn append_message() -> impl Strategy<Value = AppendMessage> {
    (vec(flag(), 0..3), option::of(date_time()), any::<bool>())
        .prop_map(|(flags, date, catenate)| AppendMessage { flags, date, catenate })
}

pub(super) fn append_literal() -> impl Strategy<Value = AppendLiteral> {
    (0u64..100, any::<[bool; 3]>()).prop_map(|(size, [sync, binary, utf8])| AppendLiteral {
        size,
        sync,
        binary: binary || utf8,
        utf8,
    })
}

fn id() -> impl Strategy<Value = Option<IdFields>> {
    option::of(vec((astring(), option::of(astring())), 0..3))
}

fn attribute() -> impl Strategy<Value = MailboxAttribute> {
    "(HasChildren|HasNoChildren|NoSelect|Sent|Trash|Archive|[a-z]{3,5}x)"
        .prop_map(|name| MailboxAttribute::new(Atom::new(&name).unwrap()))
}

fn return_option() -> impl Strategy<Value = ReturnOption> {
    let items = vec(proptest::sample::select(StatusItem::NAMES.map(|(item, _)| item).to_vec()), 1..3);
    prop_oneof![
        Just(ReturnOption::Subscribed),
        Just(ReturnOption::SpecialUse),
        Just(ReturnOption::Children),
        Just(ReturnOption::MyRights),
        items.prop_map(ReturnOption::Status),
        vec(entry(), 1..3).prop_map(ReturnOption::Metadata),
    ]
}

/// A mailbox with a name.
fn named() -> impl Strategy<Value = Mailbox> {
    mailbox().prop_filter("the empty name is the server", |mailbox| !mailbox.as_str().is_empty())
}

fn depth() -> impl Strategy<Value = Depth> {
    proptest::sample::select(Depth::NAMES.map(|(depth, _)| depth).to_vec())
}

fn entry() -> impl Strategy<Value = Entry> {
    "/(private|shared)/[a-z.]{1,5}(/[a-z]{1,3})?".prop_map(|name| Entry::new(&name).unwrap())
}

fn metadata_value() -> impl Strategy<Value = Option<Vec<u8>>> {
    option::of(vec(any::<u8>(), 0..20))
}

fn list_item() -> impl Strategy<Value = ListItem> {
    (
        vec(attribute(), 0..3),
        option::of(proptest::sample::select(vec!['/', '.', '\\', '"'])),
        mailbox(),
        any::<bool>(),
        option::of(mailbox()),
    )
        .prop_map(|(attributes, delimiter, mailbox, info, old)| {
            let info = info.then(|| ListExtension::ChildInfo(vec![SelectionOption::Subscribed]));
            let extended = info.into_iter().chain(old.map(ListExtension::OldName)).collect();
            ListItem { attributes, delimiter, mailbox, extended }
        })
}

pub(super) fn code() -> impl Strategy<Value = Code> {
    let permanent = prop_oneof![flag().prop_map(PermanentFlag::Flag), Just(PermanentFlag::Any)];
    prop_oneof![
        proptest::sample::select(Code::SIMPLE.map(|(code, _)| code).to_vec()),
        vec("[A-Za-z0-9-]{1,8}".prop_map(|name| AString::from(&*name)), 1..3).prop_map(Code::BadCharset),
        vec(atom(), 1..3).prop_map(Code::Capability),
        vec(permanent, 0..3).prop_map(Code::PermanentFlags),
        (1u32..).prop_map(Code::UidNext),
        (0u64..1 << 63).prop_map(|n| Code::Metadata(MetadataCode::LongEntries(n))),
        Just(Code::Metadata(MetadataCode::TooMany)),
        (1u32..).prop_map(Code::UidValidity),
        (1u32..).prop_map(Code::Unseen),
        modseq().prop_map(Code::HighestModSeq),
        uid_set().prop_map(Code::Modified),
        (1u32.., uid_set()).prop_map(|(uid_validity, uids)| Code::AppendUid { uid_validity, uids }),
        (1u32.., uid_set(), uid_set()).prop_map(|(uid_validity, from, to)| Code::CopyUid {
            uid_validity,
            from,
            to
        }),
        ("[A-Z]{3}X", option::of("[a-z0-9 ]{1,8}"))
            .prop_map(|(name, text)| Code::Other(Atom::new(&name).unwrap(), text)),
    ]
}

fn partial_range() -> impl Strategy<Value = PartialRange> {
    let nonzero = || (1u32..).prop_map(|n| n.try_into().unwrap());
    (nonzero(), nonzero(), any::<bool>()).prop_map(|(first, last, from_end)| PartialRange {
        first,
        last,
        from_end,
    })
}

fn search_returns() -> impl Strategy<Value = Option<Vec<SearchReturn>>> {
    let plain = vec![
        SearchReturn::Min,
        SearchReturn::Max,
        SearchReturn::Count,
        SearchReturn::Save,
        SearchReturn::Relevancy,
        SearchReturn::Update,
        SearchReturn::Context,
    ];
    let one =
        option::of(prop_oneof![Just(SearchReturn::All), partial_range().prop_map(SearchReturn::Partial)]);
    option::of((vec(proptest::sample::select(plain), 0..4), one).prop_map(|(mut returns, one)| {
        returns.extend(one);
        returns
    }))
}

/// A search with everything that extensions add to it.
fn extended_search() -> impl Strategy<Value = Search> {
    let extended = prop_oneof![
        (1u32..).prop_map(|n| SearchKey::Older(n.try_into().unwrap())),
        (1u32..).prop_map(|n| SearchKey::Younger(n.try_into().unwrap())),
        "[a-z.-]{1,8}".prop_map(|name| SearchKey::Filter(Atom::new(&name).unwrap())),
        search_key().prop_map(|key| SearchKey::Fuzzy(Box::new(key))),
        vec(1u32..50, 0..3).prop_map(|numbers| {
            let ranges = SequenceSet::from_numbers(numbers).map_or(Vec::new(), |set| set.ranges().to_vec());
            SearchKey::Sequence(SequenceSet::with_saved(ranges))
        }),
        search_key(),
    ];
    (any::<bool>(), search_returns(), option::of(Just(AString::from("UTF-8"))), vec(extended, 1..4))
        .prop_map(|(uid, returns, charset, keys)| Search { uid, returns, charset, keys })
}

/// SORT, THREAD and ESEARCH.
fn extended_searches() -> impl Strategy<Value = CommandBody> {
    let criterion = (any::<bool>(), proptest::sample::select(SortKey::NAMES.map(|(key, _)| key).to_vec()))
        .prop_map(|(reverse, key)| SortCriterion { reverse, key });
    let algorithms = vec![ThreadAlgorithm::OrderedSubject, ThreadAlgorithm::References];
    let names = || vec(mailbox(), 1..4);
    let filter = prop_oneof![
        proptest::sample::select(vec![
            MailboxFilter::Selected,
            MailboxFilter::Inboxes,
            MailboxFilter::Personal,
            MailboxFilter::Subscribed
        ]),
        names().prop_map(MailboxFilter::Subtree),
        names().prop_map(MailboxFilter::SubtreeOne),
        names().prop_map(MailboxFilter::Mailboxes),
    ];
    let with_charset = |mut search: Search| {
        search.charset = Some(AString::from("UTF-8"));
        search
    };
    prop_oneof![
        extended_search().prop_map(CommandBody::Search),
        (vec(criterion, 1..4), extended_search()).prop_map(move |(criteria, search)| {
            CommandBody::Sort(Sort { criteria, search: with_charset(search) })
        }),
        (proptest::sample::select(algorithms), extended_search()).prop_map(move |(algorithm, search)| {
            CommandBody::Thread(Thread {
                algorithm,
                search: Search { returns: None, ..with_charset(search) },
            })
        }),
        (option::of(vec(filter, 1..4)), extended_search()).prop_map(|(sources, search)| {
            CommandBody::MultiSearch(MultiSearch { sources, search: Search { uid: true, ..search } })
        }),
        vec(astring(), 1..3).prop_map(CommandBody::CancelUpdate),
        acl_command().prop_map(CommandBody::Acl),
        url_command().prop_map(CommandBody::Url),
        (sequence_set(), fetch_modifiers(), partial_range()).prop_map(|(set, mut modifiers, range)| {
            modifiers.push(FetchModifier::Partial(range));
            CommandBody::Fetch { uid: true, set, items: vec![FetchItem::Flags], modifiers }
        }),
    ]
}

/// ESEARCH and SORT responses.
pub(super) fn search_response() -> impl Strategy<Value = Response> {
    let updates = || vec((any::<u32>(), uid_set()), 1..3);
    let data = prop_oneof![
        (1u32..).prop_map(SearchData::Min),
        (1u32..).prop_map(SearchData::Max),
        sequence_set().prop_map(SearchData::All),
        any::<u32>().prop_map(SearchData::Count),
        (1u64..1 << 63).prop_map(SearchData::ModSeq),
        (partial_range(), option::of(uid_set())).prop_map(|(range, set)| SearchData::Partial(range, set)),
        vec(1u8..=100, 0..4).prop_map(SearchData::Relevancy),
        updates().prop_map(SearchData::AddTo),
        updates().prop_map(SearchData::RemoveFrom),
    ];
    let correlator = (option::of(astring()), option::of(mailbox()), option::of(1u32..))
        .prop_map(|(tag, mailbox, uid_validity)| Correlator { tag, mailbox, uid_validity });
    prop_oneof![
        acl_data().prop_map(Response::Acl),
        vec(1u32.., 0..5).prop_map(Response::Sort),
        (correlator, any::<bool>(), vec(data, 0..4))
            .prop_map(|(correlator, uid, data)| Response::ESearch(ESearch { correlator, uid, data })),
    ]
}

fn url_command() -> impl Strategy<Value = UrlCommand> {
    prop_oneof![
        vec((astring(), atom()), 1..4).prop_map(UrlCommand::Generate),
        vec(astring(), 1..4).prop_map(UrlCommand::Fetch),
        option::of((mailbox(), vec(atom(), 0..3))).prop_map(UrlCommand::ResetKey),
    ]
}

fn acl_command() -> impl Strategy<Value = AclCommand> {
    prop_oneof![
        (mailbox(), astring(), astring()).prop_map(|(mailbox, identifier, rights)| AclCommand::Set {
            mailbox,
            identifier,
            rights
        }),
        (mailbox(), astring()).prop_map(|(mailbox, identifier)| AclCommand::Delete { mailbox, identifier }),
        (mailbox(), astring())
            .prop_map(|(mailbox, identifier)| AclCommand::ListRights { mailbox, identifier }),
        mailbox().prop_map(AclCommand::Get),
        mailbox().prop_map(AclCommand::MyRights),
    ]
}

fn acl_data() -> impl Strategy<Value = AclData> {
    prop_oneof![
        (mailbox(), vec((astring(), astring()), 0..3))
            .prop_map(|(mailbox, entries)| AclData::Acl { mailbox, entries }),
        (mailbox(), astring(), astring(), vec(astring(), 0..3)).prop_map(
            |(mailbox, identifier, required, optional)| AclData::ListRights {
                mailbox,
                identifier,
                required,
                optional
            }
        ),
        (mailbox(), astring()).prop_map(|(mailbox, rights)| AclData::MyRights { mailbox, rights }),
    ]
}

/// Every response but those only read.
pub(super) fn response() -> impl Strategy<Value = Response> {
    let text = || "[A-Za-z0-9][ -Z^-~]{0,12}";
    let tagged = proptest::sample::select(vec![Status::Ok, Status::No, Status::Bad]);
    let untagged =
        proptest::sample::select(vec![Status::Ok, Status::No, Status::Bad, Status::PreAuth, Status::Bye]);
    let value = (proptest::sample::select(NUMBERS.to_vec()), any::<u32>())
        .prop_map(|(item, value)| StatusValue { item, value: StatusData::Number(u64::from(value)) });
    let space = || {
        let entry = (mailbox(), option::of(Just('/')))
            .prop_map(|(prefix, delimiter)| NamespaceEntry { prefix, delimiter });
        vec(entry, 0..3)
    };
    prop_oneof![
        (tag(), tagged, option::of(code()), text()).prop_map(|(tag, status, code, text)| Response::Status {
            tag: Some(tag),
            status,
            code,
            text
        }),
        (untagged, option::of(code()), text()).prop_map(|(status, code, text)| Response::Status {
            tag: None,
            status,
            code,
            text
        }),
        text().prop_map(Response::Continue),
        vec(atom(), 1..4).prop_map(Response::Capability),
        list_item().prop_map(Response::List),
        list_item().prop_map(Response::Lsub),
        (mailbox(), vec(value, 0..5))
            .prop_map(|(mailbox, values)| Response::MailboxStatus { mailbox, values }),
        (vec(1u32.., 0..5), option::of(modseq()))
            .prop_map(|(numbers, modseq)| Response::Search { numbers, modseq }),
        (any::<bool>(), uid_set()).prop_map(|(earlier, uids)| Response::Vanished { earlier, uids }),
        vec(flag(), 0..4).prop_map(Response::Flags),
        any::<u32>().prop_map(Response::Exists),
        any::<u32>().prop_map(Response::Recent),
        (1u32..).prop_map(Response::Expunge),
        vec(atom(), 0..3).prop_map(Response::Enabled),
        (space(), space(), space()).prop_map(|(personal, other, shared)| Response::Namespace(Namespaces {
            personal,
            other,
            shared
        })),
        id().prop_map(Response::Id),
        (option::of(named()), vec((entry(), metadata_value()), 1..3))
            .prop_map(|(mailbox, entries)| Response::Metadata { mailbox, entries }),
        (option::of(named()), vec(entry(), 1..3))
            .prop_map(|(mailbox, entries)| Response::MetadataChanged { mailbox, entries }),
        (astring(), vec((atom(), 0u64..1 << 63, 0u64..1 << 63), 1..3)).prop_map(|(root, resources)| {
            let resources = resources.into_iter();
            let resources = resources.map(|(name, usage, limit)| QuotaResource { name, usage, limit });
            Response::Quota { root, resources: resources.collect() }
        }),
        (mailbox(), vec(astring(), 0..3)).prop_map(|(mailbox, roots)| Response::QuotaRoot { mailbox, roots }),
    ]
}

/// Items of a FETCH response.
pub(super) fn fetch_data() -> impl Strategy<Value = FetchData> {
    let name = prop_oneof![
        (section(), option::of(any::<u32>()))
            .prop_map(|(section, start)| BodyName::Section { section, start: start.map(u64::from) }),
        Just(BodyName::Rfc822),
        Just(BodyName::Rfc822Header),
        Just(BodyName::Rfc822Text),
    ];
    let body = option::of(prop_oneof![vec(any::<u8>(), 0..20), vec(any::<u8>(), 90..200)]);
    let leaf = prop_oneof![
        Just(Value::Nil),
        any::<u32>().prop_map(|n| Value::Atom(n.to_string())),
        bytes().prop_map(|bytes| Value::String(bytes.into_bytes())),
    ];
    let value = leaf.prop_recursive(4, 16, 4, |inner| vec(inner, 0..4).prop_map(Value::List));
    prop_oneof![
        (1u32..).prop_map(FetchData::Uid),
        vec(flag(), 0..4).prop_map(FetchData::Flags),
        date_time().prop_map(FetchData::InternalDate),
        modseq().prop_map(FetchData::ModSeq),
        (section(), 0u64..1 << 63).prop_map(|(section, n)| FetchData::BinarySize(section, n)),
        (0u64..1 << 63).prop_map(FetchData::Rfc822Size),
        value.clone().prop_map(FetchData::Envelope),
        value.prop_map(FetchData::BodyStructure),
        (name, body).prop_map(|(name, body)| FetchData::Body(name, body)),
    ]
}
