//! Logs that are damaged: what was acknowledged stays, a UID never means two messages, and nodes
//! never disagree in silence.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use sealpost_account::{Account, Accounts, Delivery, Event};
use sealpost_base::{
    AccountId, Budget, FakeClock, Kind, Position, Random, Result, SeededRandom, Timestamp, Uid, UidSet,
};
use sealpost_journal::{Break, Journal};
use sealpost_vault::entry::{self, Generation, Header, LogKey};
use sealpost_vault::{AccountKeys, AppendMode, Backend, RootKey, Store};

const ID: AccountId = AccountId([3; 16]);
const BOTH: [AppendMode; 2] = [AppendMode::Conditional, AppendMode::Siblings];

struct Fixture {
    objects: Arc<InMemory>,
    append_mode: AppendMode,
    clock: Arc<FakeClock>,
    random: Arc<SeededRandom>,
    root: RootKey,
}

impl Fixture {
    fn new(append_mode: AppendMode) -> Self {
        let random = Arc::new(SeededRandom::new(5));
        let root = RootKey::generate(&*random);
        let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
        Fixture { objects: Arc::new(InMemory::new()), append_mode, clock, random, root }
    }

    fn store(&self) -> Store {
        Store::with(self.objects.clone(), Backend { append_mode: self.append_mode })
    }

    /// A node that knows nothing of the others.
    fn node(&self) -> Accounts {
        let random: Arc<dyn Random> = self.random.clone();
        let budget = Budget::new(64 << 20);
        Accounts::new(self.store(), LogKey::for_tests(), self.clock.clone(), random, budget)
    }

    fn journal(&self) -> Journal {
        Journal::new(self.store(), ID, &LogKey::for_tests(), self.random.clone())
    }

    async fn open(&self, node: &Accounts) -> Result<Arc<Account>> {
        node.open_current(ID, &self.root).await
    }

    async fn deliver(&self, node: &Accounts, subject: &str) -> Result<()> {
        let mut ingest = node.ingest(ID).await?;
        ingest.write(format!("Subject: {subject}\r\n\r\nBody.\r\n").as_bytes()).await?;
        let stored = ingest.finish().await?;
        let public = AccountKeys::derive(&self.root, ID).public();
        node.deliver(ID, &public, stored, Delivery::default()).await
    }

    /// The path of the entry at a position.
    async fn entry(&self, position: u64) -> Path {
        use futures::TryStreamExt;
        let folder = Path::parse(format!("acct/{ID}/log")).unwrap();
        let listed: Vec<_> = self.objects.list(Some(&folder)).try_collect().await.unwrap();
        let name = format!("{position:016x}");
        let found = listed.into_iter().map(|object| object.location);
        let mut found: Vec<_> = found.filter(|path| path.filename().unwrap().starts_with(&name)).collect();
        found.sort();
        found.pop().unwrap()
    }

    async fn get(&self, path: &Path) -> Vec<u8> {
        self.objects.get(path).await.unwrap().bytes().await.unwrap().to_vec()
    }

    async fn put(&self, path: &Path, bytes: &[u8]) {
        self.objects.put(path, bytes.to_vec().into()).await.unwrap();
    }

    async fn plant(&self, position: u64) {
        let path = Path::parse(format!("acct/{ID}/log/{position:016x}")).unwrap();
        self.put(&path, b"noise").await;
    }
}

/// What a client of the inbox sees: UIDVALIDITY, and which message each UID means.
async fn inbox(account: &Account) -> (u32, Vec<(u32, String)>) {
    account.refresh().await.unwrap();
    let (validity, rows) = {
        let state = account.state();
        let rows: Vec<_> =
            state.inbox().all_rows().map(|row| (row.uid, state.message(row.message).unwrap())).collect();
        (state.inbox().uid_validity().0.get(), rows)
    };
    let mut shown = Vec::new();
    for (uid, message) in rows {
        let subject = account.structure(&message).await.unwrap().envelope.subject.clone().unwrap();
        shown.push((uid.get(), subject));
    }
    (validity, shown)
}

fn subjects(inbox: &(u32, Vec<(u32, String)>)) -> Vec<&str> {
    inbox.1.iter().map(|(_, subject)| subject.as_str()).collect()
}

