//! Which types a login hears of in changes (RFC 8620 §7.1): those whose capability its scopes grant.

use sealpost_auth::Scopes;
use sealpost_jmap::capability::Capability;

use crate::capability_scopes::is_granted;

/// The types that changes name, each with the capability that defines it.
const TYPES: [(&str, Capability); 12] = [
    ("AddressBook", Capability::Contacts),
    ("ContactCard", Capability::Contacts),
    ("Email", Capability::Mail),
    // RFC 8621 §1.5.
    ("EmailDelivery", Capability::Mail),
    ("EmailSubmission", Capability::Submission),
    ("Identity", Capability::Submission),
    ("Mailbox", Capability::Mail),
    ("Principal", Capability::Principals),
    ("Quota", Capability::Quota),
    ("ShareNotification", Capability::Principals),
    ("Thread", Capability::Mail),
    ("VacationResponse", Capability::VacationResponse),
];

/// Whether a login with these scopes may hear that objects of a type changed.
pub(crate) fn is_type_granted(scopes: Scopes, name: &str) -> bool {
    let is_named =
        |(known, capability): &(&str, Capability)| *known == name && is_granted(scopes, *capability);
    scopes == Scopes::EVERYTHING || TYPES.iter().any(is_named)
}

/// Those of the wanted types that a login with these scopes may hear of; `None` stands for all types.
/// The result for a login that may not do everything names each type.
pub(crate) fn granted_types(scopes: Scopes, wanted: Option<Vec<String>>) -> Option<Vec<String>> {
    if scopes == Scopes::EVERYTHING {
        return wanted;
    }
    let mut types = wanted.unwrap_or_else(|| TYPES.iter().map(|(name, _)| (*name).to_owned()).collect());
    types.retain(|name| is_type_granted(scopes, name));
    Some(types)
}

#[cfg(test)]
mod tests {
    use sealpost_auth::Scope;

    use super::*;

    #[test]
    fn a_login_hears_of_the_types_of_its_scopes() {
        let (mail, contacts) = (Scopes::NONE.with(Scope::Mail), Scopes::NONE.with(Scope::Contacts));
        let of_contacts = ["AddressBook", "ContactCard"];
        let of_any = ["Principal", "Quota", "ShareNotification"];
        for (name, _) in TYPES {
            let (is_contacts, is_any) = (of_contacts.contains(&name), of_any.contains(&name));
            assert_eq!(is_type_granted(contacts, name), is_contacts || is_any, "{name}");
            assert_eq!(is_type_granted(mail, name), !is_contacts, "{name}");
            assert!(is_type_granted(Scopes::EVERYTHING, name) && !is_type_granted(Scopes::NONE, name));
        }
        let all = granted_types(contacts, None).unwrap();
        assert_eq!(all, [&of_contacts[..], &of_any].concat());
        let wanted = ["Email", "ContactCard", "Todo"].map(str::to_owned).to_vec();
        assert_eq!(granted_types(contacts, Some(wanted.clone())).unwrap(), ["ContactCard"]);
        assert_eq!(granted_types(mail, Some(wanted.clone())).unwrap(), ["Email"]);
        assert_eq!(granted_types(Scopes::EVERYTHING, Some(wanted.clone())), Some(wanted));
        assert_eq!(granted_types(Scopes::EVERYTHING, None), None);
    }
}
