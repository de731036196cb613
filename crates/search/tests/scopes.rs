//! The engine over scopes of one mailbox, several, and a whole account with mailboxes of another log.

use std::sync::Arc;

use sealpost_account::{Account, Accounts, Flags, NewMessage, SystemFlags, ops};
use sealpost_base::{
    AccountId, Budget, FakeClock, Kind, MemoryDivision, Random, SeededRandom, Timestamp, Uid, UidSet,
};
use sealpost_mailbox::Access;
use sealpost_search::{
    Algorithm, Comparator, Criterion, Engine, Failure, Findings, MailboxIndex, MailboxScope, Match, Matches,
    NoProgress, Progress, Query, Scope, SortKey, Step, TextPart,
};
use sealpost_vault::{RootKey, Store};

const OWN: AccountId = AccountId([1; 16]);
const SHARE: AccountId = AccountId([2; 16]);
const NOW: Timestamp = Timestamp(1_700_000_000_000);

struct Fixture {
    accounts: Accounts,
    engine: Engine,
    own: Arc<Account>,
    /// The log of a mailbox that another user shares.
    share: Arc<Account>,
}

impl Fixture {
    async fn new() -> Self {
        let random = Arc::new(SeededRandom::new(1));
        let root = RootKey::generate(&*random);
        let random: Arc<dyn Random> = random;
        let budget = Budget::new(64 << 20);
        let clock = Arc::new(FakeClock::new(NOW));
        let accounts = Accounts::new(
            Store::memory(),
            sealpost_vault::entry::LogKey::for_tests(),
            clock,
            random,
            budget.clone(),
        );
        let own = accounts.open(OWN, &root).await.unwrap();
        let share = accounts.open(SHARE, &root).await.unwrap();
        let engine = Engine::new(accounts.clone(), &budget, MemoryDivision::default().orders());
        let decide = |state: &_| Ok((ops::create_mailbox(state, "Work", Default::default())?, ()));
        own.commit(decide).await.unwrap();
        Fixture { accounts, engine, own, share }
    }

    /// Puts a message into a mailbox; `day` is when it was received.
    async fn append(&self, account: &Arc<Account>, mailbox: &str, mail: &str, keywords: &[&str], day: i64) {
        let mut ingest = self.accounts.ingest(account.id()).await.unwrap();
        ingest.write(mail.replace('\n', "\r\n").as_bytes()).await.unwrap();
        let stored = ingest.finish().await.unwrap();
        let keywords = keywords.iter().map(|name| (*name).to_owned()).collect();
        let flags = Flags { system: SystemFlags::NONE, keywords };
        let received = Timestamp(day * 86_400_000);
        let new = NewMessage { stored, flags: flags.into(), received };
        let mailbox = account.state().mailbox_named(mailbox).unwrap().id();
        account.append(mailbox, vec![new]).await.unwrap();
    }

    fn mailbox(&self, account: &Arc<Account>, name: &str, access: Access) -> MailboxScope {
        let state = account.state();
        MailboxScope::whole(account.clone(), access, state.mailbox_named(name).unwrap())
    }

    /// Inbox, Work and the shared mailbox; the shared one as its owner sees it.
    fn three(&self) -> Vec<MailboxScope> {
        let shared = Access::Share { user: OWN, owner: true };
        vec![
            self.mailbox(&self.own, "INBOX", Access::Own),
            self.mailbox(&self.own, "Work", Access::Own),
            self.mailbox(&self.share, "INBOX", shared),
        ]
    }

