//! New messages, and messages that replace others.

use sealpost_account::{Flags, SpecialUses, SystemFlags};
use sealpost_base::{Kind, Timestamp, Uid, limits};
use sealpost_directory::{Quotas, Resource, Usage};
use sealpost_mailbox::append::{self, Append};
use sealpost_mailbox::quota_headroom::OverQuota;
use sealpost_mailbox::{Refusal, ops};

use crate::fixture::{Fixture, MESSAGE, MESSAGE_SIZE, Member, kind};

const THEIRS: &str = "Other Users/me@localhost/Projects";

/// A fixture with one of my mailboxes shared with these rights.
async fn shared(rights: &str) -> Fixture {
    let w = Fixture::new().await;
    ops::create(w.sharing(&w.me), w.me.headroom, "Projects", SpecialUses::default()).await.unwrap();
    w.grant("Projects", rights).await;
    w
}

async fn begin(w: &Fixture, of: &Member, name: &str, freed: u64) -> Append {
    Append::begin(&w.memory, w.resolve(of, name).await, freed, MESSAGE_SIZE)
}

/// Adds a complete message.
async fn add(w: &Fixture, append: &mut Append, flags: &Flags) -> Result<(), Refusal> {
    append.message(flags, Timestamp(0), 0)?;
    append.expect(w.quota(&w.me), MESSAGE.len() as u64).await?;
    append.write(MESSAGE).await?;
    append.complete(w.quota(&w.me)).await
}

fn seen() -> Flags {
    Flags::system(SystemFlags::SEEN)
}

