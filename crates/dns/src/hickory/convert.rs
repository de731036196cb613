//! Between hickory's records and errors and ours.

use std::time::Duration;

use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::dnssec::Proof;
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, Record as HickoryRecord, RecordType as HickoryType};
use hickory_resolver::recursor::RecursorError;

use crate::answer::{Answer, LookupError, Mx, Record, RecordType, Srv, Tlsa};
use crate::name::DnsName;

/// Aliases that are followed for one question.
pub(super) const ALIASES: usize = 16;

/// A name for hickory.
pub(super) fn to_hickory(name: &DnsName) -> Result<Name, LookupError> {
    Name::from_ascii(format!("{}.", name.as_str())).map_err(|_| LookupError::Failed("not a domain name"))
}

/// A name of hickory's; `None` if it is not one that mail uses.
fn from_hickory(name: &Name) -> Option<DnsName> {
    if name.is_root() {
        return Some(DnsName::root());
    }
    DnsName::new(&name.to_ascii())
}

/// A record type.
pub(super) fn kind(kind: RecordType) -> HickoryType {
    match kind {
        RecordType::A => HickoryType::A,
        RecordType::Aaaa => HickoryType::AAAA,
        RecordType::Mx => HickoryType::MX,
        RecordType::Txt => HickoryType::TXT,
        RecordType::Tlsa => HickoryType::TLSA,
        RecordType::Srv => HickoryType::SRV,
        RecordType::Ptr => HickoryType::PTR,
        RecordType::Cname => HickoryType::CNAME,
    }
}

/// The data of a record of a type that we know.
fn record(data: &RData) -> Option<Record> {
    Some(match data {
        RData::A(address) => Record::A(address.0),
        RData::AAAA(address) => Record::Aaaa(address.0),
        RData::MX(mx) => Record::Mx(Mx { preference: mx.preference, exchange: from_hickory(&mx.exchange)? }),
        RData::TXT(txt) => Record::Txt(txt.txt_data.concat()),
        RData::TLSA(tlsa) => Record::Tlsa(Tlsa {
            usage: tlsa.cert_usage.into(),
            selector: tlsa.selector.into(),
            matching: tlsa.matching.into(),
            data: tlsa.cert_data.clone(),
        }),
        RData::SRV(srv) => Record::Srv(Srv {
            priority: srv.priority,
            weight: srv.weight,
            port: srv.port,
            target: from_hickory(&srv.target)?,
        }),
        RData::PTR(name) => Record::Ptr(from_hickory(name)?),
        RData::CNAME(name) => Record::Cname(from_hickory(name)?),
        _ => return None,
    })
}

/// What a response says.
pub(super) enum Said {
    /// The records asked for.
    Answer(Answer),
    /// The name is an alias, and the records of what it leads to (the owner) are not there.
    Alias(Answer),
}

/// What the records of a response say: aliases are followed as far as they are there, everything
/// else is ignored.
pub(super) fn answer(
    name: &DnsName,
    kind: RecordType,
    records: &[HickoryRecord],
) -> Result<Said, LookupError> {
    let ours = |found: &HickoryRecord| {
        Some((from_hickory(&found.name)?, record(&found.data)?, found.ttl, found.proof))
    };
    let records: Vec<_> = records.iter().filter_map(ours).collect();
    let mut answer = Answer { records: Vec::new(), secure: true, ttl: Duration::MAX, owner: name.clone() };
    for _ in 0..=ALIASES {
        let mut alias = None;
        for (owner, record, ttl, proof) in &records {
            let wanted = record.kind() == kind;
            if *owner != answer.owner || !(wanted || record.kind() == RecordType::Cname) {
                continue;
            }
            match proof {
                Proof::Secure => {}
                Proof::Insecure => answer.secure = false,
                // Where nothing proves that a zone is not signed, it counts as signed (RFC 4035 §4.3).
                Proof::Bogus | Proof::Indeterminate => return Err(LookupError::Bogus),
            }
            answer.ttl = answer.ttl.min(Duration::from_secs(u64::from(*ttl)));
            match record {
                record if wanted => answer.records.push(record.clone()),
                Record::Cname(target) => alias = Some(target.clone()),
                _ => {}
            }
        }
        if !answer.records.is_empty() {
            return Ok(Said::Answer(answer));
        }
        match alias {
            Some(target) => answer.owner = target,
            None if answer.owner != *name => return Ok(Said::Alias(answer)),
            None => return Err(LookupError::NoData { secure: false }),
        }
    }
    Err(LookupError::Failed("too many aliases"))
}

/// The lookup error of an error of the recursor.
pub(super) fn recursor_error(error: &RecursorError) -> LookupError {
    match error {
        RecursorError::Net(error) => net_error(error),
        RecursorError::Negative(negative) if negative.is_nx_domain() => {
            LookupError::NoSuchName { secure: false }
        }
        RecursorError::Negative(_) => LookupError::NoData { secure: false },
        RecursorError::Timeout => LookupError::TimedOut,
        RecursorError::RecursionLimitExceeded { .. } => {
            LookupError::Failed("name servers lead in circles, or too far")
        }
        _ => LookupError::Failed("no name server of the domain answers"),
    }
}

/// The lookup error of a network error.
pub(super) fn net_error(error: &NetError) -> LookupError {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => negative(none.response_code, false),
        NetError::Dns(DnsError::Nsec { response, proof, .. }) => match proof {
            Proof::Secure => negative(response.response_code, true),
            Proof::Insecure => negative(response.response_code, false),
            Proof::Bogus | Proof::Indeterminate => LookupError::Bogus,
        },
        NetError::Dns(DnsError::DnssecBogus) => LookupError::Bogus,
        NetError::Dns(DnsError::ResponseCode(ResponseCode::Refused)) => {
            LookupError::Failed("name servers refuse to answer")
        }
        NetError::Dns(_) => LookupError::Failed("name servers failed"),
        NetError::Timeout => LookupError::TimedOut,
        NetError::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => LookupError::TimedOut,
        NetError::Io(_) | NetError::NoConnections => LookupError::Failed("no name server can be reached"),
        NetError::Proto(_) => LookupError::Failed("a name server sent a malformed answer"),
        _ => LookupError::Failed("the lookup failed"),
    }
}

fn negative(code: ResponseCode, secure: bool) -> LookupError {
    match code {
        ResponseCode::NXDomain => LookupError::NoSuchName { secure },
        ResponseCode::NoError => LookupError::NoData { secure },
        _ => LookupError::Failed("name servers failed"),
    }
}
