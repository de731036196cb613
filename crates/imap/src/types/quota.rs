//! Resources with their usage and limits (RFC 9208).

use super::string::Atom;

/// `quota-resource`: one triplet of a QUOTA response (RFC 9208 §4.2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaResource {
    /// `STORAGE`, `MESSAGE`, `MAILBOX`, `ANNOTATION-STORAGE` or another.
    pub name: Atom,
    /// The usage; at most 63 bits.
    pub usage: u64,
    /// The limit; at most 63 bits.
    pub limit: u64,
}

/// `setquota-resource`: one pair of a SETQUOTA command (RFC 9208 §4.1.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaLimit {
    /// Which resource.
    pub name: Atom,
    /// The limit on its use; at most 63 bits.
    pub limit: u64,
}
