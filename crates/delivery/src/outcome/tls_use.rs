//! How a connection was secured.

use minicbor::{Decode, Encode};

/// How a connection was secured.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct TlsUse {
    /// By which policy.
    #[n(0)]
    pub mode: TlsMode,
    /// Whether the server's certificate was verified by that policy, or would have been by the public roots.
    #[n(1)]
    pub verified: bool,
    /// Version and cipher suite, such as `TLSv1.3 TLS13_AES_256_GCM_SHA384`; empty without TLS.
    #[n(2)]
    pub parameters: String,
}

/// The policy that decided on TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum TlsMode {
    /// The connection is in the clear.
    #[default]
    #[n(0)]
    None,
    /// TLS because the server offers it, with any certificate (RFC 3207).
    #[n(1)]
    Opportunistic,
    /// An MTA-STS policy in mode `enforce` (RFC 8461).
    #[n(2)]
    MtaSts,
    /// TLSA records (RFC 7672).
    #[n(3)]
    Dane,
    /// Required by the sender (RFC 8689) or by the route's configuration.
    #[n(4)]
    Required,
}

impl TlsMode {
    /// The name in metrics and commands.
    pub fn name(self) -> &'static str {
        match self {
            TlsMode::None => "none",
            TlsMode::Opportunistic => "opportunistic",
            TlsMode::MtaSts => "mta-sts",
            TlsMode::Dane => "dane",
            TlsMode::Required => "required",
        }
    }
}
