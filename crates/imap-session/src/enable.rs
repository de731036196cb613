//! ENABLE (RFC 5161, RFC 9051 §6.3.1): the extensions that change unsolicited responses.
//!
//! Each extension is a line of [`EXTENSIONS`]. Unknown names are ignored, and ENABLED lists what this command
//! has newly enabled (RFC 5161 §3.2).

use sealpost_imap::NUL_EXTENSION;
use sealpost_imap::types::{Atom, Response};

use super::metadata;
use super::reply::{Outcome, Reply};
use super::responses::Responses;
use super::selected::Selected;
use super::subscriptions::Subscriptions;
use super::user::User;

/// Enables an extension; returns whether it was disabled.
type Enable = fn(&User, &mut Subscriptions, &mut Responses) -> bool;

/// The extensions that can be enabled.
const EXTENSIONS: &[(&str, Enable)] = &[
    ("CONDSTORE", |_, _, responses| switch_on(&mut responses.dialect.condstore)),
    ("QRESYNC", |_, _, responses| {
        // RFC 7162 §3.2.3: ENABLE QRESYNC is a CONDSTORE enabling command.
        responses.dialect.condstore = true;
        switch_on(&mut responses.dialect.qresync)
    }),
    // RFC 5464 §4.4
    ("METADATA", |user, subscriptions, _| metadata::watch_metadata(user, subscriptions)),
    ("METADATA-SERVER", |user, subscriptions, _| metadata::watch_metadata(user, subscriptions)),
    ("UIDONLY", |_, _, responses| switch_on(&mut responses.dialect.uid_only)),
    ("IMAP4rev2", |_, _, responses| {
        responses.connection.set_utf8(true);
        // RFC 9051 §9: from now on `text` may be UTF-8.
        responses.out().set_utf8_text(true);
        switch_on(&mut responses.dialect.rev2)
    }),
    ("UTF8=ACCEPT", |_, _, responses| {
        responses.connection.set_utf8(true);
        switch_on(&mut responses.dialect.utf8_accept)
    }),
    (NUL_EXTENSION, |_, _, responses| switch_on(&mut responses.dialect.takes_nul)),
];

/// ENABLE.
pub(super) fn enable(
    user: &User,
    selected: Option<&Selected>,
    subscriptions: &mut Subscriptions,
    responses: &mut Responses,
    names: &[Atom],
) -> Outcome {
    // RFC 5161 §3.1: only valid in the authenticated state, before any mailbox is selected.
    if selected.is_some() {
        return Err(Reply::bad("ENABLE comes before a mailbox is selected").into());
    }
    let mut enabled = Vec::new();
    for (name, enable) in EXTENSIONS {
        if names.iter().any(|asked| asked.as_str().eq_ignore_ascii_case(name))
            && enable(user, subscriptions, responses)
        {
            enabled.extend(Atom::new(name));
        }
    }
    responses.out().response(&Response::Enabled(enabled));
    Ok(Reply::ok("ENABLE completed"))
}

/// Sets the flag; returns whether it was unset.
pub(super) fn switch_on(flag: &mut bool) -> bool {
    !std::mem::replace(flag, true)
}
