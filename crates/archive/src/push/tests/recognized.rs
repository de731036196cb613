//! Messages that the destination has already are recognized, and no others.

use std::sync::Arc;

use tokio::sync::watch;

use super::super::{FolderReport, Observer, Options, Put, UidMap, restore};
use super::{Nobody, bytes, counts, options};
use crate::backup::format_tests::{folder_name, give, identity, mail, resume};
use crate::backup::{Backup, imap_backup};
use crate::pull::tests::pulled::copy_of;
use crate::pull::tests::server::{Box_, Fault, Script};

#[tokio::test]
async fn a_message_id_is_found_anywhere_in_the_header() {
    let directory = tempfile::tempdir().unwrap();
    let backup: Arc<dyn Backup> = imap_backup::open(directory.path()).unwrap().into();
    let many = "a@example.org,\r\n ".repeat(20_000);
    let messages = [
        "Subject: folded\r\n \r\n here\r\nMessage-ID: <1@x>\r\n\r\ntext".to_owned(),
        format!("To: {many}b@example.org\r\nMessage-ID: <2@x>\r\n\r\ntext"),
    ];
    let mut inbox = Box_::with(0);
    let mut folder = backup.open(&folder_name("INBOX"), &identity(7)).unwrap();
    for (uid, message) in (1..).zip(&messages) {
        give(&mut *folder, uid, &mail(message), 4000).unwrap();
        inbox.add(Some(message.clone().into_bytes()));
    }
    folder.commit(&resume(3)).unwrap();
    drop(folder);
    let to = Script::start(inbox, "LITERAL+", &[]).await;
    let (_stop, watched) = watch::channel(false);
    let report = restore(backup, &to.server(), &options(&watched), Arc::new(Nobody)).await.unwrap();
    assert_eq!(counts(&report), (0, 2, 0), "{report:?}");
}

/// Both versions of a draft have one Message-ID. The first one is gone from the server.
#[tokio::test]
async fn the_version_that_is_missing_is_put_back() {
    let draft = |text: &str| Some(format!("Message-ID: <draft@x>\r\n\r\n{text}").into_bytes());
    let mut inbox = Box_::with(0);
    inbox.add(draft("the first version"));
    inbox.add(draft("the second version, which is longer"));
    let script = Script::start(inbox, "LITERAL+", &[]).await;
    let backup: Arc<dyn Backup> = Arc::new(copy_of(&script).await);
    script.inbox(|inbox| inbox.expunge(1));
    let (_stop, watched) = watch::channel(false);
    for put in [1, 0] {
        let report =
            restore(backup.clone(), &script.server(), &options(&watched), Arc::new(Nobody)).await.unwrap();
        assert_eq!(counts(&report), (put, 2 - put, 0), "{report:?}");
        let there: Vec<_> = bytes(&script, "INBOX").into_iter().map(|(_, bytes)| Some(bytes)).collect();
        assert_eq!(there, [draft("the second version, which is longer"), draft("the first version")]);
    }
}

/// The map lists other messages: UIDs were assigned again, or it is of another account.
#[tokio::test]
async fn the_map_of_other_messages_keeps_none_away() {
    let message = |name: &str| Some(format!("Message-ID: <{name}@x>\r\n\r\ntext").into_bytes());
    let mut inbox = Box_::with(0);
    inbox.add(message("new"));
    let from = Script::start(inbox, "", &[]).await;
    let backup: Arc<dyn Backup> = Arc::new(copy_of(&from).await);
    let mut inbox = Box_::with(0);
    inbox.add(message("old"));
    let to = Script::start(inbox, "LITERAL+", &[]).await;
    let (_stop, watched) = watch::channel(false);
    let mut map = UidMap::default();
    map.put("INBOX", "INBOX", Put { uidvalidity: 7, uid: 1, there: (7, 1) });
    let options = options(&watched);
    *options.map.lock().unwrap() = map;
    let report = restore(backup, &to.server(), &options, Arc::new(Nobody)).await.unwrap();
    assert_eq!(counts(&report), (1, 0, 0), "{report:?}");
    assert_eq!(bytes(&to, "INBOX").len(), 2);
}

