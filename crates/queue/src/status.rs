//! Why a mail waits and until when, in one line; and the state of a queue that another process runs.

use std::sync::Arc;

use sealpost_base::{AccountId, Clock, Random, Result, Timestamp};
use sealpost_journal::Journal;
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::MailKeys;

use crate::MailId;
use crate::log::read_state;
use crate::state::{Flags, Row, State, expires, seconds};

/// Why a mail waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits {
    /// The reason, in a few words.
    pub why: String,
    /// When the wait ends; `None` if the mail is due now.
    pub until: Option<Timestamp>,
}

/// Why a mail waits.
pub fn waits(state: &State, id: MailId, row: &Row, now: Timestamp) -> Waits {
    let later = |time: Timestamp| (time > now).then_some(time);
    if let Some(why) = state.all_held() {
        return Waits { why: format!("the queue is on hold: {why}"), until: None };
    }
    if row.flags.has(Flags::HELD) {
        let rule = state.rules().find(|rule| rule.number == row.rule && row.rule > 0);
        let why = match rule {
            Some(rule) if rule.note.is_empty() => format!("held by rule {}", rule.number),
            Some(rule) => format!("held by rule {}: {}", rule.number, rule.note),
            None => "held by the operator".to_owned(),
        };
        return Waits { why, until: later(seconds(row.next)) };
    }
    if row.flags.has(Flags::FUTURE) {
        return Waits { why: "its sender wants it sent later".to_owned(), until: later(seconds(row.next)) };
    }
    if row.flags.has(Flags::SENDING) {
        return Waits { why: "being sent".to_owned(), until: None };
    }
    let failure = last_failure(state, id, row);
    let until = later(seconds(row.next).min(expires(row)));
    let why = match (failure, until, row.attempts) {
        (Some(failure), ..) => failure,
        (None, _, 0) => "waits for a connection".to_owned(),
        (None, None, _) => "waits for a connection again".to_owned(),
        (None, Some(_), attempts) => format!("attempt {attempts} failed"),
    };
    Waits { why, until }
}

/// The last reply for any remaining recipient.
fn last_failure(state: &State, id: MailId, row: &Row) -> Option<String> {
    if let Some(failure) = state.rows().failure(id) {
        return Some(failure.to_string());
    }
    let places = 0..usize::from(row.recipients).saturating_add(1);
    places.filter_map(|place| state.left(id, place).flatten()).map(|failure| failure.to_string()).next()
}

/// Reads the state of the queue of `node`, which another process runs. Appends nothing.
///
/// # Errors
/// `Corrupt` if the log cannot be read; errors of the store.
pub async fn look(
    store: &Store,
    node: AccountId,
    log_key: &LogKey,
    mail_keys: &MailKeys,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
) -> Result<State> {
    let journal = Journal::of_queue(store.clone(), node, log_key, random).timed(clock);
    read_state(&journal, &mail_keys.queue(node)).await
}

#[cfg(test)]
mod tests {
    use sealpost_base::Position;

    use super::*;
    use crate::event::{Attempted, Batch, Event, Failure, Held, Outcome, Rule, Selector, Status, WriterId};
    use crate::state::tests::mail;

    #[test]
    fn each_reason_is_one_line() {
        let mut state = State::default();
        let one = |state: &mut State, event| {
            let position = Position(state.position().0 + 1);
            let at = Timestamp::from_seconds(1000);
            let batch =
                Batch { at, writer: WriterId([1; 16]), nonce: 0, first: MailId(0), events: vec![event] };
            state.apply(position, &batch);
        };
        let now = Timestamp::from_seconds(1000);
        let why = |state: &State| {
            let waits = waits(state, MailId(0), state.rows().get(MailId(0)).unwrap(), now);
            (waits.why, waits.until.map(Timestamp::seconds))
        };
        one(&mut state, Event::Accepted(Box::new(mail(now, 1, &["u@there.example"]))));
        assert_eq!(why(&state), ("waits for a connection".to_owned(), None));
        one(&mut state, Event::Sending(MailId(0)));
        assert_eq!(why(&state).0, "being sent");
        let failure = Failure::at("mx.there.example", Status::new(4, 7, 1), "450 4.7.1 later", true);
        let outcomes = vec![(0, Outcome::Deferred(failure))];
        let next = Timestamp::from_seconds(1300);
        one(&mut state, Event::Attempted(Attempted { mail: MailId(0), outcomes, attempts: 1, next }));
        assert_eq!(why(&state), ("mx.there.example replied: 450 4.7.1 later".to_owned(), Some(1300)));
        let selector = Selector { domain: Some("there.example".to_owned()), ..Selector::default() };
        let rule =
            Rule { number: 0, selector, until: Timestamp::from_seconds(9000), note: "abuse?".to_owned() };
        one(&mut state, Event::RuleAdded(rule));
        one(&mut state, Event::Held(Held { mail: MailId(0), until: Timestamp::from_seconds(9000), rule: 1 }));
        assert_eq!(why(&state), ("held by rule 1: abuse?".to_owned(), Some(9000)));
        one(&mut state, Event::AllHeld("this store was restored from a backup".to_owned()));
        assert_eq!(why(&state).0, "the queue is on hold: this store was restored from a backup");
    }
}
