//! Aliases (CNAME), followed to their end.
//!
//! Hickory follows them too, but says that an answer is bogus where the last name of a chain does
//! not exist, and loses the beginning of a chain whose end is in its cache. Then mail would be
//! retried for days, or returned, although there is an answer. So each step is asked for here.

use async_trait::async_trait;
use hickory_resolver::proto::rr::Record as HickoryRecord;

use super::convert::{self, ALIASES, Said};
use crate::answer::{Answer, LookupError, Record, RecordType};
use crate::name::DnsName;

/// Where records come from.
#[async_trait]
pub(super) trait Source: Send + Sync {
    /// The records of a response, each with what DNSSEC says of it.
    ///
    /// # Errors
    /// As [`crate::Resolver::lookup`].
    async fn ask(&self, name: &DnsName, kind: RecordType) -> Result<Vec<HickoryRecord>, LookupError>;
}

/// The records of `name` or of what it is an alias of.
///
/// # Errors
/// As [`crate::Resolver::lookup`]. An answer that cannot be validated at any step is no answer.
pub(super) async fn follow(
    source: &impl Source,
    name: &DnsName,
    kind: RecordType,
) -> Result<Answer, LookupError> {
    let (mut owner, mut secure, mut ttl) = (name.clone(), true, std::time::Duration::MAX);
    for _ in 0..=ALIASES {
        let said = match source.ask(&owner, kind).await.and_then(|records| said(&owner, kind, &records)) {
            Ok(said) => said,
            // What failed, or is not what is proven of this name, may be the end of an alias.
            Err(failed @ (LookupError::Failed(_) | LookupError::Bogus)) if kind != RecordType::Cname => {
                Said::Alias(alias(source, &owner).await.ok_or(failed)?)
            }
            Err(error) => return Err(error),
        };
        let (mut answer, is_complete) = match said {
            Said::Answer(answer) => (answer, true),
            Said::Alias(answer) => (answer, false),
        };
        (secure, ttl) = (secure && answer.secure, ttl.min(answer.ttl));
        if is_complete {
            (answer.secure, answer.ttl) = (secure, ttl);
            return Ok(answer);
        }
        owner = answer.owner;
    }
    Err(LookupError::Failed("too many aliases"))
}

fn said(owner: &DnsName, kind: RecordType, records: &[HickoryRecord]) -> Result<Said, LookupError> {
    match convert::answer(owner, kind, records) {
        // Of a chain that it knows in part, hickory keeps the end alone.
        Err(LookupError::NoData { .. }) if !records.is_empty() => {
            Err(LookupError::Failed("name servers answered for another name"))
        }
        said => said,
    }
}

/// What `name` is an alias of, if it is one.
async fn alias(source: &impl Source, name: &DnsName) -> Option<Answer> {
    let records = source.ask(name, RecordType::Cname).await.ok()?;
    let Ok(Said::Answer(mut answer)) = convert::answer(name, RecordType::Cname, &records) else {
        return None;
    };
    let Some(Record::Cname(target)) = answer.records.pop() else { return None };
    answer.owner = target;
    Some(answer)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use hickory_resolver::proto::dnssec::Proof;
    use hickory_resolver::proto::rr::rdata::{A, CNAME};
    use hickory_resolver::proto::rr::{Name, RData};

    use super::*;

    /// `end` is known, and so is the way from `www` to it; `first` leads to `www`, `dead` nowhere.
    struct Forgetful;

    fn record(name: &str, data: RData, proof: Proof) -> HickoryRecord {
        let mut record = HickoryRecord::from_rdata(Name::from_ascii(name).unwrap(), 300, data);
        record.proof = proof;
        record
    }

    fn alias_of(name: &str, target: &str) -> HickoryRecord {
        record(name, RData::CNAME(CNAME(Name::from_ascii(target).unwrap())), Proof::Secure)
    }

    fn end(proof: Proof) -> HickoryRecord {
        record("end.", RData::A(A::new(192, 0, 2, 1)), proof)
    }

    #[async_trait]
    impl Source for Forgetful {
        async fn ask(&self, name: &DnsName, kind: RecordType) -> Result<Vec<HickoryRecord>, LookupError> {
            match (name.as_str(), kind) {
                ("first", RecordType::A) => Ok(vec![end(Proof::Insecure), alias_of("www.", "end.")]),
                ("first", RecordType::Cname) => Ok(vec![alias_of("first.", "www.")]),
                ("www", RecordType::A) => Ok(vec![end(Proof::Insecure), alias_of("www.", "end.")]),
                ("dead", RecordType::Cname) => Ok(vec![alias_of("dead.", "nowhere.")]),
                ("loop", RecordType::Cname) => Ok(vec![alias_of("loop.", "loop.")]),
                ("nowhere", _) => Err(LookupError::NoSuchName { secure: false }),
                ("end", RecordType::Cname) => Err(LookupError::NoData { secure: false }),
                ("refused", _) => Err(LookupError::Failed("refused")),
                _ => Err(LookupError::Bogus),
            }
        }
    }

    async fn found(name: &str) -> Result<Answer, LookupError> {
        follow(&Forgetful, &DnsName::new(name).unwrap(), RecordType::A).await
    }

    #[tokio::test]
    async fn a_cname_chain_without_its_start_is_followed_stepwise() {
        let answer = found("first").await.unwrap();
        assert_eq!(answer.records, [Record::A(Ipv4Addr::new(192, 0, 2, 1))]);
        assert_eq!((answer.owner.as_str(), answer.secure), ("end", false), "one step is not signed");
    }

    #[tokio::test]
    async fn the_end_of_an_alias_decides() {
        assert_eq!(found("dead").await, Err(LookupError::NoSuchName { secure: false }));
        assert!(matches!(found("loop").await, Err(LookupError::Failed(_))));
        assert_eq!(found("refused").await, Err(LookupError::Failed("refused")));
        assert_eq!(found("forged").await, Err(LookupError::Bogus), "what is no alias stays bogus");
    }
}
