//! The client that a reverse proxy reports: in `Forwarded` (RFC 7239), or else in `X-Forwarded-For` and
//! `X-Forwarded-Proto`.
//!
//! Each proxy appends the address of its peer. So the trusted proxy has written the last address itself. An
//! earlier address counts only if the one after it is a trusted proxy too. A client can forge the rest.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, header};
use sealpost_base::limits::HTTP_FORWARDED_HOPS;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The client behind a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardedClient {
    /// Its address; `None` if the proxy hides it (`unknown`, or an obfuscated identifier).
    pub address: Option<IpAddr>,
    /// Whether it spoke TLS; `None` if the proxy does not report it.
    pub tls: Option<bool>,
}

/// The fields are malformed, or name more than [`HTTP_FORWARDED_HOPS`] proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadForwarded;

/// One element of `Forwarded`, or the same from the other fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Hop {
    address: Option<IpAddr>,
    tls: Option<bool>,
}

/// The client that the header fields of a trusted proxy report. `None` if they report none. `is_trusted`
/// decides which other addresses are trusted proxies.
///
/// # Errors
/// [`BadForwarded`].
pub fn client(
    headers: &HeaderMap,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Result<Option<ForwardedClient>, BadForwarded> {
    let hops = if headers.contains_key(header::FORWARDED) { standard(headers)? } else { usual(headers)? };
    let mut client = None;
    for hop in hops.into_iter().rev() {
        client = Some(ForwardedClient { address: hop.address, tls: hop.tls });
        if !hop.address.is_some_and(&is_trusted) {
            break;
        }
    }
    Ok(client)
}

/// RFC 7239 §4: comma-separated elements of semicolon-separated pairs.
fn standard(headers: &HeaderMap) -> Result<Vec<Hop>, BadForwarded> {
    let mut hops = Vec::new();
    for field in headers.get_all(header::FORWARDED) {
        for element in split(field.to_str().map_err(|_| BadForwarded)?, ',')? {
            let mut hop = Hop::default();
            for pair in split(element, ';')? {
                let pair = pair.trim();
                let Some((name, value)) = pair.split_once('=') else {
                    if pair.is_empty() {
                        continue;
                    }
                    return Err(BadForwarded);
                };
                let value = unquoted(value)?;
                match name {
                    name if name.eq_ignore_ascii_case("for") => hop.address = address(&value),
                    name if name.eq_ignore_ascii_case("proto") => hop.tls = Some(is_tls(&value)?),
                    _ => {}
                }
            }
            push(&mut hops, hop)?;
        }
    }
    Ok(hops)
}

fn usual(headers: &HeaderMap) -> Result<Vec<Hop>, BadForwarded> {
    let mut hops = Vec::new();
    for field in headers.get_all(X_FORWARDED_FOR) {
        for item in field.to_str().map_err(|_| BadForwarded)?.split(',') {
            push(&mut hops, Hop { address: address(item.trim()), tls: None })?;
        }
    }
    let mut protos = headers.get_all(X_FORWARDED_PROTO).iter();
    // The last proxy has written the last of several values.
    if let Some(field) = protos.next_back() {
        let field = field.to_str().map_err(|_| BadForwarded)?;
        let tls = Some(is_tls(field.rsplit(',').next().unwrap_or_default().trim())?);
        if hops.is_empty() {
            hops.push(Hop::default());
        }
        hops.iter_mut().for_each(|hop| hop.tls = tls);
    }
    Ok(hops)
}

fn push(hops: &mut Vec<Hop>, hop: Hop) -> Result<(), BadForwarded> {
    if hops.len() >= HTTP_FORWARDED_HOPS {
        return Err(BadForwarded);
    }
    hops.push(hop);
    Ok(())
}

/// Splits at `separator`, except within quotes.
fn split(text: &str, separator: char) -> Result<Vec<&str>, BadForwarded> {
    let (mut parts, mut begin, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c == separator && !quoted => {
                parts.push(&text[begin..at]);
                begin = at + c.len_utf8();
            }
            _ => {}
        }
    }
    if quoted {
        return Err(BadForwarded);
    }
    parts.push(&text[begin..]);
    Ok(parts)
}

