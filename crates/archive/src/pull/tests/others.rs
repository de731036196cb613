//! Folders that cannot be stored, or not under their names, do not keep others from being pulled.

use std::io::Read;
use std::path::Path;

use tokio::task::spawn_blocking;

use super::copies::{BackupPlace, FORMATS, Format};
use super::memory::Memory;
use super::pulled::{options, pulled, pulled_into};
use super::server::{Box_, Fault, Script};
use super::whole::{QRESYNC, texts};
use crate::backup::format_tests::folder_name;

/// Names that a server may use, and that some format cannot store.
fn names() -> Vec<String> {
    let mut names: Vec<String> = [
        "Other Users",
        "Other Users/eve@example.org/Work",
        "../../outside",
        "a/../b",
        "./.",
        "sealpost.lock/x",
        "sealpost.source/x",
        "INBOX.mbox/x",
        "INBOX.sealpost/x",
        "INBOX.mbox.rewritten/x",
        "cur",
        "tmp/x",
        "work",
        "Work",
        "WORK",
        "a//b",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("n".repeat(900));
    names.push(["l"; 60].join("/"));
    names.push([":".repeat(45).as_str(); 20].join("/"));
    names
}

async fn subjects(place: &BackupPlace, name: String) -> Vec<String> {
    let backup = place.open().await;
    spawn_blocking(move || {
        let folder = backup.open_to_read(&folder_name(&name)).unwrap();
        let read = |uid| {
            let mut text = String::new();
            folder.read(uid).unwrap().read_to_string(&mut text).unwrap();
            text
        };
        folder.messages().unwrap().map(|stored| read(stored.unwrap().uid)).collect()
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_of_any_name_keep_their_name() {
    for format in FORMATS {
        let script = Script::start(Box_::with(1), QRESYNC, &[]).await;
        for name in names() {
            let mut mailbox = Box_::with(0);
            mailbox.add(Some(format!("Subject: {name}\r\n\r\n").into_bytes()));
            script.change(|world| drop(world.boxes.insert(name, mailbox)));
        }
        let place = BackupPlace::new(format);
        for _ in 0..2 {
            let report = pulled_into(&script, place.open().await, options()).await.unwrap();
            assert!(report.is_complete(), "{format:?} {:?}", report.of.iter().find(|f| f.error.is_some()));
            for name in names() {
                let wanted = format!("Subject: {name}\r\n\r\n");
                assert_eq!(subjects(&place, name).await, [wanted], "{format:?}");
            }
        }
        if format == Format::Sealed {
            let account = place.account().await;
            let state = account.state();
            let mailbox = state.mailbox_named("Other Users_/eve@example.org/Work");
            assert_eq!(mailbox.map(|mailbox| mailbox.all_rows().count()), Some(1));
            drop(state);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_lead_out_of_a_copy_are_not_followed() {
    for format in [Format::Mbox, Format::Maildir] {
        let outside = tempfile::tempdir().unwrap();
        let place = BackupPlace::new(format);
        let link = |at: &str, to: &Path| std::os::unix::fs::symlink(to, place.path().join(at)).unwrap();
        match format {
            Format::Mbox => link("Dir", outside.path()),
            _ => link(".Dir.a", outside.path()),
        }
        let script = Script::start(Box_::with(1), QRESYNC, &[]).await;
        script.change(|world| drop(world.boxes.insert("Dir/a".into(), Box_::with(2))));
        let report = pulled_into(&script, place.open().await, options()).await.unwrap();
        assert!(report.is_complete(), "{format:?} {report:?}");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0, "{format:?}");
        assert_eq!(subjects(&place, "Dir/a".into()).await.len(), 2);
        // The files themselves.
        let secret = outside.path().join("secret");
        std::fs::write(&secret, "Subject: secret\n\n").unwrap();
        let file = match format {
            Format::Mbox => place.path().join("INBOX.mbox"),
            _ => std::fs::read_dir(place.path().join("cur")).unwrap().next().unwrap().unwrap().path(),
        };
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&secret, &file).unwrap();
        let backup = place.open().await;
        let read = spawn_blocking(move || {
            let Ok(folder) = backup.open_to_read(&folder_name("INBOX")) else { return String::new() };
            let mut text = String::new();
            if let Ok(mut bytes) = folder.read(1) {
                let _ = bytes.read_to_string(&mut text);
            }
            text
        });
        assert!(!read.await.unwrap().contains("secret"), "{format:?}");
        let report = pulled_into(&script, place.open().await, options()).await;
        assert!(report.is_ok(), "{format:?}");
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "Subject: secret\n\n");
    }
}

#[tokio::test]
async fn a_refused_folder_does_not_stop_the_others() {
    for says in ["NO [NOPERM] not yours", "NO [UNAVAILABLE] try later", "BYE [NOPERM] go", "BYE later"] {
        let script = Script::start(Box_::with(3), QRESYNC, &[Fault::Selecting("Others", says)]).await;
        script.change(|world| {
            world.boxes.insert("Others".into(), Box_::with(9));
            world.boxes.insert("Work".into(), Box_::with(2));
        });
        let backup = Memory::default();
        let report = pulled(&script, &backup).await;
        let wrong: Vec<_> = report.of.iter().filter(|folder| folder.error.is_some()).collect();
        assert_eq!(wrong.len(), 1, "{says}: {report:?}");
        assert_eq!((&*wrong[0].name, report.is_complete()), ("Others", false));
        assert_eq!((backup.texts("INBOX"), backup.texts("Work")), (texts(1..=3), texts(1..=2)), "{says}");
    }
}
