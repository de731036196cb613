//! State strings: the positions in the logs of an account.
//!
//! `{own:x}`, then `-{share}{position:x}` for each shared mailbox, which the first 8 digits of its id
//! identify. Digits are lowercase without leading zeros, so that each state has one string.

use sealpost_base::limits::{JMAP_STATE_BYTES, SHARES};
use sealpost_base::{AccountId, Position};
use sealpost_jmap::State;
use sealpost_mailbox::account_changes::LogPositions;

/// Digits of a shared log's id. Two logs of an account collide in one account out of a hundred thousand; its
/// clients then read everything again after a change.
const ID_DIGITS: usize = 8;
/// The most digits of a position.
const POSITION_DIGITS: usize = 16;

const _: () = assert!(POSITION_DIGITS + SHARES * (1 + ID_DIGITS + POSITION_DIGITS) <= JMAP_STATE_BYTES);

fn short(log: AccountId) -> String {
    log.to_string()[..ID_DIGITS].to_owned()
}

/// The state of a client that has read up to these positions; `own` is the account's own log.
pub(crate) fn state_of(own: AccountId, positions: &LogPositions) -> State {
    let position = |wanted| positions.iter().find(|(log, _)| *log == wanted).map(|(_, at)| at.0);
    let mut text = format!("{:x}", position(own).unwrap_or(0));
    for (log, position) in positions.iter().filter(|(log, _)| *log != own) {
        text.push_str(&format!("-{}{:x}", short(log), position.0));
    }
    State::new(text)
}

/// The positions in a state string. `None` if the server never made it for these logs: it is malformed, or a
/// log has since been removed. The first of `logs` is the account's own.
pub(crate) fn positions_in(state: &State, logs: &[AccountId]) -> Option<LogPositions> {
    let (own, shares) = logs.split_first()?;
    let mut parts = state.as_str().split('-');
    let mut positions = vec![(*own, position_in(parts.next()?)?)];
    for part in parts {
        let (id, position) = part.split_at_checked(ID_DIGITS)?;
        let mut named = shares.iter().filter(|share| short(**share) == id);
        let (Some(share), None) = (named.next(), named.next()) else { return None };
        positions.push((*share, position_in(position)?));
    }
    let positions: LogPositions = positions.into_iter().collect();
    // Reject other spellings.
    (state_of(*own, &positions) == *state).then_some(positions)
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
        let state = state_of(logs[0], &positions);
        assert_eq!(state.as_str(), "2f-09090909ffffffffffffffff");
        assert_eq!(positions_in(&state, &logs), Some(positions));
        assert_eq!(positions_in(&state, &logs[..2]), None, "a log that is gone");
        let own: LogPositions = [(logs[0], Position(0))].into_iter().collect();
        assert_eq!(positions_in(&State::new("0"), &logs), Some(own));
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
            assert_eq!(positions_in(&State::new(bad), &logs()), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn one_state_has_one_string(text in "[0-9a-f]{0,3}(-(07|01|09|0)[0-9a-f]{0,12}){0,3}|.*") {
            let state = State::new(text);
            if let Some(positions) = positions_in(&state, &logs()) {
                proptest::prop_assert_eq!(state_of(logs()[0], &positions), state);
            }
        }
    }
}
