//! The state against a naive model; a checkpoint and its tail against a full replay; bytes for each mail.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sealpost_base::{AccountId, ObjectId, Position, Random, SeededRandom, SubmissionId, Timestamp, limits};
use sealpost_vault::message::{Layout, MessageKey};

use super::*;
use crate::envelope::{Body, Facts, Mail, MailSubmission, Recipient, Source, TlsDemand};
use crate::event::{Attempted, Batch, Carried, Event, Failure, Held, Outcome, Rule, Selector, Status};
use crate::retry::{self, MAX_HOLD};

pub(crate) fn mail(accepted: Timestamp, account: u8, recipients: &[&str]) -> Mail {
    Mail {
        accepted,
        account: (account > 0).then_some(AccountId([account; 16])),
        from: if account > 0 { format!("{account}@sender.example") } else { String::new() },
        recipients: recipients.iter().map(|address| Recipient::new(*address)).collect(),
        ret: None,
        envid: None,
        facts: Facts { size: 1000, ..Facts::default() },
        tls: TlsDemand::Policy,
        release: None,
        header: b"Received: here\r\n".to_vec(),
        body: Body::Inline(b"Subject: x\r\n\r\ntext\r\n".to_vec()),
        message_id: None,
        source: Source::Submission,
        submission: None,
        report_on: None,
    }
}

fn failure(text: &str) -> Failure {
    Failure::at("mx.example", Status::new(4, 4, 1), text, true)
}

/// A mail in the naive model.
#[derive(Debug, Clone, PartialEq)]
struct Naive {
    left: Vec<Option<Option<Failure>>>,
    held: bool,
    rule: u32,
    next: i64,
    released: i64,
    attempts: u8,
    segment: bool,
}

