//! The changes reported to JMAP, compared with a client that reads everything: messages, threads,
//! mailboxes, counts.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sealpost_base::{UidValidity, limits};

use super::*;
use crate::thread::ThreadId;

/// Messages of a log so that none is another: by its number, in a thread with some of those before it.
fn unique(log: &mut [Vec<Event>]) {
    let mut next = 0u64;
    for event in log.iter_mut().flatten() {
        let (Event::Delivered { message, .. }
        | Event::Appended { message, .. }
        | Event::Replaced { message, .. }) = event
        else {
            continue;
        };
        let kind = u64::from(message.object.0[0]);
        next += 1;
        message.object = ObjectId(u128::from(next << 8 | kind).to_be_bytes());
        let own = ThreadId(1000 + next);
        message.links = match kind % 4 {
            0 => vec![own],
            _ => vec![own, ThreadId(1001 + kind % next)],
        };
        message.thread = *message.links.last().unwrap();
    }
}

fn logs() -> impl Strategy<Value = Vec<Vec<Event>>> {
    let more = prop_oneof![
        30 => events(),
        1 => (1u32..10).prop_map(|to| Event::Restored { to: MailboxId(to), since: Timestamp(0) }),
        1 => prop::sample::select(vec!["a/b", "a/b/c", "b/x/y"])
            .prop_map(|name| Event::MailboxCreated { name: name.to_owned(), special_use: None }),
        1 => (1u32..10, prop::sample::subsequence(vec![SpecialUse::Trash], 0..=1))
            .prop_map(|(mailbox, uses)| Event::SpecialUsesSet { mailbox: MailboxId(mailbox), uses }),
    ];
    prop::collection::vec(prop::collection::vec(more, 1..4), 1..40).prop_map(|mut log| {
        unique(&mut log);
        log
    })
}

/// A message as clients see it.
#[derive(Debug, Clone, PartialEq)]
struct Email {
    thread: ThreadId,
    places: BTreeSet<(u32, u32)>,
    system: SystemFlags,
    keywords: BTreeSet<String>,
}

fn emails(state: &AccountState) -> BTreeMap<ObjectId, Email> {
    let mut emails: BTreeMap<ObjectId, Email> = BTreeMap::new();
    let mut mailboxes: Vec<_> = state.mailboxes().collect();
    mailboxes.sort_by_key(|mailbox| mailbox.id());
    for mailbox in mailboxes {
        for row in mailbox.all_rows() {
            let flags = state.flags_by_name(row.flags);
            if flags.system.contains(SystemFlags::DELETED) {
                continue;
            }
            let message = state.message(row.message).unwrap();
            let email = emails.entry(message.object).or_insert_with(|| Email {
                thread: message.thread,
                places: BTreeSet::new(),
                system: flags.system,
                keywords: BTreeSet::new(),
            });
            email.places.insert((mailbox.id().0, row.uid.get()));
            let all_seen =
                email.system.contains(SystemFlags::SEEN) && flags.system.contains(SystemFlags::SEEN);
            email.system = email.system.with(flags.system);
            if !all_seen {
                email.system = email.system.without(SystemFlags::SEEN);
            }
            email.keywords.extend(flags.keywords);
        }
    }
    emails
}

fn threads(state: &AccountState) -> BTreeMap<ThreadId, BTreeSet<ObjectId>> {
    let mut threads: BTreeMap<ThreadId, BTreeSet<ObjectId>> = BTreeMap::new();
    for (object, email) in emails(state) {
        threads.entry(email.thread).or_default().insert(object);
    }
    threads
}

