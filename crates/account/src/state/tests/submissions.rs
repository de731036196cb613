//! Identities and submissions: their events, limits, checkpoints and changes.

use sealpost_base::{AccountId, IdentityId, ObjectId, Position, SubmissionId, Timestamp, limits};
use sealpost_vault::entry::Origin;

use crate::event::{Batch, Event};
use crate::identity::Identity;
use crate::state::{AccountState, Restore, SyncPoint};
use crate::submission::{Delivered, PathAddress, Progress, Submission, SubmissionNews};
use crate::thread::ThreadId;

const ACCOUNT: AccountId = AccountId([3; 16]);

fn id(n: usize) -> SubmissionId {
    SubmissionId((n as u128).to_be_bytes())
}

fn submission(n: usize, recipients: usize) -> Submission {
    let path = |address: String| PathAddress { address, parameters: None };
    Submission {
        id: id(n),
        identity: IdentityId([1; 16]),
        email: ObjectId([2; 16]),
        thread: ThreadId::of_object(ObjectId([2; 16])),
        from: path("me@here.example".to_owned()),
        to: (0..recipients).map(|n| path(format!("{n}@there.example"))).collect(),
        send_at: Timestamp(0),
        queue: ACCOUNT,
    }
}

fn apply(state: &mut AccountState, origin: Origin, events: Vec<Event>) {
    let position = state.position().next();
    state.apply(position, origin, &Batch { at: Timestamp(0), events });
}

fn submit(state: &mut AccountState, n: usize, recipients: usize) {
    apply(state, Origin::Owner, vec![Event::Submitted { submission: submission(n, recipients) }]);
}

fn report(state: &mut AccountState, n: usize, news: Vec<SubmissionNews>) {
    apply(state, Origin::Delivery, vec![Event::SubmissionOutcome { submission: id(n), news }]);
}

fn reached(place: u16, delivered: Delivered) -> SubmissionNews {
    SubmissionNews::Recipient { place, delivered, reply: "250 2.0.0 ok".to_owned() }
}

fn progress(state: &AccountState, n: usize) -> Progress {
    state.submissions().get(id(n)).unwrap().progress
}

fn restored(state: &AccountState) -> AccountState {
    let mut restore = Restore::new(ACCOUNT);
    for name in state.chunk_names() {
        restore.chunk(&name, &state.chunk(&name)).unwrap();
    }
    restore.finish().unwrap()
}

#[test]
fn entries_without_the_account_key_change_only_recorded_submissions() {
    let mut state = AccountState::new(ACCOUNT);
    let forged = vec![
        Event::Submitted { submission: submission(1, 1) },
        Event::IdentityStored { id: IdentityId([1; 16]), identity: Identity::default() },
    ];
    apply(&mut state, Origin::Delivery, forged);
    report(&mut state, 1, vec![reached(0, Delivered::Yes)]);
    assert!(state.submissions().is_empty() && state.identities().is_empty());
    submit(&mut state, 1, 2);
    let recorded = state.submissions().changed();
    report(&mut state, 1, vec![SubmissionNews::Queued]);
    assert_eq!(state.submissions().changed(), recorded, "clients see nothing of it");
    report(&mut state, 1, vec![reached(0, Delivered::Queued), reached(7, Delivered::Yes)]);
    assert_eq!((progress(&state, 1), state.submissions().changed()), (Progress::Queued, state.position()));
    apply(&mut state, Origin::Delivery, vec![Event::SubmissionRemoved { submission: id(1) }]);
    assert_eq!(state.submissions().len(), 1);
}

#[test]
fn final_submissions_ignore_later_and_repeated_reports() {
    let mut state = AccountState::new(ACCOUNT);
    submit(&mut state, 1, 2);
    report(&mut state, 1, vec![reached(1, Delivered::No)]);
    assert_eq!(progress(&state, 1), Progress::Queued, "the other one may be canceled");
    report(&mut state, 1, vec![reached(0, Delivered::Unknown)]);
    let known = state.submissions().clone();
    report(&mut state, 1, vec![SubmissionNews::Queued, reached(0, Delivered::No), SubmissionNews::Canceled]);
    assert_eq!(*state.submissions(), known);
    submit(&mut state, 2, 1);
    report(&mut state, 2, vec![SubmissionNews::NeverQueued]);
    assert_eq!(progress(&state, 2), Progress::NeverQueued);
    report(&mut state, 2, vec![SubmissionNews::Queued]);
    assert_eq!(progress(&state, 2), Progress::Queued, "the queue has it after all");
    report(&mut state, 2, vec![SubmissionNews::Canceled, SubmissionNews::Queued, reached(0, Delivered::Yes)]);
    assert_eq!(progress(&state, 2), Progress::Canceled);
}

#[test]
fn reports_of_queues_are_named_by_their_submission() {
    let mut state = AccountState::new(ACCOUNT);
    submit(&mut state, 1, 1);
    let report = |state: &mut AccountState, n: u8, of: usize| {
        let (target, structure, flags, create) = (None, None, Default::default(), false);
        let (message, report_on) = (super::message(n), Some(id(of)));
        let event = Event::Delivered { target, message, structure, flags, create, report_on };
        apply(state, Origin::Delivery, vec![event]);
        state.position()
    };
    let at = report(&mut state, 7, 1);
    assert_eq!(state.submissions().changed(), at, "clients see it");
    let reports =
        |state: &AccountState| state.submissions().get(id(1)).unwrap().reports.clone().unwrap_or_default();
    assert_eq!(reports(&state), [super::message(7).object]);
    report(&mut state, 8, 2);
    assert_eq!(state.submissions().changed(), at, "there is no such submission");
    assert_eq!(state.inbox().len(), 2, "the mail is there all the same");
    for n in 10..10 + limits::SUBMISSION_REPORTS as u8 {
        report(&mut state, n, 1);
    }
    assert_eq!(reports(&state).len(), limits::SUBMISSION_REPORTS);
    assert_eq!(*restored(&state).submissions(), *state.submissions());
}