    async fn find(&self, mailboxes: &[MailboxScope], criterion: Criterion) -> Findings {
        let query = Arc::new(Query::new(&criterion).unwrap());
        let scope = Scope::several(mailboxes).unwrap();
        let found = self.engine.find(scope, &query, NOW, &mut NoProgress).await;
        found.unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    /// Three mailboxes with two messages each, of which the second one has the keyword `a` or `b`.
    async fn filled() -> Self {
        let w = Fixture::new().await;
        for (n, (account, mailbox)) in
            [(&w.own, "INBOX"), (&w.own, "Work"), (&w.share, "INBOX")].into_iter().enumerate()
        {
            // Another log numbers its keywords for itself.
            let keywords: [&[&str]; 2] = [if n == 2 { &["b"] } else { &[] }, &["a"]];
            for (m, keywords) in keywords.into_iter().enumerate() {
                let subject = ["pear", "apple", "fig"][n];
                let mail = format!(
                    "Subject: {subject}\nMessage-ID: <{n}.{m}@x>\nReferences: <0.0@x>\n\nbody {n} {m}\n"
                );
                w.append(account, mailbox, &mail, keywords, 10 * m as i64 + n as i64).await;
            }
        }
        w
    }
}

/// (mailbox, UID) of each.
fn placed(matches: &[Match]) -> Vec<(u16, u32)> {
    matches.iter().map(|found| (found.mailbox.0, found.uid.get())).collect()
}

fn text(part: TextPart, string: &str) -> Criterion {
    Criterion::Text(part, string.to_owned())
}

#[tokio::test]
async fn several_mailboxes_are_searched_as_one() {
    let w = Fixture::filled().await;
    let three = w.three();
    let found = w.find(&three, Criterion::Always(true)).await;
    assert_eq!(placed(&found.matches), [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]);
    assert!(!found.unavailable && found.damaged.is_empty() && found.gone.is_empty());
    let found = w.find(&three, text(TextPart::Field("Subject".into()), "APPLE")).await;
    assert_eq!(placed(&found.matches), [(1, 1), (1, 2)]);
    let found = w.find(&three, text(TextPart::Body, "2 1")).await;
    assert_eq!(placed(&found.matches), [(2, 2)]);
    let uids = Criterion::Uids(MailboxIndex(1), UidSet::range(Uid::MIN, Uid::MIN));
    let found = w.find(&three, Criterion::Any(vec![uids, text(TextPart::Body, "0 1")])).await;
    assert_eq!(placed(&found.matches), [(0, 2), (1, 1)]);
}

#[tokio::test]
async fn a_keyword_is_that_of_each_account() {
    let w = Fixture::filled().await;
    let three = w.three();
    let keyword = |name: &str| Criterion::Keyword(name.to_owned());
    assert_eq!(placed(&w.find(&three, keyword("A")).await.matches), [(0, 2), (1, 2), (2, 2)]);
    assert_eq!(placed(&w.find(&three, keyword("b")).await.matches), [(2, 1)]);
    assert_eq!(placed(&w.find(&three, keyword("unknown")).await.matches), []);
    let not = Criterion::Not(Box::new(keyword("b")));
    assert_eq!(w.find(&three, not).await.matches.len(), 5);
}

#[tokio::test]
async fn a_query_learns_of_keywords_when_it_runs_again() {
    let w = Fixture::filled().await;
    let query = Arc::new(Query::new(&Criterion::Keyword("new".to_owned())).unwrap());
    let find = async |mailbox: MailboxScope| {
        let found = w.engine.find(Scope::one(&mailbox), &query, NOW, &mut NoProgress).await;
        placed(&found.unwrap_or_else(|failure| panic!("{failure:?}")).matches)
    };
    assert_eq!(find(w.mailbox(&w.own, "INBOX", Access::Own)).await, []);
    w.append(&w.own, "INBOX", "Subject: x\n\n", &["NEW"], 1).await;
    assert_eq!(find(w.mailbox(&w.own, "INBOX", Access::Own)).await, [(0, 3)]);
}

#[tokio::test]
async fn only_the_messages_of_the_scope_are_found() {
    let w = Fixture::filled().await;
    let mut one = w.mailbox(&w.own, "INBOX", Access::Own);
    one.uids = UidSet::range(Uid::new(2).unwrap(), Uid::new(9).unwrap());
    one.marked = UidSet::range(Uid::MIN, Uid::MIN);
    let found = w.find(std::slice::from_ref(&one), Criterion::Always(true)).await;
    assert_eq!(placed(&found.matches), [(0, 2)]);
    assert!(w.find(std::slice::from_ref(&one), Criterion::Marked).await.matches.is_empty());
    one.uids = UidSet::range(Uid::MIN, Uid::new(9).unwrap());
    assert_eq!(placed(&w.find(&[one], Criterion::Marked).await.matches), [(0, 1)]);
}

#[tokio::test]
async fn a_whole_account_has_all_mailboxes_with_messages() {
    let w = Fixture::filled().await;
    let mut all = MailboxScope::all_of(&w.own);
    let own = all.len();
    assert!(own > 2, "the inbox, Work, and the default mailboxes");
    all.extend(w.three().pop());
    let found = w.find(&all, Criterion::Always(true)).await;
    assert_eq!(found.matches.len(), 6);
    assert!(found.matches.iter().any(|found| usize::from(found.mailbox.0) == own));
}

#[tokio::test]
async fn an_unreadable_mailbox_is_left_out_and_reported() {
    let w = Fixture::filled().await;
    let mut three = w.three();
    // A user without rights.
    three[2].access = Access::Share { user: OWN, owner: false };
    let found = w.find(&three, text(TextPart::Body, "body")).await;
    assert_eq!((placed(&found.matches).len(), found.gone), (4, vec![MailboxIndex(2)]));
    // It goes away between the search and the order.
    let scope = Scope::several(&three).unwrap();
    let whole = w.find(&w.three(), Criterion::Always(true)).await.matches;
    let by_size = [Comparator { key: SortKey::Size, descending: false }];
    let sorted = w.engine.sort(scope, whole, &by_size, &mut NoProgress).await.unwrap();
    assert_eq!((sorted.matches.len(), sorted.gone), (4, vec![MailboxIndex(2)]));
}

async fn sort(w: &Fixture, found: Matches, comparators: &[(SortKey, bool)]) -> Vec<(u16, u32)> {
    let mailboxes = w.three();
    let comparators: Vec<_> = comparators
        .iter()
        .map(|(key, descending)| Comparator { key: *key, descending: *descending })
        .collect();
    let scope = Scope::several(&mailboxes).unwrap();
    placed(&w.engine.sort(scope, found, &comparators, &mut NoProgress).await.unwrap().matches)
}

#[tokio::test]
async fn one_order_spans_all_mailboxes() {
    let w = Fixture::filled().await;
    for _ in 0..2 {
        let all = w.find(&w.three(), Criterion::Always(true)).await.matches;
        let order = sort(&w, all, &[(SortKey::Subject, false)]).await;
        assert_eq!(order, [(1, 1), (1, 2), (2, 1), (2, 2), (0, 1), (0, 2)]);
        let all = w.find(&w.three(), Criterion::Always(true)).await.matches;
        let order = sort(&w, all, &[(SortKey::Received, true)]).await;
        assert_eq!(order, [(2, 2), (1, 2), (0, 2), (2, 1), (1, 1), (0, 1)]);
    }
}

#[tokio::test]
async fn orders_of_different_mailboxes_are_not_confused() {
    let w = Fixture::filled().await;
    let by_subject = [Comparator { key: SortKey::Received, descending: true }];
    for (mailbox, expected) in [("INBOX", [2, 1]), ("Work", [2, 1])] {
        for _ in 0..2 {
            let one = w.mailbox(&w.own, mailbox, Access::Own);
            let found = w.find(std::slice::from_ref(&one), Criterion::Always(true)).await.matches;
            let sorted = w.engine.sort(Scope::one(&one), found, &by_subject, &mut NoProgress).await.unwrap();
            assert_eq!(sorted.matches.iter().map(|found| found.uid.get()).collect::<Vec<_>>(), expected);
        }
    }
}

#[tokio::test]
async fn a_thread_may_go_through_several_mailboxes() {
    let w = Fixture::filled().await;
    let three = w.three();
    let found = w.find(&three, text(TextPart::Body, "body")).await.matches;
    let scope = Scope::several(&three).unwrap();
    let threads = w.engine.thread(scope, &found, Algorithm::References, &mut NoProgress).await.unwrap();
    let steps: Vec<Step> = threads.forest.steps().collect();
    // All others refer to the first message of the inbox.
    assert_eq!(steps[..3], [Step::Open, Step::Message(0), Step::Open]);
    let messages = steps.iter().filter(|step| matches!(step, Step::Message(_)));
    assert_eq!(messages.count(), 6);
    assert_eq!(steps.iter().filter(|step| **step == Step::Open).count(), 6, "one thread with five branches");
}

/// Ends the work at the first chance.
struct Impatient;

impl Progress for Impatient {
    type Interruption = &'static str;