#[tokio::test]
async fn messages_of_a_command_are_placed_by_one_entry() {
    let w = Fixture::new().await;
    let mut append = begin(&w, &w.me, "INBOX", 0).await;
    for _ in 0..3 {
        add(&w, &mut append, &seen()).await.unwrap();
    }
    assert_eq!((append.len(), append.has_message()), (3, false));
    assert!(w.uids(&w.me, "INBOX").await.is_empty(), "nothing is visible before all of it is there");
    let before = w.me.account.state().position();
    let (messages, _memory) = append.finish().await.unwrap();
    let inbox = w.resolve(&w.me, "INBOX").await;
    let placed = append::place(w.quota(&w.me), &inbox, messages, Usage::default()).await.unwrap();
    assert_eq!(placed.alone, Some(before.next()));
    assert_eq!(placed.uids.iter().map(|uid| uid.get()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(w.uids(&w.me, "INBOX").await, [1, 2, 3]);
}

#[tokio::test]
async fn a_message_too_large_is_refused_before_its_bytes_come() {
    let w = Fixture::new().await;
    let mut append = begin(&w, &w.me, "INBOX", 0).await;
    append.message(&seen(), Timestamp(0), 0).unwrap();
    let refused = append.expect(w.quota(&w.me), MESSAGE_SIZE + 1).await;
    assert!(matches!(refused, Err(Refusal::TooBig(MESSAGE_SIZE))));
    append.expect(w.quota(&w.me), MESSAGE_SIZE).await.unwrap();
    append.write(MESSAGE).await.unwrap();
    // An encoding makes it longer than announced.
    let rest = vec![b'x'; MESSAGE_SIZE as usize - MESSAGE.len()];
    append.write_longer(&rest).await.unwrap();
    assert!(matches!(append.write_longer(b"x").await, Err(Refusal::TooBig(MESSAGE_SIZE))));
}

#[tokio::test]
async fn a_message_without_bytes_is_refused() {
    let w = Fixture::new().await;
    let mut append = begin(&w, &w.me, "INBOX", 0).await;
    append.message(&seen(), Timestamp(0), 0).unwrap();
    assert!(matches!(append.complete(w.quota(&w.me)).await, Err(Refusal::Empty)));
    append.complete(w.quota(&w.me)).await.expect("there is no other message");
}

#[tokio::test]
async fn quota_counts_announced_and_freed_bytes() {
    let mut w = Fixture::new().await;
    w.me.limit(Quotas { messages: Some(1), ..Quotas::default() });
    let over = |refused| matches!(refused, Err(Refusal::OverQuota(OverQuota(Resource::Messages))));
    let mut append = begin(&w, &w.me, "INBOX", 0).await;
    add(&w, &mut append, &seen()).await.unwrap();
    assert!(over(add(&w, &mut append, &seen()).await), "the second one");
    w.append(&w.me, "INBOX", seen()).await.unwrap();
    assert!(over(w.append(&w.me, "INBOX", seen()).await.map(drop)));
    let mut replacing = begin(&w, &w.me, "INBOX", MESSAGE.len() as u64).await;
    add(&w, &mut replacing, &seen()).await.expect("the replaced message does not count");
    // The quota is checked again, at the end of the log.
    let (messages, _memory) = append.finish().await.unwrap();
    let inbox = w.resolve(&w.me, "INBOX").await;
    assert!(over(append::place(w.quota(&w.me), &inbox, messages, Usage::default()).await.map(drop)));
    assert_eq!(w.uids(&w.me, "INBOX").await, [1]);
}

#[tokio::test]
async fn a_share_counts_for_its_owner() {
    let w = shared("lri").await;
    let limits = Quotas { messages: Some(1), ..Quotas::default() };
    w.directory
        .update(&w.me.record.name, |record| {
            record.set_quotas(limits);
            Ok(())
        })
        .await
        .unwrap();
    w.append(&w.you, THEIRS, seen()).await.unwrap();
    w.tracker.observed(w.me.id(), limits, Usage::of_messages(0, 0), Usage::of_messages(1, 18)).await;
    let refused = w.append(&w.you, THEIRS, seen()).await;
    assert!(matches!(refused, Err(Refusal::OverQuota(OverQuota(Resource::Messages)))));
    w.append(&w.you, "INBOX", seen()).await.expect("that is the other account's");
}

#[tokio::test]
async fn a_command_has_bounded_messages_and_keywords() {
    let w = Fixture::new().await;
    let mut append = begin(&w, &w.me, "INBOX", 0).await;
    let long = "k".repeat(limits::KEYWORD_BYTES);
    let names = (0..limits::FLAG_SET_KEYWORDS).map(|n| format!("{n}{}", &long[n.to_string().len()..]));
    let many = Flags { keywords: names.collect(), ..Flags::default() };
    let each: usize = many.keywords.iter().map(String::len).sum();
    for _ in 0..limits::APPEND_KEYWORD_BYTES / each {
        append.message(&many, Timestamp(0), 0).unwrap();
    }
    assert_eq!(kind(append.message(&many, Timestamp(0), 0)), Some(Kind::Limit));
}

#[tokio::test]
async fn flags_that_may_not_be_set_are_left_out() {
    let w = shared("lris").await;
    let flags = seen().system.with(SystemFlags::FLAGGED);
    w.append(&w.you, THEIRS, Flags { system: flags, keywords: vec!["x".to_owned()] }).await.unwrap();
    let share = w.resolve(&w.you, THEIRS).await;
    let state = share.account.state();
    let row = state.inbox().all_rows().next().unwrap();
    assert_eq!(state.flags_by_name(row.flags), seen());
}

#[tokio::test]
async fn a_target_without_insert_right_or_deleted_is_missing() {
    let w = shared("lri").await;
    let place = w.resolve(&w.you, THEIRS).await;
    let mut append = Append::begin(&w.memory, place.clone(), 0, MESSAGE_SIZE);
    add(&w, &mut append, &seen()).await.unwrap();
    w.grant("Projects", "lr").await;
    let (messages, _memory) = append.finish().await.unwrap();
    let refused = append::place(w.quota(&w.you), &place, messages, Usage::default()).await;
    assert!(matches!(refused, Err(Refusal::NoTarget)), "the right was revoked");
    let place = w.resolve(&w.me, "Drafts").await;
    let mut append = Append::begin(&w.memory, place.clone(), 0, MESSAGE_SIZE);
    add(&w, &mut append, &seen()).await.unwrap();
    ops::delete(w.user(&w.me), "Drafts").await.unwrap();
    let (messages, _memory) = append.finish().await.unwrap();
    let refused = append::place(w.quota(&w.me), &place, messages, Usage::default()).await;
    assert!(matches!(refused, Err(Refusal::NoTarget)), "the mailbox is gone");
}

/// Replaces the first message of `from` by a stored message of mine in `to`.
async fn replace(w: &Fixture, of: &Member, from: &str, to: &str) -> Result<append::Replaced, Refusal> {
    let (old, place) = (w.open(of, from).await, w.resolve(of, to).await);
    let size = append::size_of(&old, Uid::MIN).unwrap_or(0);
    let freed = if w.quota(of).counts_together(&old, &place) { size } else { 0 };
    let mut append = Append::begin(&w.memory, place.clone(), freed, MESSAGE_SIZE);
    add(w, &mut append, &seen()).await?;
    let (message, _memory) = append.finish().await?;
    append::replace(w.quota(of), (&old, Uid::MIN), &place, message, freed).await
}

#[tokio::test]
async fn replace_within_a_log_is_one_entry_and_frees_quota() {
    let mut w = Fixture::new().await;
    w.append(&w.me, "INBOX", seen()).await.unwrap();
    w.me.limit(Quotas { messages: Some(1), storage: Some(20), ..Quotas::default() });
    let before = w.me.account.state().position();
    let replaced = replace(&w, &w.me, "INBOX", "Drafts").await.unwrap();
    assert_eq!((replaced.placed.alone, replaced.expunged), (Some(before.next()), None));
    assert!(w.uids(&w.me, "INBOX").await.is_empty());
    assert_eq!(w.uids(&w.me, "Drafts").await, [1]);
    let again = replace(&w, &w.me, "INBOX", "Trash").await;
    assert!(matches!(again, Err(Refusal::MessagesGone | Refusal::OverQuota(_))));
    assert!(w.uids(&w.me, "Trash").await.is_empty());
}

#[tokio::test]
async fn replace_between_logs_appends_and_then_expunges() {
    let w = shared("lrite").await;
    w.append(&w.you, "INBOX", seen()).await.unwrap();
    let replaced = replace(&w, &w.you, "INBOX", THEIRS).await.unwrap();
    assert_eq!(replaced.expunged, Some((w.you.id(), w.you.account.state().position())));
    assert!(w.uids(&w.you, "INBOX").await.is_empty());
    assert_eq!(w.uids(&w.you, THEIRS).await, [1]);
}

#[tokio::test]
async fn replace_needs_the_rights_to_expunge() {
    let w = shared("lri").await;
    w.append(&w.me, "Projects", seen()).await.unwrap();
    assert_eq!(kind(replace(&w, &w.you, THEIRS, "INBOX").await), Some(Kind::Denied));
    assert_eq!(w.uids(&w.me, "Projects").await, [1]);
    assert!(w.uids(&w.you, "INBOX").await.is_empty());
}
