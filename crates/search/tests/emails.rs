//! Queries over the emails of an account against a model that goes through everything, while
//! mail comes, moves, changes and goes, in two logs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sealpost_account::{
    Account, AccountState, Accounts, Event, FlagAction, Flags, NewMessage, SystemFlags, ThreadId, ops,
};
use sealpost_base::{
    AccountId, Budget, FakeClock, Kind, MailboxId, MemoryDivision, ObjectId, Position, Random, SeededRandom,
    Timestamp, UidSet,
};
use sealpost_mailbox::account_changes::LogPositions;
use sealpost_mailbox::emails::Email;
use sealpost_mailbox::shared_accounts::Reach;
use sealpost_mime::structure::StoredStructure;
use sealpost_search::emails::{
    Bounds, Collation, EmailChanges, EmailComparator, EmailFilter, EmailKeyword, EmailQuery, EmailSearch,
    EmailSortKey, EmailsView, KeywordOf, UnknownChanges,
};
use sealpost_search::{Engine, Failure, NoProgress, TextPart};
use sealpost_vault::{RootKey, Store};

const OWN: AccountId = AccountId([1; 16]);
const SHARE: AccountId = AccountId([2; 16]);
const NOW: Timestamp = Timestamp(1_700_000_000_000);
const NAMES: [&str; 3] = ["alice", "Bob", "carol"];
const SUBJECTS: [&str; 4] = ["pear", "Apple", "fig", ""];
const WORDS: [&str; 3] = ["red", "green", "blue"];
const KEYWORDS: [&str; 2] = ["work", "$Forwarded"];

/// What a message was made of.
#[derive(Clone)]
struct Mail {
    from: &'static str,
    to: &'static str,
    subject: &'static str,
    word: &'static str,
    sent: Option<i64>,
    attached: bool,
}

struct World {
    accounts: Accounts,
    engine: Engine,
    logs: Vec<Arc<Account>>,
    mails: BTreeMap<ObjectId, Mail>,
    random: SeededRandom,
    made: u64,
}

fn is_attached(structure: &StoredStructure<'_>) -> bool {
    let mut kinds = structure.parts.iter().filter_map(|part| part.disposition.as_ref());
    kinds.any(|disposition| disposition.kind == "attachment")
}

impl World {
    async fn new(seed: u64, bytes: usize) -> Self {
        let random = Arc::new(SeededRandom::new(seed));
        let root = RootKey::generate(&*random);
        let random: Arc<dyn Random> = random;
        let budget = Budget::new(bytes);
        let clock = Arc::new(FakeClock::new(NOW));
        let key = sealpost_vault::entry::LogKey::for_tests();
        let accounts = Accounts::new(Store::memory(), key, clock, random, budget.clone());
        let own = accounts.open(OWN, &root).await.unwrap();
        let share = accounts.open(SHARE, &root).await.unwrap();
        let engine = Engine::new(accounts.clone(), &budget, MemoryDivision::default().orders());
        let decide = |state: &_| Ok((ops::create_mailbox(state, "Work", Default::default())?, ()));
        own.commit(decide).await.unwrap();
        let random = SeededRandom::new(seed + 1000);
        World { accounts, engine, logs: vec![own, share], mails: BTreeMap::new(), random, made: 0 }
    }

    fn one_of<T: Copy>(&self, values: &[T]) -> T {
        values[self.random.below(values.len() as u64) as usize]
    }

    fn any_log(&self) -> Arc<Account> {
        self.logs[usize::from(self.random.below(4) == 0)].clone()
    }

    fn any_mailbox(&self, state: &AccountState) -> MailboxId {
        let names = ["INBOX", "Work", "Trash"];
        let found: Vec<_> = names.iter().filter_map(|name| state.mailbox_named(name)).collect();
        found[self.random.below(found.len() as u64) as usize].id()
    }

