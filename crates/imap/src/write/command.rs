//! Commands (RFC 3501 §6), for the client.

use bytes::BytesMut;

use super::Writer;
use crate::types::{
    AppendHead, AppendLiteral, AppendMessage, Command, CommandBody, Date, FetchItem, Flag, List, ModSeqScope,
    Partial, Replaces, ReturnOption, Search, SearchKey, Store, StoreAction, month_name,
};

impl Writer {
    /// A complete command. With `Literals::Synchronizing`, send it by [`Writer::take_pieces`].
    pub fn command(&mut self, command: &Command) -> &mut Self {
        self.tag(&command.tag).space().body(&command.body).crlf()
    }

    /// APPEND or REPLACE up to its first message. Then comes for each message
    /// [`Writer::append_message`] and its bytes, and at the end CRLF.
    pub fn append(&mut self, head: &AppendHead) -> &mut Self {
        self.tag(&head.tag);
        match head.replaces {
            None => self.raw(b" APPEND "),
            Some(Replaces { uid, number }) => {
                self.raw(if uid { &b" UID REPLACE "[..] } else { b" REPLACE " }).seq_number(number).space()
            }
        };
        self.mailbox(&head.mailbox)
    }

    /// The arguments before a message's bytes, which are one [`Writer::append_literal`]; with
    /// CATENATE `TEXT` and that, or `URL` and an astring, a space between them, `)` at the end.
    pub fn append_message(&mut self, message: &AppendMessage) -> &mut Self {
        self.space();
        if !message.flags.is_empty() {
            self.flags(&message.flags).space();
        }
        if let Some(date) = message.date {
            self.date_time(date).space();
        }
        if message.catenate { self.raw(b"CATENATE (") } else { self }
    }

    /// `{n}`, `{n+}`, `~{n}` or `UTF8 (~{n}`, as the literal says: its bytes follow, and with UTF8 `)`.
    pub fn append_literal(&mut self, literal: AppendLiteral) -> &mut Self {
        if literal.utf8 {
            self.raw(b"UTF8 (");
        }
        self.raw(if literal.binary { &b"~{"[..] } else { b"{" }).number(literal.size);
        self.raw(if literal.sync { &b"}\r\n"[..] } else { b"+}\r\n" })
    }

    /// The output so far, cut after each literal header: the server's `+ ` must arrive before the
    /// next piece is sent (RFC 3501 §7.5).
    pub fn take_pieces(&mut self) -> Vec<BytesMut> {
        let cuts = self.take_cuts();
        let mut rest = self.take();
        let mut pieces = Vec::with_capacity(cuts.len() + 1);
        let mut start = 0;
        for cut in cuts {
            pieces.push(rest.split_to(cut - start));
            start = cut;
        }
        pieces.push(rest);
        pieces
    }