/// By the words of RFC 8621 §2.
fn counts(state: &AccountState) -> BTreeMap<u32, MailboxCounts> {
    let emails = emails(state);
    let trash = state.mailbox_for(SpecialUse::Trash).map(|mailbox| mailbox.id().0);
    let unread = |email: &Email| {
        !email.system.contains(SystemFlags::SEEN) && !email.system.contains(SystemFlags::DRAFT)
    };
    let inside = |email: &Email, id| email.places.iter().any(|(mailbox, _)| *mailbox == id);
    let counted = |id: u32| {
        let there: Vec<_> = emails.values().filter(|email| inside(email, id)).collect();
        let threads: BTreeSet<ThreadId> = there.iter().map(|email| email.thread).collect();
        let makes_unread = |email: &&Email| match trash {
            Some(trash) if trash == id => inside(email, trash),
            Some(trash) => email.places.iter().any(|(mailbox, _)| *mailbox != trash),
            None => true,
        };
        let is_unread = |thread: &&ThreadId| {
            emails.values().filter(|email| email.thread == **thread).filter(makes_unread).any(unread)
        };
        MailboxCounts {
            total_emails: there.len() as u32,
            unread_emails: there.iter().filter(|email| unread(email)).count() as u32,
            total_threads: threads.len() as u32,
            unread_threads: threads.iter().filter(is_unread).count() as u32,
        }
    };
    state.mailboxes().map(|mailbox| (mailbox.id().0, counted(mailbox.id().0))).collect()
}

/// What a client knows of a mailbox.
#[derive(Debug, Clone, PartialEq)]
struct Properties {
    name: String,
    parent: Option<String>,
    uses: SpecialUses,
    subscribed: bool,
}

fn mailboxes(state: &AccountState) -> BTreeMap<UidValidity, (Properties, MailboxCounts)> {
    let counts = counts(state);
    let mailbox = |mailbox: &Mailbox| {
        let name = mailbox.name().to_owned();
        let parent = match state.parent(&name) {
            Parent::None => None,
            Parent::Mailbox(id) => Some(format!("{id:?}")),
            Parent::Nonexistent(name) => Some(name.to_owned()),
        };
        let subscribed = state.is_subscribed(&name);
        let properties = Properties { name, parent, uses: mailbox.special_uses(), subscribed };
        (mailbox.uid_validity(), (properties, counts[&mailbox.id().0]))
    };
    state.mailboxes().map(mailbox).collect()
}

/// A client that follows changes from one state to the next page by page; its result at the end.
fn follow<T: Ord + Copy + std::fmt::Debug, V: Clone>(
    mut known: BTreeMap<T, Option<V>>,
    now: &BTreeMap<T, V>,
    since: Position,
    changes: impl Fn(SyncPoint<T>) -> Option<Changes<T>>,
) -> Result<Option<BTreeMap<T, V>>, TestCaseError> {
    let mut since = SyncPoint::from(since);
    loop {
        let Some(page) = changes(since) else { return Ok(None) };
        // A fetched message may be expunged by now: a later page says so.
        for what in &page.created {
            prop_assert!(known.insert(*what, now.get(what).cloned()).is_none(), "created: {what:?}");
        }
        for what in &page.updated {
            prop_assert!(known.insert(*what, now.get(what).cloned()).is_some(), "updated: {what:?}");
        }
        for what in &page.destroyed {
            prop_assert!(known.remove(what).is_some(), "destroyed: {what:?}");
        }
        if !page.more {
            return Ok(known.into_iter().map(|(what, value)| Some((what, value?))).collect());
        }
        let is_later = (page.upto.position, page.upto.within) > (since.position, since.within);
        prop_assert!(is_later, "{:?} after {since:?}", page.upto);
        since = page.upto;
    }
}

fn known<T: Ord, V>(all: BTreeMap<T, V>) -> BTreeMap<T, Option<V>> {
    all.into_iter().map(|(what, value)| (what, Some(value))).collect()
}