    fn any_row(&self, state: &AccountState) -> Option<(MailboxId, UidSet)> {
        let mailbox = state.mailbox(self.any_mailbox(state))?;
        let uid = mailbox.uids().nth(self.random.below(mailbox.len().max(1) as u64) as usize)?;
        Some((mailbox.id(), UidSet::range(uid, uid)))
    }

    fn any_flags(&self) -> Flags {
        let system = [SystemFlags::SEEN, SystemFlags::FLAGGED, SystemFlags::DELETED, SystemFlags::NONE];
        let keywords = match self.random.below(3) {
            0 => vec![self.one_of(&KEYWORDS).to_owned()],
            _ => Vec::new(),
        };
        Flags { system: self.one_of(&system), keywords }
    }

    /// A message arrives.
    async fn append(&mut self) {
        let account = self.any_log();
        self.made += 1;
        let mail = Mail {
            from: self.one_of(&NAMES),
            to: self.one_of(&NAMES),
            subject: self.one_of(&SUBJECTS),
            word: self.one_of(&WORDS),
            sent: (self.random.below(4) > 0).then(|| self.random.below(1000) as i64 * 3600),
            attached: self.random.below(3) == 0,
        };
        // Few threads, of several messages each.
        let thread = self.random.below(6);
        let mut text = format!(
            "From: {} <x@y>\nTo: <{}@z>\nSubject: {}\nMessage-ID: <{}@x>\nReferences: <{thread}@thread>\n",
            mail.from, mail.to, mail.subject, self.made
        );
        if let Some(sent) = mail.sent {
            text.push_str(&format!("Date: {}\n", sealpost_mime::header::date::format(sent, 0)));
        }
        match mail.attached {
            true => text.push_str(&format!(
                "Content-Type: multipart/mixed; boundary=b\n\n--b\n\n{}\n--b\nContent-Type: text/csv\n\
                 Content-Disposition: attachment\n\nx\n--b--\n",
                mail.word
            )),
            false => text.push_str(&format!("\n{}\n", mail.word)),
        }
        let mut ingest = self.accounts.ingest(account.id()).await.unwrap();
        ingest.write(text.replace('\n', "\r\n").as_bytes()).await.unwrap();
        let stored = ingest.finish().await.unwrap();
        // Some are received at the same moment.
        let received = Timestamp(1_000_000 * self.random.below(20) as i64);
        let mailbox = self.any_mailbox(&account.state());
        let before: BTreeSet<ObjectId> = account.state().message_objects().collect();
        let new = NewMessage { stored, flags: self.any_flags().into(), received };
        account.append(mailbox, vec![new]).await.unwrap();
        let object = account.state().message_objects().find(|object| !before.contains(object)).unwrap();
        self.mails.insert(object, mail);
    }

    /// A message is copied from one log to the other.
    async fn copy_to_other_log(&mut self) {
        let from = self.random.below(2) as usize;
        let (source, target) = (self.logs[from].clone(), self.logs[1 - from].clone());
        let message = {
            let state = source.state();
            let Some((mailbox, uids)) = self.any_row(&state) else { return };
            let row = state.mailbox(mailbox).unwrap().row(uids.first().unwrap()).unwrap();
            state.message(row.message).unwrap()
        };
        let stored = self.accounts.reseal(&source, &message, target.id()).await.unwrap();
        let mailbox = self.any_mailbox(&target.state());
        let new = NewMessage { stored, flags: self.any_flags().into(), received: message.received };
        target.append(mailbox, vec![new]).await.unwrap();
    }

