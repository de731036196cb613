//! Makes the small store of a format: something of every kind that is stored, and hardly more.

use std::path::Path;
use std::time::Duration;

use sealpost_account::acl::Acl;
use sealpost_account::rights::Rights;
use sealpost_account::share::{self, About, Link};
use sealpost_account::{
    Account, Delivery, Event, FlagAction, Flags, NewMessage, SpecialUses, SystemFlags, Target, ops,
};
use sealpost_base::{AccountId, Timestamp, Uid, UidSet};
use sealpost_directory::{AccountName, Address, AliasName, NewAccount, Secret};
use sealpost_vault::{AccountKeys, RootKey};

use super::contents::{MADE, OpenStore, open};

/// Makes it in `data`; what opens it besides the password.
pub async fn store(data: &Path, password: &str) -> Vec<String> {
    std::fs::create_dir_all(data).unwrap();
    let open = open(data, MADE).await;
    let secret = || Secret::new(password.as_bytes()).unwrap();
    let names = ["jane@example.org", "joe@example.org"].map(|name| AccountName::parse(name).unwrap());
    let new = NewAccount { quota: Some(1 << 30), ..NewAccount::with_password(secret()) };
    let (jane, root) = open.directory.create(&names[0], new).await.unwrap();
    let (joe, _) = open.directory.create(&names[1], NewAccount::with_password(secret())).await.unwrap();
    let (_, token) = open.directory.add_app_password(&names[0], &root, "phone").await.unwrap();
    let recovery = open.directory.set_recovery(&names[0], &root).await.unwrap();
    let targets = names.each_ref().map(|name| Address::parse(name.as_str()).unwrap());
    open.directory.set_alias(&AliasName::parse("info@example.org").unwrap(), &targets).await.unwrap();

    let account = open.accounts.open(jane.id, &root).await.unwrap();
    fill(&open, &account).await;
    account.checkpoint().await.unwrap();
    share(&open, &account, joe.id).await;
    account.checkpoint().await.unwrap();
    deliver(&open, &account, "after", Delivery::to_inbox(open_now(&open))).await;
    drop((account, open));
    tidy(data);
    vec![token.to_string(), recovery.to_string()]
}

/// Takes the write-ahead log into the database: one file, and a small one.
fn tidy(data: &Path) {
    let database = data.join("objects.sqlite");
    let connection = rusqlite::Connection::open(&database).unwrap();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
    assert_eq!(busy, 0, "the store is still open");
    connection.close().unwrap();
    for beside in ["objects.sqlite-wal", "objects.sqlite-shm", "reserve"] {
        let _ = std::fs::remove_file(data.join(beside));
    }
}

fn open_now(open: &OpenStore) -> Timestamp {
    use sealpost_base::Clock;
    open.clock.advance(Duration::from_secs(61));
    open.clock.now()
}

fn mail(subject: &str, head: &str, body: &str) -> Vec<u8> {
    format!(
        "From: Ada <ada@example.com>\r\nTo: jane@example.org\r\nSubject: {subject}\r\n{head}\r\n{body}\r\n"
    )
    .into_bytes()
}

async fn deliver(open: &OpenStore, account: &Account, subject: &str, delivery: Delivery) {
    let mut ingest = open.accounts.ingest(account.id()).await.unwrap();
    ingest.write(&mail(subject, "", &format!("Body of {subject}."))).await.unwrap();
    let stored = ingest.finish_to_deliver().await.unwrap();
    open.accounts.deliver(account.id(), &account.public(), stored, delivery).await.unwrap();
    account.catch_up().await.unwrap();
}

async fn append(open: &OpenStore, account: &Account, mailbox: &str, message: &[u8], flags: Flags) {
    let mut ingest = account.ingest().await.unwrap();
    ingest.write(message).await.unwrap();
    let stored = ingest.finish().await.unwrap();
    let mailbox = account.state().mailbox_named(mailbox).unwrap().id();
    let new = NewMessage { stored, flags: flags.into(), received: open_now(open) };
    account.append(mailbox, vec![new]).await.unwrap();
}

async fn commit(account: &Account, events: Vec<Event>) {
    account.commit(|_| Ok((events.clone(), ()))).await.unwrap();
}

fn one(uid: u32) -> UidSet {
    let uid = Uid::new(uid).unwrap();
    UidSet::range(uid, uid)
}

