//! Resources with their usage and limits (RFC 9208).

use super::string::Atom;

/// `quota-resource`: one triplet of a QUOTA response (RFC 9208 §4.2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaResource {
    /// `STORAGE`, `MESSAGE`, `MAILBOX`, `ANNOTATION-STORAGE` or another.
    pub name: Atom,
    /// How much is used; at most 63 bits.
    pub usage: u64,
    /// How much may be; at most 63 bits.
    pub limit: u64,
}

/// `setquota-resource`: one pair of a SETQUOTA command (RFC 9208 §4.1.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaLimit {
    /// Which resource.
    pub name: Atom,
    /// How much of it may be used; at most 63 bits.
    pub limit: u64,
}
