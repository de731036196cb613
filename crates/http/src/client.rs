//! The client behind a request: its address, and whether it sent the request encrypted.

use std::net::IpAddr;

use http::{HeaderMap, StatusCode};
use sealpost_session::Context;
use sealpost_session::settings::PlaintextLogin;

use crate::forwarded;
use crate::response::Refusal;
use crate::transport::Transport;

/// The client that sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client {
    /// Its address, or that of its proxy if the proxy does not report it.
    pub(crate) address: Option<IpAddr>,
    /// Whether it speaks TLS, to this server or to its proxy.
    pub(crate) is_tls: bool,
}

/// Determines the client of a request with these header fields.
///
/// # Errors
/// The refusal, if the request came unencrypted over a network, or the proxy's fields are malformed.
pub(crate) fn client(transport: Transport, headers: &HeaderMap, ctx: &Context) -> Result<Client, Refusal> {
    let is_proxy =
        |address: IpAddr| ctx.settings.http.trusted_proxies.iter().any(|range| range.contains(address));
    let direct = Client { address: transport.peer, is_tls: transport.is_tls };
    let client = match transport.peer {
        Some(peer) if is_proxy(peer) => {
            let malformed = "the proxy's fields about its client are malformed";
            let said = forwarded::client(headers, is_proxy)
                .map_err(|_| Refusal(StatusCode::BAD_REQUEST, malformed))?;
            match said {
                Some(said) => Client {
                    address: said.address.or(transport.peer),
                    // Trust a proxy that does not report it: the operator has set it up.
                    is_tls: said.tls.unwrap_or(true),
                },
                None => Client { is_tls: true, ..direct },
            }
        }
        _ => direct,
    };
    let is_local = client.address.is_none_or(|address| address.is_loopback());
    let allows_plaintext = is_local && ctx.settings.plaintext_login == PlaintextLogin::Loopback;
    if client.is_tls || allows_plaintext {
        return Ok(client);
    }
    Err(Refusal(StatusCode::FORBIDDEN, "this connection is not encrypted; use https:// instead of http://"))
}
