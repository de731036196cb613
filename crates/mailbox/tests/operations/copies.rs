//! Copies and moves, within a log and between two.

use sealpost_account::{Flags, SpecialUses, SystemFlags};
use sealpost_base::{Kind as ErrorKind, Position};
use sealpost_directory::{Quotas, Resource};
use sealpost_mailbox::copy::{Copied, Kind, within_log};
use sealpost_mailbox::cross_account_copy::CrossAccountCopy;
use sealpost_mailbox::quota_headroom::OverQuota;
use sealpost_mailbox::{Refusal, ops};
use sealpost_vault::message;

use crate::fixture::{Fixture, Member, kind, uids};

const THEIRS: &str = "Other Users/me@localhost/Projects";

async fn shared(rights: &str) -> Fixture {
    let w = Fixture::new().await;
    ops::create(w.sharing(&w.me), w.me.headroom, "Projects", SpecialUses::default()).await.unwrap();
    w.grant("Projects", rights).await;
    w
}

async fn with_messages(count: usize) -> Fixture {
    let w = Fixture::new().await;
    for _ in 0..count {
        w.append(&w.me, "INBOX", flagged()).await.unwrap();
    }
    w
}

fn flagged() -> Flags {
    Flags::system(SystemFlags::SEEN.with(SystemFlags::FLAGGED))
}

/// Copies within my log, all of the messages or none.
async fn copy(w: &Fixture, which: &[u32], to: &str, kind: Kind) -> Result<Option<Copied>, Refusal> {
    let (source, to) = (w.open(&w.me, "INBOX").await, w.resolve(&w.me, to).await);
    within_log(w.quota(&w.me), &source, &uids(which), true, &to, kind).await
}

/// Copies from one log to another; returns the messages, and the entry that expunged the originals.
async fn across(
    w: &Fixture,
    of: &Member,
    (from, which): (&str, &[u32]),
    to: &str,
    kind: Kind,
) -> Result<Option<(Copied, Option<Position>)>, Refusal> {
    let (source, to) = (w.open(of, from).await, w.resolve(of, to).await);
    let copy = CrossAccountCopy::begin(w.quota(of), source, &uids(which), true, &to, kind).await?;
    let Some(mut copy) = copy else { return Ok(None) };
    assert_eq!((copy.sealed(), copy.len()), (0, which.len()));
    while copy.seal_next(&w.accounts).await? {}
    assert_eq!(copy.sealed(), which.len());
    let placed = copy.place(w.quota(of)).await?;
    let expunged = placed.expunge().await?;
    Ok(Some((placed.copied, expunged)))
}

#[tokio::test]
async fn a_copy_within_a_log_is_one_entry() {
    let w = with_messages(3).await;
    let before = w.me.account.state().position();
    let copied = copy(&w, &[1, 3], "Drafts", Kind::Copy).await.unwrap().unwrap();
    assert_eq!((copied.from, copied.uids, copied.entry), (uids(&[1, 3]), uids(&[1, 2]), Some(before.next())));
    assert_eq!(w.uids(&w.me, "INBOX").await, [1, 2, 3]);
    let moved = copy(&w, &[2], "Drafts", Kind::Move).await.unwrap().unwrap();
    assert_eq!((moved.from, moved.uids), (uids(&[2]), uids(&[3])));
    assert_eq!(w.uids(&w.me, "INBOX").await, [1, 3]);
}

#[tokio::test]
async fn an_expunged_message_refuses_all_or_is_left_out() {
    let w = with_messages(2).await;
    let gone = copy(&w, &[1, 2, 3], "Drafts", Kind::Copy).await;
    assert!(matches!(gone, Err(Refusal::MessagesGone)));
    let (source, to) = (w.open(&w.me, "INBOX").await, w.resolve(&w.me, "Drafts").await);
    let some = within_log(w.quota(&w.me), &source, &uids(&[2, 3]), false, &to, Kind::Copy).await;
    assert_eq!(some.unwrap().unwrap().from, uids(&[2]));
    let none = within_log(w.quota(&w.me), &source, &uids(&[3]), false, &to, Kind::Copy).await;
    assert!(none.unwrap().is_none());
}

#[tokio::test]
async fn copies_count_for_the_quota_and_moves_do_not() {
    let mut w = with_messages(2).await;
    w.me.limit(Quotas { messages: Some(3), ..Quotas::default() });
    let over = copy(&w, &[1, 2], "Drafts", Kind::Copy).await;
    assert!(matches!(over, Err(Refusal::OverQuota(OverQuota(Resource::Messages)))));
    assert!(copy(&w, &[1, 2], "Drafts", Kind::Move).await.unwrap().is_some());
}

#[tokio::test]
async fn a_target_that_was_deleted_takes_no_copies() {
    let w = with_messages(1).await;
    let (source, to) = (w.open(&w.me, "INBOX").await, w.resolve(&w.me, "Drafts").await);
    ops::delete(w.user(&w.me), "Drafts").await.unwrap();
    let refused = within_log(w.quota(&w.me), &source, &uids(&[1]), true, &to, Kind::Move).await;
    assert!(matches!(refused, Err(Refusal::NoTarget)));
    assert_eq!(w.uids(&w.me, "INBOX").await, [1]);
}

