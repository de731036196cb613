//! Results of lookups.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::name::DnsName;

/// The types of records that mail asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordType {
    /// IPv4 address.
    A,
    /// IPv6 address.
    Aaaa,
    /// Mail exchanger.
    Mx,
    /// Text.
    Txt,
    /// Certificate association (RFC 6698).
    Tlsa,
    /// Location of a service (RFC 2782).
    Srv,
    /// Name of an address.
    Ptr,
    /// Canonical name, asked for itself.
    Cname,
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecordType::A => "A",
            RecordType::Aaaa => "AAAA",
            RecordType::Mx => "MX",
            RecordType::Txt => "TXT",
            RecordType::Tlsa => "TLSA",
            RecordType::Srv => "SRV",
            RecordType::Ptr => "PTR",
            RecordType::Cname => "CNAME",
        })
    }
}

/// The data of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// IPv4 address.
    A(Ipv4Addr),
    /// IPv6 address.
    Aaaa(Ipv6Addr),
    /// Mail exchanger.
    Mx(Mx),
    /// Text: the strings of one record without separators between them (RFC 7208 §3.3, RFC 6376 §3.6.2.2).
    Txt(Vec<u8>),
    /// Certificate association.
    Tlsa(Tlsa),
    /// Location of a service.
    Srv(Srv),
    /// Name of an address.
    Ptr(DnsName),
    /// Canonical name.
    Cname(DnsName),
}

impl Record {
    /// The type of this record.
    pub fn kind(&self) -> RecordType {
        match self {
            Record::A(_) => RecordType::A,
            Record::Aaaa(_) => RecordType::Aaaa,
            Record::Mx(_) => RecordType::Mx,
            Record::Txt(_) => RecordType::Txt,
            Record::Tlsa(_) => RecordType::Tlsa,
            Record::Srv(_) => RecordType::Srv,
            Record::Ptr(_) => RecordType::Ptr,
            Record::Cname(_) => RecordType::Cname,
        }
    }

    /// Bytes it takes in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let behind = match self {
            Record::A(_) | Record::Aaaa(_) => 0,
            Record::Mx(mx) => mx.exchange.as_str().len(),
            Record::Txt(text) => text.len(),
            Record::Tlsa(tlsa) => tlsa.data.len(),
            Record::Srv(srv) => srv.target.as_str().len(),
            Record::Ptr(name) | Record::Cname(name) => name.as_str().len(),
        };
        size_of::<Record>() + behind
    }
}

/// A mail exchanger (RFC 1035 §3.3.9).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mx {
    /// Lower is better.
    pub preference: u16,
    /// The host; the root for a null MX (RFC 7505 §3).
    pub exchange: DnsName,
}

/// A certificate association (RFC 6698 §2.1), its fields as they are in DNS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tlsa {
    /// Certificate usage: 2 is DANE-TA, 3 is DANE-EE (RFC 7671 §5).
    pub usage: u8,
    /// Selector: 0 the certificate, 1 its SubjectPublicKeyInfo.
    pub selector: u8,
    /// Matching type: 0 exact, 1 SHA-256, 2 SHA-512.
    pub matching: u8,
    /// Certificate association data.
    pub data: Vec<u8>,
}

/// The location of a service (RFC 2782).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Srv {
    /// Lower is better.
    pub priority: u16,
    /// The share among those of one priority.
    pub weight: u16,
    /// The port.
    pub port: u16,
    /// The host; the root if there is no such service.
    pub target: DnsName,
}

/// An answer with records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The records of the type asked for, at least one, in the order of the answer.
    pub records: Vec<Record>,
    /// Whether DNSSEC validated every step from the name asked for to the records.
    pub secure: bool,
    /// How long the answer may be used.
    pub ttl: Duration,
    /// The name that has the records: the name looked up, or the target of its alias (CNAME).
    pub owner: DnsName,
}

/// Why there are no records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupError {
    /// The name does not exist (RFC 2308 §2.1).
    NoSuchName {
        /// Whether DNSSEC proved it.
        secure: bool,
    },
    /// The name exists and has no records of this type (RFC 2308 §2.2).
    NoData {
        /// Whether DNSSEC proved it.
        secure: bool,
    },
    /// The answer fails DNSSEC validation (RFC 4035 §4.3): treat it as a temporary failure, never
    /// as an answer.
    Bogus,
    /// No answer in time.
    TimedOut,
    /// Name servers failed, refused, or sent no valid answer; for the operator.
    Failed(&'static str),
}

impl LookupError {
    /// Whether DNS says that the records do not exist, as opposed to not saying anything.
    pub fn is_negative(&self) -> bool {
        matches!(self, LookupError::NoSuchName { .. } | LookupError::NoData { .. })
    }
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LookupError::NoSuchName { .. } => "the name does not exist",
            LookupError::NoData { .. } => "the name has no such records",
            LookupError::Bogus => "the answer fails DNSSEC validation",
            LookupError::TimedOut => "no answer in time",
            LookupError::Failed(what) => what,
        })
    }
}

impl std::error::Error for LookupError {}
