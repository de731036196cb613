//! Entry points for fuzzing what this crate reads back from a store. They panic when something is wrong.

use sealpost_base::{AccountId, Position};
use sealpost_vault::entry::Origin;

use crate::event::Batch;
use crate::state::{AccountState, Restore};

const ACCOUNT: AccountId = AccountId([0; 16]);

/// The plaintext of a log entry: any input is applied or refused, and the state survives its own
/// checkpoint.
pub fn fuzz_events(data: &[u8]) {
    let Ok(batch) = Batch::decode(data) else { return };
    let mut state = AccountState::new(ACCOUNT);
    for position in 1..=3 {
        let origin = if position == 2 { Origin::Delivery } else { Origin::Owner };
        state.apply(Position(position), origin, &batch);
    }
    let restored = through_chunks(&state);
    assert_eq!(state_bytes(&state), state_bytes(&restored));
}

/// A checkpoint: a name's length, a name, a chunk's length (two bytes), a chunk, and so on. It is
/// restored or refused; what is restored can be changed and written again.
pub fn fuzz_checkpoint(data: &[u8]) {
    for lenient in [false, true] {
        let mut restore = if lenient { Restore::lenient(ACCOUNT) } else { Restore::new(ACCOUNT) };
        let mut rest = data;
        while let Some((name, chunk, after)) = split(rest) {
            rest = after;
            if restore.chunk(name, chunk).is_err() && !lenient {
                return;
            }
        }
        let Ok(mut state) = restore.finish() else { return };
        state.apply_damage(state.position());
        through_chunks(&state);
    }
}

fn split(data: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let (name_len, data) = data.split_first()?;
    let (name, data) = data.split_at_checked(usize::from(*name_len))?;
    let (len, data) = data.split_first_chunk::<2>()?;
    let (chunk, rest) = data.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    Some((std::str::from_utf8(name).ok()?, chunk, rest))
}

fn through_chunks(state: &AccountState) -> AccountState {
    let mut restore = Restore::new(ACCOUNT);
    for name in state.chunk_names() {
        restore.chunk(&name, &state.chunk(&name)).expect("a state's own chunks fit");
    }
    restore.finish().expect("a state's own chunks are whole")
}

/// A state as the checkpoint input of [`fuzz_checkpoint`]; what its corpus starts from.
pub fn state_bytes(state: &AccountState) -> Vec<u8> {
    let mut bytes = Vec::new();
    for name in state.chunk_names() {
        let chunk = state.chunk(&name);
        bytes.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&u16::try_from(chunk.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend_from_slice(&chunk);
    }
    bytes
}
