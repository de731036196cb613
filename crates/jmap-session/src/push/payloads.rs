//! What is written into pushes: StateChange and PushVerification (RFC 8620 §7.1, §7.2.2).
//!
//! The node that writes them has no key of the account. It needs none: a state string is made of
//! positions of logs, and the process that appended an entry knows what it touched.

use std::collections::BTreeMap;

use sealpost_account::Touched;
use sealpost_base::{AccountId, Position};
use sealpost_jmap::Id;
use sealpost_jmap::push::{PushVerification, StateChange, TypeState};
use sealpost_push::{Change, Payloads, SubscriptionId};

use crate::record_state::state_at;
use crate::session_object::account_id;
use crate::state_string::{Head, state_of};

/// Types of which objects change with what an entry touches.
const TYPES: [(&str, Touched); 8] = [
    ("AddressBook", Touched::ADDRESS_BOOKS),
    ("ContactCard", Touched::CARDS),
    ("Email", Touched::EMAILS),
    // RFC 8621 §1.5.
    ("EmailDelivery", Touched::DELIVERIES),
    ("EmailSubmission", Touched::SUBMISSIONS),
    ("Identity", Touched::IDENTITIES),
    ("Mailbox", Touched::MAILBOXES),
    ("Thread", Touched::THREADS),
];

/// Writes JMAP.
#[derive(Debug, Clone, Copy, Default)]
pub struct JmapPayloads;

impl Payloads for JmapPayloads {
    fn verification(&self, id: &SubscriptionId, code: &str) -> Vec<u8> {
        let push_subscription_id = Id::new(id.to_string()).expect("hexadecimal digits are safe characters");
        let verification = PushVerification { push_subscription_id, verification_code: code.to_owned() };
        serde_json::to_vec(&verification).unwrap_or_default()
    }

    fn change(
        &self,
        account: AccountId,
        logs: &[(AccountId, Position)],
        touched: Touched,
        types: Option<&[String]>,
    ) -> Option<Change> {
        let state = state_of(Head::Own(account), &logs.iter().copied().collect());
        let is_wanted = |name: &str| types.is_none_or(|types| types.iter().any(|wanted| wanted == name));
        let changed = TYPES.iter().filter(|(name, of)| touched.has(*of) && is_wanted(name));
        let names: Vec<&str> = changed.map(|(name, _)| *name).collect();
        if names.is_empty() {
            return None;
        }
        // The states are positions of the last changes of each type, which only a process that reads the
        // logs knows. The ends of the logs are not before them, and /changes takes them as states.
        let own = logs.iter().find(|(log, _)| *log == account).map_or(Position::ZERO, |(_, at)| *at);
        let state_of_type = |name: &str| match name {
            "AddressBook" | "ContactCard" | "EmailSubmission" | "Identity" => state_at(own),
            _ => state.clone(),
        };
        let states: TypeState = names.iter().map(|name| ((*name).to_owned(), state_of_type(name))).collect();
        let change = StateChange { changed: BTreeMap::from([(account_id(account), states)]) };
        Some(Change {
            body: serde_json::to_vec(&change).unwrap_or_default(),
            topic: names.join(","),
            is_new_mail: names.contains(&"EmailDelivery"),
        })
    }
}

#[cfg(test)]
mod tests {
    use sealpost_auth::{Scope, Scopes};
    use serde_json::{Value, json};

    use super::*;
    use crate::type_capabilities::is_type_granted;

    fn changed(touched: Touched, types: Option<&[String]>) -> Option<Value> {
        let (me, share) = (AccountId([7; 16]), AccountId([8; 16]));
        let change =
            JmapPayloads.change(me, &[(me, Position(0x2f)), (share, Position(3))], touched, types)?;
        Some(serde_json::from_slice(&change.body).unwrap())
    }

    #[test]
    fn each_pushed_type_has_a_scope() {
        let all = Scope::ALL.into_iter().fold(Scopes::NONE, Scopes::with);
        assert!(TYPES.iter().all(|(name, _)| is_type_granted(all, name)));
    }

    #[test]
    fn pushes_name_the_touched_types_that_are_wanted() {
        let account = format!("A{}", AccountId([7; 16]));
        let states = |names: &[&str]| {
            let of_records = ["AddressBook", "ContactCard", "EmailSubmission", "Identity"];
            let state = |name| if of_records.contains(name) { "2f" } else { "2f-080808083" };
            let states: BTreeMap<_, _> = names.iter().map(|name| (*name, state(name))).collect();
            Some(json!({"@type": "StateChange", "changed": {account.clone(): states}}))
        };
        let flags = Touched::MAILBOXES.and(Touched::EMAILS);
        assert_eq!(changed(flags, None), states(&["Email", "Mailbox"]));
        let mail = ["Email", "EmailDelivery", "EmailSubmission", "Identity", "Mailbox", "Thread"];
        let all = [&["AddressBook", "ContactCard"], &mail[..]].concat();
        assert_eq!(changed(Touched::ALL, None), states(&all));
        let wanted = ["EmailDelivery".to_owned(), "Mailbox".to_owned()];
        assert_eq!(changed(Touched::ALL, Some(&wanted)), states(&["EmailDelivery", "Mailbox"]));
        assert_eq!(changed(Touched::EMAILS, Some(&wanted)), None);
        assert_eq!(changed(Touched::ALL, Some(&[])), None);
    }
}