/// The destination accepts no name with a dot; without it, the name is another folder's.
#[tokio::test]
async fn two_folders_do_not_become_one() {
    let message = |name: &str| Some(format!("Message-ID: <same@x>\r\n\r\n{name}").into_bytes());
    let from = Script::start(Box_::with(0), "", &[]).await;
    for name in ["a.b", "a_b"] {
        let mut mailbox = Box_::with(0);
        mailbox.add(message(name));
        from.change(|world| drop(world.boxes.insert(name.into(), mailbox)));
    }
    let backup: Arc<dyn Backup> = Arc::new(copy_of(&from).await);
    let to = Script::start(Box_::with(0), "LITERAL+", &[Fault::NoDots]).await;
    let (_stop, watched) = watch::channel(false);
    for _ in 0..2 {
        let options = options(&watched);
        let report = restore(backup.clone(), &to.server(), &options, Arc::new(Nobody)).await.unwrap();
        let error = |name: &str| report.folders.iter().find(|f| f.name == name).unwrap().error.clone();
        assert!(error("a.b").unwrap().contains("a_b has the same name at the destination"), "{report:?}");
        assert_eq!(error("a_b"), None);
        let there: Vec<_> = bytes(&to, "a_b").into_iter().map(|(_, bytes)| Some(bytes)).collect();
        assert_eq!(there, [message("a_b")]);
    }
}

#[derive(Default)]
struct Notes(std::sync::Mutex<Vec<String>>);

impl Observer for Notes {
    fn begins(&self, _: &str, _: u64) {}
    fn put(&self) {}
    fn waits(&self, _: &str) {}
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
    fn ended(&self, _: &FolderReport) {}
}

/// The destination separates levels by dots: `a.b` can only be `a_b` there, which is another
/// folder's name.
#[tokio::test]
async fn fitting_names_win_and_other_names_are_reported() {
    let from = Script::start(Box_::with(1), "", &[]).await;
    from.change(|world| {
        for (n, name) in [(2, "a.b"), (3, "a_b"), (4, "book.club"), (5, "x/y")] {
            world.boxes.insert(name.into(), Box_::with(n));
        }
    });
    let backup: Arc<dyn Backup> = Arc::new(copy_of(&from).await);
    for dry_run in [true, false] {
        let to = Script::start(Box_::with(0), "LITERAL+", &[Fault::Dots]).await;
        let (_stop, watched) = watch::channel(false);
        let (options, notes) = (Options { dry_run, ..options(&watched) }, Arc::new(Notes::default()));
        let report = restore(backup.clone(), &to.server(), &options, notes.clone()).await.unwrap();
        let of = |name: &str| report.folders.iter().find(|folder| folder.name == name).unwrap();
        assert_eq!(
            (of("a_b").put, of("a.b").put, of("book.club").put, of("x/y").put),
            (3, 0, 4, 5),
            "{report:?}"
        );
        assert!(
            of("a.b").error.as_deref().unwrap().contains("a_b has the same name at the destination"),
            "{report:?}"
        );
        assert_eq!(
            (of("book.club").to.as_deref(), of("x/y").to.as_deref()),
            (Some("book_club"), Some("x.y"))
        );
        let told = ["book.club is called book_club at the destination, where `.` separates levels"];
        assert_eq!(*notes.0.lock().unwrap(), told, "a name that differs only in its separator is the same");
    }
}

/// Each of the names is refused, and their replacements are equal.
#[tokio::test]
async fn two_names_that_are_refused_do_not_become_one() {
    let from = Script::start(Box_::with(0), "", &[]).await;
    from.change(|world| {
        world.boxes.insert("a.b.c".into(), Box_::with(2));
        world.boxes.insert("a.b~c".into(), Box_::with(3));
    });
    let backup: Arc<dyn Backup> = Arc::new(copy_of(&from).await);
    let to = Script::start(Box_::with(0), "LITERAL+", &[Fault::NoDots]).await;
    let (_stop, watched) = watch::channel(false);
    let report = restore(backup, &to.server(), &options(&watched), Arc::new(Nobody)).await.unwrap();
    let puts: Vec<_> = report.folders.iter().map(|folder| (folder.put, folder.error.is_some())).collect();
    assert_eq!(puts, [(0, false), (2, false), (0, true)], "{report:?}");
    assert_eq!(bytes(&to, "a_b_c").len(), 2);
}
