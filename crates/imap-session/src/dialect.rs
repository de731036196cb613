//! Which dialect a session speaks: what ENABLE and the commands that count as such switched on (RFC
//! 5161, RFC 7162 §3.1, RFC 9586 §3.1, RFC 9051 §6.3.1, RFC 6855 §3).
//!
//! Nothing is ever switched off again, except by UNAUTHENTICATE, which resets the session (RFC 8437
//! §2).

/// The extensions enabled in this session. Commands ask the methods, which say what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Dialect {
    /// CONDSTORE
    pub(super) condstore: bool,
    /// QRESYNC, which is CONDSTORE and more.
    pub(super) qresync: bool,
    /// UIDONLY
    pub(super) uid_only: bool,
    /// IMAP4rev2
    pub(super) rev2: bool,
    /// UTF8=ACCEPT
    pub(super) utf8_accept: bool,
    /// NUL in literals of FETCH and URLFETCH (`fetch/char8.rs`).
    pub(super) takes_nul: bool,
}

impl Dialect {
    /// Whether mod-sequences are reported: MODSEQ in every unsolicited FETCH response, and in those
    /// that have FLAGS (RFC 7162 §3.1).
    pub(super) fn modseq(self) -> bool {
        self.condstore || self.qresync
    }

    /// Whether QRESYNC is on: VANISHED (EARLIER), HIGHESTMODSEQ in completions (RFC 7162 §3.2).
    pub(super) fn qresync(self) -> bool {
        self.qresync
    }

    /// Whether expunges are reported as VANISHED and not as EXPUNGE (RFC 7162 §3.2.10, RFC 9586
    /// §3.5).
    pub(super) fn vanished(self) -> bool {
        self.qresync || self.uid_only
    }

    /// Whether message sequence numbers are neither taken nor given (RFC 9586 §3).
    pub(super) fn uid_only(self) -> bool {
        self.uid_only
    }

    /// Whether IMAP4rev2 is spoken and not IMAP4rev1.
    pub(super) fn rev2(self) -> bool {
        self.rev2
    }

    /// Whether UTF8=ACCEPT is on: a charset is not to be named any more (RFC 6855 §3 and its
    /// erratum 4029, for SORT and THREAD too).
    pub(super) fn utf8_accept(self) -> bool {
        self.utf8_accept
    }
}
