//! Backups that keep few bodies, and refetching, from scripted servers.

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt};
use sealpost_account::{Account, Accounts};
use sealpost_base::{AccountId, Budget, FakeClock, Kind, Random, Result, SeededRandom, Timestamp, limits};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{RootKey, Store};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::*;
use crate::backup::format_tests::{folder_name, give, identity, mail_of, resume};
use crate::backup::sealed::{BodyLimit, BodyOptions, open_with};
use crate::backup::{Backup, BodyCounts, EvictBodies, Flags};
use crate::pull::Report;
use crate::pull::tests::pulled::{options, pulled_into};
use crate::pull::tests::server::{Box_, Fault, Script};
use crate::push::restore;
use crate::push::tests::{Nobody, options as put};
use crate::verify::{Options, verify};

const ID: AccountId = AccountId([3; 16]);
const NOW: Timestamp = Timestamp(1_700_000_000_000);
/// Bytes of a message's body, approximately.
const SIZE: usize = 20_000;

struct Fixture {
    store: Store,
    random: Arc<SeededRandom>,
    root: RootKey,
    lock: tempfile::TempDir,
    script: Script,
}

/// A backup as a process opens it.
struct Opened {
    backup: Arc<dyn Backup>,
    account: Arc<Account>,
    refetch: Arc<Refetch>,
}

fn bytes(uid: u32) -> Vec<u8> {
    let mut noise = vec![0; SIZE];
    SeededRandom::new(uid.into()).fill(&mut noise);
    // Lines, so that it is a mail.
    let text: Vec<u8> = noise.iter().map(|byte| b'!' + byte % 90).collect();
    let lines: Vec<u8> = text.chunks(70).flat_map(|line| [line, b"\r\n"].concat()).collect();
    [
        format!("Subject: message {uid}\r\nMessage-ID: <{uid}@x>\r\nContent-Type: image/x\r\n\r\n")
            .as_bytes(),
        &lines,
    ]
    .concat()
}

fn inbox(messages: u32) -> Box_ {
    let mut inbox = Box_::with(0);
    for uid in 1..=messages {
        inbox.add(Some(bytes(uid)));
    }
    inbox
}

impl Fixture {
    async fn new(messages: u32) -> Self {
        let random = Arc::new(SeededRandom::new(5));
        let root = RootKey::generate(&*random);
        let script = Script::start(inbox(messages), "", &[]).await;
        Fixture { store: Store::memory(), random, root, lock: tempfile::tempdir().unwrap(), script }
    }

    async fn open(&self, keep: Option<u64>) -> Opened {
        self.open_at(keep, Ok(self.script.server())).await
    }

    async fn open_at(&self, keep: Option<u64>, server: Result<Server, String>) -> Opened {
        let clock = Arc::new(FakeClock::new(NOW));
        let random: Arc<dyn Random> = self.random.clone();
        let accounts = Accounts::new(
            self.store.clone(),
            LogKey::for_tests(),
            clock.clone(),
            random.clone(),
            Budget::new(64 << 20),
        );
        let refetch = Refetch::new(&self.store, random, [(ID, server)]);
        accounts.set_bodies(Arc::new(Anywhere(refetch.clone())));
        let account = accounts.open(ID, &self.root).await.unwrap();
        let keep = keep.map(|bytes| BodyLimit { slack: 100_000, ..BodyLimit::new(bytes, clock) });
        let backup = loop {
            let bodies = BodyOptions { keep: keep.clone(), refetch: Some(refetch.clone()) };
            match open_with(Handle::current(), account.clone(), self.lock.path(), bodies) {
                // Tasks left over from a pull release the backup a moment later.
                Err(e) if e.kind() == Kind::Conflict => tokio::task::yield_now().await,
                backup => break backup.unwrap().into(),
            }
        };
        Opened { backup, account, refetch }
    }

    async fn pulled(&self, opened: &Opened) -> Report {
        pulled_into(&self.script, opened.backup.clone(), options()).await.unwrap()
    }

    /// Bytes in the spool, objects.
    async fn spooled(&self) -> usize {
        self.store.list("spool", None).count().await
    }
}