#[derive(Debug, Clone)]
enum Op {
    Accept(u8, usize, i64),
    Send(u64),
    Attempt(u64, Vec<(u16, u8)>, i64),
    Hold(u64, i64, u32),
    Release(u64),
    Retry(u64),
    Remove(u64),
    AddRule(i64),
    RemoveRule(u32),
    Carry(Vec<u64>),
    Adopt(u8),
    HoldAll(bool),
    Handle(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let id = 0u64..12;
    prop_oneof![
        4 => (0u8..3, 1usize..4, prop_oneof![Just(0i64), 0i64..100_000]).prop_map(|(a, n, r)| Op::Accept(a, n, r)),
        1 => id.clone().prop_map(Op::Send),
        4 => (id.clone(), proptest::collection::vec((0u16..5, 0u8..4), 0..4), 0i64..20_000)
            .prop_map(|(id, outcomes, next)| Op::Attempt(id, outcomes, next)),
        1 => (id.clone(), 0i64..3_000_000, 0u32..3).prop_map(|(id, until, rule)| Op::Hold(id, until, rule)),
        1 => id.clone().prop_map(Op::Release),
        1 => id.clone().prop_map(Op::Retry),
        1 => id.clone().prop_map(Op::Remove),
        1 => (0i64..100_000).prop_map(Op::AddRule),
        1 => (0u32..4).prop_map(Op::RemoveRule),
        2 => proptest::collection::vec(id, 0..5).prop_map(Op::Carry),
        1 => (0u8..3).prop_map(Op::Adopt),
        1 => any::<bool>().prop_map(Op::HoldAll),
        1 => any::<u8>().prop_map(Op::Handle),
    ]
}

const DOMAINS: [&str; 3] = ["a@one.example", "b@two.example", "c@one.example"];

fn event(op: &Op, at: i64, random: &SeededRandom) -> Event {
    let time = |seconds: &i64| Timestamp::from_seconds(at + seconds);
    match op {
        Op::Accept(account, recipients, release) => {
            let mut mail = mail(Timestamp::from_seconds(at), *account, &DOMAINS[..*recipients]);
            mail.release = (*release > 0).then(|| time(release));
            let id = SubmissionId::random(random);
            mail.submission =
                (*account == 1).then(|| MailSubmission { id, account: "a@here.example".to_owned() });
            Event::Accepted(Box::new(mail))
        }
        Op::Send(id) => Event::Sending(MailId(*id)),
        Op::Attempt(id, outcomes, next) => {
            let outcome = |(number, what): &(u16, u8)| {
                let outcome = match what {
                    0 => Outcome::Delivered,
                    1 => Outcome::Relayed,
                    2 => Outcome::Deferred(failure(&format!("4xx at {at}"))),
                    _ => Outcome::Failed(failure("5xx")),
                };
                (*number, outcome)
            };
            let outcomes = outcomes.iter().map(outcome).collect();
            Event::Attempted(Attempted { mail: MailId(*id), outcomes, attempts: 3, next: time(next) })
        }
        Op::Hold(id, until, rule) => Event::Held(Held { mail: MailId(*id), until: time(until), rule: *rule }),
        Op::Release(id) => Event::Released(MailId(*id)),
        Op::Retry(id) => Event::Retried(MailId(*id)),
        Op::Remove(id) => Event::Removed(MailId(*id)),
        Op::AddRule(until) => Event::RuleAdded(Rule {
            number: 0,
            selector: Selector { domain: Some("one.example".to_owned()), ..Selector::default() },
            until: time(until),
            note: "n".to_owned(),
        }),
        Op::RemoveRule(number) => Event::RuleRemoved(*number),
        Op::Carry(ids) => {
            let mut ids = ids.clone();
            ids.dedup();
            Event::Carried(Carried {
                object: ObjectId::random(random),
                key: MessageKey::from_bytes([7; 32]),
                layout: Layout {
                    raw_bytes: 1,
                    sealed_raw: 2,
                    sealed_text: 3,
                    sealed_structure: 4,
                    sealed_index: 5,
                },
                mails: ids.iter().map(|id| (MailId(*id), *id as u32 * 100, 100)).collect(),
            })
        }
        Op::Adopt(_) => Event::Adopted(Adoption { node: "n".to_owned() }),
        Op::HoldAll(true) => Event::AllHeld("restored".to_owned()),
        Op::HoldAll(false) => Event::AllReleased,
        Op::Handle(name) => Event::Handled(name.to_string()),
    }
}

/// Applies events to the naive model.
fn naive(
    mails: &mut BTreeMap<u64, Naive>,
    next_id: &mut u64,
    rules: &mut BTreeMap<u32, bool>,
    op: &Op,
    at: i64,
) {
    let release = |mail: &mut Naive| {
        if mail.held {
            (mail.held, mail.rule, mail.next, mail.released) = (false, 0, at, at);
        }
    };
    match op {
        Op::Accept(_, recipients, delay) => {
            let released = at + delay.min(&(MAX_HOLD.as_secs() as i64));
            let left = vec![Some(None); *recipients];
            let mail =
                Naive { left, held: false, rule: 0, next: released, released, attempts: 0, segment: false };
            mails.insert(*next_id, mail);
            *next_id += 1;
        }
        Op::Attempt(id, outcomes, next) => {
            let Some(mail) = mails.get_mut(id) else { return };
            mail.attempts = 3;
            if !mail.held {
                mail.next = at + next;
            }
            for (number, what) in outcomes {
                let Some(Some(left)) = mail.left.get_mut(usize::from(*number)) else { continue };
                match what {
                    2 => *left = Some(failure(&format!("4xx at {at}"))),
                    _ => mail.left[usize::from(*number)] = None,
                }
            }
            if mail.left.iter().all(Option::is_none) {
                mails.remove(id);
            }
        }
        Op::Hold(id, until, rule) => {
            if let Some(mail) = mails.get_mut(id) {
                mail.held = true;
                mail.rule = *rule;
                mail.next = at + until.min(&(MAX_HOLD.as_secs() as i64));
            }
        }
        Op::Release(id) => {
            if let Some(mail) = mails.get_mut(id) {
                release(mail);
            }
        }
        Op::Retry(id) => {
            if let Some(mail) = mails.get_mut(id).filter(|mail| !mail.held) {
                mail.next = at;
            }
        }
        Op::Remove(id) => drop(mails.remove(id)),
        Op::AddRule(_) => {
            let number = rules.len() as u32 + 1;
            rules.insert(number, true);
        }
        Op::RemoveRule(number) => {
            if rules.get_mut(number).is_some_and(|is_there| std::mem::replace(is_there, false)) {
                mails.values_mut().filter(|mail| mail.rule == *number).for_each(release);
            }
        }
        Op::Carry(ids) => {
            for id in ids {
                if let Some(mail) = mails.get_mut(id) {
                    mail.segment = true;
                }
            }
        }
        Op::Send(_) | Op::Adopt(_) | Op::HoldAll(_) | Op::Handle(_) => {}
    }
}

fn chunks(state: &State) -> Vec<(String, Vec<u8>)> {
    state.chunk_names().into_iter().map(|name| (name.clone(), state.chunk(&name))).collect()
}

fn restored(chunks: &[(String, Vec<u8>)]) -> State {
    let mut state = State::default();
    for (name, chunk) in chunks {
        state.restore(name, chunk).unwrap();
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 300 }))]

    #[test]
    fn a_checkpoint_and_its_tail_equal_a_full_replay(
        ops in proptest::collection::vec(proptest::collection::vec(op(), 1..4), 1..30),
        cut in 0usize..30,
    ) {
        let random = SeededRandom::new(3);
        let batches: Vec<Batch> = ops.iter().enumerate().map(|(n, ops)| {
            let at = 1_000_000 + n as i64 * 1000;
            let writer = ops.iter().find_map(|op| if let Op::Adopt(n) = op { Some(*n) } else { None });
            Batch {
                at: Timestamp::from_seconds(at),
                writer: WriterId([writer.unwrap_or(0); 16]),
                nonce: n as u64,
                first: MailId(0),
                events: ops.iter().map(|op| event(op, at, &random)).collect(),
            }
        }).collect();
        let mut full = State::default();
        let mut cut_state = State::default();
        for (n, batch) in batches.iter().enumerate() {
            let bytes = batch.encode();
            let batch = Batch::decode(&bytes).unwrap();
            full.apply(Position(n as u64 + 1), &batch);
            if n == cut {
                cut_state = restored(&chunks(&cut_state));
            }
            cut_state.apply(Position(n as u64 + 1), &batch);
        }
        prop_assert_eq!(chunks(&full), chunks(&cut_state));
        prop_assert_eq!(chunks(&restored(&chunks(&full))), chunks(&full));
        let in_segments: u32 = full.segments().map(|(_, segment)| segment.mails).sum();
        let placed = full.rows().from(MailId(0)).filter(|(_, row)| matches!(row.place, Place::Segment(..)));
        prop_assert_eq!(in_segments as usize, placed.count());
    }

    #[test]
    fn the_state_equals_a_naive_model(ops in proptest::collection::vec(op(), 1..60)) {
        let random = SeededRandom::new(3);
        let (mut state, mut mails, mut next, mut rules) = (State::default(), BTreeMap::new(), 0, BTreeMap::new());
        for (n, op) in ops.iter().enumerate() {
            // Only the state shows that a released mail has a future release.
            if matches!(op, Op::Accept(_, _, 1..)) {
                continue;
            }
            let at = 1_000_000 + n as i64 * 1000;
            let events = vec![event(op, at, &random)];
            let batch =
                Batch { at: Timestamp::from_seconds(at), writer: WriterId([0; 16]), nonce: 0, first: MailId(0), events };
            state.apply(Position(n as u64 + 1), &batch);
            naive(&mut mails, &mut next, &mut rules, op, at);
            prop_assert_eq!(state.len(), mails.len());
            for (id, expected) in &mails {
                let id = MailId(*id);
                let row = state.rows().get(id).unwrap();
                let left: Vec<_> = (0..expected.left.len()).map(|n| state.left(id, n)).collect();
                prop_assert_eq!(&left, &expected.left);
                let found = (row.flags.has(Flags::HELD), row.rule, i64::from(row.next), i64::from(row.released));
                prop_assert_eq!(found, (expected.held, expected.rule, expected.next, expected.released));
                prop_assert_eq!(row.attempts, expected.attempts);
                prop_assert_eq!(matches!(row.place, Place::Segment(..)), expected.segment);
                prop_assert_eq!(usize::from(row.recipients), left.iter().flatten().count());
            }
        }
    }
}

