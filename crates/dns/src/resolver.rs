//! The trait that everything asks through, and typed forms of it.

use std::net::{Ipv4Addr, Ipv6Addr};

use async_trait::async_trait;

use crate::answer::{Answer, LookupError, Mx, Record, RecordType, Srv, Tlsa};
use crate::name::DnsName;

/// Looks up records.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// The records of `name` of type `kind`, aliases (CNAME) followed.
    ///
    /// # Errors
    /// Why there are none; see [`LookupError`].
    async fn lookup(&self, name: &DnsName, kind: RecordType) -> Result<Answer, LookupError>;
}

/// An answer with records of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed<T> {
    /// The records, at least one.
    pub records: Vec<T>,
    /// Whether DNSSEC validated the answer.
    pub secure: bool,
    /// The name that has the records, aliases followed.
    pub owner: DnsName,
}

/// Lookups with typed records.
#[async_trait]
pub trait ResolverExt: Resolver {
    /// Mail exchangers, not sorted.
    ///
    /// # Errors
    /// As [`Resolver::lookup`].
    async fn mx(&self, name: &DnsName) -> Result<Typed<Mx>, LookupError> {
        typed(self.lookup(name, RecordType::Mx).await?, |record| match record {
            Record::Mx(mx) => Some(mx),
            _ => None,
        })
    }

    /// IPv4 addresses.
    ///
    /// # Errors
    /// As [`Resolver::lookup`].
    async fn ipv4(&self, name: &DnsName) -> Result<Typed<Ipv4Addr>, LookupError> {
        typed(self.lookup(name, RecordType::A).await?, |record| match record {
            Record::A(address) => Some(address),
            _ => None,
        })
    }

    /// IPv6 addresses.
    ///
    /// # Errors
    /// As [`Resolver::lookup`].
    async fn ipv6(&self, name: &DnsName) -> Result<Typed<Ipv6Addr>, LookupError> {
        typed(self.lookup(name, RecordType::Aaaa).await?, |record| match record {
            Record::Aaaa(address) => Some(address),
            _ => None,
        })
    }

    /// Texts.
    ///
    /// # Errors
    /// As [`Resolver::lookup`].
    async fn txt(&self, name: &DnsName) -> Result<Typed<Vec<u8>>, LookupError> {
        typed(self.lookup(name, RecordType::Txt).await?, |record| match record {
            Record::Txt(text) => Some(text),
            _ => None,
        })
    }

    /// Certificate associations.
    ///
    /// # Errors
    /// As [`Resolver::lookup`].
    async fn tlsa(&self, name: &DnsName) -> Result<Typed<Tlsa>, LookupError> {
        typed(self.lookup(name, RecordType::Tlsa).await?, |record| match record {
            Record::Tlsa(tlsa) => Some(tlsa),
            _ => None,
        })
    }

    /// Locations of a service, not sorted.
    ///
    /// # Errors
    /// As [`Resolver::lookup`].
    async fn srv(&self, name: &DnsName) -> Result<Typed<Srv>, LookupError> {
        typed(self.lookup(name, RecordType::Srv).await?, |record| match record {
            Record::Srv(srv) => Some(srv),
            _ => None,
        })
    }

    /// Names of the address whose [`DnsName::reverse`] name is `name`.
    ///
    /// # Errors
    /// As [`Resolver::lookup`].
    async fn ptr(&self, name: &DnsName) -> Result<Typed<DnsName>, LookupError> {
        typed(self.lookup(name, RecordType::Ptr).await?, |record| match record {
            Record::Ptr(name) => Some(name),
            _ => None,
        })
    }
}

impl<R: Resolver + ?Sized> ResolverExt for R {}

fn typed<T>(answer: Answer, pick: impl Fn(Record) -> Option<T>) -> Result<Typed<T>, LookupError> {
    let records: Vec<T> = answer.records.into_iter().filter_map(pick).collect();
    if records.is_empty() {
        return Err(LookupError::NoData { secure: false });
    }
    Ok(Typed { records, secure: answer.secure, owner: answer.owner })
}
