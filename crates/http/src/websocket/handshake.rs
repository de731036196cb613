//! The handshake of a WebSocket (RFC 6455 §4.2), over HTTP/1.1.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use ring::digest;
use sealpost_session::settings::Origin;

/// The string that §1.3 appends to the client's key.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Why a handshake is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The client does not request a WebSocket.
    NotAsked,
    /// It requests another version.
    Version,
    /// The request is malformed.
    Malformed(&'static str),
    /// It comes from a page of another origin.
    Origin,
}

/// The fields of the response that accepts a WebSocket for `protocol`. Only pages of the server's own
/// `origin` and of `allowed` origins may open one. CORS does not protect WebSockets, and browsers may add
/// stored credentials on their own.
///
/// # Errors
/// Why it is refused.
pub(super) fn accept(
    request: &HeaderMap,
    protocol: &'static str,
    origin: &str,
    allowed: &[Origin],
) -> Result<HeaderMap, Refused> {
    if !has_token(request, &header::CONNECTION, "upgrade")
        || !has_token(request, &header::UPGRADE, "websocket")
    {
        return Err(Refused::NotAsked);
    }
    let field = |name: HeaderName| request.get(name).map_or(&b""[..], HeaderValue::as_bytes);
    if field(header::SEC_WEBSOCKET_VERSION) != b"13" {
        return Err(Refused::Version);
    }
    let key = field(header::SEC_WEBSOCKET_KEY);
    if STANDARD.decode(key).map_or(0, |key| key.len()) != 16 {
        return Err(Refused::Malformed("Sec-WebSocket-Key is malformed"));
    }
    if !has_token(request, &header::SEC_WEBSOCKET_PROTOCOL, protocol) {
        return Err(Refused::Malformed("the client does not offer the subprotocol of this WebSocket"));
    }
    if let Some(page) = request.get(header::ORIGIN) {
        let is_allowed = |known: &str| known.as_bytes() == page.as_bytes();
        if !is_allowed(origin) && !allowed.iter().any(|known| is_allowed(known.as_str())) {
            return Err(Refused::Origin);
        }
    }
    let mut fields = HeaderMap::new();
    fields.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    fields.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    // Base64 is ASCII.
    if let Ok(accepted) = HeaderValue::try_from(accepted(key)) {
        fields.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
    }
    Ok(fields)
}

/// §4.2.2, 5.4: proves that the server speaks the protocol, nothing more.
fn accepted(key: &[u8]) -> String {
    let mut sha1 = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    sha1.update(key);
    sha1.update(GUID);
    STANDARD.encode(sha1.finish())
}

/// Whether a list field contains a token, ignoring case.
fn has_token(request: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let fields = request.get_all(name).iter().filter_map(|field| field.to_str().ok());
    fields.flat_map(|field| field.split(',')).any(|item| item.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(change: &[(HeaderName, &'static str)]) -> Result<HeaderMap, Refused> {
        // The example of §1.3.
        let mut request = HeaderMap::from_iter([
            (header::UPGRADE, HeaderValue::from_static("WebSocket")),
            (header::CONNECTION, HeaderValue::from_static("keep-alive, Upgrade")),
            (header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
            (header::SEC_WEBSOCKET_KEY, HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==")),
            (header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("x, jmap")),
        ]);
        for (name, value) in change {
            request.insert(name, HeaderValue::from_static(value));
        }
        let allowed = ["https://webmail.example.org".parse().unwrap()];
        accept(&request, "jmap", "https://mail.example.org", &allowed)
    }

    #[test]
    fn a_handshake_is_accepted() {
        let fields = asked(&[]).unwrap();
        assert_eq!(fields[header::SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(fields[header::SEC_WEBSOCKET_PROTOCOL], "jmap");
        for page in ["https://mail.example.org", "https://webmail.example.org"] {
            assert!(asked(&[(header::ORIGIN, page)]).is_ok());
        }
    }

    #[test]
    fn a_handshake_that_is_not_right_is_refused() {
        let malformed = Refused::Malformed("");
        for (name, value, expected) in [
            (header::UPGRADE, "h2c", Refused::NotAsked),
            (header::CONNECTION, "close", Refused::NotAsked),
            (header::SEC_WEBSOCKET_VERSION, "8", Refused::Version),
            (header::SEC_WEBSOCKET_KEY, "dGhl", malformed),
            (header::SEC_WEBSOCKET_PROTOCOL, "xmpp", malformed),
            (header::ORIGIN, "https://evil.example", Refused::Origin),
            (header::ORIGIN, "null", Refused::Origin),
        ] {
            let refused = asked(&[(name.clone(), value)]).unwrap_err();
            let is_same = std::mem::discriminant(&refused) == std::mem::discriminant(&expected);
            assert!(is_same, "{name}: {value} {refused:?}");
        }
    }
}