fn replayed(log: &[Vec<Event>], then: usize) -> (AccountState, AccountState) {
    let mut state = AccountState::new(ACCOUNT);
    state.make_maps();
    let mut old = state.clone();
    for (i, events) in log.iter().enumerate() {
        let position = Position(i as u64 + 1);
        let batch = Batch { at: Timestamp(position.0 as i64), events: events.clone() };
        state.apply(position, Origin::Owner, &batch);
        if i == then {
            old = state.clone();
        }
    }
    (old, state)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn changes_lead_from_any_old_state_to_the_new_one(log in logs(), then in 0usize..40, most in 1usize..6) {
        let (old, state) = replayed(&log, then);
        let since = old.position();
        for most in [1000, most] {
            let (before, now) = (known(emails(&old)), emails(&state));
            let followed = follow(before, &now, since, |since| {
                let page = state.email_changes(since, most)?;
                assert!(page.created.len() + page.updated.len() + page.destroyed.len() <= most);
                Some(page)
            })?;
            prop_assert_eq!(followed, Some(now));
            let (before, now) = (known(threads(&old)), threads(&state));
            let followed = follow(before, &now, since, |since| {
                let page = state.thread_changes(since, most)?;
                assert!(page.created.len() + page.updated.len() + page.destroyed.len() <= most);
                Some(page)
            })?;
            prop_assert_eq!(followed, Some(now));
        }
    }

    #[test]
    fn nothing_changes_after_the_last_change(log in logs(), then in 0usize..40) {
        let (old, state) = replayed(&log, then);
        for state in [&old, &state, &through_chunks(&state)] {
            let mut state = state.clone();
            state.make_maps();
            let emails = state.last_change(ObjectKind::Emails);
            let changes = state.email_changes(emails, 1000).unwrap();
            prop_assert!(changes.created.is_empty() && changes.updated.is_empty() && changes.destroyed.is_empty());
            let changes = state.thread_changes(state.last_change(ObjectKind::Threads), 1000).unwrap();
            prop_assert!(changes.created.is_empty() && changes.updated.is_empty() && changes.destroyed.is_empty());
            let mailboxes = state.last_change(ObjectKind::Mailboxes);
            prop_assert!(emails <= mailboxes && mailboxes <= state.position());
            prop_assert_eq!(state.mailbox_changes(mailboxes, 1000).unwrap().changes, []);
        }
        // What is as it was has the state that it had.
        let unchanged = |kind| old.last_change(kind) == state.last_change(kind);
        if unchanged(ObjectKind::Emails) {
            prop_assert_eq!(emails(&old), emails(&state));
        }
        if unchanged(ObjectKind::Threads) {
            prop_assert_eq!(threads(&old), threads(&state));
        }
        if unchanged(ObjectKind::Mailboxes) {
            prop_assert_eq!(mailboxes(&old), mailboxes(&state));
        }
        let mut restored = through_chunks(&state);
        restored.make_maps();
        for kind in [ObjectKind::Emails, ObjectKind::Threads, ObjectKind::Mailboxes, ObjectKind::AddressBooks] {
            prop_assert_eq!(state.last_change(kind), restored.last_change(kind));
        }
    }

    #[test]
    fn mailbox_changes_lead_from_any_state_to_the_newest(
        log in logs(), then in 0usize..40, most in 1usize..6,
    ) {
        let (old, state) = replayed(&log, then);
        let parents = |state: &AccountState| state.nonexistent_parents().map(str::to_owned).collect::<Vec<_>>();
        for most in [1000, most] {
            let (mut known, now) = (mailboxes(&old), mailboxes(&state));
            let mut since = SyncPoint::from(old.position());
            loop {
                let Some(page) = state.mailbox_changes(since, most) else { return Ok(()) };
                prop_assert_eq!(parents(&old), parents(&state), "whenever they change all is asked for");
                prop_assert!(page.changes.len() <= most);
                for change in page.changes {
                    let now_of = |id: MailboxId| {
                        let validity = state.any_mailbox(id).unwrap().uid_validity();
                        (validity, now[&validity].clone())
                    };
                    match change {
                        MailboxChanged::Created(id) => {
                            let (validity, value) = now_of(id);
                            prop_assert!(known.insert(validity, value).is_none());
                        }
                        MailboxChanged::Properties(id) => {
                            let (validity, value) = now_of(id);
                            prop_assert!(known.insert(validity, value).is_some());
                        }
                        MailboxChanged::Counts(id) => {
                            let (validity, value) = now_of(id);
                            let before = known.insert(validity, value.clone()).unwrap();
                            prop_assert_eq!(before.0, value.0, "only the counts changed");
                        }
                        // One that was made meanwhile may be destroyed alone.
                        MailboxChanged::Destroyed(validity) => {
                            prop_assert!(known.remove(&validity).is_some() || most < 1000);
                        }
                    }
                }
                if !page.more {
                    break;
                }
                let is_later = (page.upto.position, page.upto.within) > (since.position, since.within);
                prop_assert!(is_later, "{:?} after {since:?}", page.upto);
                since = page.upto;
            }
            prop_assert_eq!(known, now);
        }
    }

    #[test]
    fn updated_maps_equal_rebuilt_ones(log in logs(), then in 0usize..40) {
        let (old, state) = replayed(&log, then);
        for state in [&old, &state, &through_chunks(&state)] {
            let mut anew = state.clone();
            anew.drop_maps();
            anew.make_maps();
            for (number, message) in anew.messages() {
                for state in [state, &anew] {
                    let Some(maps) = state.maps() else { continue };
                    let placements: BTreeSet<_> = maps.placements(number).collect();
                    let rows = state.mailboxes().flat_map(|m| m.all_rows().map(move |row| (m.id(), row)));
                    let expected: BTreeSet<_> =
                        rows.filter(|(_, row)| row.message == number).map(|(id, row)| (id, row.uid)).collect();
                    prop_assert_eq!(placements, expected);
                    prop_assert_eq!(maps.messages(message.object).collect::<Vec<_>>(), [number]);
                    let together = state.messages().filter(|(_, other)| other.thread == message.thread);
                    let together: Vec<_> = together.map(|(number, _)| number).collect();
                    prop_assert_eq!(maps.thread(message.thread).collect::<Vec<_>>(), together);
                    let email = emails(state).remove(&message.object);
                    prop_assert_eq!(state.is_visible(number), email.is_some());
                    let names = |keywords: &[KeywordId]| {
                        keywords.iter().map(|id| state.keyword_name(*id).to_owned()).collect::<BTreeSet<_>>()
                    };
                    let flags = state.email_flags(number).map(|flags| (flags.system, names(&flags.keywords)));
                    prop_assert_eq!(flags, email.map(|email| (email.system, email.keywords)));
                }
            }
            for (id, expected) in counts(state) {
                prop_assert_eq!(anew.maps().unwrap().counts(MailboxId(id)), Some(expected));
                if let Some(kept) = state.maps().and_then(|maps| maps.counts(MailboxId(id))) {
                    prop_assert_eq!(kept, expected);
                }
            }
        }
    }
}

