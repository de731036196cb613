//! Push: what changed, and who is to be notified (RFC 8620 §7).

mod subscription;

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;
pub use subscription::{
    PushKeys, PushProperty, PushSubscription, PushSubscriptionGet, PushSubscriptionGetResponse,
    PushSubscriptionSet, PushSubscriptionSetResponse, VapidCapability,
};

use crate::id::{AccountId, Id};
use crate::read::{Fields, FromJson, Mismatch};
use crate::state::State;

/// States by the name of the type: `Email`.
pub type TypeState = BTreeMap<String, State>;

/// What changed since the last one (§7.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateChange {
    /// New states of the types that changed, by account.
    pub changed: BTreeMap<AccountId, TypeState>,
}

impl StateChange {
    const TYPE: &'static str = "StateChange";

    /// Leaves only some types.
    pub fn retain_types(&mut self, types: &[String]) {
        for states in self.changed.values_mut() {
            states.retain(|name, _| types.contains(name));
        }
        self.changed.retain(|_, states| !states.is_empty());
    }
}

impl Serialize for StateChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("@type", Self::TYPE)?;
        map.serialize_entry("changed", &self.changed)?;
        map.end()
    }
}

/// Takes `@type` out, which must be `name`.
fn typed(value: Value, name: &str) -> Result<Fields, Mismatch> {
    let mut fields = Fields::from_json(value)?;
    let found: String = fields.required("@type")?;
    if found == name {
        Ok(fields)
    } else {
        Err(Mismatch::because(format!("expected {name:?}")).within("@type"))
    }
}

impl FromJson for StateChange {
    fn expected() -> String {
        "a StateChange".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let mut fields = typed(value, Self::TYPE)?;
        let change = StateChange { changed: fields.required("changed")? };
        fields.finish()?;
        Ok(change)
    }
}

/// What a new subscription is sent, to see that its URL is the client's (§7.2.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushVerification {
    /// The subscription.
    pub push_subscription_id: Id,
    /// What the client must repeat.
    pub verification_code: String,
}

impl PushVerification {
    const TYPE: &'static str = "PushVerification";
}

impl Serialize for PushVerification {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("@type", Self::TYPE)?;
        map.serialize_entry("pushSubscriptionId", &self.push_subscription_id)?;
        map.serialize_entry("verificationCode", &self.verification_code)?;
        map.end()
    }
}

impl FromJson for PushVerification {
    fn expected() -> String {
        "a PushVerification".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let mut fields = typed(value, Self::TYPE)?;
        let verification = PushVerification {
            push_subscription_id: fields.required("pushSubscriptionId")?,
            verification_code: fields.required("verificationCode")?,
        };
        fields.finish()?;
        Ok(verification)
    }
}
