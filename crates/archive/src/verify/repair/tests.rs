//! Backups of every format are damaged and repaired, from scripted servers.

use std::fs;
use std::io::Read;
use std::path::Path;

use sealpost_base::{Kind, SeededRandom};
use sealpost_vault::message;
use tokio::task::spawn_blocking;

use super::*;
use crate::backup::Stored;
use crate::backup::format_tests::folder_name;
use crate::pull::tests::copies::{BackupPlace, FORMATS, Format, ID};
use crate::pull::tests::pulled::{options, pulled_into, tools};
use crate::pull::tests::server::{Box_, Fault, Script, text};
use crate::verify::verify;

const CONDSTORE: &str = "ENABLE CONDSTORE QRESYNC ESEARCH LIST-STATUS";

struct Fixture {
    place: BackupPlace,
    script: Script,
}

impl Fixture {
    /// A server of 50 messages, and a backup.
    async fn new(format: Format, capabilities: &str) -> Self {
        let mut inbox = Box_::with(50);
        inbox.set_flags(7, "\\Flagged work");
        let script = Script::start(inbox, capabilities, &[]).await;
        let world = Fixture { place: BackupPlace::new(format), script };
        let report = pulled_into(&world.script, world.open().await, options()).await.unwrap();
        assert!(report.is_complete(), "{report:?}");
        world
    }

    /// As another process would open it.
    async fn open(&self) -> Arc<dyn Backup> {
        self.place.open().await
    }

    /// Replaces the bytes of message `uid`.
    async fn damage(&self, uid: u32) {
        match self.place.format {
            Format::Mbox => replace(&self.place.path().join("INBOX.mbox"), uid),
            Format::Maildir => {
                let cur = self.place.path().join("cur");
                let mut files = fs::read_dir(cur).unwrap().map(|entry| entry.unwrap().path());
                let name = format!("V7U{uid}.");
                replace(&files.find(|path| path.to_str().unwrap().contains(&name)).unwrap(), uid);
            }
            Format::Sealed => {
                let account = self.place.account().await;
                let object = |nth: u32| account.state().messages().nth(nth as usize - 1).unwrap().1.object;
                let (path, other) = (message::path(ID, object(uid)), message::path(ID, object(uid + 1)));
                self.place.store.delete(&path).await.unwrap();
                self.place.store.put_again(&other, &path).await.unwrap();
            }
        }
    }

    fn verifying() -> Options {
        Options::all()
    }

    async fn verified(&self) -> Report {
        let backup = self.open().await;
        verify(&self.script.server(), backup, &Self::verifying(), &SeededRandom::new(1)).await.unwrap()
    }

    async fn repaired(&self) -> FolderReport {
        let (found, (_stop, tools)) = (self.verified().await, tools());
        let (server, backup) = (self.script.server(), self.open().await);
        let report = repair(&server, backup, &Self::verifying(), 2, &tools, found).await.unwrap();
        assert_eq!(report.folders.len(), 1);
        report.folders.into_iter().next().unwrap()
    }

    /// The backup's data about a message, and its bytes.
    async fn message(&self, uid: u32) -> (Stored, Result<String, String>) {
        let backup = self.open().await;
        let read = move || {
            let folder = backup.open_to_read(&folder_name("INBOX")).unwrap();
            let found: Vec<_> =
                folder.messages().unwrap().filter_map(Result::ok).filter(|m| m.uid == uid).collect();
            assert_eq!(found.len(), 1);
            let mut bytes = Vec::new();
            let read = folder.read(uid).unwrap().read_to_end(&mut bytes).map_err(|e| e.to_string());
            let read = read.map(|_| String::from_utf8_lossy(&bytes).into_owned());
            (found.into_iter().next().unwrap(), read)
        };
        spawn_blocking(read).await.unwrap()
    }
}