#[tokio::test]
async fn a_move_between_logs_leaves_messages_in_one_place() {
    let w = shared("lrite").await;
    for _ in 0..3 {
        w.append(&w.you, "INBOX", flagged()).await.unwrap();
    }
    let (copied, expunged) =
        across(&w, &w.you, ("INBOX", &[1, 2]), THEIRS, Kind::Move).await.unwrap().unwrap();
    assert_eq!((copied.from, copied.uids), (uids(&[1, 2]), uids(&[1, 2])));
    assert_eq!(expunged, Some(w.you.account.state().position()));
    assert_eq!(w.uids(&w.you, "INBOX").await, [3]);
    let share = w.resolve(&w.you, THEIRS).await;
    {
        let state = share.account.state();
        let row = state.inbox().all_rows().next().unwrap();
        assert_eq!(state.flags_by_name(row.flags), Flags::default(), "neither of them may be set there");
    }
    let (copied, expunged) = across(&w, &w.you, (THEIRS, &[1]), "INBOX", Kind::Copy).await.unwrap().unwrap();
    assert_eq!((copied.uids, expunged), (uids(&[4]), None));
    assert_eq!(w.uids(&w.you, THEIRS).await, [1, 2]);
}

#[tokio::test]
async fn a_move_to_a_share_of_ones_own_adds_nothing() {
    let mut w = shared("lr").await;
    w.append(&w.me, "INBOX", flagged()).await.unwrap();
    w.me.limit(Quotas { messages: Some(1), ..Quotas::default() });
    let over = across(&w, &w.me, ("INBOX", &[1]), "Projects", Kind::Copy).await;
    assert!(matches!(over, Err(Refusal::OverQuota(OverQuota(Resource::Messages)))));
    assert!(across(&w, &w.me, ("INBOX", &[1]), "Projects", Kind::Move).await.unwrap().is_some());
}

#[tokio::test]
async fn a_right_revoked_while_sealing_places_nothing() {
    let w = shared("lri").await;
    w.append(&w.you, "INBOX", flagged()).await.unwrap();
    let (source, to) = (w.open(&w.you, "INBOX").await, w.resolve(&w.you, THEIRS).await);
    let one = uids(&[1]);
    let copy = CrossAccountCopy::begin(w.quota(&w.you), source, &one, true, &to, Kind::Move);
    let mut copy = copy.await.unwrap().unwrap();
    while copy.seal_next(&w.accounts).await.unwrap() {}
    w.grant("Projects", "lr").await;
    assert!(matches!(copy.place(w.quota(&w.you)).await, Err(Refusal::NoTarget)));
    assert_eq!(w.uids(&w.you, "INBOX").await, [1]);
    assert!(w.uids(&w.me, "Projects").await.is_empty());
}

#[tokio::test]
async fn a_move_that_may_not_expunge_any_more_leaves_both() {
    let w = shared("lrite").await;
    w.append(&w.me, "Projects", flagged()).await.unwrap();
    let (source, to) = (w.open(&w.you, THEIRS).await, w.resolve(&w.you, "INBOX").await);
    let one = uids(&[1]);
    let copy = CrossAccountCopy::begin(w.quota(&w.you), source, &one, true, &to, Kind::Move);
    let mut copy = copy.await.unwrap().unwrap();
    while copy.seal_next(&w.accounts).await.unwrap() {}
    let placed = copy.place(w.quota(&w.you)).await.unwrap();
    w.grant("Projects", "lr").await;
    let refused = placed.expunge().await.err().unwrap();
    assert!(matches!(refused, Refusal::NotExpunged(error) if error.kind() == ErrorKind::Denied));
    assert_eq!((w.uids(&w.you, "INBOX").await, w.uids(&w.me, "Projects").await), (vec![1], vec![1]));
}

#[tokio::test]
async fn a_source_without_read_right_is_gone() {
    let w = shared("lr").await;
    w.append(&w.me, "Projects", flagged()).await.unwrap();
    let (source, to) = (w.open(&w.you, THEIRS).await, w.resolve(&w.you, "INBOX").await);
    w.grant("Projects", "l").await;
    let copy = CrossAccountCopy::begin(w.quota(&w.you), source, &uids(&[1]), true, &to, Kind::Copy).await;
    assert!(matches!(copy, Err(Refusal::SourceGone)));
}

#[tokio::test]
async fn a_damaged_message_is_named_and_nothing_is_copied() {
    let w = shared("lri").await;
    for _ in 0..2 {
        w.append(&w.you, "INBOX", flagged()).await.unwrap();
    }
    let path = {
        let state = w.you.account.state();
        let row = state.inbox().all_rows().last().unwrap();
        message::path(w.you.id(), state.message(row.message).unwrap().object)
    };
    w.store.delete(&path).await.unwrap();
    let copied = across(&w, &w.you, ("INBOX", &[1, 2]), THEIRS, Kind::Copy).await;
    assert!(matches!(copied, Err(Refusal::Damaged(uid)) if uid.get() == 2));
    assert!(w.uids(&w.me, "Projects").await.is_empty());
}

#[tokio::test]
async fn cross_account_copies_are_bounded() {
    let w = shared("lri").await;
    let (source, to) = (w.open(&w.you, "INBOX").await, w.resolve(&w.you, THEIRS).await);
    let many = (1..=10_001).collect::<Vec<_>>();
    let copy = CrossAccountCopy::begin(w.quota(&w.you), source, &uids(&many), true, &to, Kind::Copy).await;
    assert_eq!(kind(copy), Some(ErrorKind::Limit));
}