    async fn await_with_progress<T: Send>(
        &mut self,
        work: impl Future<Output = T> + Send,
    ) -> Result<T, Self::Interruption> {
        Ok(work.await)
    }

    async fn acquire_with_progress<T: Send>(
        &mut self,
        _: impl Future<Output = T> + Send,
    ) -> Result<T, Self::Interruption> {
        Err("in a hurry")
    }

    async fn report_progress(&mut self, _: usize, _: usize) -> Result<(), Self::Interruption> {
        Ok(())
    }

    async fn yield_or_shutdown(&mut self) -> Result<(), Self::Interruption> {
        Err("shutting down")
    }
}

#[tokio::test]
async fn the_caller_ends_the_work() {
    let w = Fixture::filled().await;
    let three = w.three();
    let scope = Scope::several(&three).unwrap();
    let query = Arc::new(Query::new(&Criterion::Always(true)).unwrap());
    let ended = w.engine.find(scope, &query, NOW, &mut Impatient).await.err().unwrap();
    assert!(matches!(ended, Failure::Interrupted("shutting down")), "{ended:?}");
    let found = w.find(&three, Criterion::Always(true)).await.matches;
    let by_size = [Comparator { key: SortKey::Size, descending: false }];
    let ended = w.engine.sort(scope, found, &by_size, &mut Impatient).await.err().unwrap();
    assert!(matches!(ended, Failure::Interrupted("in a hurry")), "{ended:?}");
}

#[tokio::test]
async fn a_scope_has_at_most_65_536_mailboxes() {
    let w = Fixture::new().await;
    let one = w.mailbox(&w.own, "INBOX", Access::Own);
    let most = usize::from(u16::MAX) + 1;
    let mut many = vec![one.clone(); most];
    assert!(Scope::several(&many).is_ok());
    many.push(one);
    assert_eq!(Scope::several(&many).err().unwrap().kind(), Kind::Limit);
}
