//! State strings: the positions in the logs of an account.
//!
//! `{own:x}`, then `-{share}{position:x}` for each of its shared mailboxes, by the first 8 digits
//! of its id. For the account of another owner, `s{print:x}` instead of the first, and the others
//! for each of its mailboxes that the caller may read. Digits are lowercase and have no zeros in front, so that one state has one string.

use sealpost_base::limits::{JMAP_STATE_BYTES, SHARES};
use sealpost_base::{AccountId, Position};
use sealpost_jmap::State;
use sealpost_mailbox::account_changes::LogPositions;
use sealpost_mailbox::shared_accounts::Reach;

/// Digits of a shared log's id. Two logs of an account collide in one account out of a hundred thousand; its
/// clients then read everything again after a change.
const ID_DIGITS: usize = 8;
/// The most digits of a position.
const POSITION_DIGITS: usize = 16;

const _: () = assert!(POSITION_DIGITS + SHARES * (1 + ID_DIGITS + POSITION_DIGITS) <= JMAP_STATE_BYTES);

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
    let mut text = match head {
        Head::Own(own) => {
            let position = positions.iter().find(|(log, _)| *log == own).map(|(_, at)| at.0);
            format!("{:x}", position.unwrap_or(0))
        }
        Head::Shared(print) => format!("s{print:x}"),
    };
    for (log, position) in positions.iter().filter(|(log, _)| head != Head::Own(*log)) {
        text.push_str(&format!("-{}{:x}", short(log), position.0));
    }
    State::new(text)
}

/// What a state string begins with, and the positions in it. `None` if the server made no such
/// string for these logs: it is not one, or a log is not among them any more. The first of `logs`
/// is the own one, if the account is the caller's.
pub(crate) fn positions_in(state: &State, reach: Reach, logs: &[AccountId]) -> Option<(Head, LogPositions)> {
    let mut parts = state.as_str().split('-');
    let first = parts.next()?;
    let (head, own, shares) = match reach {
        Reach::Own => {
            let (own, shares) = logs.split_first()?;
            (Head::Own(*own), Some((*own, position_in(first)?)), shares)
        }
        Reach::SharedBy(_) => {
            let print = u32::from_str_radix(first.strip_prefix('s')?, 16).ok()?;
            (Head::Shared(print), None, logs)
        }
    };
    let mut positions: Vec<(AccountId, Position)> = own.into_iter().collect();
    for part in parts {
        let (id, position) = part.split_at_checked(ID_DIGITS)?;
        let mut named = shares.iter().filter(|share| short(**share) == id);
        let (Some(share), None) = (named.next(), named.next()) else { return None };
        positions.push((*share, position_in(position)?));
    }
    let positions: LogPositions = positions.into_iter().collect();
    // One state has one string.
    (state_of(head, &positions) == *state).then_some((head, positions))
}

fn position_in(digits: &str) -> Option<Position> {
    u64::from_str_radix(digits, 16).ok().map(Position)
}

#[cfg(test)]
mod tests {
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
        fn one_state_has_one_string(text in "s?[0-9a-f]{0,3}(-(07|01|09|0)[0-9a-f]{0,12}){0,3}|.*") {
            let state = State::new(text);
            for reach in [Reach::Own, Reach::SharedBy(AccountId([3; 16]))] {
                if let Some((head, positions)) = positions_in(&state, reach, &logs()) {
                    proptest::prop_assert_eq!(&state_of(head, &positions), &state);
                }
            }
        }
    }
}
