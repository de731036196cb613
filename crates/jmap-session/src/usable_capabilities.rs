//! The capabilities that a server has methods for.

use sealpost_jmap::capability::Capability;

/// Capabilities whose methods `using` may ask for on any server.
pub(crate) const USABLE: &[Capability] = &[
    Capability::Core,
    Capability::Mail,
    Capability::Blob,
    Capability::Quota,
    Capability::Principals,
    Capability::Contacts,
    Capability::WebSocket,
    Capability::WebPushVapid,
];
/// The same on a server that sends mail.
const SENDING: &[Capability] = &[Capability::Submission, Capability::Mdn, Capability::VacationResponse];

/// Capabilities whose methods `using` may ask for.
pub(crate) fn usable(sends_mail: bool) -> Vec<Capability> {
    let sending: &[Capability] = if sends_mail { SENDING } else { &[] };
    [USABLE, sending].concat()
}