fn store(state: &AccountState, action: FlagAction, flags: SystemFlags) -> Event {
    let (mailbox, uids) = (state.inbox().id(), state.inbox().uids());
    Event::FlagsStored { mailbox, uids, action, flags: Flags::system(flags), unchanged_since: None }
}

#[test]
fn a_deleted_flag_destroys_and_its_removal_creates() {
    let mut state = AccountState::new(ACCOUNT);
    apply(&mut state, vec![Event::delivered(message(1))]);
    let there = state.position();
    let event = store(&state, FlagAction::Add, SystemFlags::DELETED);
    apply(&mut state, vec![event]);
    let without = state.position();
    let how = |state: &AccountState, since| {
        let changes = state.email_changes(since, 10).unwrap();
        [changes.created.len(), changes.updated.len(), changes.destroyed.len()]
    };
    assert_eq!(how(&state, there), [0, 0, 1]);
    assert_eq!(how(&state, Position::ZERO), [0, 0, 0], "it came and went");
    let event = store(&state, FlagAction::Remove, SystemFlags::DELETED);
    apply(&mut state, vec![event]);
    assert_eq!(how(&state, without), [1, 0, 0]);
    assert_eq!(how(&state, there), [0, 1, 0], "it was there");
    assert_eq!(how(&state, state.position()), [0, 0, 0]);
}

#[test]
fn a_move_destroys_nothing() {
    let mut state = AccountState::new(ACCOUNT);
    apply(&mut state, vec![Event::delivered(message(1))]);
    let (since, inbox) = (state.position(), state.inbox().id());
    let uids = state.inbox().uids();
    apply(&mut state, vec![Event::Moved { from: inbox, uids, to: MailboxId(2) }]);
    let changes = state.email_changes(since, 10).unwrap();
    assert_eq!(
        (changes.created, changes.updated, changes.destroyed),
        (vec![], vec![message(1).object], vec![])
    );
    let (number, _) = state.messages().next().unwrap();
    assert_eq!(state.visible_since(number), Some(since));
}