#[test]
fn the_oldest_records_that_are_over_go_first() {
    let mut state = AccountState::new(ACCOUNT);
    for n in 0..limits::SUBMISSIONS {
        submit(&mut state, n, 1);
    }
    submit(&mut state, limits::SUBMISSIONS, 1);
    assert!(state.submissions().get(id(limits::SUBMISSIONS)).is_none(), "all others are under way");
    for n in [7, 5, 9] {
        report(&mut state, n, vec![reached(0, Delivered::Yes)]);
    }
    let before = state.submissions().changed();
    submit(&mut state, limits::SUBMISSIONS, 1);
    let changes = state.submissions().changes(before, state.position(), 10).unwrap();
    assert_eq!((changes.created, changes.destroyed), (vec![id(limits::SUBMISSIONS)], vec![id(5)]));
    // Bytes count as well.
    assert!(state.superfluous_submissions(limits::SUBMISSIONS_BYTES).is_none());
    submit(&mut state, 2000, limits::SUBMISSION_RECIPIENTS + 1);
    assert!(state.submissions().get(id(2000)).is_none());
    assert!(state.submissions().bytes() < limits::SUBMISSIONS_BYTES);
    assert_eq!(*restored(&state).submissions(), *state.submissions());
}

#[test]
fn identities_are_bounded_and_in_checkpoints() {
    let mut state = AccountState::new(ACCOUNT);
    let store = |state: &mut AccountState, n: usize, bytes: usize| {
        let identity = Identity { text_signature: "x".repeat(bytes), ..Identity::default() };
        let id = IdentityId((n as u128).to_be_bytes());
        apply(state, Origin::Owner, vec![Event::IdentityStored { id, identity }]);
    };
    store(&mut state, 1, limits::IDENTITY_BYTES);
    assert!(state.identities().is_empty());
    for n in 0..=limits::IDENTITIES {
        store(&mut state, n, 10);
    }
    assert_eq!(state.identities().len(), limits::IDENTITIES);
    let changed = state.identities().changed();
    store(&mut state, 3, 10);
    assert_eq!(state.identities().changed(), changed, "it is so already");
    assert_eq!(*restored(&state).identities(), *state.identities());
    for n in 0..limits::IDENTITIES {
        store(&mut state, n, limits::IDENTITY_BYTES / 2);
    }
    assert!(state.identities().bytes() <= limits::IDENTITIES_BYTES);
}

#[test]
fn changes_come_in_pages_and_too_old_states_are_unknown() {
    let mut state = AccountState::new(ACCOUNT);
    for n in 0..4 {
        submit(&mut state, n, 1);
    }
    report(&mut state, 0, vec![reached(0, Delivered::Yes)]);
    apply(&mut state, Origin::Owner, vec![Event::SubmissionRemoved { submission: id(1) }]);
    let records = state.submissions();
    let (mut at, mut created) = (SyncPoint::from(Position::ZERO), Vec::new());
    loop {
        let page = records.changes(at, state.position(), 1).unwrap();
        created.extend(page.created);
        at = page.upto;
        if !page.more {
            break;
        }
    }
    assert_eq!(created, [id(0), id(2), id(3)]);
    assert_eq!(at, records.changed().into());
    let (known, end) = (records.changed(), records.changed().next());
    assert!(records.changes(end, known, 10).is_none(), "it has not been yet");
    let page = records.changes(end, end, 10).unwrap();
    assert_eq!((page.upto, page.more), (known.into(), false), "what follows the last change is valid");
    assert!(page.created.is_empty() && page.updated.is_empty() && page.destroyed.is_empty());
    for n in 10..limits::RECORD_TOMBSTONES + 10 {
        submit(&mut state, n, 1);
        apply(&mut state, Origin::Owner, vec![Event::SubmissionRemoved { submission: id(n) }]);
    }
    assert!(state.submissions().changes(Position(1), state.position(), 10).is_none());
    let page = state.submissions().changes(known, state.position(), 10).unwrap();
    assert!(page.created.is_empty() && page.destroyed.is_empty(), "they came and went");
}

#[test]
fn an_entry_with_more_records_than_a_page_has_several() {
    let mut state = AccountState::new(ACCOUNT);
    let all: Vec<Event> = (20..26).map(|n| Event::SubmissionRemoved { submission: id(n) }).collect();
    (20..26).for_each(|n| submit(&mut state, n, 1));
    let before = state.submissions().changed();
    apply(&mut state, Origin::Owner, all);
    let of = |since: SyncPoint<_>| state.submissions().changes(since, state.position(), 4).unwrap();
    let first = of(before.into());
    assert_eq!((first.destroyed.len(), first.upto.within, first.more), (4, Some(id(23)), true));
    let rest = of(first.upto);
    assert_eq!((rest.destroyed, rest.more), (vec![id(24), id(25)], false));
}
