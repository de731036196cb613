//! Create, delete, rename, subscribe.

use sealpost_account::ops::NewMailbox;
use sealpost_account::{SpecialUse, SpecialUses};
use sealpost_base::{Kind, Position};
use sealpost_directory::{Quotas, Resource};
use sealpost_mailbox::quota_headroom::OverQuota;
use sealpost_mailbox::rights::Granted;
use sealpost_mailbox::{Access, Refusal, ops};

use crate::fixture::{Fixture, kind};

/// My mailbox as the other account sees it.
const THEIRS: &str = "Other Users/me@localhost/Projects";

async fn create(w: &Fixture, name: &str) -> ops::Created {
    ops::create(w.sharing(&w.me), w.me.headroom, name, SpecialUses::default()).await.unwrap()
}

async fn refused(w: &Fixture, name: &str, uses: SpecialUses) -> Refusal {
    ops::create(w.sharing(&w.me), w.me.headroom, name, uses).await.err().unwrap()
}

async fn rename(w: &Fixture, from: &str, to: &str) -> Result<Option<Position>, Refusal> {
    ops::rename(w.user(&w.me), w.me.headroom, from, to).await
}

#[tokio::test]
async fn create_makes_parents_and_moves_special_uses() {
    let w = Fixture::new().await;
    let uses: SpecialUses = [SpecialUse::Sent].into_iter().collect();
    let made = ops::create(w.sharing(&w.me), w.me.headroom, "Work/Sent mail/", uses).await.unwrap();
    assert!(made.not_shared.is_none());
    let state = w.me.account.state();
    assert_eq!(made.entry, Some(state.position()), "one entry");
    assert!(state.mailbox_named("Work").is_some());
    assert_eq!(state.mailbox_named("Work/Sent mail").unwrap().special_uses(), uses);
    assert!(state.mailbox_named("Sent").unwrap().special_uses().is_empty());
}

#[tokio::test]
async fn create_own_writes_all_properties_as_one_entry() {
    let w = Fixture::new().await;
    let new = NewMailbox { sort_order: 4, is_subscribed: Some(true), ..NewMailbox::default() };
    let create = |name| ops::create_own(w.sharing(&w.me), w.me.headroom, name, new);
    assert_eq!(kind(create("Other Users/you@localhost/x").await), Some(Kind::Denied));
    let made = create("Work").await.unwrap();
    let state = w.me.account.state();
    assert_eq!(made.entry, Some(state.position()));
    let work = state.mailbox_named("Work").unwrap().id();
    assert_eq!((state.sort_order(work), state.is_subscribed("Work")), (4, true));
}

#[tokio::test]
async fn create_refuses_and_changes_nothing() {
    let mut w = Fixture::new().await;
    let (before, held) = {
        let state = w.me.account.state();
        (state.position(), state.mailbox_count() as u64)
    };
    let uses: SpecialUses = [SpecialUse::Sent].into_iter().collect();
    let of_other = refused(&w, "Other Users/you@localhost/x", uses).await;
    assert!(matches!(of_other, Refusal::SpecialUseOfOther));
    let none = SpecialUses::default();
    assert_eq!(kind::<()>(Err(refused(&w, "INBOX", none).await)), Some(Kind::Conflict));
    assert_eq!(kind::<()>(Err(refused(&w, "Other Users/you@localhost/x", none).await)), Some(Kind::Denied));
    w.me.limit(Quotas { mailboxes: Some(held + 1), ..Quotas::default() });
    let over = refused(&w, "a/b", none).await;
    assert!(matches!(over, Refusal::OverQuota(OverQuota(Resource::Mailboxes))), "two are made");
    assert_eq!(w.me.account.state().position(), before);
}

#[tokio::test]
async fn a_mailbox_below_a_shared_one_is_shared_likewise() {
    let w = Fixture::new().await;
    create(&w, "Projects").await;
    assert_eq!(w.grant("Projects", "lr").await, Granted::Shared);
    assert!(create(&w, "Projects/One").await.not_shared.is_none());
    w.you.account.catch_up().await.unwrap();
    let found = w.resolve(&w.you, "Other Users/me@localhost/Projects/One").await;
    assert_eq!(found.rights.to_string(), "lr");
    assert_eq!(found.access, Access::Share { user: w.you.id(), owner: false });
}

