//! DNS as mail needs it: MX, addresses, TXT, TLSA, PTR and CNAME, each answer with its TTL and whether DNSSEC
//! validated it.
//!
//! Everything asks through the trait [`Resolver`]. It keeps apart what callers must treat
//! differently: a name that does not exist, a name without such records, an answer that fails
//! validation, and name servers that fail ([`LookupError`]). [`cache::CachingResolver`] bounds the
//! time of a lookup and the memory of its results, [`deadline::DeadlineResolver`]
//! that of many together, and [`scripted::ScriptedResolver`] answers from
//! a zone in memory, for tests.
//!
//! No lookup runs without a bound on its time, no answer without a bound on its size
//! (`sealpost_base::limits`).

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod answer;
pub mod cache;
pub mod deadline;
pub mod hickory;
pub mod name;
pub mod resolver;
pub mod scripted;

pub use answer::{Answer, LookupError, Mx, Record, RecordType, Srv, Tlsa};
pub use name::DnsName;
pub use resolver::{Resolver, ResolverExt};
