//! The announced capabilities. None is announced before it is complete.

use sealpost_imap::NUL_EXTENSION;
use sealpost_imap::types::{Atom, Code, Response};
use sealpost_session::Context;
use sealpost_session::net::Stream;

/// Announced at any time.
const ALWAYS: &[&str] = &["IMAP4rev1", "IMAP4rev2", "SASL-IR", "ID", "ENABLE"];
/// Before login. LITERAL+ would allow literals that are too long then (docs/decisions/0016).
const ANONYMOUS: &[&str] = &["LITERAL-"];
/// After login.
const AUTHENTICATED: &[&str] = &[
    "LITERAL+",
    "IDLE",
    "NAMESPACE",
    "CHILDREN",
    "UIDPLUS",
    "MOVE",
    "UNSELECT",
    "CONDSTORE",
    "QRESYNC",
    "UIDONLY",
    "SPECIAL-USE",
    "CREATE-SPECIAL-USE",
    "LIST-EXTENDED",
    "LIST-STATUS",
    "LIST-METADATA",
    "LIST-MYRIGHTS",
    "ACL",
    // RFC 4314 §2.2: the rights that RFC 2086 did not have.
    "RIGHTS=texk",
    "METADATA",
    "METADATA-SERVER",
    "QUOTA",
    "QUOTASET",
    "QUOTA=RES-STORAGE",
    "QUOTA=RES-MESSAGE",
    "QUOTA=RES-MAILBOX",
    "QUOTA=RES-ANNOTATION-STORAGE",
    "STATUS=SIZE",
    "OBJECTID",
    "SAVEDATE",
    "PREVIEW",
    "UTF8=ACCEPT",
    "ESEARCH",
    "SEARCHRES",
    "WITHIN",
    "SEARCH=FUZZY",
    "SORT",
    "SORT=DISPLAY",
    "ESORT",
    "THREAD=ORDEREDSUBJECT",
    "THREAD=REFERENCES",
    "I18NLEVEL=1",
    "NOTIFY",
    "PARTIAL",
    "MULTISEARCH",
    "FILTERS",
    "CONTEXT=SEARCH",
    "CONTEXT=SORT",
    "COMPRESS=DEFLATE",
    "UNAUTHENTICATE",
    "MULTIAPPEND",
    "CATENATE",
    "URL-PARTIAL",
    "REPLACE",
    "BINARY",
    "URLAUTH",
    "INPROGRESS",
    NUL_EXTENSION,
];

/// The state of a connection, as far as capabilities depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not logged in.
    Anonymous {
        /// Whether STARTTLS is possible.
        start_tls: bool,
        /// Whether the client may send a password.
        login: bool,
        /// Whether the connection has TLS.
        tls: bool,
    },
    /// Logged in.
    Authenticated {
        /// The largest message that APPEND takes, in bytes.
        append_limit: u32,
        /// JMAP is served, at a known URL.
        has_jmap: bool,
    },
}

impl Stage {
    /// The state of a connection whose client has not logged in.
    pub(super) fn anonymous(ctx: &Context, stream: &Stream) -> Self {
        Stage::Anonymous {
            start_tls: ctx.tls.is_some() && !stream.is_tls(),
            login: ctx.allows_login(stream),
            tls: stream.is_tls(),
        }
    }
}

/// The capabilities in that state (RFC 3501 §6.1.1, §7.2.1).
pub(super) fn names(stage: Stage) -> Vec<Atom> {
    let mut limit = String::new();
    let more: Vec<&str> = match stage {
        Stage::Authenticated { append_limit, has_jmap } => {
            // RFC 7889 §2
            limit = format!("APPENDLIMIT={append_limit}");
            // RFC 9698 §3
            let jmap = has_jmap.then_some("JMAPACCESS");
            AUTHENTICATED.iter().copied().chain(jmap).collect()
        }
        Stage::Anonymous { start_tls, login, tls } => {
            let mut more = ANONYMOUS.to_vec();
            if start_tls {
                more.push("STARTTLS");
            }
            // RFC 3501 §6.2.3: LOGINDISABLED while a password would be sent in cleartext.
            more.extend(if login { &["AUTH=PLAIN", "AUTH=LOGIN"][..] } else { &["LOGINDISABLED"][..] });
            if login && tls {
                more.extend(["AUTH=OAUTHBEARER", "AUTH=XOAUTH2"]);
            }
            more
        }
    };
    let names = ALWAYS.iter().copied().chain(more).chain([&*limit]);
    names.filter_map(|name| Atom::new(name).ok()).collect()
}

/// `[CAPABILITY …]`, which saves the client a round trip (RFC 3501 §7.1).
pub(super) fn code(stage: Stage) -> Code {
    Code::Capability(names(stage))
}

/// `* CAPABILITY …`
pub(super) fn response(stage: Stage) -> Response {
    Response::Capability(names(stage))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stage: Stage) -> String {
        names(stage).iter().map(Atom::as_str).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn no_password_mechanism_is_announced_in_cleartext() {
        let clear = line(Stage::Anonymous { start_tls: true, login: false, tls: false });
        assert!(clear.contains("STARTTLS") && clear.contains("LOGINDISABLED") && !clear.contains("AUTH="));
        let private = line(Stage::Anonymous { start_tls: false, login: true, tls: false });
        assert!(private.contains("AUTH=PLAIN") && !private.contains("LOGINDISABLED"));
        assert!(!private.contains("AUTH=OAUTHBEARER"), "RFC 7628 §3 wants TLS");
    }

    #[test]
    fn only_one_literal_extension_is_announced() {
        // RFC 7888 §5: never both.
        let before = line(Stage::Anonymous { start_tls: true, login: true, tls: false });
        assert!(before.contains("LITERAL-") && !before.contains("LITERAL+"));
        let after = line(Stage::Authenticated { append_limit: 1000, has_jmap: false });
        assert!(after.contains("LITERAL+") && !after.contains("LITERAL-"));
        assert!(after.ends_with(" APPENDLIMIT=1000"));
    }

    #[test]
    fn jmap_is_announced_only_where_it_is_served() {
        let after = |has_jmap| line(Stage::Authenticated { append_limit: 1, has_jmap });
        assert!(after(true).contains(" JMAPACCESS ") && !after(false).contains("JMAPACCESS"));
    }
}
