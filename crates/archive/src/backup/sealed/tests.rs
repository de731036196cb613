//! The format over a store in memory: exactly once, whatever happens between two commits.

use sealpost_account::Accounts;
use sealpost_base::{AccountId, Budget, FakeClock, Random, SeededRandom, UidSet};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{RootKey, Store};
use tokio::runtime::Runtime;

use super::records::uid;
use super::*;
use crate::backup::Flags;
use crate::backup::format_tests::*;

const ID: AccountId = AccountId([3; 16]);
const INBOX: &str = "INBOX";

struct Fixture {
    runtime: Runtime,
    store: Store,
    random: Arc<SeededRandom>,
    root: RootKey,
    lock: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let random = Arc::new(SeededRandom::new(5));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let root = RootKey::generate(&*random);
        Fixture { runtime, store: Store::memory(), random, root, lock: tempfile::tempdir().unwrap() }
    }

    /// As another process would open it.
    fn account(&self) -> Arc<Account> {
        let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
        let random: Arc<dyn Random> = self.random.clone();
        self.runtime.block_on(async {
            let accounts =
                Accounts::new(self.store.clone(), LogKey::for_tests(), clock, random, Budget::new(64 << 20));
            accounts.open(ID, &self.root).await.unwrap()
        })
    }

    fn backup(&self) -> Box<dyn Backup> {
        open(self.runtime.handle().clone(), self.account(), self.lock.path()).unwrap()
    }
}

use sealpost_base::Timestamp;

/// The zone of INTERNALDATE is not kept.
fn in_utc(mails: &Mails) -> Mails {
    let utc = |mail: &Mail| Mail {
        date: mail.date.map(|date| sealpost_imap::types::DateTime::utc(date.timestamp())),
        ..mail.clone()
    };
    mails.iter().map(|(uid, mail)| (*uid, utc(mail))).collect()
}

#[test]
fn interrupted_backups_continue() {
    let world = Fixture::new();
    let mut mails: Mails = [2, 3, 9, 10].map(|uid| (uid, mail_of(&[b'x'; 100].repeat(uid as usize)))).into();
    {
        let backup = world.backup();
        let mut folder = backup.open(&folder_name(INBOX), &identity(7)).unwrap();
        mails.iter().for_each(|(uid, mail)| give(&mut *folder, *uid, mail, 64).unwrap());
        folder.commit(&resume(11)).unwrap();
        // Not committed.
        give(&mut *folder, 11, &mail("lost"), 9).unwrap();
        folder.flags(2, &Flags::default()).unwrap();
    }
    let backup = world.backup();
    assert!(
        open(world.runtime.handle().clone(), world.account(), world.lock.path()).is_err(),
        "it is locked"
    );
    assert_eq!((backup.folders().unwrap()[0].messages, backup.folders().unwrap()[0].resume), (4, resume(11)));
    let mut folder = backup.open(&folder_name(INBOX), &identity(7)).unwrap();
    assert_eq!(read_all(&*folder), in_utc(&mails));
    // A large one, a known one, flags of old and new messages, and removed messages.
    mails.insert(
        20,
        Mail {
            flags: Flags { labels: vec!["Ä b".into()], ..Flags::from_names(["\\X", "k"]) },
            ..mail_of(&b"0123456789abcdef".repeat(40_000))
        },
    );
    mails.insert(21, mail("new"));
    give(&mut *folder, 20, &mails[&20], 64 * 1024).unwrap();
    give(&mut *folder, 21, &mails[&21], 9).unwrap();
    give(&mut *folder, 3, &mail("other"), 9).unwrap();
    give(&mut *folder, 22, &mail("goes at once"), 9).unwrap();
    for uid in [9, 21] {
        mails.get_mut(&uid).unwrap().flags = Flags::from_names(["\\Flagged", "$Junk"]);
        folder.flags(uid, &mails[&uid].flags).unwrap();
    }
    for uid in [3, 22] {
        folder.remove(uid).unwrap();
        mails.remove(&uid);
    }
    folder.mark_deleted_upstream(10).unwrap();
    folder.commit(&resume(23)).unwrap();
    assert_eq!(read_all(&*folder), in_utc(&mails));
    folder.close().unwrap();
    let folder = backup.open_to_read(&folder_name(INBOX)).unwrap();
    assert_eq!(read_all(&*folder), in_utc(&mails));
    assert!(folder.known().is_deleted_upstream(10));
    assert_eq!((backup.folders().unwrap()[0].messages, backup.folders().unwrap()[0].gone), (4, 1));
}