    fn body(&mut self, body: &CommandBody) -> &mut Self {
        self.raw(body.name());
        match body {
            CommandBody::Capability
            | CommandBody::Noop
            | CommandBody::Logout
            | CommandBody::StartTls
            | CommandBody::Unauthenticate
            | CommandBody::Namespace
            | CommandBody::GetJmapAccess
            | CommandBody::Idle
            | CommandBody::Check
            | CommandBody::Close
            | CommandBody::Unselect
            | CommandBody::Expunge { uids: None } => self,
            CommandBody::Expunge { uids: Some(uids) } => self.space().sequence_set(uids),
            CommandBody::Id(fields) => self.space().id_fields(fields.as_deref()),
            CommandBody::Login { user, password } => {
                self.space().astring(user.as_bytes()).space().astring(password.as_bytes())
            }
            CommandBody::Authenticate { mechanism, initial } => {
                self.space().raw(mechanism.as_str());
                match initial {
                    Some(initial) => self.space().raw(initial.as_bytes()),
                    None => self,
                }
            }
            CommandBody::Compress(algorithm) => self.space().raw(algorithm.as_str()),
            CommandBody::Enable(names) => self.each_atom(names),
            CommandBody::Select { mailbox, parameters, .. } => {
                self.space().mailbox(mailbox).select_parameters(parameters)
            }
            CommandBody::Delete(mailbox)
            | CommandBody::Subscribe(mailbox)
            | CommandBody::Unsubscribe(mailbox) => self.space().mailbox(mailbox),
            CommandBody::Create { mailbox, special_use } => {
                self.space().mailbox(mailbox);
                if special_use.is_empty() {
                    return self;
                }
                self.raw(b" (USE ").list(special_use, |w, attribute| {
                    w.raw(b"\\").raw(attribute.name());
                });
                self.close()
            }
            CommandBody::Rename { from, to } => self.space().mailbox(from).space().mailbox(to),
            CommandBody::List(list) => self.list_command(list),
            CommandBody::Lsub { reference, pattern } => {
                self.space().mailbox(reference).space().pattern(pattern.as_str())
            }
            CommandBody::Status { mailbox, items } => {
                self.space().mailbox(mailbox).space().list(items, |w, item| {
                    w.raw(item.name());
                })
            }
            CommandBody::GetMetadata(get) => self.get_metadata(get),
            CommandBody::SetMetadata(set) => self.set_metadata(set),
            CommandBody::GetQuota(root) => self.space().astring(root.as_bytes()),
            CommandBody::GetQuotaRoot(mailbox) => self.space().mailbox(mailbox),
            CommandBody::SetQuota { root, limits } => self.set_quota(root, limits),
            CommandBody::Search(search) => self.search(search),
            CommandBody::Fetch { set, items, modifiers, .. } => self
                .space()
                .sequence_set(set)
                .space()
                .list(items, Self::fetch_item)
                .fetch_modifiers(modifiers),
            CommandBody::MultiSearch(multi) => self.multi_search(multi),
            CommandBody::Sort(sort) => self.sort(sort),
            CommandBody::Thread(thread) => self.thread(thread),
            CommandBody::CancelUpdate(tags) => {
                tags.iter().fold(self, |w, tag| w.space().string(tag.as_bytes()))
            }
            CommandBody::Acl(command) => self.acl_command(command),
            CommandBody::Url(command) => self.url_command(command),
            CommandBody::Notify(notify) => self.notify(notify),
            CommandBody::Store(store) => self.store(store),
            CommandBody::Copy { set, mailbox, .. } | CommandBody::Move { set, mailbox, .. } => {
                self.space().sequence_set(set).space().mailbox(mailbox)
            }
        }
    }

    fn list_command(&mut self, list: &List) -> &mut Self {
        if let Some(selection) = &list.selection {
            self.space().list(selection, |w, option| {
                w.raw(option.name());
            });
        }
        self.space().mailbox(&list.reference).space();
        match &*list.patterns {
            [pattern] => self.pattern(pattern.as_str()),
            patterns => self.list(patterns, |w, pattern| {
                w.pattern(pattern.as_str());
            }),
        };
        if list.returns.is_empty() {
            return self;
        }
        self.raw(b" RETURN ").list(&list.returns, |w, option| {
            match option {
                ReturnOption::Subscribed => w.raw("SUBSCRIBED"),
                ReturnOption::SpecialUse => w.raw("SPECIAL-USE"),
                ReturnOption::Children => w.raw("CHILDREN"),
                ReturnOption::MyRights => w.raw("MYRIGHTS"),
                ReturnOption::Status(items) => w.raw("STATUS ").list(items, |w, item| {
                    w.raw(item.name());
                }),
                ReturnOption::Metadata(entries) => w.raw("METADATA ").entries(entries),
            };
        })
    }

    fn pattern(&mut self, pattern: &str) -> &mut Self {
        let pattern = self.encoded(pattern);
        self.string(pattern)
    }