fn replace(path: &Path, uid: u32) {
    let bytes = fs::read(path).unwrap();
    let subject = format!("message {uid}\n");
    let at = bytes.windows(subject.len()).position(|bytes| bytes == subject.as_bytes()).unwrap();
    let mut bytes = bytes;
    bytes[at + 1] ^= 4;
    fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_messages_on_the_server_are_repaired() {
    for (format, capabilities) in FORMATS.iter().flat_map(|format| [(*format, ""), (*format, CONDSTORE)]) {
        let world = Fixture::new(format, capabilities).await;
        let before = world.message(7).await.0;
        world.damage(7).await;
        world.damage(9).await;
        world.script.inbox(|inbox| {
            inbox.expunge(9);
            inbox.messages.get_mut(&20).unwrap().1 = b"Subject: another\r\n\r\n".to_vec();
        });
        let found = world.verified().await.folders.into_iter().next().unwrap();
        assert_eq!(found.damaged_uids.to_string(), "7,9", "{format:?}");
        assert!(found.missing.is_empty(), "{format:?} {found:?}");
        assert_eq!(found.to_fetch().to_string(), "7,20", "{format:?}");
        let report = world.repaired().await;
        assert_eq!(report.repaired.to_string(), "7,20", "{format:?} {capabilities} {report:?}");
        assert_eq!((report.beyond_repair.to_string(), report.is_good()), ("9".into(), false));
        assert!(report.to_fetch().is_empty() && report.damaged.len() == 1, "{report:?}");
        let (stored, bytes) = world.message(7).await;
        assert_eq!(bytes.unwrap(), text(7), "{format:?}");
        assert_eq!((&stored.flags, stored.internaldate), (&before.flags, before.internaldate));
        assert_eq!(world.message(20).await.1.unwrap(), "Subject: another\r\n\r\n");
        // It is still there, unchanged.
        assert!(world.message(9).await.1.is_err(), "{format:?}");
        let again = world.repaired().await;
        assert_eq!((again.repaired.len(), again.beyond_repair.len(), again.kept), (0, 1, 49), "{again:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unfetchable_message_is_kept_until_it_is_repaired() {
    for format in FORMATS {
        let world = Fixture::new(format, CONDSTORE).await;
        world.damage(7).await;
        world.script.inbox(|inbox| inbox.messages.get_mut(&20).unwrap().1[0] ^= 1);
        let found = world.verified().await;
        world.script.change(|world| world.faults = vec![Fault::CutAt(20)]);
        let (_stop, tools) = tools();
        let (server, backup) = (world.script.server(), world.open().await);
        let report = repair(&server, backup, &Fixture::verifying(), 1, &tools, found).await.unwrap();
        let report = &report.folders[0];
        assert!(!report.is_good() && report.repaired.to_string() == "7", "{format:?} {report:?}");
        assert_eq!(world.message(20).await.1.unwrap(), text(20));
        world.script.change(|world| world.faults.clear());
        let report = world.repaired().await;
        assert_eq!((report.repaired.to_string(), report.is_good()), ("20".into(), true), "{report:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_in_a_folder_gone_upstream_is_reported() {
    for format in FORMATS {
        let world = Fixture::new(format, CONDSTORE).await;
        world.script.change(|world| {
            world.boxes.clear();
            world.boxes.insert("Other".into(), Box_::with(3));
        });
        let folders = world.verified().await.folders;
        let [_, gone] = &folders[..] else { panic!("{folders:?}") };
        assert_eq!(
            (&*gone.name, gone.kept, gone.gone, gone.is_good()),
            ("INBOX", 50, 50, true),
            "{format:?}"
        );
        world.damage(7).await;
        let (found, (_stop, tools)) = (world.verified().await, tools());
        let backup = world.open().await;
        let report =
            repair(&world.script.server(), backup, &Fixture::verifying(), 1, &tools, found).await.unwrap();
        let [other, gone] = &report.folders[..] else { panic!("{report:?}") };
        assert_eq!(
            (&*other.name, other.repaired.to_string(), other.is_good()),
            ("Other", "1:3".into(), true)
        );
        assert_eq!((gone.kept, gone.beyond_repair.to_string()), (49, "7".into()), "{format:?} {gone:?}");
        assert!(!gone.is_good() && world.message(7).await.1.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uncompared_messages_are_not_reported_as_good() {
    for format in FORMATS {
        let world = Fixture::new(format, CONDSTORE).await;
        world.damage(7).await;
        world.script.change(|world| world.faults = vec![Fault::CutAt(20)]);
        let report = world.repaired().await;
        assert_eq!(report.repaired.to_string(), "7", "{format:?} {report:?}");
        assert!(!report.is_good() && report.error.as_ref().unwrap().contains("20"), "{format:?} {report:?}");
        world.script.change(|world| world.faults.clear());
        assert!(world.repaired().await.is_good());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_repair_continues_next_time() {
    let world = Fixture::new(Format::Maildir, CONDSTORE).await;
    world.damage(7).await;
    let (found, (stop, tools)) = (world.verified().await, tools());
    stop.send_replace(true);
    let (server, backup) = (world.script.server(), world.open().await);
    let stopped = repair(&server, backup, &Fixture::verifying(), 1, &tools, found).await;
    assert_eq!(stopped.unwrap_err().kind(), Kind::Retry);
    assert!(world.message(7).await.1.is_err());
    assert!(world.repaired().await.is_good());
}
