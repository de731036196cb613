//! Which capabilities a client of OAuth may use: the column "Interoperable OAuth Scopes" of the
//! registry of JMAP capabilities (draft-ietf-mailmaint-oauth-public §5.2.1).

use sealpost_auth::{Scope, Scopes};
use sealpost_jmap::capability::Capability;

/// Whether scopes grant the use of a capability. One that the column has nothing for needs a login
/// that may do everything.
pub(crate) fn is_granted(scopes: Scopes, capability: Capability) -> bool {
    if scopes == Scopes::EVERYTHING {
        return true;
    }
    // The part behind `urn:ietf:params:jmap:`.
    let name = capability.name().rsplit_once("jmap:").map_or("", |(_, name)| name);
    match name {
        "core" | "blob" | "quota" | "principals" | "principals:owner" | "webpush-vapid" => !scopes.is_empty(),
        // How requests and changes are carried (RFC 8887), not what they are about.
        "websocket" => !scopes.is_empty(),
        "mail" | "mdn" | "smimeverify" | "submission" | "vacationresponse" | "sieve" => {
            scopes.has(Scope::Mail)
        }
        "contacts" => scopes.has(Scope::Contacts),
        _ => false,
    }
}

/// The scopes with which a client can do something here.
pub(crate) fn supported(usable: &[Capability]) -> Scopes {
    let has_contacts = usable.iter().any(|capability| capability.name().ends_with(":contacts"));
    let mail = Scopes::NONE.with(Scope::Mail);
    if has_contacts { mail.with(Scope::Contacts) } else { mail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usable_capabilities::USABLE;

    #[test]
    fn each_scope_grants_its_own_capabilities() {
        let (mail, contacts) = (Scopes::NONE.with(Scope::Mail), Scopes::NONE.with(Scope::Contacts));
        for capability in [Capability::Core, Capability::Blob, Capability::Quota, Capability::WebSocket] {
            assert!(is_granted(mail, capability) && is_granted(contacts, capability));
            assert!(!is_granted(Scopes::NONE, capability));
        }
        for capability in [Capability::Mail, Capability::Mdn, Capability::Submission] {
            assert!(is_granted(mail, capability) && !is_granted(contacts, capability), "{capability:?}");
        }
        assert!(USABLE.iter().all(|capability| is_granted(Scopes::EVERYTHING, *capability)));
        assert!(supported(USABLE).has(Scope::Mail));
    }
}
