//! The extensions that change how a session behaves, enabled by ENABLE and by commands that imply it (RFC
//! 5161, RFC 7162 §3.1, RFC 9586 §3.1, RFC 9051 §6.3.1, RFC 6855 §3).
//!
//! Only UNAUTHENTICATE disables them, by resetting the session (RFC 8437 §2).

/// The enabled extensions. Commands call the methods, which return the consequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Dialect {
    /// CONDSTORE
    pub(super) condstore: bool,
    /// QRESYNC, which includes CONDSTORE
    pub(super) qresync: bool,
    /// UIDONLY
    pub(super) uid_only: bool,
    /// IMAP4rev2
    pub(super) rev2: bool,
    /// UTF8=ACCEPT
    pub(super) utf8_accept: bool,
    /// NUL in literals of FETCH and URLFETCH (`fetch/char8.rs`)
    pub(super) takes_nul: bool,
}

impl Dialect {
    /// Whether to report mod-sequences: MODSEQ in unsolicited FETCH responses, and in those with FLAGS (RFC
    /// 7162 §3.1).
    pub(super) fn modseq(self) -> bool {
        self.condstore || self.qresync
    }

    /// Whether QRESYNC is enabled: VANISHED (EARLIER), HIGHESTMODSEQ in completions (RFC 7162 §3.2).
    pub(super) fn qresync(self) -> bool {
        self.qresync
    }

    /// Whether expunges are reported as VANISHED instead of EXPUNGE (RFC 7162 §3.2.10, RFC 9586 §3.5).
    pub(super) fn vanished(self) -> bool {
        self.qresync || self.uid_only
    }

    /// Whether message numbers are neither accepted nor sent (RFC 9586 §3).
    pub(super) fn uid_only(self) -> bool {
        self.uid_only
    }

    /// Whether the session uses IMAP4rev2 instead of IMAP4rev1.
    pub(super) fn rev2(self) -> bool {
        self.rev2
    }

    /// Whether UTF8=ACCEPT is enabled: commands may no longer name a charset (RFC 6855 §3 and its erratum
    /// 4029, for SORT and THREAD too).
    pub(super) fn utf8_accept(self) -> bool {
        self.utf8_accept
    }
}
