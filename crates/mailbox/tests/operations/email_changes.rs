//! Changes of messages over all of their placements, in the own log and in a shared mailbox.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sealpost_account::event::Event;
use sealpost_account::state::ObjectKind;
use sealpost_account::{AccountState, FlagAction, Flags, NewMessage, SpecialUses, SystemFlags, Unplaced};
use sealpost_base::{
    AccountId, Kind, MailboxId, ObjectId, Position, SeededRandom, Timestamp, UidSet, limits,
};
use sealpost_directory::{Quotas, Resource, Usage};
use sealpost_mailbox::account_changes::{at_once, last_changes, logs_of};
use sealpost_mailbox::email_change::{
    EmailChange, EmailRefusal, FlagEdit, Place, PlaceEdit, Written, add_emails, change_emails,
};
use sealpost_mailbox::emails::{Email, placements};
use sealpost_mailbox::ops;
use sealpost_mailbox::quota_headroom::OverQuota;

use crate::fixture::{Fixture, MESSAGE};

/// A fixture with the shared mailbox Projects.
async fn shared() -> Fixture {
    let w = Fixture::new().await;
    ops::create(w.sharing(&w.me), w.me.headroom, "Projects", SpecialUses::default()).await.unwrap();
    w.grant("Projects", "lr").await;
    w
}

async fn place(w: &Fixture, name: &str) -> Place {
    let found = w.resolve(&w.me, name).await;
    (found.account.id(), found.mailbox)
}

async fn places(w: &Fixture, names: &[&str]) -> BTreeSet<Place> {
    let mut all = BTreeSet::new();
    for name in names {
        all.insert(place(w, name).await);
    }
    all
}

/// All messages, with their flags and visible placements.
type Seen = BTreeMap<ObjectId, (Email, BTreeSet<(AccountId, MailboxId, u32, String)>)>;

fn seen(logs: &[(AccountId, &AccountState)]) -> Seen {
    let objects: BTreeSet<ObjectId> = logs
        .iter()
        .flat_map(|(_, state)| state.messages().map(|(_, message)| message.first_object()))
        .collect();
    let one = |object: ObjectId| {
        let at = placements(logs, object).map(|placement| {
            let state = logs.iter().find(|(log, _)| *log == placement.log).unwrap().1;
            let flags = format!("{:?}", state.flags_by_name(placement.row.flags));
            (placement.log, placement.mailbox, placement.row.uid.get(), flags)
        });
        Some((object, (Email::find(logs, object)?, at.collect())))
    };
    objects.into_iter().filter_map(one).collect()
}

async fn all(w: &Fixture) -> Seen {
    at_once(&logs_of(w.user(&w.me)).await.unwrap(), seen).await.unwrap()
}

async fn change(
    w: &Fixture,
    changes: &[(ObjectId, EmailChange)],
) -> (Vec<Result<(), EmailRefusal>>, Written) {
    let mut written = Written::default();
    let done = change_emails(w.writer(&w.me), changes, &mut written).await.unwrap();
    (done, written)
}

/// Adds a message to each of these sets of mailboxes of the own log.
async fn add(w: &Fixture, targets: &[Vec<MailboxId>], flags: Flags) -> Vec<Result<(), EmailRefusal>> {
    let mut unplaced = Unplaced::of(w.me.account.clone());
    let mut later = w.me.account.later();
    for _ in targets {
        let mut ingest = w.me.account.ingest().await.unwrap();
        ingest.write(MESSAGE).await.unwrap();
        let stored = ingest.finish_later(&mut later).await.unwrap();
        unplaced.push(NewMessage { stored, flags: Arc::new(flags.clone()), received: Timestamp(0) });
    }
    later.store().await.unwrap();
    let (writer, usage) = (w.writer(&w.me), Usage::default());
    add_emails(writer, &w.me.account, unplaced, targets, usage, &mut Written::default()).await.unwrap()
}

fn flags(system: SystemFlags, keywords: &[&str]) -> Flags {
    Flags { system, keywords: keywords.iter().map(|&keyword| keyword.to_owned()).collect() }
}

fn refusals(done: Vec<Result<(), EmailRefusal>>) -> Vec<String> {
    done.into_iter()
        .map(|done| done.map_or_else(|refusal| format!("{refusal:?}"), |()| String::new()))
        .collect()
}

