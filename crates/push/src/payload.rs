//! What is written into pushes: for the protocol to say.

use sealpost_account::Touched;
use sealpost_base::{AccountId, Position};

use crate::subscription::SubscriptionId;

/// A message about a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The message, as `application/json`.
    pub body: Vec<u8>,
    /// What it names: a push service replaces an older message that names the same.
    pub topic: String,
    /// Whether it may be new mail, for which a device is woken up.
    pub is_new_mail: bool,
}

/// Writes messages.
pub trait Payloads: Send + Sync {
    /// What a new subscription's URL gets (RFC 8620 §7.2.2).
    fn verification(&self, id: &SubscriptionId, code: &str) -> Vec<u8>;

    /// The message that an account has changed, whose logs are at these positions, its own first;
    /// `None` if no one of `types` may have changed.
    fn change(
        &self,
        account: AccountId,
        logs: &[(AccountId, Position)],
        touched: Touched,
        types: Option<&[String]>,
    ) -> Option<Change>;
}