#[test]
fn a_deleted_message_can_be_fetched_again_once() {
    let world = Fixture::new();
    let account = world.account();
    let backup = open(world.runtime.handle().clone(), account.clone(), world.lock.path()).unwrap();
    let mut folder = backup.open(&folder_name(INBOX), &identity(7)).unwrap();
    for uid in 1..=5 {
        give(&mut *folder, uid, &mail("x"), 9).unwrap();
    }
    folder.commit(&resume(6)).unwrap();
    drop(folder);
    let mailbox = account.state().inbox().id();
    let uids = UidSet::range(uid(2), uid(3));
    let decide = |_: &AccountState| Ok((vec![Event::Expunged { mailbox, uids: uids.clone() }], ()));
    world.runtime.block_on(account.commit(decide)).unwrap();
    let mut folder = backup.open(&folder_name(INBOX), &identity(7)).unwrap();
    assert_eq!(folder.known().uids().to_string(), "1,4:5");
    give(&mut *folder, 2, &mail("x"), 9).unwrap();
    folder.commit(&resume(6)).unwrap();
    drop(folder);
    let folder = backup.open(&folder_name(INBOX), &identity(7)).unwrap();
    assert_eq!(read_all(&*folder).keys().copied().collect::<Vec<_>>(), [1, 2, 4, 5]);
    assert_eq!(account.state().inbox().len(), 4);
}

#[test]
fn a_commit_is_one_entry() {
    let world = Fixture::new();
    let account = world.account();
    let backup = open(world.runtime.handle().clone(), account.clone(), world.lock.path()).unwrap();
    let mut folder = backup.open(&folder_name("a.b"), &identity(7)).unwrap();
    let before = account.state().position();
    for uid in 1..=300 {
        give(&mut *folder, uid, &mail("x"), 9).unwrap();
    }
    folder.commit(&resume(301)).unwrap();
    assert_eq!(account.state().position().0, before.0 + 1);
    folder.commit(&resume(301)).unwrap();
    assert_eq!(account.state().position().0, before.0 + 1, "nothing new");
}

#[test]
fn swapped_names_are_recognized() {
    let world = Fixture::new();
    crate::backup::format_tests::swapped_names_are_recognized(|| world.backup());
}

#[test]
fn another_uidvalidity_puts_aside_and_a_mailboxid_renames() {
    let world = Fixture::new();
    let account = world.account();
    let backup = open(world.runtime.handle().clone(), account.clone(), world.lock.path()).unwrap();
    let server = |uidvalidity, id: &str| Identity { uidvalidity, mailboxid: Some(id.into()) };
    for (name, id) in [(INBOX, "F1"), ("a", "F2")] {
        let mut folder = backup.open(&folder_name(name), &server(7, id)).unwrap();
        give(&mut *folder, 1, &mail(name), 9).unwrap();
        folder.commit(&resume(2)).unwrap();
    }
    let mut folder = backup.open(&folder_name(INBOX), &server(8, "F3")).unwrap();
    assert!(folder.known().uids().is_empty());
    assert!(
        folder.notices().iter().any(|notice| notice.contains("7 became 8") && notice.contains(" INBOX-7;"))
    );
    drop(folder);
    assert_eq!(account.state().mailbox_named("INBOX-7").unwrap().len(), 1);
    let folder = backup.open(&folder_name("b/c"), &server(7, "F2")).unwrap();
    assert_eq!(read_all(&*folder).len(), 1);
    assert!(account.state().mailbox_named("b/c").is_some() && account.state().mailbox_named("a").is_none());
    drop(folder);
    assert_eq!(backup.folders().unwrap().len(), 2);
}

#[test]
fn names_never_share_mailboxes() {
    let world = Fixture::new();
    let backup = world.backup();
    let names =
        [("a/b", '/'), ("a.b", '.'), ("a/b", '.'), ("/", '/'), ("..", '/'), ("x\0y", '/'), ("inbox", '/')];
    let mut seen = std::collections::BTreeSet::new();
    for ((name, delimiter), uid) in names.iter().zip(1..) {
        let name = FolderName::new(*name, Some(*delimiter));
        let mut folder = backup.open(&name, &identity(7)).unwrap();
        if seen.insert(name.as_str().to_owned()) {
            give(&mut *folder, uid, &mail("x"), 9).unwrap();
            folder.commit(&resume(uid + 1)).unwrap();
        }
        assert_eq!(folder.known().uids().len(), 1, "{name}");
    }
    let long = FolderName::new("x".repeat(3000), None);
    backup.open(&long, &identity(7)).unwrap();
}

#[test]
fn dates_are_kept_whatever_they_are() {
    let world = Fixture::new();
    dates_are_kept(|| world.backup());
}

#[test]
fn damaged_messages_are_replaced() {
    let world = Fixture::new();
    messages_are_replaced(|| world.backup());
}

#[test]
fn the_account_of_a_backup_is_recorded() {
    let world = Fixture::new();
    let source = crate::backup::Source { host: "imap.example.org".into(), user: "jane".into() };
    assert_eq!(world.backup().source().unwrap(), None);
    world.backup().set_source(&source).unwrap();
    assert_eq!(world.backup().source().unwrap(), Some(source));
    assert!(world.backup().folders().unwrap().is_empty());
}

#[test]
fn superseded_folders_are_read() {
    let world = Fixture::new();
    crate::backup::format_tests::superseded_folders_are_read(|| world.backup());
}

#[test]
fn messages_get_other_uids() {
    let world = Fixture::new();
    crate::backup::format_tests::messages_get_other_uids(|| world.backup());
}