    /// Something happens.
    async fn step(&mut self) {
        let account = self.any_log();
        let kind = self.random.below(10);
        match kind {
            0..=3 => self.append().await,
            4 => self.copy_to_other_log().await,
            _ => {
                let events = {
                    let state = account.state();
                    let Some((mailbox, uids)) = self.any_row(&state) else { return };
                    let to = self.any_mailbox(&state);
                    let action = self.one_of(&[FlagAction::Add, FlagAction::Add, FlagAction::Remove]);
                    let flags = self.any_flags();
                    vec![match kind {
                        5 if to != mailbox => Event::Moved { from: mailbox, uids, to },
                        6 if to != mailbox => Event::Copied { from: mailbox, uids, to },
                        7 => Event::Expunged { mailbox, uids },
                        8 if self.random.below(4) == 0 => Event::Purged { before: Timestamp(i64::MAX) },
                        _ => Event::FlagsStored { mailbox, uids, action, flags, unchanged_since: None },
                    }]
                };
                account.commit(|_| Ok((events.clone(), ()))).await.unwrap();
            }
        }
    }

    async fn run<T>(&self, query: &EmailQuery, pick: impl Fn(&EmailsView<'_>) -> T) -> T {
        let search =
            EmailSearch { logs: &self.logs, user: self.logs[0].id(), reach: Reach::Own, query, is_attached };
        let found = self.engine.emails(search, &mut NoProgress, pick).await;
        found.unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    async fn results(&self, query: &EmailQuery, collapsed: bool) -> Vec<ObjectId> {
        let found = self
            .run(query, |view| {
                let found: Vec<ObjectId> = view.from(0, collapsed).collect();
                assert_eq!(found.len(), view.len(collapsed));
                for (index, object) in found.iter().enumerate() {
                    assert_eq!(view.index(*object, collapsed), Some(index));
                }
                found
            })
            .await;
        assert_eq!(self.run(query, |view| view.from(1, collapsed).collect::<Vec<_>>()).await, {
            found.get(1..).unwrap_or_default()
        });
        found
    }

    /// The same by going through everything.
    async fn expected(&self, query: &EmailQuery, collapsed: bool) -> Vec<ObjectId> {
        for log in &self.logs {
            drop(log.with_maps().await.unwrap());
        }
        let states: Vec<_> = self.logs.iter().map(|log| (log.id(), log.state())).collect();
        let states: Vec<_> = states.iter().map(|(id, state)| (*id, &**state)).collect();
        let emails: Vec<Email> =
            self.mails.keys().filter_map(|object| Email::find(&states, *object)).collect();
        let model = Model { mails: &self.mails, emails: &emails };
        let mut found: Vec<&Email> =
            emails.iter().filter(|email| model.matches(&query.filter, email)).collect();
        found.sort_by(|a, b| {
            let mut orders = query.sort.iter().map(|comparator| {
                let order = model.key(&comparator.key, a).cmp(&model.key(&comparator.key, b));
                if comparator.descending { order.reverse() } else { order }
            });
            let order = orders.find(|order| order.is_ne());
            order.unwrap_or_else(|| (a.stored.0, a.stored.1).cmp(&(b.stored.0, b.stored.1)))
        });
        let mut threads: BTreeSet<ThreadId> = BTreeSet::new();
        found.retain(|email| !collapsed || threads.insert(email.thread));
        found.into_iter().map(|email| email.object).collect()
    }

    fn place(&self, log: usize, name: &str) -> (AccountId, MailboxId) {
        (self.logs[log].id(), self.logs[log].state().mailbox_named(name).unwrap().id())
    }

    fn any_keyword(&self) -> (KeywordOf, EmailKeyword) {
        let of = self.one_of(&[KeywordOf::Email, KeywordOf::AllInThread, KeywordOf::SomeInThread]);
        let keyword = match self.random.below(4) {
            0 => EmailKeyword::Named("WORK".to_owned()),
            1 => EmailKeyword::Named("unknown".to_owned()),
            2 => EmailKeyword::System(SystemFlags::FLAGGED),
            _ => EmailKeyword::System(SystemFlags::SEEN),
        };
        (of, keyword)
    }

    fn any_filter(&self, depth: usize) -> EmailFilter {
        let inner = |world: &World| world.any_filter(depth.saturating_sub(1));
        let some = |world: &World| (0..world.random.below(3)).map(|_| inner(world)).collect::<Vec<_>>();
        match self.random.below(if depth == 0 { 11 } else { 16 }) {
            0 => EmailFilter::Always(self.random.below(2) == 0),
            1 | 2 => EmailFilter::In(self.place(0, self.one_of(&["INBOX", "Work"]))),
            3 => EmailFilter::InOtherThan(vec![self.place(0, "INBOX"), self.place(1, "INBOX")]),
            4 => EmailFilter::ReceivedBefore(Timestamp(1_000_000 * self.random.below(20) as i64)),
            5 => EmailFilter::ReceivedSince(Timestamp(1_000_000 * self.random.below(20) as i64)),
            6 => EmailFilter::SizeFrom(200 + self.random.below(100)),
            7 => EmailFilter::SizeBelow(200 + self.random.below(100)),
            8 => EmailFilter::Attached,
            9 => EmailFilter::Text(TextPart::Field("from".into()), self.one_of(&NAMES).to_uppercase()),
            10 => {
                let (of, keyword) = self.any_keyword();
                EmailFilter::Keyword(of, keyword)
            }
            11 => EmailFilter::Text(TextPart::Body, self.one_of(&WORDS).to_owned()),
            12 => EmailFilter::Not(Box::new(inner(self))),
            13 | 14 => EmailFilter::All(some(self)),
            _ => EmailFilter::Any(some(self)),
        }
    }

    fn any_query(&self) -> EmailQuery {
        let comparators = (0..self.random.below(3)).map(|_| {
            let collation = self.one_of(&[Collation::UnicodeCasemap, Collation::AsciiCasemap]);
            let key = match self.random.below(7) {
                0 => EmailSortKey::Received,
                1 => EmailSortKey::Size,
                2 => EmailSortKey::Sent,
                3 => EmailSortKey::From(collation),
                4 => EmailSortKey::To(collation),
                5 => EmailSortKey::Subject(collation),
                _ => {
                    let (of, keyword) = self.any_keyword();
                    EmailSortKey::Keyword(of, keyword)
                }
            };
            EmailComparator { key, descending: self.random.below(2) == 0 }
        });
        EmailQuery { sort: comparators.collect(), filter: self.any_filter(2) }
    }
}

struct Model<'a> {
    mails: &'a BTreeMap<ObjectId, Mail>,
    emails: &'a [Email],
}

impl Model<'_> {
    fn has(email: &Email, keyword: &EmailKeyword) -> bool {
        match keyword {
            EmailKeyword::System(flag) => email.flags.system.contains(*flag),
            EmailKeyword::Named(name) => {
                email.flags.keywords.iter().any(|known| known.eq_ignore_ascii_case(name))
            }
        }
    }