async fn expunge(account: &Account, uid: u32) -> Result<()> {
    let uid = Uid::new(uid).unwrap();
    let events = |state: &sealpost_account::AccountState| {
        let mailbox = state.inbox().id();
        Ok((vec![Event::Expunged { mailbox, uids: UidSet::range(uid, uid) }], ()))
    };
    account.commit(events).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn noise_loses_nothing_and_all_nodes_agree() {
    for append_mode in BOTH {
        let w = Fixture::new(append_mode);
        let (one, two) = (w.node(), w.node());
        w.deliver(&one, "a").await.unwrap();
        let (here, there) = (w.open(&one).await.unwrap(), w.open(&two).await.unwrap());
        for position in [2, 0x8000_0000_0001, 1 << 20] {
            w.plant(position).await;
        }
        w.deliver(&two, "b").await.unwrap();
        w.deliver(&one, "c").await.unwrap();
        let expected = inbox(&here).await;
        assert_eq!(subjects(&expected), ["a", "b", "c"], "{append_mode:?}");
        assert_eq!(inbox(&there).await, expected);
        // A client that knew the UIDs learns that they mean something else, where the loss cannot
        // be determined.
        expunge(&there, 2).await.unwrap();
        let expected = inbox(&here).await;
        assert_eq!(subjects(&expected), ["a", "c"]);
        assert_eq!(inbox(&w.open(&w.node()).await.unwrap()).await, expected);
        here.checkpoint().await.unwrap();
        assert_eq!(inbox(&w.open(&w.node()).await.unwrap()).await, expected);
    }
}

/// Two nodes on one bucket: while an entry is missing, short or unreadable for a while, the second
/// one loads the account.
#[tokio::test(start_paused = true)]
async fn a_gap_in_the_log_never_expunges_another_message() {
    for append_mode in BOTH {
        for damage in [None, Some(&b""[..]), Some(b"short"), Some(&[0; 600])] {
            let w = Fixture::new(append_mode);
            let (one, two) = (w.node(), w.node());
            for subject in ["x0", "x1", "x2", "x3"] {
                w.deliver(&one, subject).await.unwrap();
            }
            let here = w.open(&one).await.unwrap();
            let before = inbox(&here).await;
            let hole = w.entry(2).await;
            let entry = w.get(&hole).await;
            match damage {
                None => w.objects.delete(&hole).await.unwrap(),
                Some(bytes) => w.put(&hole, bytes).await,
            }
            let refused = w.open(&two).await.err().unwrap();
            assert_eq!(refused.kind(), Kind::Corrupt, "{append_mode:?}: {refused}");
            assert!(refused.to_string().contains("account repair"), "{refused}");
            // Mail arrives, and nodes that have the account loaded continue.
            w.deliver(&two, "x4").await.unwrap();
            expunge(&here, 2).await.unwrap();
            w.put(&hole, &entry).await;
            let there = w.open(&two).await.unwrap();
            let expected =
                (before.0, [(1, "x0"), (3, "x2"), (4, "x3"), (5, "x4")].map(|(n, s)| (n, s.to_owned())));
            assert_eq!(inbox(&there).await, (expected.0, expected.1.to_vec()));
            assert_eq!(inbox(&here).await, inbox(&there).await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_repair_renumbers_and_drops_stale_references_on_all_nodes() {
    for append_mode in BOTH {
        let w = Fixture::new(append_mode);
        let (one, two) = (w.node(), w.node());
        for subject in ["x0", "x1", "x2"] {
            w.deliver(&one, subject).await.unwrap();
        }
        let here = w.open(&one).await.unwrap();
        let before = inbox(&here).await;
        // UID 2 is x1, and what is left will have x2 there.
        expunge(&here, 2).await.unwrap();
        w.objects.delete(&w.entry(2).await).await.unwrap();
        assert_eq!(w.open(&two).await.err().unwrap().kind(), Kind::Corrupt);
        let repaired = w.journal().repair(false).await.unwrap().unwrap();
        assert_eq!(repaired.breaks, [Break::Unchained(sealpost_base::Position(3))]);
        let there = w.open(&two).await.unwrap();
        let after = inbox(&there).await;
        assert_eq!(subjects(&after), ["x0", "x2"], "{append_mode:?}");
        assert!(after.0 > before.0);
        assert_eq!(inbox(&here).await, after);
        w.deliver(&two, "x5").await.unwrap();
        expunge(&here, 1).await.unwrap();
        assert_eq!(subjects(&inbox(&here).await), ["x2", "x5"]);
        assert_eq!(inbox(&here).await, inbox(&there).await);
        assert_eq!(w.journal().repair(false).await.unwrap(), None);
    }
}

/// The last entry is lost permanently, and a node that never read it continues behind it.
#[tokio::test(start_paused = true)]
async fn a_node_that_read_a_lost_last_entry_notices() {
    let w = Fixture::new(AppendMode::Conditional);
    let (one, two) = (w.node(), w.node());
    for subject in ["x0", "x1"] {
        w.deliver(&one, subject).await.unwrap();
    }
    let here = w.open(&one).await.unwrap();
    let before = inbox(&here).await;
    let last = w.entry(2).await;
    let entry = w.get(&last).await;
    // Nothing of it shows that it was an entry.
    w.put(&last, b"").await;
    w.deliver(&two, "x2").await.unwrap();
    let there = w.open(&two).await.unwrap();
    let shown = inbox(&there).await;
    assert_eq!(subjects(&shown), ["x0", "x2"]);
    assert!(shown.0 > before.0, "UID 2 means another message");
    // The entry no longer counts, and the log says so: the other node learns it.
    assert_eq!(inbox(&here).await, shown);
    // The entry was only unreadable, and a node that loads the account again gets the error that
    // nodes differ.
    w.put(&last, &entry).await;
    let refused = w.open(&w.node()).await.err().unwrap();
    assert_eq!(refused.kind(), Kind::Corrupt, "{refused}");
    w.journal().repair(false).await.unwrap().unwrap();
    let after = inbox(&w.open(&w.node()).await.unwrap()).await;
    assert_eq!(subjects(&after), ["x0", "x1", "x2"]);
    assert!(after.0 > shown.0);
    assert_eq!(inbox(&here).await, after);
    assert_eq!(inbox(&there).await, after);
}

#[tokio::test(start_paused = true)]
async fn after_a_damaged_last_entry_reads_work_and_mail_waits() {
    for append_mode in BOTH {
        let w = Fixture::new(append_mode);
        let one = w.node();
        for subject in ["x0", "x1"] {
            w.deliver(&one, subject).await.unwrap();
        }
        let last = w.entry(2).await;
        let mut entry = w.get(&last).await;
        *entry.last_mut().unwrap() ^= 1;
        w.put(&last, &entry).await;
        let two = w.node();
        let there = w.open(&two).await.unwrap();
        assert_eq!(subjects(&inbox(&there).await), ["x0"]);
        assert!(there.is_damaged());
        assert_eq!(w.deliver(&w.node(), "x2").await.unwrap_err().kind(), Kind::Corrupt);
        assert_eq!(expunge(&there, 1).await.unwrap_err().kind(), Kind::Corrupt);
        w.journal().repair(false).await.unwrap().unwrap();
        w.deliver(&two, "x2").await.unwrap();
        assert_eq!(subjects(&inbox(&there).await), ["x0", "x2"], "{append_mode:?}");
    }
}

/// An attacker with write access to the store plants manifests and marks: no UID changes its
/// meaning, and nothing waits.
#[tokio::test(start_paused = true)]
async fn noise_among_manifests_stops_nothing_and_renumbers_nothing() {
    for append_mode in BOTH {
        let w = Fixture::new(append_mode);
        let node = w.node();
        w.deliver(&node, "a").await.unwrap();
        let here = w.open(&node).await.unwrap();
        let (validity, _) = inbox(&here).await;
        for name in ["0000000000000002", "0000000000000003", "0000800000000001", "s0000000000000002"] {
            let path = Path::parse(format!("acct/{ID}/manifest/{name}")).unwrap();
            w.put(&path, b"SPM\x01").await;
        }
        let mark = Path::parse(format!("acct/{ID}/manifest/s0000000000000002-0000000000000001")).unwrap();
        w.put(&mark, b"SPM\x01").await;
        w.deliver(&w.node(), "b").await.unwrap();
        w.deliver(&node, "c").await.unwrap();
        let expected = inbox(&here).await;
        assert_eq!((expected.0, subjects(&expected)), (validity, vec!["a", "b", "c"]), "{append_mode:?}");
        assert_eq!(inbox(&w.open(&w.node()).await.unwrap()).await, expected, "{append_mode:?}");
        // No checkpoint comes where something was planted; the next one does.
        let refused = here.checkpoint().await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Conflict, "{append_mode:?}: {refused}");
        w.deliver(&node, "d").await.unwrap();
        let expected = inbox(&here).await;
        here.checkpoint().await.unwrap();
        assert_eq!(inbox(&w.open(&w.node()).await.unwrap()).await, expected, "{append_mode:?}");
        assert!(!here.is_damaged());
    }
}

#[tokio::test]
async fn events_of_a_newer_version_are_no_damage() {
    let f = Fixture::new(AppendMode::Conditional);
    let (here, there) = (f.node(), f.node());
    let account = f.open(&here).await.unwrap();
    f.deliver(&here, "before").await.unwrap();
    let before = inbox(&account).await;
    let last = f.journal().last_after(Position::ZERO).await.unwrap();
    let prev = entry::hash(&f.get(&f.entry(last.0).await).await);
    let position = Position(last.0 + 1);
    let header = Header { account: ID, position, prev, generation: Generation::default() };
    // An event whose number no version before has used.
    let batch = minicbor::to_vec((Timestamp(0), [(60_000u32, [7u8])])).unwrap();
    let keys = AccountKeys::derive(&f.root, ID);
    let sealed = entry::seal_owner(&keys, &LogKey::for_tests(), &header, &batch, &*f.random);
    f.store().put_new(&format!("acct/{ID}/log/{:016x}", position.0), sealed).await.unwrap();
    let mut refused = vec![f.open(&there).await.err().unwrap()];
    refused.push(account.refresh().await.unwrap_err());
    refused.push(expunge(&account, 1).await.unwrap_err());
    for refused in refused {
        assert!(refused.kind() == Kind::Retry && refused.to_string().contains("newer version"), "{refused}");
    }
    // Mail still arrives, and nothing is renumbered or given up.
    f.deliver(&there, "behind").await.unwrap();
    assert!(!account.is_damaged() && f.journal().repair(false).await.unwrap().is_none());
    assert_eq!(account.state().inbox().uid_validity().0.get(), before.0);
}