fn update(flags: Option<FlagEdit>, mailboxes: Option<PlaceEdit>) -> EmailChange {
    EmailChange::Update { flags, mailboxes }
}

fn some_flags(random: &SeededRandom) -> Flags {
    let system = [SystemFlags::NONE, SystemFlags::SEEN, SystemFlags::FLAGGED][random.below(3) as usize];
    flags(system, [&[][..], &["work"], &["$Junk", "work"]][random.below(3) as usize])
}

fn some_places(random: &SeededRandom, all: &[Place]) -> BTreeSet<Place> {
    all.iter().filter(|_| random.below(3) == 0).copied().collect()
}

fn some_change(random: &SeededRandom, mailboxes: &[Place]) -> EmailChange {
    if random.below(8) == 0 {
        return EmailChange::Destroy;
    }
    let flags = match random.below(3) {
        0 => None,
        1 => Some(FlagEdit::Replace(some_flags(random))),
        _ => {
            let (add, mut remove) = (some_flags(random), some_flags(random));
            remove.system = remove.system.without(add.system);
            remove.keywords.retain(|keyword| !add.keywords.contains(keyword));
            Some(FlagEdit::Change { add, remove })
        }
    };
    let places = match random.below(3) {
        0 => None,
        1 => Some(PlaceEdit::Replace(some_places(random, mailboxes))),
        _ => {
            let add = some_places(random, mailboxes);
            let remove = some_places(random, mailboxes).difference(&add).copied().collect();
            Some(PlaceEdit::Change { add, remove })
        }
    };
    update(flags, places)
}

/// Checks the effect of a change on its message.
fn check(change: &EmailChange, before: &Email, after: Option<&Email>, done: &Result<(), EmailRefusal>) {
    let EmailChange::Update { flags, mailboxes } = change else {
        assert!(done.is_ok() && after.is_none());
        return;
    };
    let wanted = mailboxes.as_ref().map_or(before.mailboxes.clone(), |edit| edit.apply(&before.mailboxes));
    if wanted.is_empty() {
        assert!(matches!(done, Err(EmailRefusal::Mailboxes)));
        assert_eq!(after, Some(before));
        return;
    }
    assert!(done.is_ok(), "{done:?}");
    let after = after.unwrap();
    assert_eq!(after.mailboxes, wanted);
    assert_eq!((after.thread, after.size, after.received), (before.thread, before.size, before.received));
    let names = |flags: &[String]| flags.iter().cloned().collect::<BTreeSet<_>>();
    match flags {
        None => {}
        Some(FlagEdit::Replace(wanted)) => {
            assert_eq!(
                (after.flags.system, names(&after.flags.keywords)),
                (wanted.system, names(&wanted.keywords))
            );
        }
        Some(FlagEdit::Change { add, remove }) => {
            assert!(after.flags.system.contains(add.system));
            assert_eq!(after.flags.system.without(remove.system), after.flags.system);
            let keywords = names(&after.flags.keywords);
            assert!(
                keywords.is_superset(&names(&add.keywords)) && keywords.is_disjoint(&names(&remove.keywords))
            );
        }
    }
}

/// A random change of one placement, as by an IMAP client.
async fn disturb(w: &Fixture, random: &SeededRandom) {
    let name = ["INBOX", "Drafts", "Projects"][random.below(3) as usize];
    let found = w.resolve(&w.me, name).await;
    let rows: Vec<_> = found.account.state().mailbox(found.mailbox).unwrap().uids().iter().collect();
    if rows.len() < 3 || random.below(2) == 0 {
        w.append(&w.me, name, some_flags(random)).await.unwrap();
        return;
    }
    let uid = rows[random.below(rows.len() as u64) as usize];
    let (mailbox, uids, flags) =
        (found.mailbox, UidSet::range(uid, uid), Flags::system(SystemFlags::DELETED));
    let action = if random.below(2) == 0 { FlagAction::Add } else { FlagAction::Remove };
    let event = Event::FlagsStored { mailbox, uids, action, flags, unchanged_since: None };
    found.account.commit(|_| Ok((vec![event.clone()], ()))).await.unwrap();
}