    fn store(&mut self, store: &Store) -> &mut Self {
        self.space().sequence_set(&store.set).store_modifiers(&store.modifiers).raw(match store.action {
            StoreAction::Replace => " FLAGS",
            StoreAction::Add => " +FLAGS",
            StoreAction::Remove => " -FLAGS",
        });
        if store.silent {
            self.raw(b".SILENT");
        }
        self.space().flags(&store.flags)
    }

    pub(super) fn fetch_item(&mut self, item: &FetchItem) {
        match item {
            FetchItem::Uid => self.raw(b"UID"),
            FetchItem::Flags => self.raw(b"FLAGS"),
            FetchItem::InternalDate => self.raw(b"INTERNALDATE"),
            FetchItem::Rfc822Size => self.raw(b"RFC822.SIZE"),
            FetchItem::ModSeq => self.raw(b"MODSEQ"),
            FetchItem::Envelope => self.raw(b"ENVELOPE"),
            FetchItem::Body => self.raw(b"BODY"),
            FetchItem::BodyStructure => self.raw(b"BODYSTRUCTURE"),
            FetchItem::Rfc822 => self.raw(b"RFC822"),
            FetchItem::Rfc822Header => self.raw(b"RFC822.HEADER"),
            FetchItem::Rfc822Text => self.raw(b"RFC822.TEXT"),
            FetchItem::EmailId => self.raw(b"EMAILID"),
            FetchItem::ThreadId => self.raw(b"THREADID"),
            FetchItem::SaveDate => self.raw(b"SAVEDATE"),
            FetchItem::Preview { lazy: false } => self.raw(b"PREVIEW"),
            FetchItem::Preview { lazy: true } => self.raw(b"PREVIEW (LAZY)"),
            FetchItem::BodySection { section, partial, peek } => {
                self.raw(if *peek { "BODY.PEEK" } else { "BODY" }).section(section).asked(*partial)
            }
            FetchItem::Binary { section, partial, peek } => {
                self.raw(if *peek { "BINARY.PEEK" } else { "BINARY" }).section(section).asked(*partial)
            }
            FetchItem::BinarySize(section) => self.raw(b"BINARY.SIZE").section(section),
        };
    }

    /// `<start.count>`
    fn asked(&mut self, partial: Option<Partial>) -> &mut Self {
        match partial {
            None => self,
            Some(Partial { start, count: u64::MAX }) => self.raw(b"<").number(start).raw(b">"),
            Some(Partial { start, count }) => self.raw(b"<").number(start).raw(b".").number(count).raw(b">"),
        }
    }

    pub(super) fn search(&mut self, search: &Search) -> &mut Self {
        self.search_returns(search.returns.as_deref());
        if let Some(charset) = &search.charset {
            self.raw(b" CHARSET ").astring(charset.as_bytes());
        }
        for key in &search.keys {
            self.space().search_key(key);
        }
        self
    }

