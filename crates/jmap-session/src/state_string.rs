//! State strings of emails, threads and mailboxes: positions in the logs of an account.
//!
//! `{own}`, then `-{share}{position}` for each of its shared mailboxes, by the first 8 digits of its id. For
//! the account of another owner, `s{print:x}` instead of the first, and the others for each of its mailboxes
//! that the caller may read. Digits are lowercase and have no zeros in front, so that one state has one
//! string. The positions are those of the last changes of the type ([`AccountState::last_change`]), so that
//! it has another state only if it has changed. Behind one position there may be an id within the entry
//! after it ([`crate::sync_point_text`]).
//!
//! [`AccountState::last_change`]: sealpost_account::AccountState::last_change

use sealpost_account::state::{ChangeKey, SyncPoint};
use sealpost_base::limits::{JMAP_STATE_BYTES, SHARES};
use sealpost_base::{AccountId, Position};
use sealpost_jmap::State;
use sealpost_mailbox::account_changes::{AccountSyncPoint, LogPositions};
use sealpost_mailbox::shared_accounts::Reach;

use crate::sync_point_text::{WITHIN, WITHIN_BYTES, read_point, write_point};

/// Digits of a shared log's id. Two logs of an account collide in one account out of a hundred thousand; its
/// clients then read everything again after a change.
const ID_DIGITS: usize = 8;
/// The most digits of a position.
const POSITION_DIGITS: usize = 16;

const _: () =
    assert!(POSITION_DIGITS + SHARES * (1 + ID_DIGITS + POSITION_DIGITS) + WITHIN_BYTES <= JMAP_STATE_BYTES);

fn short(log: AccountId) -> String {
    log.to_string()[..ID_DIGITS].to_owned()
}

/// What a state string begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// The position of the caller's own log, whose id this is.
    Own(AccountId),
    /// Of the account of another owner: a print of the names, rights and settings of its mailboxes.
    Shared(u32),
}

/// The state of a client that knows the logs up to there.
pub(crate) fn state_of(head: Head, positions: &LogPositions) -> State {
    write(head, positions, |_, position| format!("{:x}", position.0))
}

/// The state of a client that has followed the changes up to there.
pub(crate) fn state_at<T: ChangeKey>(head: Head, point: &AccountSyncPoint<T>) -> State {
    write(head, &point.positions, |log, position| {
        let within = point.within.filter(|(inside, _)| *inside == log).map(|(_, last)| last);
        write_point(SyncPoint { position, within })
    })
}

fn write(head: Head, positions: &LogPositions, text_of: impl Fn(AccountId, Position) -> String) -> State {
    let mut text = match head {
        Head::Own(own) => {
            let position = positions.iter().find(|(log, _)| *log == own).map(|(_, at)| at);
            text_of(own, position.unwrap_or_default())
        }
        Head::Shared(print) => format!("s{print:x}"),
    };
    for (log, position) in positions.iter().filter(|(log, _)| head != Head::Own(*log)) {
        text.push_str(&format!("-{}{}", short(log), text_of(log, position)));
    }
    State::new(text)
}

/// What a state string begins with, and how far its client has followed the changes. `None` if the server
/// made no such string for these logs: it is not one, or a log is not among them any more. The first of
/// `logs` is the own one, if the account is the caller's.
pub(crate) fn point_in<T: ChangeKey>(
    state: &State,
    reach: Reach,
    logs: &[AccountId],
) -> Option<(Head, AccountSyncPoint<T>)> {
    let mut parts = state.as_str().split('-');
    let first = parts.next()?;
    let mut points: Vec<(AccountId, SyncPoint<T>)> = Vec::new();
    let (head, shares) = match reach {
        Reach::Own => {
            let (own, shares) = logs.split_first()?;
            points.push((*own, read_point(first)?));
            (Head::Own(*own), shares)
        }
        Reach::SharedBy(_) => (Head::Shared(u32::from_str_radix(first.strip_prefix('s')?, 16).ok()?), logs),
    };
    for part in parts {
        let (id, point) = part.split_at_checked(ID_DIGITS)?;
        let mut named = shares.iter().filter(|share| short(**share) == id);
        let (Some(share), None) = (named.next(), named.next()) else { return None };
        points.push((*share, read_point(point)?));
    }
    let within = points.iter().find_map(|(log, point)| Some((*log, point.within?)));
    let positions = points.iter().map(|(log, point)| (*log, point.position)).collect();
    let point = AccountSyncPoint { positions, within };
    // One state has one string.
    (state_at(head, &point) == *state).then_some((head, point))
}

/// The positions in a state string of any type, of those logs that are among these.
pub(crate) fn positions_of(state: &State, reach: Reach, logs: &[AccountId]) -> Option<LogPositions> {
    let position = |text: &str| {
        let digits = text.split(WITHIN).next()?;
        u64::from_str_radix(digits, 16).ok().map(Position)
    };
    let mut parts = state.as_str().split('-');
    let (first, own) = (parts.next()?, logs.first().filter(|_| reach == Reach::Own));
    let mut positions: Vec<(AccountId, Position)> = Vec::new();
    positions.extend(own.and_then(|own| Some((*own, position(first)?))));
    for part in parts {
        let (id, text) = part.split_at_checked(ID_DIGITS)?;
        let log = logs.iter().find(|log| short(**log) == id);
        positions.extend(log.and_then(|log| Some((*log, position(text)?))));
    }
    Some(positions.into_iter().collect())
}

