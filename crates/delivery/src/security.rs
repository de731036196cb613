//! The security that a connection to a host needs: by the sender's demand, DANE, MTA-STS, or else any that
//! the host offers.

use rustls::pki_types::ServerName;
use sealpost_dns::{DnsName, LookupError, Resolver, ResolverExt, Tlsa};

use crate::dane;
use crate::envelope::TlsDemand;
use crate::outcome::{Failure, Reason, TlsMode};
use crate::reports::{PolicyUsed, TlsProblem};
use crate::sts::{Mode, Policy};

/// The requirement on a connection before mail may be sent over it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: TLS is used if it works.
    Nothing,
    /// TLS must not even be tried.
    Clear,
    /// TLS with any certificate.
    Encryption,
    /// TLS with a certificate from a trusted authority, for the right name.
    Roots,
    /// TLS with a certificate that matches one of the records.
    Dane(Vec<Tlsa>),
}

/// The requirement, the policy behind it, and its form in reports.
#[derive(Debug, Clone)]
pub(crate) struct Security {
    pub need: Need,
    pub mode: TlsMode,
    /// Names that the certificate may have.
    pub names: Vec<ServerName<'static>>,
    pub policy: PolicyUsed,
    /// Whether only hosts with REQUIRETLS will do.
    pub require_tls: bool,
}

/// The state of DANE after the lookup of TLSA records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DaneState {
    /// DANE does not apply.
    NotApplicable,
    /// Records that can be used.
    Usable(Vec<Tlsa>),
    /// Records, none of which can be used: TLS is mandatory, with any certificate (RFC 7672 §2.2).
    Unusable,
}

/// Looks up the TLSA records of `host`, whose address lookup was `secure` and led to `owner`.
///
/// # Errors
/// If the lookup fails: the host must not be used then (RFC 7672 §2.1.1).
pub(crate) async fn dane_state(
    resolver: &dyn Resolver,
    host: &DnsName,
    owner: &DnsName,
    secure: bool,
    port: u16,
) -> Result<DaneState, Failure> {
    // RFC 7672 §2.2.2: do not look up TLSA records of a host whose address is not secure.
    if !secure {
        return Ok(DaneState::NotApplicable);
    }
    // RFC 7672 §2.2.2: first the name that aliases lead to, then the name itself.
    let bases = if owner == host { vec![host] } else { vec![owner, host] };
    for base in bases {
        let Some(name) = base.below(&format!("_{port}._tcp")) else { continue };
        match resolver.tlsa(&name).await {
            Ok(answer) if answer.secure => {
                let records = dane::usable(answer.records);
                return Ok(if records.is_empty() { DaneState::Unusable } else { DaneState::Usable(records) });
            }
            Ok(_) => {}
            Err(error) if error.is_negative() => {}
            Err(LookupError::Bogus) => return Err(Failure::new(Reason::DnsBogus, name.as_str())),
            Err(_) => return Err(Failure::new(Reason::DnsFailed, name.as_str())),
        }
    }
    Ok(DaneState::NotApplicable)
}

/// The facts about a host when its security is decided.
pub(crate) struct HostFacts<'a> {
    /// The domain that the mail is for.
    pub domain: &'a DnsName,
    /// The host.
    pub host: &'a DnsName,
    /// Whether DNSSEC validated that the host is one of the domain.
    pub mx_secure: bool,
    /// Its TLSA records.
    pub dane: DaneState,
    /// The policy of the domain.
    pub sts: Option<&'a Policy>,
}

/// Decides the requirement on a connection to a host.
///
/// # Errors
/// If policy forbids the host altogether; the problem goes into reports.
pub(crate) fn decide(
    facts: HostFacts<'_>,
    demand: TlsDemand,
) -> Result<Security, (Failure, Option<TlsProblem>)> {
    let allowed = facts.sts.map(|policy| policy.allows(facts.host));
    let enforced = facts.sts.is_some_and(|policy| policy.mode == Mode::Enforce);
    let require_tls = demand == TlsDemand::Require;
    let mut names: Vec<ServerName<'static>> = Vec::new();
    names.extend(server_name(facts.host));
    let policy = match (&facts.dane, facts.sts) {
        (DaneState::Usable(records), _) => PolicyUsed::Tlsa(records.iter().map(tlsa_text).collect()),
        (DaneState::Unusable, _) => PolicyUsed::Tlsa(Vec::new()),
        (DaneState::NotApplicable, Some(sts)) if sts.mode != Mode::None => {
            PolicyUsed::Sts(sts.to_text().lines().map(str::to_owned).collect())
        }
        _ => PolicyUsed::None,
    };
    // RFC 8689 §5: delivery before policy.
    if demand == TlsDemand::Waive {
        return Ok(Security {
            need: Need::Nothing,
            mode: TlsMode::Opportunistic,
            names,
            policy,
            require_tls,
        });
    }
    // RFC 8461 §5.1: never use a host that an enforced policy does not name.
    if enforced && allowed == Some(false) {
        let failure = Failure::new(Reason::StsMxMismatch, facts.host.as_str());
        return Err((failure, Some(TlsProblem::StsMxMismatch)));
    }
    // RFC 8689 §4.2.1: DNSSEC or MTA-STS has to prove that the host is one of the domain.
    if require_tls && !facts.mx_secure && allowed != Some(true) {
        return Err((Failure::new(Reason::MxNotAuthenticated, facts.host.as_str()), None));
    }
    let (need, mode) = match facts.dane {
        DaneState::Usable(records) => {
            // RFC 7672 §3.2.2: with a secure MX, the domain is a name that the certificate may have.
            names.extend(server_name(facts.domain).filter(|_| facts.domain != facts.host));
            (Need::Dane(records), TlsMode::Dane)
        }
        _ if require_tls => (Need::Roots, TlsMode::Required),
        DaneState::Unusable => (Need::Encryption, TlsMode::Dane),
        DaneState::NotApplicable if enforced => (Need::Roots, TlsMode::MtaSts),
        DaneState::NotApplicable => (Need::Nothing, TlsMode::Opportunistic),
    };
    Ok(Security { need, mode, names, policy, require_tls })
}

/// The name for SNI and certificates.
pub(crate) fn server_name(host: &DnsName) -> Option<ServerName<'static>> {
    ServerName::try_from(host.as_str().to_owned()).ok()
}

fn tlsa_text(record: &Tlsa) -> String {
    let data: String = record.data.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{} {} {} {data}", record.usage, record.selector, record.matching)
}