#[test]
fn more_tombstones_than_there_may_be_are_too_long_ago() {
    let mut state = AccountState::new(ACCOUNT);
    let count = limits::TOMBSTONES + 10;
    let new =
        |n: usize| Event::delivered(Message { object: ObjectId((n as u128).to_be_bytes()), ..message(1) });
    apply(&mut state, (0..count).map(new).collect());
    let (since, inbox) = (state.position(), state.inbox().id());
    let uid = |n: usize| Uid::new(n as u32).unwrap();
    let expunged =
        |first, last| Event::Expunged { mailbox: inbox, uids: UidSet::range(uid(first), uid(last)) };
    apply(&mut state, vec![expunged(1, count - 1000)]);
    for n in count - 999..=count {
        apply(&mut state, vec![expunged(n, n)]);
    }
    assert!(state.email_changes(since, 10).is_none());
    let late = Position(state.position().0 - 1000);
    assert_eq!(state.email_changes(late, 2000).unwrap().destroyed.len(), 1000);
    assert!(state.departed.messages.len() <= limits::TOMBSTONES);
    let page = state.email_changes(late, 100).unwrap();
    assert_eq!((page.destroyed.len(), page.more, page.upto), (100, true, Position(late.0 + 100).into()));
    assert_eq!(chunks(&through_chunks(&state)), chunks(&state));
}

#[test]
fn an_entry_with_more_changes_than_a_page_has_several() {
    let mut state = AccountState::new(ACCOUNT);
    apply(&mut state, (0..20).map(|n| Event::delivered(message(n))).collect());
    let first = state.email_changes(Position::ZERO, 15).unwrap();
    assert_eq!((first.created.len(), first.more), (15, true));
    assert_eq!((first.upto.position, first.upto.within), (Position::ZERO, first.created.last().copied()));
    // What changes before the client asks again is as it is then: a message of the first page that goes
    // was known, one of the rest was not.
    let (inbox, uid) = (state.inbox().id(), |n| Uid::new(n).unwrap());
    let gone = [1, 20].map(|n| Event::Expunged { mailbox: inbox, uids: UidSet::range(uid(n), uid(n)) });
    apply(&mut state, gone.to_vec());
    let rest = state.email_changes(first.upto, 15).unwrap();
    assert_eq!((rest.created.len(), rest.destroyed.len(), rest.more), (4, 1, false));
    assert_eq!(rest.upto, state.position().into());
}

#[test]
fn a_renumbering_makes_all_before_it_too_long_ago() {
    let mut state = AccountState::new(ACCOUNT);
    apply(&mut state, vec![Event::delivered(message(1))]);
    let since = state.position();
    state.apply_damage(since.next());
    assert!(state.email_changes(since, 10).is_none() && state.mailbox_changes(since, 9).is_none());
    assert!(
        state.email_changes(since.next(), 10).is_some() && state.mailbox_changes(since.next(), 9).is_some()
    );
}

#[test]
fn nonexistent_parents_are_shown_once() {
    let mut state = AccountState::new(ACCOUNT);
    let create = |name: &str| Event::MailboxCreated { name: name.to_owned(), special_use: None };
    apply(&mut state, ["x/y/a", "x/y/b", "x/z", "x-y", "w"].map(create).to_vec());
    assert_eq!(state.nonexistent_parents().collect::<Vec<_>>(), ["x", "x/y"]);
    assert_eq!(state.parent("x/y/a"), Parent::Nonexistent("x/y"));
    assert_eq!((state.parent("x/y"), state.parent("w")), (Parent::Nonexistent("x"), Parent::None));
    let since = state.position();
    apply(&mut state, vec![create("x")]);
    assert_eq!(state.nonexistent_parents().collect::<Vec<_>>(), ["x/y"]);
    let made = state.mailbox_named("x").unwrap().id();
    assert_eq!(state.parent("x/z"), Parent::Mailbox(made));
    assert!(state.mailbox_changes(since, 9).is_none(), "a parent has become a mailbox");
    let since = state.position();
    apply(&mut state, vec![create("w/v")]);
    assert_eq!(state.mailbox_changes(since, 9).unwrap().changes.len(), 1);
}
