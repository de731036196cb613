//! The last use of an OAuth grant or a web login, beside the account's record, so that using one
//! never rewrites that: `logins/{account id}/{slot id}/{version:016x}`, a hidden record
//! (`docs/format/accounts.md`).
//!
//! Of a grant it also has the generation of its newest refresh token. An authorization code is
//! generation 0: the first exchange writes generation 1, and each refresh the next one. The store
//! lets one writer write it, so a code or a refresh token is used once, whichever node it goes to.

use sealpost_base::{AccountId, Timestamp};
use sealpost_vault::record;
use sealpost_vault::slot::SlotId;

const ROOT: &str = "logins";
const PLAIN_BYTES: usize = 16;
/// The size of what is hidden: the same for all, with any content.
pub(super) const HIDDEN_BYTES: usize = record::HIDDEN_OVERHEAD_BYTES + PLAIN_BYTES;

/// What is known of the use of a grant or a web login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginUse {
    /// Of the newest refresh token; 0 for a web login.
    pub generation: u64,
    /// When it was used last, as far as it was written down.
    pub used: Timestamp,
    /// Of this record.
    pub(super) version: u64,
}

/// What becomes of a code or refresh token that a client shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// It was the newest: this generation follows.
    Next(u64),
    /// The one before, which was replaced a moment ago by this generation: the answer may be lost.
    Repeated(u64),
    /// An older one: more than one client has it.
    Reused,
    /// None of them counts any more: another request has ended the grant.
    Ended,
}

/// What a record holds, before it is hidden.
pub(super) fn encode(generation: u64, used: Timestamp) -> [u8; PLAIN_BYTES] {
    let mut bytes = [0; PLAIN_BYTES];
    bytes[..8].copy_from_slice(&generation.to_be_bytes());
    bytes[8..].copy_from_slice(&used.0.to_be_bytes());
    bytes
}

/// What [`encode`] made.
pub(super) fn decode(bytes: &[u8]) -> Option<(u64, Timestamp)> {
    let (generation, rest) = bytes.split_first_chunk()?;
    let used = rest.try_into().ok()?;
    Some((u64::from_be_bytes(*generation), Timestamp(i64::from_be_bytes(used))))
}

/// Below which path the records of an account's logins are.
pub(super) fn below(account: AccountId) -> String {
    format!("{ROOT}/{account}")
}

/// Where the records of a login are.
pub(super) fn directory(account: AccountId, slot: SlotId) -> String {
    format!("{ROOT}/{account}/{slot}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_uses_round_trip_at_one_length() {
        for (generation, used) in [(0, Timestamp(0)), (u64::MAX, Timestamp(i64::MAX)), (7, Timestamp(-1))] {
            assert_eq!(decode(&encode(generation, used)), Some((generation, used)));
        }
        assert_eq!(decode(&[0; 15]), None);
        assert_eq!(decode(&[0; 17]), None);
    }
}
