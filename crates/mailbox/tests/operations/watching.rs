//! Observers of mailboxes: differences from their known state.

use sealpost_account::{Flags, SpecialUses, SystemFlags};
use sealpost_mailbox::ops;
use sealpost_mailbox::watch::{KnownMailboxes, MessagesChange, Observed, TooMany, TreeChange, WatchedShare};

use crate::fixture::Fixture;

/// Observes the mailboxes below a name, as long as they are few.
struct Below(&'static str);

impl Observed for Below {
    fn mailbox(&self, name: &str, _subscribed: bool) -> bool {
        name.starts_with(self.0)
    }

    fn subscription(&self, name: &str) -> bool {
        name.starts_with(self.0)
    }

    fn most(&self) -> usize {
        3
    }
}

async fn create(w: &Fixture, name: &str) {
    ops::create(w.sharing(&w.me), w.me.headroom, name, SpecialUses::default()).await.unwrap();
}

async fn rename(w: &Fixture, from: &str, to: &str) {
    ops::rename(w.user(&w.me), w.me.headroom, from, to).await.unwrap();
}

fn shown(change: &TreeChange) -> String {
    match change {
        TreeChange::Created(now) => format!("created {}", now.name),
        TreeChange::Renamed { was, now } => format!("renamed {} to {}", was.name, now.name),
        TreeChange::Messages { now, change: MessagesChange { counts, unseen, .. }, .. } => {
            format!("messages of {}: counts {counts}, unseen {unseen}", now.name)
        }
        TreeChange::Destroyed(was) => format!("destroyed {}", was.name),
        TreeChange::Subscription(name) => format!("subscription {name}"),
    }
}

fn update(w: &Fixture, known: &mut KnownMailboxes) -> Vec<String> {
    let changes = known.update(&w.me.account.state(), &Below("Lists")).unwrap();
    changes.iter().map(shown).collect()
}

#[tokio::test]
async fn changes_of_observed_mailboxes_are_reported_once() {
    let w = Fixture::new().await;
    create(&w, "Lists/one").await;
    let mut known = KnownMailboxes::new(&w.me.account.state(), &Below("Lists")).unwrap();
    assert_eq!(known.mailboxes().count(), 2);
    assert!(known.bytes() > 0);
    assert_eq!(update(&w, &mut known), [""; 0]);
    create(&w, "other").await;
    assert_eq!(update(&w, &mut known), [""; 0], "that is not observed");
    w.append(&w.me, "Lists/one", Flags::default()).await.unwrap();
    w.append(&w.me, "Lists/one", Flags::system(SystemFlags::SEEN)).await.unwrap();
    assert_eq!(update(&w, &mut known), ["messages of Lists/one: counts true, unseen true"]);
    w.append(&w.me, "Lists/one", Flags::system(SystemFlags::SEEN)).await.unwrap();
    assert_eq!(update(&w, &mut known), ["messages of Lists/one: counts true, unseen false"]);
    rename(&w, "Lists/one", "Lists/two").await;
    ops::subscribe(&w.me.account, "Lists/never", true).await.unwrap();
    assert_eq!(update(&w, &mut known), ["renamed Lists/one to Lists/two", "subscription Lists/never"]);
    rename(&w, "other", "Lists/other").await;
    assert_eq!(update(&w, &mut known), ["created Lists/other"], "new among those that are observed");
    ops::delete(w.user(&w.me), "Lists/two").await.unwrap();
    assert_eq!(update(&w, &mut known), ["destroyed Lists/two"]);
    rename(&w, "Lists/other", "other").await;
    assert_eq!(update(&w, &mut known), ["renamed Lists/other to other"]);
    ops::delete(w.user(&w.me), "other").await.unwrap();
    assert_eq!(update(&w, &mut known), [""; 0], "it was not observed any more");
}

#[tokio::test]
async fn too_many_observed_mailboxes_are_an_error() {
    let w = Fixture::new().await;
    create(&w, "Lists/one/two").await;
    let mut known = KnownMailboxes::new(&w.me.account.state(), &Below("Lists")).unwrap();
    create(&w, "Lists/three").await;
    assert_eq!(known.update(&w.me.account.state(), &Below("Lists")), Err(TooMany));
    assert_eq!(KnownMailboxes::new(&w.me.account.state(), &Below("Lists")).err(), Some(TooMany));
}

#[tokio::test]
async fn a_watched_share_reports_messages_and_rights() {
    let w = Fixture::new().await;
    create(&w, "Projects").await;
    w.grant("Projects", "lr").await;
    let (mailbox, name, link) = {
        let state = w.you.account.state();
        let (mailbox, link) = state.links().next().unwrap();
        (mailbox.id(), mailbox.name().to_owned(), link.clone())
    };
    let mut share = WatchedShare::open(w.user(&w.you), mailbox, name, &link).await.unwrap();
    assert_eq!(share.known().name, "Other Users/me@localhost/Projects");
    assert_eq!(share.update(w.user(&w.you)).await.unwrap(), None);
    w.append(&w.me, "Projects", Flags::default()).await.unwrap();
    assert!(share.watcher().has_changed());
    let change = share.update(w.user(&w.you)).await.unwrap().unwrap();
    let messages = MessagesChange { validity: false, counts: true, unseen: true, any: true };
    assert_eq!((change.messages, change.rights), (messages, change.rights_before));
    assert_eq!((change.position, change.metadata), (change.since.next(), Some(Vec::new())));
    w.grant("Projects", "l").await;
    let change = share.update(w.user(&w.you)).await.unwrap().unwrap();
    assert_eq!((change.rights_before.to_string(), change.rights.to_string()), ("lr".into(), "l".into()));
    assert_eq!(change.messages, MessagesChange::default());
    assert_eq!(share.update(w.user(&w.you)).await.unwrap(), None);
}