    fn keyword(&self, of: KeywordOf, keyword: &EmailKeyword, email: &Email) -> bool {
        let mut thread = self.emails.iter().filter(|other| other.thread == email.thread);
        match of {
            KeywordOf::Email => Self::has(email, keyword),
            KeywordOf::AllInThread => thread.all(|other| Self::has(other, keyword)),
            KeywordOf::SomeInThread => thread.any(|other| Self::has(other, keyword)),
        }
    }

    fn matches(&self, filter: &EmailFilter, email: &Email) -> bool {
        let mail = &self.mails[&email.object];
        match filter {
            EmailFilter::Always(value) => *value,
            EmailFilter::In(place) => email.mailboxes.contains(place),
            EmailFilter::InOtherThan(places) => email.mailboxes.iter().any(|place| !places.contains(place)),
            EmailFilter::ReceivedBefore(moment) => email.received < *moment,
            EmailFilter::ReceivedSince(moment) => email.received >= *moment,
            EmailFilter::SizeFrom(size) => email.size >= *size,
            EmailFilter::SizeBelow(size) => email.size < *size,
            EmailFilter::Keyword(of, keyword) => self.keyword(*of, keyword, email),
            EmailFilter::Attached => mail.attached,
            EmailFilter::Text(TextPart::Field(_), name) => mail.from.eq_ignore_ascii_case(name),
            EmailFilter::Text(_, word) => mail.word == word,
            EmailFilter::Not(filter) => !self.matches(filter, email),
            EmailFilter::All(filters) => filters.iter().all(|filter| self.matches(filter, email)),
            EmailFilter::Any(filters) => filters.iter().any(|filter| self.matches(filter, email)),
        }
    }

