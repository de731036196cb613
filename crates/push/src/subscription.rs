//! Subscriptions as they are stored: all of one account in one note. Format: `docs/format/push.md`.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Random, Timestamp};
use sealpost_vault::slot::SlotId;

use crate::crypto;

/// Names a subscription: 16 random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct SubscriptionId(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 16]);

/// Keys of the client (RFC 8291 §3). They have no Debug.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ClientKeys {
    /// Its public key: an uncompressed point on P-256.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub point: [u8; 65],
    /// The secret that authenticates messages to it.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub secret: [u8; 16],
}

/// One subscription of one device. It has no Debug.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Subscription {
    /// Its id.
    #[n(0)]
    pub id: SubscriptionId,
    /// What the client calls itself and its device.
    #[n(1)]
    pub device: String,
    /// Where pushes are sent.
    #[n(2)]
    pub url: String,
    /// What they are encrypted for; `None`: they are sent as they are.
    #[n(3)]
    pub keys: Option<ClientKeys>,
    /// What the client must repeat.
    #[n(4)]
    pub code: String,
    /// Whether it has: without that nothing more is sent (RFC 8620 §7.2.2).
    #[n(5)]
    pub is_verified: bool,
    /// When it ends.
    #[n(6)]
    pub expires: Timestamp,
    /// The types it is for; `None`: all.
    #[n(7)]
    pub types: Option<Vec<String>>,
    /// The slot of the login that made it: it ends with that (RFC 8620 §7.2).
    #[n(8)]
    pub slot: SlotId,
}

/// The subscriptions of one account, with what a node must know to push.
#[derive(Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AccountNote {
    /// The name of the account when the note was written.
    #[n(0)]
    pub name: String,
    /// The subscriptions.
    #[n(1)]
    pub subscriptions: Vec<Subscription>,
    /// The logs of its own shared mailboxes: state strings have their positions too.
    #[n(2)]
    pub shares: Vec<AccountId>,
    /// When subscriptions were created, in the last hour.
    #[n(3)]
    pub created: Vec<Timestamp>,
}

impl SubscriptionId {
    /// A new one.
    pub fn random(random: &dyn Random) -> Self {
        let mut id = SubscriptionId([0; 16]);
        random.fill(&mut id.0);
        id
    }
}

impl fmt::Display for SubscriptionId {
    /// `P` and 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("P")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for SubscriptionId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.strip_prefix('P').filter(|digits| digits.len() == 32).ok_or(())?;
        let number = u128::from_str_radix(digits, 16).map_err(|_| ())?;
        let id = SubscriptionId(number.to_be_bytes());
        // One id has one text.
        if id.to_string() == text { Ok(id) } else { Err(()) }
    }
}

impl ClientKeys {
    /// Whether messages can be encrypted for them: the public key is a point on the curve.
    pub fn is_usable(&self) -> bool {
        crypto::is_usable(self)
    }
}

impl Subscription {
    /// A new code that a client cannot guess: 128 random bits.
    pub fn new_code(random: &dyn Random) -> String {
        let mut code = [0; 16];
        random.fill(&mut code);
        code.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether changes may be pushed now.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.is_verified && now < self.expires
    }
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;

    use super::*;

    #[test]
    fn one_id_has_one_text() {
        let id = SubscriptionId::random(&SeededRandom::new(1));
        assert_eq!(id.to_string().parse(), Ok(id));
        let upper = id.to_string().to_uppercase();
        for bad in ["", "P", "Pé", &upper, &id.to_string()[1..], "P+0000000000000000000000000000001"] {
            assert_eq!(bad.parse::<SubscriptionId>(), Err(()), "{bad}");
        }
        assert_eq!(Subscription::new_code(&SeededRandom::new(1)).len(), 32);
    }
}
