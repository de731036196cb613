//! The one cookie of this server (RFC 6265): a web login.
//!
//! Scripts cannot read it (`HttpOnly`), no page of another site can send it (`SameSite=Strict`),
//! and over TLS its name begins with `__Host-`, so that no other host of the domain can set it
//! (draft-ietf-httpbis-rfc6265bis §4.1.3.2). Plaintext is for this machine alone, where browsers
//! keep no secure cookies: the cookie has another name there.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use zeroize::Zeroizing;

const OVER_TLS: &str = "__Host-sealpost";
const IN_PLAIN: &str = "sealpost-plain";

fn name(is_tls: bool) -> &'static str {
    if is_tls { OVER_TLS } else { IN_PLAIN }
}

/// The value of the cookie; `None` if there is none, or several (a page below the domain may have set
/// another one), or it has other characters than those that this server sets.
pub(crate) fn value(headers: &HeaderMap, is_tls: bool) -> Option<Zeroizing<String>> {
    // RFC 9113 §8.2.3: HTTP/2 may send each in a field of its own.
    let fields = headers.get_all(header::COOKIE).iter();
    let pairs = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b';'));
    let of_name = |pair: &[u8]| {
        let pair = pair.trim_ascii();
        let at = pair.iter().position(|byte| *byte == b'=')?;
        (&pair[..at] == name(is_tls).as_bytes()).then(|| pair[at + 1..].to_vec())
    };
    let mut values = pairs.filter_map(of_name).map(Zeroizing::new);
    let value = values.next()?;
    let is_of_server = |c: &u8| c.is_ascii_alphanumeric() || *c == b'_';
    if values.next().is_some() || value.is_empty() || !value.iter().all(is_of_server) {
        return None;
    }
    std::str::from_utf8(&value).ok().map(|text| Zeroizing::new(text.to_owned()))
}

/// The field that sets the cookie for so long; an empty value for no time removes it.
pub(crate) fn set(value: &str, lifetime: Duration, is_tls: bool) -> HeaderValue {
    let secure = if is_tls { "; Secure" } else { "" };
    let (name, seconds) = (name(is_tls), lifetime.as_secs());
    let field = Zeroizing::new(format!(
        "{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    ));
    let mut field = HeaderValue::from_str(&field).unwrap_or(HeaderValue::from_static(""));
    field.set_sensitive(true);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[&str], is_tls: bool) -> Option<String> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(header::COOKIE, field.parse().unwrap());
        }
        value(&headers, is_tls).map(|value| value.to_string())
    }

    #[test]
    fn the_cookie_is_found_once_or_not_at_all() {
        for (fields, expected) in [
            (&["__Host-sealpost=sw_a_b"][..], Some("sw_a_b")),
            (&["a=b; __Host-sealpost=sw_a_b; c=d"], Some("sw_a_b")),
            (&["a=b", "__Host-sealpost=sw_a_b"], Some("sw_a_b")),
            (&["__Host-sealpost=a; __Host-sealpost=b"], None),
            (&["__Host-sealpost=a", "__Host-sealpost=a"], None),
            (&["sealpost-plain=a"], None),
            (&["__host-sealpost=a"], None),
            (&["x__Host-sealpost=a"], None),
            (&["__Host-sealpost="], None),
            (&["__Host-sealpost=\"a\""], None),
            (&["__Host-sealpost"], None),
            (&[], None),
        ] {
            assert_eq!(of(fields, true).as_deref(), expected, "{fields:?}");
        }
        assert_eq!(of(&["sealpost-plain=a; __Host-sealpost=b"], false).as_deref(), Some("a"));
    }

    #[test]
    fn no_script_and_no_other_site_gets_the_cookie() {
        let field = set("sw_a", Duration::from_secs(60), true);
        let text = "__Host-sealpost=sw_a; Path=/; Max-Age=60; HttpOnly; SameSite=Strict; Secure";
        assert!(field == text && field.is_sensitive(), "{text}");
        let plain = set("", Duration::ZERO, false);
        assert_eq!(plain, "sealpost-plain=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    }
}