/// Mailboxes, messages, flags, a thread, what is expunged, metadata.
async fn fill(open: &OpenStore, account: &Account) {
    for name in ["Work/2026", "Lists"] {
        account
            .commit(|state| Ok((ops::create_mailbox(state, name, SpecialUses::default())?, ())))
            .await
            .unwrap();
    }
    let level = account.state().mailbox_named("Work").unwrap().id();
    commit(account, vec![Event::MailboxDeleted { mailbox: level }]).await;
    deliver(open, account, "first", Delivery::to_inbox(open_now(open))).await;
    let filtered = Delivery {
        target: Some(Target::Named("Filtered/Entwu\u{308}rfe".to_owned())),
        flags: Flags { system: SystemFlags::FLAGGED, keywords: vec!["$Important".to_owned()] },
        create: true,
        ..Delivery::to_inbox(open_now(open))
    };
    deliver(open, account, "filtered", filtered).await;
    let seen = Flags { system: SystemFlags::SEEN, keywords: vec!["$Forwarded".to_owned(), "own".to_owned()] };
    let plan = mail("plan", "Message-ID: <a@x>\r\n", "The plan.");
    append(open, account, "INBOX", &plan, seen).await;
    let reply = mail("Re: plan", "Message-ID: <b@x>\r\nIn-Reply-To: <a@x>\r\n", "The reply.");
    append(open, account, "Sent", &reply, Flags::system(SystemFlags::SEEN)).await;
    let part = |kind: &str, body: &str| format!("--b\r\nContent-Type: {kind}\r\n\r\n{body}\r\n");
    let parts =
        [part("text/plain", "Gr=FC=DFe"), part("text/html", "<p>html</p>"), "--b--".to_owned()].concat();
    let mixed = mail("parts", "Content-Type: multipart/mixed; boundary=b\r\n", &parts);
    append(open, account, "Work/2026", &mixed, Flags::default()).await;
    // Larger than a chunk, and with an index; and so large that it is a file.
    let long = "All work and no play makes Jack a dull boy.\r\n".repeat(4_000);
    append(open, account, "Archive", &mail("long", "", &long), Flags::default()).await;
    let noise = "Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n";
    append(open, account, "Work/2026", &mail("large", noise, &base64_noise()), Flags::default()).await;
    for subject in ["gone", "moved"] {
        append(open, account, "Lists", &mail(subject, "", subject), Flags::default()).await;
    }
    let id = |name: &str| account.state().mailbox_named(name).unwrap().id();
    let (inbox, lists, archive) = (id("INBOX"), id("Lists"), id("Archive"));
    let flags = Flags { system: SystemFlags::ANSWERED, keywords: vec!["later".to_owned()] };
    commit(account, vec![Event::Copied { from: inbox, uids: one(2), to: archive }]).await;
    commit(account, vec![Event::Moved { from: lists, uids: one(2), to: archive }]).await;
    let stored = Event::FlagsStored {
        mailbox: inbox,
        uids: one(1),
        action: FlagAction::Add,
        flags,
        unchanged_since: None,
    };
    commit(account, vec![stored]).await;
    commit(account, vec![Event::Expunged { mailbox: lists, uids: one(1) }]).await;
    let comment = format!("meta/{:08x}/private/comment", archive.0);
    commit(account, vec![Event::ObjectPut { name: comment, value: b"old mail".to_vec() }]).await;
    commit(account, vec![Event::Subscribed { name: "nowhere".to_owned(), on: true }]).await;
}

/// Lines of base64 that compress to more than a row of the database holds.
fn base64_noise() -> String {
    let mut n = 1u64;
    let digit = std::iter::repeat_with(move || {
        n = n.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[(n >> 58) as usize])
    });
    let digits: Vec<char> = digit.take(90_000).collect();
    digits.chunks(72).map(|line| line.iter().collect::<String>() + "\r\n").collect()
}

/// A mailbox that is shared.
async fn share(open: &OpenStore, account: &Account, with: AccountId) {
    let link =
        Link { share: AccountId::random(&*open.random), root: RootKey::generate(&*open.random), owner: None };
    let public = AccountKeys::derive(&link.root, link.share).public();
    open.directory.record_share(account.id(), link.share, public).await.unwrap();
    let shared = open.accounts.open(link.share, &link.root).await.unwrap();
    let above = account.state().last_uid_validity();
    shared.commit(|state| Ok((vec![share::numbered_above(state, above)], ()))).await.unwrap();
    let noted = share::noted(&shared.state());
    commit(account, vec![noted, share::unlinked(&link)]).await;
    let mut acl = Acl::default();
    acl.set(with, "joe@example.org", false, |_| Rights::parse("lrs").unwrap()).unwrap();
    let (owner, owner_name) = (account.id(), "jane@example.org".to_owned());
    let about = About { owner, owner_name, name: "Archive".to_owned(), closed: false };
    let archive = account.state().mailbox_named("Archive").unwrap().id();
    account.move_into_share(archive, &shared, link, &about, &acl).await.unwrap();
    shared.checkpoint().await.unwrap();
}
