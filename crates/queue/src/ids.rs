//! [`MailId`] names a mail in the log of one node's queue; [`node_id`] names that log.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Error, Result};
use sealpost_vault::Hash;

/// A mail of one node's queue: its number in the order of acceptance, never reused. Replay assigns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct MailId(#[n(0)] pub u64);

impl fmt::Display for MailId {
    /// Such as `Q1f4`: hexadecimal, so that it is short in a reply to a client.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Q{:x}", self.0)
    }
}

impl FromStr for MailId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::invalid(format!("not the id of a queued mail: {text:?}; ids look like Q1f4"));
        let digits = text.strip_prefix(['Q', 'q']).ok_or_else(bad)?;
        if digits.starts_with('+') {
            return Err(bad());
        }
        u64::from_str_radix(digits, 16).map(MailId).map_err(|_| bad())
    }
}

/// The id that a node's queue is stored under.
pub fn node_id(name: &str) -> AccountId {
    let hash = Hash::of(format!("sealpost node {name}").as_bytes());
    let mut id = AccountId([0; 16]);
    id.0.copy_from_slice(&hash.0[..16]);
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_through_text() {
        for id in [0, 500, u64::MAX] {
            assert_eq!(MailId(id).to_string().parse::<MailId>().unwrap(), MailId(id));
        }
        for bad in ["", "Q", "1f4", "Q+1", "Qxyz", "Q11111111111111111"] {
            assert!(bad.parse::<MailId>().is_err(), "{bad}");
        }
    }
}