fn one(state: &mut State, at: i64, event: Event) {
    let position = state.position().next();
    let batch = Batch {
        at: Timestamp::from_seconds(at),
        writer: WriterId([1; 16]),
        nonce: 0,
        first: MailId(0),
        events: vec![event],
    };
    state.apply(position, &batch);
}

#[test]
fn due_is_the_first_of_attempt_report_and_expiry() {
    let mut state = State::default();
    one(&mut state, 1000, Event::Accepted(Box::new(mail(Timestamp::from_seconds(1000), 1, &DOMAINS[..1]))));
    let due = |state: &State| state.due(state.rows().get(MailId(0)).unwrap()).seconds() - 1000;
    assert_eq!(due(&state), 0);
    let outcomes = vec![(0, Outcome::Deferred(failure("later")))];
    let deferred = |next: u64| Attempted {
        mail: MailId(0),
        outcomes: outcomes.clone(),
        attempts: 1,
        next: Timestamp::from_seconds(1000).after(std::time::Duration::from_secs(next)),
    };
    one(&mut state, 1000, Event::Attempted(deferred(5 * 3600)));
    assert_eq!(due(&state), retry::DELAY_REPORT_AFTER.as_secs() as i64);
    one(&mut state, 1000, Event::DelayReported(MailId(0)));
    assert_eq!(due(&state), 5 * 3600);
    one(&mut state, 1000, Event::Attempted(deferred(6 * 86_400)));
    assert_eq!(due(&state), retry::EXPIRE_AFTER.as_secs() as i64);
    let held = Held { mail: MailId(0), until: Timestamp(i64::MAX), rule: 0 };
    one(&mut state, 2000, Event::Held(held));
    assert_eq!(due(&state), 1000 + MAX_HOLD.as_secs() as i64);
    one(&mut state, 900_000, Event::Released(MailId(0)));
    assert_eq!(due(&state), 899_000);
    let row = *state.rows().get(MailId(0)).unwrap();
    assert_eq!(expires(&row), Timestamp::from_seconds(900_000).after(retry::EXPIRE_AFTER));
}