/// Unquotes a token or a quoted string (RFC 9110 §5.6.4).
fn unquoted(value: &str) -> Result<String, BadForwarded> {
    let Some(inner) = value.strip_prefix('"') else { return Ok(value.to_owned()) };
    let inner = inner.strip_suffix('"').ok_or(BadForwarded)?;
    let (mut text, mut escaped) = (String::new(), false);
    for character in inner.chars() {
        match character {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return Err(BadForwarded),
            other => {
                text.push(other);
                escaped = false;
            }
        }
    }
    if escaped { Err(BadForwarded) } else { Ok(text) }
}

fn is_tls(proto: &str) -> Result<bool, BadForwarded> {
    match proto {
        proto if proto.eq_ignore_ascii_case("https") => Ok(true),
        proto if proto.eq_ignore_ascii_case("http") => Ok(false),
        _ => Err(BadForwarded),
    }
}

/// RFC 7239 §6: an address with or without a port, IPv6 in brackets; else an identifier that hides it.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let parsed = bare.parse::<IpAddr>().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|at| at.ip()));
    parsed.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(fields: &[(&str, &str)]) -> Result<Option<ForwardedClient>, BadForwarded> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        client(&headers, |address| address.to_string().starts_with("10."))
    }

    fn at(address: &str, tls: Option<bool>) -> Result<Option<ForwardedClient>, BadForwarded> {
        Ok(Some(ForwardedClient { address: Some(address.parse().unwrap()), tls }))
    }

    #[test]
    fn known_fields() {
        let (xff, xfp) = ("x-forwarded-for", "x-forwarded-proto");
        let nobody = |tls| Ok(Some(ForwardedClient { address: None, tls }));
        for (fields, expected) in [
            (&[][..], Ok(None)),
            (&[(xff, "192.0.2.7")], at("192.0.2.7", None)),
            (&[(xff, "192.0.2.7"), (xfp, "https")], at("192.0.2.7", Some(true))),
            // The client forged the first; the trusted proxy added the last.
            (&[(xff, "10.9.9.9, 203.0.113.4"), (xfp, "http")], at("203.0.113.4", Some(false))),
            (&[(xff, "203.0.113.4, 10.0.0.2")], at("203.0.113.4", None)),
            (&[(xff, "203.0.113.4"), (xff, "10.0.0.2")], at("203.0.113.4", None)),
            (&[(xff, "198.51.100.1, unknown, 10.0.0.2")], nobody(None)),
            (&[(xff, "[2001:db8::1]:4711")], at("2001:db8::1", None)),
            (&[(xff, "2001:db8::1")], at("2001:db8::1", None)),
            (&[(xff, "::ffff:192.0.2.7")], at("192.0.2.7", None)),
            (&[(xfp, "https")], nobody(Some(true))),
            (&[(xfp, "http, https")], nobody(Some(true))),
            (&[(xfp, "gopher")], Err(BadForwarded)),
            // RFC 7239 §4 and §7.
            (&[("forwarded", "for=\"_gazonk\"")], nobody(None)),
            (&[("forwarded", "For=\"[2001:db8:cafe::17]:4711\"")], at("2001:db8:cafe::17", None)),
            (&[("forwarded", "for=192.0.2.60;proto=https;by=203.0.113.43")], at("192.0.2.60", Some(true))),
            (&[("forwarded", "for=192.0.2.43, for=10.1.1.1;proto=http")], at("192.0.2.43", None)),
            (&[("forwarded", "for=192.0.2.43"), (xff, "198.51.100.17")], at("192.0.2.43", None)),
            (&[("forwarded", "by=\"a,b;c\\\"\";for=192.0.2.1")], at("192.0.2.1", None)),
            (&[("forwarded", "for=\"192.0.2.1")], Err(BadForwarded)),
            (&[("forwarded", "nonsense")], Err(BadForwarded)),
        ] {
            assert_eq!(told(fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn hops_are_bounded() {
        let many = vec!["10.0.0.1"; HTTP_FORWARDED_HOPS].join(",");
        assert!(told(&[("x-forwarded-for", &many)]).is_ok());
        assert_eq!(told(&[("x-forwarded-for", &format!("{many},10.0.0.1"))]), Err(BadForwarded));
        let many = vec!["for=10.0.0.1"; HTTP_FORWARDED_HOPS + 1].join(",");
        assert_eq!(told(&[("forwarded", &many)]), Err(BadForwarded));
    }
}
