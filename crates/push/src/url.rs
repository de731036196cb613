//! The URL of a subscription: `https`, a host on the internet, no credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sealpost_base::limits::JMAP_PUSH_URL_BYTES;
use sealpost_delivery::https::WebHost;
use sealpost_delivery::public_address::is_public;
use sealpost_dns::DnsName;

/// The port of `https`.
const HTTPS: u16 = 443;

/// A URL that pushes may be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushUrl {
    pub(crate) host: WebHost,
    pub(crate) port: u16,
    /// Host and port as the `Host` field has them (RFC 9110 §7.2): without the port of `https`.
    pub(crate) authority: String,
    /// Path and query: what the request names.
    pub(crate) target: String,
}

impl PushUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it, in words for the client.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > JMAP_PUSH_URL_BYTES || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("not a URL of ASCII characters, or too long");
        }
        // RFC 8620 §7.2: it must begin so.
        let rest = text.strip_prefix("https://").ok_or("does not begin with https://")?;
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err("has a user name in it");
        }
        if target.contains(['#', '\\']) {
            return Err("has a fragment or a backslash in it");
        }
        let (host, port) = split_port(authority)?;
        let (host, name) = host_of(host)?;
        let authority = if port == HTTPS { name } else { format!("{name}:{port}") };
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(PushUrl { host, port, authority, target })
    }

    /// Its origin (RFC 6454 §6.2), which a signature names (RFC 8292 §2).
    pub(crate) fn origin(&self) -> String {
        format!("https://{}", self.authority)
    }
}

/// Host and port of an authority.
fn split_port(authority: &str) -> Result<(&str, u16), &'static str> {
    let colon = match authority.strip_prefix('[') {
        Some(_) => authority.find("]:").map(|at| at + 1),
        None => authority.find(':'),
    };
    let Some(colon) = colon else { return Ok((authority, HTTPS)) };
    let (host, port) = (&authority[..colon], &authority[colon + 1..]);
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| is_number && *port != 0);
    Ok((host, port.ok_or("has no valid port")?))
}

/// The host, and how it is written.
fn host_of(host: &str) -> Result<(WebHost, String), &'static str> {
    let public = |address: IpAddr, text: String| match is_public(address) {
        true => Ok((WebHost::Address(address), text)),
        false => Err("its host is a private or special address"),
    };
    if let Some(literal) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address: Ipv6Addr = literal.parse().map_err(|_| "has no valid host")?;
        return public(address.into(), format!("[{address}]"));
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return public(address.into(), address.to_string());
    }
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    // What ends in a number is an address in a form that other software would understand.
    let is_name = host.bytes().all(is_of_name) && last.bytes().any(|byte| byte.is_ascii_alphabetic());
    let name = DnsName::new(host).filter(|name| is_name && !name.is_root()).ok_or("has no valid host")?;
    // RFC 8620 §8.6: a name that only this network knows is none.
    if !name.as_str().trim_end_matches('.').contains('.') {
        return Err("its host is not a full domain name");
    }
    let text = name.as_str().trim_end_matches('.').to_owned();
    Ok((WebHost::Name(name), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_push_services_are_read() {
        for (text, host, target, origin) in [
            ("https://push.example.org", "push.example.org", "/", "https://push.example.org"),
            ("https://Push.Example.org/a/b?c=d", "push.example.org", "/a/b?c=d", "https://push.example.org"),
            ("https://a.b:8443?x", "a.b:8443", "/?x", "https://a.b:8443"),
            ("https://a.b:443/", "a.b", "/", "https://a.b"),
            ("https://8.8.8.8/x", "8.8.8.8", "/x", "https://8.8.8.8"),
            (
                "https://[2001:4860:4860::8888]:99/x",
                "[2001:4860:4860::8888]:99",
                "/x",
                "https://[2001:4860:4860::8888]:99",
            ),
        ] {
            let url = PushUrl::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!((url.authority.as_str(), url.target.as_str()), (host, target), "{text}");
            assert_eq!(url.origin(), origin);
        }
    }

    #[test]
    fn urls_that_lead_inside_are_refused() {
        for text in [
            "http://push.example.org/",
            "HTTPS://push.example.org/",
            "https://",
            "https:///x",
            "https://localhost/x",
            "https://localhost./x",
            "https://intranet/x",
            "https://127.0.0.1/x",
            "https://127.1/x",
            "https://0x7f.1/x",
            "https://2130706433/x",
            "https://10.0.0.1:8080/x",
            "https://169.254.169.254/latest/meta-data",
            "https://[::1]/x",
            "https://[fe80::1]/x",
            "https://[::ffff:127.0.0.1]/x",
            "https://[::1/x",
            "https://user@push.example.org/",
            "https://user:secret@push.example.org/",
            "https://push.example.org#x",
            "https://push.example.org\\@evil.example/",
            "https://push.example.org:0/",
            "https://push.example.org:/",
            "https://push.example.org:+80/",
            "https://push.example.org:65536/",
            "https://push.example.org/a b",
            "https://push.example.org/\r\nX: y",
            "https://push..example.org/",
        ] {
            assert!(PushUrl::parse(text).is_err(), "{text}");
        }
        let long = format!("https://push.example.org/{}", "a".repeat(JMAP_PUSH_URL_BYTES));
        assert!(PushUrl::parse(&long).is_err());
    }
}