#[test]
fn rules_and_requests_are_bounded() {
    let mut state = State::default();
    for n in 0..limits::QUEUE_RULES + 5 {
        let rule =
            Rule { number: 0, selector: Selector::default(), until: Timestamp(0), note: n.to_string() };
        one(&mut state, 1, Event::RuleAdded(rule));
    }
    assert_eq!(state.rules().count(), limits::QUEUE_RULES);
    let name = |n: usize| format!("{n:016x}-{:016x}", 7);
    for n in 0..limits::QUEUE_REQUESTS + 5 {
        assert!(!state.is_handled(&name(n)));
        one(&mut state, 1, Event::Handled(name(n)));
    }
    assert_eq!(state.handled.len(), limits::QUEUE_REQUESTS);
    // Copies of those that were forgotten count as little, also after a restart.
    let mut restored = State::default();
    restored.restore("queue", &state.chunk("queue")).unwrap();
    for state in [&state, &restored] {
        assert!((0..limits::QUEUE_REQUESTS + 5).all(|n| state.is_handled(&name(n))));
        assert!(!state.is_handled(&name(limits::QUEUE_REQUESTS + 5)));
    }
}

#[test]
fn another_writer_counts_attempts_in_progress() {
    let mut state = State::default();
    for _ in 0..3 {
        one(&mut state, 1, Event::Accepted(Box::new(mail(Timestamp(0), 1, &DOMAINS[..1]))));
    }
    one(&mut state, 1, Event::Sending(MailId(1)));
    let position = state.position().next();
    let events = vec![Event::Adopted(Adoption { node: "b".to_owned() })];
    state.apply(
        position,
        &Batch { at: Timestamp(0), writer: WriterId([2; 16]), nonce: 0, first: MailId(0), events },
    );
    assert_eq!(state.totals().repeated, 1);
    assert_eq!(state.owner(), Some((WriterId([2; 16]), "b")));
}

/// A million deferred mails have to fit into 256 MiB with everything else; the figure is for
/// `docs/memory.md`.
#[test]
fn a_deferred_mail_takes_few_bytes() {
    let (mut state, random) = (State::default(), SeededRandom::new(1));
    let count: u64 = 50_000;
    for n in 0..count {
        // As many domains as a thousandth of the mails, and one mail in ten for a domain of its own.
        let domain = if n % 10 == 0 { n } else { n % 50 };
        let mail = mail(
            Timestamp::from_seconds(1_700_000_000),
            1 + (n % 200) as u8,
            &[&format!("u@d{domain}.example")],
        );
        one(&mut state, 1_700_000_000, Event::Accepted(Box::new(mail)));
    }
    for n in 0..count {
        // Each reply is different, as with greylisting.
        let text = format!(
            "450 4.7.1 <u@d.example>: Recipient address rejected: greylisted, id={:016x}",
            random.next_u64()
        );
        let outcomes = vec![(0, Outcome::Deferred(failure(&text)))];
        let next = Timestamp::from_seconds(1_700_001_000);
        let attempted = Attempted { mail: MailId(n), outcomes, attempts: 2, next };
        one(&mut state, 1_700_000_100, Event::Attempted(attempted));
    }
    let each = state.heap_bytes() as u64 / count;
    assert!(each <= 190, "{each} bytes for each deferred mail");
    assert!(each >= 100, "the count misses something: {each}");
}