    pub(super) fn search_key(&mut self, key: &SearchKey) -> &mut Self {
        match key {
            SearchKey::All => self.raw(b"ALL"),
            SearchKey::New => self.raw(b"NEW"),
            SearchKey::Flag(flag) => self.flag_key(flag, true),
            SearchKey::NotFlag(flag) => self.flag_key(flag, false),
            SearchKey::Before(date) => self.raw(b"BEFORE ").date(*date),
            SearchKey::On(date) => self.raw(b"ON ").date(*date),
            SearchKey::Since(date) => self.raw(b"SINCE ").date(*date),
            SearchKey::SentBefore(date) => self.raw(b"SENTBEFORE ").date(*date),
            SearchKey::SentOn(date) => self.raw(b"SENTON ").date(*date),
            SearchKey::SentSince(date) => self.raw(b"SENTSINCE ").date(*date),
            SearchKey::Bcc(text) => self.raw(b"BCC ").astring(text.as_bytes()),
            SearchKey::Cc(text) => self.raw(b"CC ").astring(text.as_bytes()),
            SearchKey::From(text) => self.raw(b"FROM ").astring(text.as_bytes()),
            SearchKey::Subject(text) => self.raw(b"SUBJECT ").astring(text.as_bytes()),
            SearchKey::To(text) => self.raw(b"TO ").astring(text.as_bytes()),
            SearchKey::Body(text) => self.raw(b"BODY ").astring(text.as_bytes()),
            SearchKey::Text(text) => self.raw(b"TEXT ").astring(text.as_bytes()),
            SearchKey::Header(name, text) => {
                self.raw(b"HEADER ").astring(name.as_bytes()).space().astring(text.as_bytes())
            }
            SearchKey::Larger(n) => self.raw(b"LARGER ").number(*n),
            SearchKey::Smaller(n) => self.raw(b"SMALLER ").number(*n),
            SearchKey::ModSeq { entry, modseq } => {
                self.raw(b"MODSEQ ");
                if let Some(entry) = entry {
                    let name = format!(
                        "/flags/{}{}",
                        if entry.flag.is_system() { "\\" } else { "" },
                        entry.flag.name()
                    );
                    self.string(name).space().raw(match entry.scope {
                        ModSeqScope::Private => "priv",
                        ModSeqScope::Shared => "shared",
                        ModSeqScope::All => "all",
                    });
                    self.space();
                }
                self.number(*modseq)
            }
            SearchKey::EmailId(id) => self.raw(b"EMAILID ").raw(id.as_str()),
            SearchKey::ThreadId(id) => self.raw(b"THREADID ").raw(id.as_str()),
            SearchKey::SavedBefore(date) => self.raw(b"SAVEDBEFORE ").date(*date),
            SearchKey::SavedOn(date) => self.raw(b"SAVEDON ").date(*date),
            SearchKey::SavedSince(date) => self.raw(b"SAVEDSINCE ").date(*date),
            SearchKey::SaveDateSupported => self.raw(b"SAVEDATESUPPORTED"),
            SearchKey::Sequence(set) => self.sequence_set(set),
            SearchKey::Uid(set) => self.raw(b"UID ").sequence_set(set),
            SearchKey::Older(seconds) => self.raw(b"OLDER ").number(u64::from(seconds.get())),
            SearchKey::Younger(seconds) => self.raw(b"YOUNGER ").number(u64::from(seconds.get())),
            SearchKey::Filter(name) => self.raw(b"FILTER ").raw(name.as_str()),
            SearchKey::Fuzzy(key) => self.raw(b"FUZZY ").search_key(key),
            SearchKey::Not(key) => self.raw(b"NOT ").search_key(key),
            SearchKey::Or(first, second) => self.raw(b"OR ").search_key(first).space().search_key(second),
            SearchKey::And(keys) => self.list(keys, |w, key| {
                w.search_key(key);
            }),
        }
    }

    fn flag_key(&mut self, flag: &Flag, set: bool) -> &mut Self {
        match (flag, set) {
            (Flag::Recent, false) => self.raw(b"OLD"),
            (Flag::Keyword(keyword), true) => self.raw(b"KEYWORD ").raw(keyword.as_str()),
            (Flag::Keyword(keyword), false) => self.raw(b"UNKEYWORD ").raw(keyword.as_str()),
            // There is no key for a flag that is not defined: nothing has it.
            (Flag::Extension(_), true) => self.raw(b"NOT ALL"),
            (Flag::Extension(_), false) => self.raw(b"ALL"),
            (flag, set) => {
                let name = flag.name().to_ascii_uppercase();
                self.raw(if set { "" } else { "UN" }).raw(name)
            }
        }
    }

    /// `date-text`
    fn date(&mut self, date: Date) -> &mut Self {
        let (year, month, day) = date.civil();
        self.raw(format!("{day}-{}-{year:04}", month_name(month)))
    }
}