    fn key(&self, key: &EmailSortKey, email: &Email) -> (i64, String) {
        let mail = &self.mails[&email.object];
        let number = |number: i64| (number, String::new());
        match key {
            EmailSortKey::Received => number(email.received.0),
            EmailSortKey::Size => number(email.size as i64),
            EmailSortKey::Sent => number(mail.sent.unwrap_or(email.received.seconds())),
            EmailSortKey::From(_) => (0, mail.from.to_uppercase()),
            EmailSortKey::To(_) => (0, mail.to.to_uppercase() + "@Z"),
            EmailSortKey::Subject(_) => (0, mail.subject.to_uppercase()),
            EmailSortKey::Keyword(of, keyword) => number(self.keyword(*of, keyword, email).into()),
        }
    }
}

#[tokio::test]
async fn queries_agree_with_a_model_that_goes_through_everything() {
    for seed in 0..12 {
        let mut world = World::new(seed, 64 << 20).await;
        // Asked for again and again, so that they are kept and brought up to date.
        let mut asked: Vec<EmailQuery> = Vec::new();
        for round in 0..60 {
            world.step().await;
            if round % 3 == 0 {
                asked.push(world.any_query());
            }
            for (number, query) in asked.iter().enumerate() {
                for collapsed in [false, true] {
                    let expected = world.expected(query, collapsed).await;
                    let found = world.results(query, collapsed).await;
                    assert_eq!(found, expected, "seed {seed} round {round} query {number} {query:?}");
                }
            }
        }
    }
}

/// What a client has of a query.
struct Client {
    query: EmailQuery,
    collapsed: bool,
    since: LogPositions,
    results: Vec<ObjectId>,
}

impl Client {
    /// As RFC 8620 §5.6 says.
    fn apply(&mut self, changes: &EmailChanges) {
        self.results.retain(|object| !changes.removed.contains(object));
        for (index, object) in &changes.added {
            self.results.insert((*index).min(self.results.len()), *object);
        }
    }
}

#[tokio::test]
async fn applied_changes_equal_a_new_query() {
    for seed in 100..116 {
        let mut world = World::new(seed, 64 << 20).await;
        for _ in 0..15 {
            world.step().await;
        }
        let mut clients: Vec<Client> = Vec::new();
        for _ in 0..8 {
            let query = world.any_query();
            for collapsed in [false, true] {
                let pick = |view: &EmailsView<'_>| (view.last_changes(), view.from(0, collapsed).collect());
                let (since, results) = world.run(&query, pick).await;
                clients.push(Client { query: query.clone(), collapsed, since, results });
            }
        }
        for round in 0..30 {
            for _ in 0..world.random.below(6) {
                world.step().await;
            }
            for (number, client) in clients.iter_mut().enumerate() {
                // Some clients return later than others.
                if world.random.below(3) == 0 {
                    continue;
                }
                let bounds = Bounds { collapsed: client.collapsed, up_to: None, most: 1000 };
                let pick = |view: &EmailsView<'_>| {
                    let all: Vec<ObjectId> = view.from(0, client.collapsed).collect();
                    (view.last_changes(), view.changes(&client.since, bounds), all)
                };
                let (now, changes, all) = world.run(&client.query, pick).await;
                let changes = changes.unwrap();
                client.apply(&changes);
                let place = format!("seed {seed} round {round} client {number}: {:?}", client.query);
                assert_eq!(client.results, all, "{place} {changes:?}");
                assert!(changes.added.is_sorted(), "{place}");
                client.since = now;
            }
        }
    }
}