#[tokio::test]
async fn changes_agree_with_a_model() {
    for seed in 1..7 {
        let (w, random) = (shared().await, SeededRandom::new(seed));
        let names = ["INBOX", "Drafts", "Archive", "Projects"];
        let mailboxes: Vec<Place> = places(&w, &names).await.into_iter().collect();
        for _ in 0..40 {
            for _ in 0..3 {
                disturb(&w, &random).await;
            }
            let before = all(&w).await;
            let chosen: Vec<ObjectId> = before.keys().filter(|_| random.below(3) == 0).copied().collect();
            let changes: Vec<_> =
                chosen.iter().map(|object| (*object, some_change(&random, &mailboxes))).collect();
            let (done, written) = change(&w, &changes).await;
            assert!(written.entries.len() <= 4, "two logs, with one entry of each kind");
            let after = all(&w).await;
            for ((object, change), done) in changes.iter().zip(&done) {
                check(change, &before[object].0, after.get(object).map(|(email, _)| email), done);
            }
            let others = |seen: &Seen| {
                seen.iter()
                    .filter(|(id, _)| !chosen.contains(id))
                    .map(|(id, of)| (*id, of.clone()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(others(&before), others(&after), "the others stay as they are");
        }
    }
}

#[tokio::test]
async fn new_emails_come_into_several_mailboxes_by_one_entry() {
    let w = Fixture::new().await;
    let ids: Vec<MailboxId> = places(&w, &["INBOX", "Drafts"]).await.into_iter().map(|(_, id)| id).collect();
    let before = w.me.account.state().position();
    let done =
        add(&w, &[ids.clone(), ids[..1].to_vec(), ids.clone()], Flags::system(SystemFlags::SEEN)).await;
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(w.me.account.state().position(), before.next());
    assert_eq!((w.uids(&w.me, "INBOX").await, w.uids(&w.me, "Drafts").await), (vec![1, 2, 3], vec![1, 2]));
    let all = all(&w).await;
    assert_eq!(all.values().filter(|(email, _)| email.mailboxes.len() == 2).count(), 2);
    assert!(all.values().all(|(email, _)| email.flags.system == SystemFlags::SEEN));
}

#[tokio::test]
async fn a_refused_email_leaves_the_others_and_nothing_of_itself() {
    let w = Fixture::new().await;
    let (_, inbox) = place(&w, "INBOX").await;
    let done = add(&w, &[vec![inbox], vec![MailboxId(99)], vec![inbox]], Flags::default()).await;
    assert_eq!(refusals(done), ["", "Mailboxes", ""]);
    let many: Vec<String> = (0..=limits::FLAG_SET_KEYWORDS).map(|n| format!("k{n}")).collect();
    let done = add(&w, &[vec![inbox]], Flags { keywords: many, ..Flags::default() }).await;
    assert!(matches!(done[..], [Err(EmailRefusal::TooManyFlags(_))]));
    // The objects of the refused ones are removed in the background.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    let objects = stored_messages(&w).await;
    assert_eq!(objects, 2);
}

async fn stored_messages(w: &Fixture) -> usize {
    use futures::TryStreamExt;
    let listed = w.store.list(&format!("acct/{}/msg", w.me.id()), None);
    listed.try_collect::<Vec<_>>().await.unwrap().len()
}

#[tokio::test]
async fn every_placement_counts_for_the_quota() {
    let mut w = Fixture::new().await;
    let both = places(&w, &["INBOX", "Drafts"]).await;
    let ids: Vec<MailboxId> = both.iter().map(|(_, id)| *id).collect();
    w.me.limit(Quotas { messages: Some(3), ..Quotas::default() });
    let done = add(&w, &[ids.clone(), ids.clone(), ids[..1].to_vec()], Flags::default()).await;
    let over = "OverQuota(OverQuota(Messages))";
    assert_eq!(refusals(done), ["", over, ""]);
    let all = all(&w).await;
    let (object, _) = all.iter().find(|(_, (email, _))| email.mailboxes.len() == 1).unwrap();
    let (done, _) = change(&w, &[(*object, update(None, Some(PlaceEdit::Replace(both.clone()))))]).await;
    assert!(matches!(done[..], [Err(EmailRefusal::OverQuota(OverQuota(Resource::Messages)))]));
    // A move needs no additional quota.
    let archive = places(&w, &["Archive"]).await;
    let (done, _) = change(&w, &[(*object, update(None, Some(PlaceEdit::Replace(archive))))]).await;
    assert!(done[0].is_ok());
}

#[tokio::test]
async fn a_move_into_a_share_fits_a_full_account() {
    let mut w = shared().await;
    w.append(&w.me, "INBOX", Flags::default()).await.unwrap();
    w.me.limit(Quotas { messages: Some(1), ..Quotas::default() });
    let object = *all(&w).await.keys().next().unwrap();
    let both = places(&w, &["INBOX", "Projects"]).await;
    let (done, _) = change(&w, &[(object, update(None, Some(PlaceEdit::Replace(both))))]).await;
    assert!(matches!(done[..], [Err(EmailRefusal::OverQuota(_))]));
    let projects = places(&w, &["Projects"]).await;
    let (done, written) =
        change(&w, &[(object, update(None, Some(PlaceEdit::Replace(projects.clone()))))]).await;
    assert!(done[0].is_ok(), "{done:?}");
    assert_eq!(written.entries.len(), 2);
    assert_eq!(all(&w).await[&object].0.mailboxes, projects);
}

#[tokio::test]
async fn changes_of_unknown_messages_are_refused() {
    let w = shared().await;
    w.append(&w.me, "INBOX", Flags::default()).await.unwrap();
    let object = *all(&w).await.keys().next().unwrap();
    let nowhere = BTreeSet::from([(w.me.id(), MailboxId(99))]);
    let many: BTreeSet<Place> =
        (0..=limits::PLACEMENTS_COUNTED as u32).map(|n| (w.me.id(), MailboxId(n))).collect();
    for (change_of, refusal) in [
        (update(None, Some(PlaceEdit::Replace(nowhere))), "Mailboxes"),
        (update(None, Some(PlaceEdit::Replace(BTreeSet::new()))), "Mailboxes"),
        (update(None, Some(PlaceEdit::Replace(many))), "TooManyMailboxes"),
    ] {
        let (done, written) = change(&w, &[(object, change_of)]).await;
        assert_eq!((refusals(done), written.entries.len()), (vec![refusal.to_owned()], 0));
    }
    let (done, _) = change(&w, &[(ObjectId([1; 16]), EmailChange::Destroy)]).await;
    assert_eq!(refusals(done), ["NotFound"]);
}

#[tokio::test]
async fn a_log_that_has_moved_on_is_stale() {
    let w = Fixture::new().await;
    w.append(&w.me, "INBOX", Flags::default()).await.unwrap();
    let object = *all(&w).await.keys().next().unwrap();
    let of_emails = |logs: &[(AccountId, &AccountState)]| last_changes(logs, ObjectKind::Emails);
    let now = at_once(&logs_of(w.user(&w.me)).await.unwrap(), of_emails).await.unwrap();
    // What is no change of an email counts as none.
    let subscribed = Event::Subscribed { name: "INBOX".to_owned(), on: true };
    w.me.account.commit(|_| Ok((vec![subscribed.clone()], ()))).await.unwrap();
    let seen = |system| update(Some(FlagEdit::Replace(Flags::system(system))), None);
    let mut written = Written { expected: Some((ObjectKind::Emails, now.clone())), ..Written::default() };
    for system in [SystemFlags::SEEN, SystemFlags::FLAGGED] {
        let done = change_emails(w.writer(&w.me), &[(object, seen(system))], &mut written).await.unwrap();
        assert!(done[0].is_ok(), "own entries are expected");
    }
    let first: Vec<Position> = written.entries.iter().map(|(_, at)| *at).collect();
    assert_eq!(first.len(), 2);
    let mut written = Written { expected: Some((ObjectKind::Emails, now)), ..Written::default() };
    let done =
        change_emails(w.writer(&w.me), &[(object, seen(SystemFlags::NONE))], &mut written).await.unwrap();
    assert!(matches!(done[..], [Err(EmailRefusal::Stale)]));
    assert_eq!(all(&w).await[&object].0.flags.system, SystemFlags::FLAGGED);
}

#[tokio::test]
async fn keywords_beyond_the_limit_are_refused() {
    let w = Fixture::new().await;
    w.append(&w.me, "INBOX", Flags::default()).await.unwrap();
    let object = *all(&w).await.keys().next().unwrap();
    let keywords: Vec<String> = (0..=limits::FLAG_SET_KEYWORDS).map(|n| format!("k{n}")).collect();
    let edit = FlagEdit::Replace(Flags { keywords, ..Flags::default() });
    let (done, _) = change(&w, &[(object, update(Some(edit), None))]).await;
    let [Err(EmailRefusal::TooManyFlags(error))] = &done[..] else { panic!("{done:?}") };
    assert_eq!(error.kind(), Kind::Limit);
}