impl Opened {
    async fn read(&self, uid: u32) -> Result<Vec<u8>, String> {
        let backup = self.backup.clone();
        let read = move || {
            let folder = backup.open_to_read(&folder_name("INBOX")).map_err(|e| e.to_string())?;
            let mut out = Vec::new();
            folder.read(uid).map_err(|e| e.to_string())?.read_to_end(&mut out).map_err(|e| e.to_string())?;
            Ok(out)
        };
        spawn_blocking(read).await.unwrap()
    }

    async fn counts(&self) -> BodyCounts {
        let backup = self.backup.clone();
        spawn_blocking(move || backup.bodies().unwrap().unwrap()).await.unwrap()
    }

    /// UIDs of those with evicted bodies.
    async fn stub(&self, uids: impl IntoIterator<Item = u32> + Send + 'static) -> Vec<u32> {
        let backup = self.backup.clone();
        let stub = move || {
            let folder = backup.open_to_read(&folder_name("INBOX")).unwrap();
            uids.into_iter().filter(|uid| folder.evicted(*uid).is_ok_and(|sha| sha.is_some())).collect()
        };
        spawn_blocking(stub).await.unwrap()
    }

    /// As a session reads it, which knows no folder of a server.
    async fn by_account(&self, uid: u32) -> Result<Vec<u8>> {
        let message = {
            let state = self.account.state();
            let row = state.inbox().row(sealpost_base::Uid::new(uid).unwrap()).unwrap();
            state.message(row.message).unwrap()
        };
        Ok(self.account.reader(&message).raw(0..u64::MAX).try_collect::<Vec<Bytes>>().await?.concat())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evicted_bodies_are_fetched_when_read() {
    let world = Fixture::new(40).await;
    let opened = world.open(Some(200_000)).await;
    let report = world.pulled(&opened).await;
    assert!(report.is_complete());
    let bodies = report.bodies.unwrap();
    assert!(bodies.kept_bytes <= 200_000 && bodies.kept_bytes > 150_000, "{bodies:?}");
    assert_eq!((bodies.kept + bodies.without, bodies.now), (40, bodies.without));
    assert_eq!(opened.counts().await, BodyCounts { now: 0, now_bytes: 0, ..bodies.clone() });
    let (asked, connections) =
        (world.script.asked("UID FETCH"), world.script.world.lock().unwrap().connections);
    for uid in 1..=40 {
        for _ in 0..2 {
            assert!(opened.read(uid).await.unwrap() == bytes(uid), "{uid}");
        }
    }
    assert_eq!(world.script.asked("UID FETCH") - asked, bodies.without as usize, "once for each");
    assert_eq!(world.script.world.lock().unwrap().connections - connections, 1, "by one connection");
    assert!(world.spooled().await <= limits::BODIES_SPOOLED);
    // Nothing more has to be evicted, and nothing comes back.
    let again = world.pulled(&opened).await.bodies.unwrap();
    assert_eq!((again.now, again.without), (0, bodies.without));
    opened.refetch.end().await;
    assert_eq!(world.spooled().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_go_while_messages_come() {
    let world = Fixture::new(0).await;
    let opened = world.open(Some(50_000)).await;
    let backup = opened.backup.clone();
    let (before, after) = spawn_blocking(move || {
        let mut folder = backup.open(&folder_name("INBOX"), &identity(7)).unwrap();
        let mut commit = |uids: std::ops::Range<u32>| {
            uids.for_each(|uid| give(&mut *folder, uid, &mail_of(&bytes(uid)), 9000).unwrap());
            folder.commit(&resume(1)).unwrap();
            let counts = backup.bodies().unwrap().unwrap();
            folder.in_step();
            counts
        };
        // The server's messages of the folder are not known yet.
        (commit(1..20), commit(20..23))
    })
    .await
    .unwrap();
    assert_eq!((before.kept, before.without), (19, 0));
    assert!(after.kept_bytes <= 50_000 && after.kept + after.without == 22, "{after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_gone_upstream_are_reported_and_never_evicted() {
    let world = Fixture::new(20).await;
    let opened = world.open(Some(200_000)).await;
    world.pulled(&opened).await;
    let stub = opened.stub(1..=20).await;
    let whole = (1..=20).find(|uid| !stub.contains(uid)).unwrap();
    world.script.inbox(|inbox| [stub[0], whole].into_iter().for_each(|uid| inbox.expunge(uid)));
    let gone = opened.read(stub[0]).await.unwrap_err();
    assert!(gone.contains("the server no longer has the message"), "{gone}");
    assert_eq!(opened.by_account(stub[0]).await.unwrap_err().kind(), Kind::Offloaded);
    let report = world.pulled(&opened).await;
    let folder = &report.of[0];
    assert_eq!((folder.gone, folder.lost, &folder.lost_of[..]), (2, 1, &stub[..1]));
    // The body is nowhere else, whatever the limit.
    drop(opened);
    let opened = world.open(Some(0)).await;
    let bodies = world.pulled(&opened).await.bodies.unwrap();
    assert_eq!((bodies.kept, bodies.without), (1, 19));
    assert!(opened.read(whole).await.unwrap() == bytes(whole));
    // A body that is known to be gone is not asked for.
    let asked = world.script.asked("UID FETCH");
    assert!(opened.read(stub[0]).await.unwrap_err().contains("no longer has the message"));
    assert_eq!(world.script.asked("UID FETCH"), asked);
    let options = Options::all();
    let found =
        verify(&world.script.server(), opened.backup.clone(), &options, &SeededRandom::new(1)).await.unwrap();
    let found = &found.folders[0];
    assert_eq!((found.compared, found.evicted, found.lost.to_string()), (18, 19, stub[0].to_string()));
    assert!(!found.is_good() && found.different.is_empty() && found.damaged.is_empty());
    // A dry run reports the same as a restore.
    let to = Script::start(Box_::with(0), "LITERAL+", &[]).await;
    let (_stop, watched) = tokio::sync::watch::channel(false);
    for dry_run in [true, false] {
        let options = crate::push::Options { dry_run, ..put(&watched) };
        let report = restore(opened.backup.clone(), &to.server(), &options, Arc::new(Nobody)).await.unwrap();
        let folder = &report.folders[0];
        let failed: Vec<u32> = folder.failed.iter().map(|(uid, _)| *uid).collect();
        assert_eq!((folder.put, failed), (19, vec![stub[0]]), "{dry_run}: {folder:?}");
        assert!(folder.failed[0].1.contains("the server no longer has the message"), "{folder:?}");
    }
    // With --delete the rest of it is removed too.
    let delete = crate::pull::Options { delete: true, ..crate::pull::tests::pulled::options() };
    let report = pulled_into(&world.script, opened.backup.clone(), delete).await.unwrap();
    let bodies = report.bodies.unwrap();
    assert_eq!((bodies.kept, bodies.without), (0, 18), "deleted messages are not counted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_bytes_than_were_kept_are_not_given_out() {
    let world = Fixture::new(5).await;
    let opened = world.open(Some(0)).await;
    assert_eq!(world.pulled(&opened).await.bodies.unwrap().without, 5);
    let mut changed = bytes(2);
    changed[500] ^= 1;
    let others = [changed, [&bytes(3)[..], b"x"].concat(), bytes(4)[..9000].to_vec(), Vec::new()];
    world.script.inbox(|inbox| {
        for (uid, bytes) in (2..).zip(others) {
            inbox.messages.get_mut(&uid).unwrap().1 = bytes;
        }
    });
    for uid in 2..=5 {
        let refused = opened.read(uid).await.unwrap_err();
        assert!(refused.contains("not used"), "{uid}: {refused}");
    }
    assert_eq!(world.spooled().await, 0);
    let options = Options::all();
    let found =
        verify(&world.script.server(), opened.backup.clone(), &options, &SeededRandom::new(1)).await.unwrap();
    assert_eq!(found.folders[0].different.to_string(), "2:5", "verify says so without any body here");
    assert!(opened.read(1).await.unwrap() == bytes(1), "the connection is still usable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_mailbox_of_the_same_name_is_not_asked() {
    let world = Fixture::new(6).await;
    let opened = world.open(Some(0)).await;
    world.pulled(&opened).await;
    world.script.inbox(|inbox| inbox.uidvalidity = 8);
    assert!(opened.read(3).await.unwrap_err().contains("UIDVALIDITY"));
    let report = world.pulled(&opened).await;
    assert_eq!((report.of[0].lost, report.of[0].new), (6, 6), "reported at once, and fetched again");
    assert!(opened.read(3).await.unwrap() == bytes(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_readers_share_a_fetch_and_failures_are_retried() {
    let world = Fixture::new(3).await;
    let opened = world.open(Some(0)).await;
    world.pulled(&opened).await;
    let asked = world.script.asked("UID FETCH");
    for read in join_all((0..20).map(|_| opened.by_account(1))).await {
        assert!(read.unwrap() == bytes(1));
    }
    assert_eq!(world.script.asked("UID FETCH") - asked, 1);
    // The connection that was kept has ended meanwhile, and the next one is lost.
    world.script.change(|world| world.faults = vec![Fault::CutOnceAt(2)]);
    assert!(opened.by_account(2).await.unwrap() == bytes(2));
    world.script.change(|world| world.faults = vec![Fault::CutAt(3)]);
    assert_eq!(opened.by_account(3).await.unwrap_err().kind(), Kind::Retry);
    world.script.change(|world| world.faults.clear());
    assert!(opened.by_account(3).await.unwrap() == bytes(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_server_is_an_error_not_an_empty_body() {
    let world = Fixture::new(3).await;
    let opened = world.open(Some(0)).await;
    world.pulled(&opened).await;
    drop(opened);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let opened = world.open_at(None, Ok(Server { port: closed, ..world.script.server() })).await;
    assert_eq!(opened.by_account(1).await.unwrap_err().kind(), Kind::Retry);
    drop(opened);
    let opened = world.open_at(None, Err("no password is stored".into())).await;
    let error = opened.by_account(1).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Offloaded);
    assert!(error.to_string().contains("no password is stored"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_eviction_continues_next_time() {
    let world = Fixture::new(100).await;
    let opened = world.open(None).await;
    world.pulled(&opened).await;
    assert_eq!(opened.counts().await.without, 0);
    drop(opened);
    let opened = world.open(Some(0)).await;
    let evict_bodies = |dry_run, stop: bool| {
        let backup = opened.backup.clone();
        let inbox = [folder_name("INBOX")];
        spawn_blocking(move || {
            backup
                .evict_bodies(&EvictBodies {
                    in_step: &inbox,
                    dry_run,
                    stop: &|| stop,
                    ..EvictBodies::default()
                })
                .unwrap()
                .unwrap()
        })
    };
    let would = evict_bodies(true, false).await.unwrap();
    assert_eq!((would.now, would.without), (100, 0), "a dry run changes nothing");
    let some = evict_bodies(false, true).await.unwrap();
    assert_eq!((some.now, some.without), (limits::BODIES_TOGETHER as u64, limits::BODIES_TOGETHER as u64));
    assert_eq!(evict_bodies(false, false).await.unwrap().without, 100);
    // Headers, flags and sizes are unchanged.
    let backup = opened.backup.clone();
    let messages = spawn_blocking(move || {
        let folder = backup.open_to_read(&folder_name("INBOX")).unwrap();
        let all: Vec<_> = folder.messages().unwrap().map(|stored| stored.unwrap()).collect();
        let heads: Vec<Vec<u8>> = all.iter().map(|stored| folder.head(stored.uid, 1000).unwrap()).collect();
        all.into_iter().zip(heads).collect::<Vec<_>>()
    });
    for (stored, head) in messages.await.unwrap() {
        let whole = bytes(stored.uid);
        assert_eq!((stored.size, stored.flags.system), (whole.len() as u64, Flags::SEEN));
        assert!(whole.starts_with(&head) && head.ends_with(b"\r\n\r\n"));
    }
}