#[tokio::test]
async fn changes_behind_the_last_known_result_are_left_out() {
    let mut world = World::new(7, 64 << 20).await;
    let newest = EmailComparator { key: EmailSortKey::Received, descending: true };
    let query = EmailQuery { filter: EmailFilter::Always(true), sort: vec![newest] };
    for _ in 0..60 {
        world.append().await;
    }
    let has = async |world: &World| {
        world.run(&query, |view| (view.last_changes(), view.from(0, false).collect::<Vec<_>>())).await
    };
    let mut left_out = 0;
    for _ in 0..30 {
        let (since, before) = has(&world).await;
        world.append().await;
        let mut client: Vec<ObjectId> = before[..before.len() / 2].to_vec();
        let bounds = Bounds { collapsed: false, up_to: client.last().copied(), most: 1000 };
        let pick = |view: &EmailsView<'_>| (view.changes(&since, bounds), view.from(0, false).collect());
        let (changes, all): (_, Vec<ObjectId>) = world.run(&query, pick).await;
        let changes = changes.unwrap();
        client.retain(|object| !changes.removed.contains(object));
        for (index, object) in &changes.added {
            client.insert(*index, *object);
        }
        left_out += usize::from(changes == EmailChanges::default() && all.len() > before.len());
        assert_eq!(client, all[..client.len()]);
    }
    assert!(left_out > 0);
}

#[tokio::test]
async fn too_many_changes_and_unknown_positions_are_said() {
    let mut world = World::new(8, 64 << 20).await;
    let query = EmailQuery { filter: EmailFilter::Always(true), sort: Vec::new() };
    for _ in 0..20 {
        world.append().await;
    }
    let changes = async |since: LogPositions, most| {
        let bounds = Bounds { collapsed: false, up_to: None, most };
        world.run(&query, |view| view.changes(&since, bounds)).await
    };
    let begin = LogPositions::default;
    assert_eq!(changes(begin(), 10).await, Err(UnknownChanges::TooMany));
    assert!(changes(begin(), 1000).await.is_ok());
    let other: LogPositions = [(AccountId([9; 16]), Position(1))].into_iter().collect();
    assert_eq!(changes(other, 1000).await, Err(UnknownChanges::TooOld));
}

#[tokio::test]
async fn an_account_too_large_for_the_memory_is_refused() {
    let world = World::new(9, 64 << 20).await;
    let count = |bytes: usize| {
        let engine = Engine::new(world.accounts.clone(), &Budget::new(bytes), 0);
        let (logs, filter) = (world.logs.clone(), EmailFilter::Always(true));
        async move {
            let query = EmailQuery { filter, sort: Vec::new() };
            let search = EmailSearch {
                logs: &logs,
                user: logs[0].id(),
                reach: Reach::Own,
                query: &query,
                is_attached,
            };
            engine.emails(search, &mut NoProgress, |view| view.len(false)).await
        }
    };
    let mut ingest = world.accounts.ingest(OWN).await.unwrap();
    ingest.write(b"Subject: x\r\n\r\n").await.unwrap();
    let stored = ingest.finish().await.unwrap();
    let own = &world.logs[0];
    let inbox = own.state().inbox().id();
    own.append(inbox, vec![NewMessage { stored, flags: Flags::default().into(), received: NOW }])
        .await
        .unwrap();
    let to = own.state().mailbox_named("Work").unwrap().id();
    for _ in 0..300 {
        let uids = own.state().inbox().uids();
        own.commit(|_| Ok((vec![Event::Copied { from: inbox, uids: uids.clone(), to }], ()))).await.unwrap();
    }
    // 20 bytes for each of 301 placements, of two fair parts.
    assert_eq!(count(32 << 10).await.unwrap(), 1);
    let Err(Failure::Error(error)) = count(16 << 10).await else { panic!("it was not refused") };
    assert_eq!(error.kind(), Kind::Limit);
}
