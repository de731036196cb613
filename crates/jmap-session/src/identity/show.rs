//! Identities as JMAP has them.

use sealpost_account::identity::{Identity, NamedAddress};
use sealpost_base::IdentityId;
use sealpost_jmap::email::EmailAddress;
use sealpost_jmap::identity::Identity as Shown;

use super::list::id_of;

/// An identity for a response.
pub(super) fn show(id: IdentityId, identity: &Identity) -> Shown {
    let addresses = |list: &Option<Vec<NamedAddress>>| {
        let address = |one: &NamedAddress| EmailAddress { name: one.name.clone(), email: one.email.clone() };
        list.as_ref().map(|list| list.iter().map(address).collect())
    };
    Shown {
        id: Some(id_of(id)),
        name: Some(identity.name.clone()),
        email: Some(identity.email.clone()),
        reply_to: Some(addresses(&identity.reply_to)),
        bcc: Some(addresses(&identity.bcc)),
        text_signature: Some(identity.text_signature.clone()),
        html_signature: Some(identity.html_signature.clone()),
        may_delete: Some(!identity.is_own),
    }
}

/// `identity` with what a client gave.
pub(super) fn changed(identity: &Identity, given: &Shown) -> Identity {
    let addresses = |list: &Option<Vec<EmailAddress>>| {
        let address = |one: &EmailAddress| NamedAddress { name: one.name.clone(), email: one.email.clone() };
        list.as_ref().map(|list| list.iter().map(address).collect())
    };
    let text = |given: &Option<String>, before: &String| given.as_ref().unwrap_or(before).clone();
    Identity {
        name: text(&given.name, &identity.name),
        email: text(&given.email, &identity.email),
        reply_to: given.reply_to.as_ref().map_or_else(|| identity.reply_to.clone(), addresses),
        bcc: given.bcc.as_ref().map_or_else(|| identity.bcc.clone(), addresses),
        text_signature: text(&given.text_signature, &identity.text_signature),
        html_signature: text(&given.html_signature, &identity.html_signature),
        is_own: identity.is_own,
    }
}
