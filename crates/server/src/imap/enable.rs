//! ENABLE (RFC 5161, RFC 9051 §6.3.1): the extensions that change what a client is told unasked.
//!
//! An extension is one line of [`EXTENSIONS`]. Names not in the table are passed over, and ENABLED lists what this command
//! switched on that was off before (RFC 5161 §3.2).

use sealpost_imap::NUL_EXTENSION;
use sealpost_imap::types::{Atom, Response};

use super::reply::{Outcome, Reply};
use super::session::Session;

/// Switches an extension on; whether it was off.
type Enable = fn(&mut Session) -> bool;

/// What can be enabled.
const EXTENSIONS: &[(&str, Enable)] = &[
    ("CONDSTORE", |session| switch_on(&mut session.dialect.condstore)),
    ("QRESYNC", |session| {
        // RFC 7162 §3.2.3: ENABLE QRESYNC is a CONDSTORE enabling command.
        session.dialect.condstore = true;
        switch_on(&mut session.dialect.qresync)
    }),
    // RFC 5464 §4.4
    ("METADATA", Session::watch_metadata),
    ("METADATA-SERVER", Session::watch_metadata),
    ("UIDONLY", |session| switch_on(&mut session.dialect.uid_only)),
    ("IMAP4rev2", |session| {
        session.connection.set_utf8(true);
        // RFC 9051 §9: from now on `text` may be UTF-8.
        session.connection.out().set_utf8_text(true);
        switch_on(&mut session.dialect.rev2)
    }),
    ("UTF8=ACCEPT", |session| {
        session.connection.set_utf8(true);
        switch_on(&mut session.dialect.utf8_accept)
    }),
    (NUL_EXTENSION, |session| switch_on(&mut session.dialect.takes_nul)),
];

impl Session {
    /// ENABLE.
    pub(super) fn enable(&mut self, names: &[Atom]) -> Outcome {
        self.account()?;
        // RFC 5161 §3.1: only valid in the authenticated state, before any mailbox is selected.
        if self.view.is_some() {
            return Err(Reply::bad("ENABLE comes before a mailbox is selected").into());
        }
        let mut enabled = Vec::new();
        for (name, enable) in EXTENSIONS {
            if names.iter().any(|asked| asked.as_str().eq_ignore_ascii_case(name)) && enable(self) {
                enabled.extend(Atom::new(name));
            }
        }
        self.connection.out().response(&Response::Enabled(enabled));
        Ok(Reply::ok("ENABLE completed"))
    }
}

/// Sets it; whether it was not set.
pub(super) fn switch_on(flag: &mut bool) -> bool {
    !std::mem::replace(flag, true)
}