#[tokio::test]
async fn create_below_anothers_mailbox_makes_one_of_theirs() {
    let w = Fixture::new().await;
    create(&w, "Projects").await;
    w.grant("Projects", "lr").await;
    let name = format!("{THEIRS}/Two");
    let create = || ops::create(w.sharing(&w.you), w.you.headroom, &name, SpecialUses::default());
    assert_eq!(kind(create().await), Some(Kind::Denied), "without the right to create");
    w.grant("Projects", "lrk").await;
    let made = create().await.unwrap();
    assert_eq!(made.entry, None, "nothing in the user's own log but a link");
    assert!(w.resolve(&w.you, &name).await.rights.to_string().starts_with("lr"));
    w.me.account.catch_up().await.unwrap();
    let mine = w.resolve(&w.me, "Projects/Two").await;
    assert_eq!(mine.access, Access::Share { user: w.me.id(), owner: true });
}

#[tokio::test]
async fn delete_removes_a_mailbox_and_leaves_those_below() {
    let w = Fixture::new().await;
    create(&w, "a/b").await;
    let deleted = ops::delete(w.user(&w.me), "a").await.unwrap();
    assert_eq!((deleted.name.as_deref(), deleted.entry), (Some("a"), Some(w.me.account.state().position())));
    assert!(deleted.account.state().mailbox(deleted.mailbox).is_none());
    let again = ops::delete(w.user(&w.me), "a").await.err().unwrap();
    assert!(matches!(again, Refusal::NonexistentParent));
    assert_eq!(kind(ops::delete(w.user(&w.me), "c").await), Some(Kind::NotFound));
    assert_eq!(kind(ops::delete(w.user(&w.me), "inbox").await), Some(Kind::Denied));
}

#[tokio::test]
async fn delete_without_the_right_removes_the_name_alone() {
    let w = Fixture::new().await;
    create(&w, "Projects").await;
    w.grant("Projects", "lr").await;
    let deleted = ops::delete(w.user(&w.you), THEIRS).await.unwrap();
    assert_eq!((deleted.name.as_deref(), deleted.entry), (Some(THEIRS), None));
    assert!(w.is_missing(&w.you, THEIRS).await);
    assert!(!w.is_missing(&w.me, "Projects").await);
}

#[tokio::test]
async fn delete_of_a_share_removes_it_for_every_user() {
    let w = Fixture::new().await;
    create(&w, "Projects").await;
    w.grant("Projects", "lrx").await;
    ops::delete(w.user(&w.you), THEIRS).await.unwrap();
    assert!(w.is_missing(&w.you, THEIRS).await);
    assert!(w.is_missing(&w.me, "Projects").await);
}

#[tokio::test]
async fn rename_includes_mailboxes_below_and_renames_shares() {
    let mut w = Fixture::new().await;
    create(&w, "Projects/One").await;
    w.grant("Projects", "lr").await;
    let entry = rename(&w, "Projects", "Plans").await.unwrap();
    assert!(entry.is_some());
    assert!(!w.is_missing(&w.me, "Plans/One").await && w.is_missing(&w.me, "Projects").await);
    assert!(!w.is_missing(&w.you, "Other Users/me@localhost/Plans").await);
    let held = w.me.account.state().mailbox_count() as u64;
    assert_eq!(kind(rename(&w, "Plans", "Plans/x").await), Some(Kind::Invalid));
    assert_eq!(kind(rename(&w, "none", "x").await), Some(Kind::NotFound));
    w.me.limit(Quotas { mailboxes: Some(held), ..Quotas::default() });
    let over = rename(&w, "Plans", "new/Plans").await.err().unwrap();
    assert!(matches!(over, Refusal::OverQuota(OverQuota(Resource::Mailboxes))));
}

#[tokio::test]
async fn a_subscription_is_an_entry_once() {
    let w = Fixture::new().await;
    let account = &w.me.account;
    assert!(ops::subscribe(account, "not there", true).await.unwrap().is_some());
    assert!(ops::subscribe(account, "not there", true).await.unwrap().is_none());
    assert!(account.state().is_subscribed("not there"));
    assert!(ops::subscribe(account, "not there", false).await.unwrap().is_some());
    assert_eq!(kind(ops::subscribe(account, "", true).await), Some(Kind::Invalid));
}