/// The same as [`point_in`] for a state with positions alone.
pub(crate) fn positions_in(state: &State, reach: Reach, logs: &[AccountId]) -> Option<(Head, LogPositions)> {
    let (head, point) = point_in::<NoKey>(state, reach, logs)?;
    Some((head, point.positions))
}

/// The id of no object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NoKey {}

impl ChangeKey for NoKey {
    const LETTER: char = '?';

    fn to_number(self) -> u128 {
        match self {}
    }

    fn from_number(_: u128) -> Option<Self> {
        None
    }
}

#[cfg(test)]
mod tests {
    use sealpost_account::ThreadId;
    use sealpost_base::ObjectId;

    use super::*;

    fn logs() -> Vec<AccountId> {
        [7, 1, 9].map(|byte| AccountId([byte; 16])).into()
    }

    #[test]
    fn positions_are_read_back() {
        let logs = logs();
        let positions: LogPositions =
            [(logs[0], Position(0x2f)), (logs[2], Position(u64::MAX))].into_iter().collect();
        let head = Head::Own(logs[0]);
        let positions_in = |state: &State, logs: &[AccountId]| positions_in(state, Reach::Own, logs);
        let state = state_of(head, &positions);
        assert_eq!(state.as_str(), "2f-09090909ffffffffffffffff");
        assert_eq!(positions_in(&state, &logs), Some((head, positions)));
        assert_eq!(positions_in(&state, &logs[..2]), None, "a log that is gone");
        let own: LogPositions = [(logs[0], Position(0))].into_iter().collect();
        assert_eq!(positions_in(&State::new("0"), &logs), Some((head, own)));
    }

    #[test]
    fn states_of_other_owners_have_a_print() {
        let (logs, head, reach) = (logs(), Head::Shared(0x2f), Reach::SharedBy(AccountId([3; 16])));
        let positions: LogPositions = [(logs[0], Position(1)), (logs[1], Position(9))].into_iter().collect();
        let state = state_of(head, &positions);
        assert_eq!(state.as_str(), "s2f-010101019-070707071");
        assert_eq!(positions_in(&state, reach, &logs), Some((head, positions)));
        assert_eq!(positions_in(&state, reach, &logs[..1]), None, "a mailbox that is gone");
        assert_eq!(positions_in(&state, Reach::Own, &logs), None, "of another account");
        for bad in ["2f", "s", "s02f", "s-", "s100000000"] {
            assert_eq!(positions_in(&State::new(bad), reach, &logs), None, "{bad}");
        }
    }

    #[test]
    fn a_state_may_end_within_an_entry_of_one_log() {
        let logs = logs();
        let positions: LogPositions =
            [(logs[0], Position(0x2f)), (logs[2], Position(7))].into_iter().collect();
        let head = Head::Own(logs[0]);
        for (log, text) in [(logs[0], "2f_t1c-090909097"), (logs[2], "2f-090909097_t1c")] {
            let thread = ThreadId::from_number(0x1c).unwrap();
            let point = AccountSyncPoint { positions: positions.clone(), within: Some((log, thread)) };
            let state = state_at(head, &point);
            assert_eq!(state.as_str(), text);
            assert_eq!(point_in(&state, Reach::Own, &logs), Some((head, point)));
            assert_eq!(point_in::<ObjectId>(&state, Reach::Own, &logs), None, "of another type");
            assert_eq!(positions_in(&state, Reach::Own, &logs), None);
        }
        let two = State::new("2f_t1c-090909097_t1c");
        assert_eq!(point_in::<ThreadId>(&two, Reach::Own, &logs), None, "one log at most");
    }

    #[test]
    fn other_strings_are_no_states() {
        for bad in [
            "",
            "x",
            "02f",
            "2F",
            "+2",
            "1-",
            "1-01010101",
            "1-010101012-010101012",
            "1-0909",
            "1-é9090909",
            "10000000000000000",
        ] {
            assert_eq!(positions_in(&State::new(bad), Reach::Own, &logs()), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn one_state_has_one_string(text in "s?[0-9a-f]{0,3}(_t[0-9a-f]{0,3})?(-(07|01|09|0)[0-9a-f]{0,12}(_t[0-9a-f]{0,3})?){0,3}|.*") {
            let state = State::new(text);
            for reach in [Reach::Own, Reach::SharedBy(AccountId([3; 16]))] {
                if let Some((head, positions)) = positions_in(&state, reach, &logs()) {
                    proptest::prop_assert_eq!(&state_of(head, &positions), &state);
                }
                if let Some((head, point)) = point_in::<ThreadId>(&state, reach, &logs()) {
                    proptest::prop_assert_eq!(&state_at(head, &point), &state);
                }
            }
        }
    }
}
