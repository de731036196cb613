//! Data for TLS reports (RFC 8460): each TLS connection, or each failure to make one, with its
//! policy.

use std::net::IpAddr;

use sealpost_dns::DnsName;

use crate::sts::StsProblem;
use crate::tls::CertificateProblem;

/// Records TLS sessions, for reports to their domains.
pub trait TlsReports: Send + Sync {
    /// Records one connection that was or should have been secured. Must not block.
    fn record(&self, session: TlsSession);
}

/// Drops all records.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoReports;

impl TlsReports for NoReports {
    fn record(&self, _session: TlsSession) {}
}

/// One session or failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSession {
    /// The domain that mail was for.
    pub domain: DnsName,
    /// The policy of the domain.
    pub policy: PolicyUsed,
    /// The server; `None` if the policy could not be fetched or no server was chosen.
    pub host: Option<DnsName>,
    /// The server's address.
    pub address: Option<IpAddr>,
    /// The address of this node that the connection came from; `None` if there was no connection.
    pub source: Option<IpAddr>,
    /// The result.
    pub result: Result<(), TlsProblem>,
}

/// The kind of policy (RFC 8460 §4.2, `policy-type`), with its text as reports show it (`policy-string`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyUsed {
    /// `tlsa`: the records in the form `3 1 1 …`.
    Tlsa(Vec<String>),
    /// `sts`: the lines of the policy.
    Sts(Vec<String>),
    /// `no-policy-found`
    None,
}

/// The kind of failure (RFC 8460 §4.3, `result-type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TlsProblem {
    /// The server does not offer STARTTLS.
    StartTlsNotSupported,
    /// The handshake failed for a reason that is none of the others.
    ValidationFailure,
    /// The certificate fails verification.
    Certificate(CertificateProblem),
    /// The policy could not be fetched.
    Sts(StsProblem),
    /// The server is not among those of the policy.
    StsMxMismatch,
    /// TLSA records were found and none can be used.
    TlsaInvalid,
    /// TLSA records fail DNSSEC validation, or could not be looked up.
    DnssecInvalid,
}

impl TlsProblem {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            TlsProblem::StartTlsNotSupported => "starttls-not-supported",
            TlsProblem::ValidationFailure | TlsProblem::StsMxMismatch => "validation-failure",
            TlsProblem::Certificate(CertificateProblem::HostMismatch) => "certificate-host-mismatch",
            TlsProblem::Certificate(CertificateProblem::Expired) => "certificate-expired",
            TlsProblem::Certificate(CertificateProblem::NotTrusted) => "certificate-not-trusted",
            // RFC 8460 §4.3.2.1: no other type fits a certificate that matches no record.
            TlsProblem::Certificate(CertificateProblem::DaneMismatch) => "validation-failure",
            TlsProblem::Sts(StsProblem::FetchError) => "sts-policy-fetch-error",
            TlsProblem::Sts(StsProblem::WebPkiInvalid) => "sts-webpki-invalid",
            TlsProblem::Sts(StsProblem::Invalid) => "sts-policy-invalid",
            TlsProblem::TlsaInvalid => "tlsa-invalid",
            TlsProblem::DnssecInvalid => "dnssec-invalid",
        }
    }

    /// Details of a failure whose name is too general (RFC 8460 §4.3.3, `failure-reason-code`); else
    /// empty.
    pub fn reason_code(self) -> &'static str {
        match self {
            TlsProblem::ValidationFailure => "tls-handshake-failed",
            TlsProblem::StsMxMismatch => "mx-not-in-sts-policy",
            TlsProblem::Certificate(CertificateProblem::DaneMismatch) => "certificate-matches-no-tlsa-record",
            _ => "",
        }
    }
}
