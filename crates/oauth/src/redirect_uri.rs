//! Redirect URIs: where a browser takes the code. The profile allows what only a native client
//! receives (draft-ietf-mailmaint-oauth-public §3.3): a loopback address with any port, and
//! private-use schemes (RFC 8252 §7). A web application needs the operator's word, because a page
//! that a stranger registers could phish.

use std::fmt::Write;

use sealpost_base::limits::OAUTH_REDIRECT_URI_BYTES;
use sealpost_session::settings::Origin;

/// A redirect URI that may be used here. It has only characters of RFC 3986, so it can be in a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectUri {
    text: String,
    to: Destination,
}

/// Who receives the code.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Destination {
    /// A program on the user's machine; the URI without its port.
    Loopback { without_port: String },
    /// The program that has registered a scheme with the user's system.
    App { scheme: String },
    /// A web application that the operator allows.
    Web { origin: String },
}

impl RedirectUri {
    /// The URI, if it may be used here; `web` are the origins that the operator allows.
    pub(crate) fn parse(text: &str, web: &[Origin]) -> Option<Self> {
        // RFC 3986 §2; `#` begins a fragment, which is not allowed (RFC 6749 §3.1.2).
        let is_allowed = |c: u8| c.is_ascii_alphanumeric() || b"-._~:/?[]@!$&'()*+,;=%".contains(&c);
        if text.len() > OAUTH_REDIRECT_URI_BYTES || !text.bytes().all(is_allowed) || text.contains("..") {
            return None;
        }
        if has_response_parameter(text) {
            return None;
        }
        let to = loopback(text).or_else(|| app(text)).or_else(|| of_web(text, web))?;
        Some(RedirectUri { text: text.to_owned(), to })
    }

    /// Whether a request may name `self` if this one was registered: it is the same, but for the port
    /// of a loopback address (RFC 8252 §7.3).
    pub(crate) fn is_as_registered(&self, registered: &RedirectUri) -> bool {
        match (&self.to, &registered.to) {
            (Destination::Loopback { without_port }, Destination::Loopback { without_port: known }) => {
                without_port == known
            }
            _ => self.text == registered.text,
        }
    }

    /// As the client wrote it.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Who receives the code, for the user.
    pub(crate) fn recipient(&self) -> String {
        match &self.to {
            Destination::Loopback { .. } => "a program on this device".to_owned(),
            Destination::App { scheme } => format!("the program on this device that opens {scheme} links"),
            Destination::Web { origin } => format!("the web site {origin}"),
        }
    }

    /// What Content-Security-Policy calls it: browsers do not follow a redirect from a form elsewhere.
    pub(crate) fn csp_source(&self) -> String {
        match &self.to {
            // A policy cannot name an IPv6 address.
            Destination::Loopback { without_port } if without_port.starts_with("http://[") => {
                "http:".to_owned()
            }
            Destination::Loopback { .. } => "http://127.0.0.1:*".to_owned(),
            Destination::App { scheme } => format!("{scheme}:"),
            Destination::Web { origin } => origin.clone(),
        }
    }

    /// The URL that takes these parameters to the client (RFC 6749 §4.1.2).
    pub(crate) fn with(&self, parameters: &[(&str, &str)]) -> String {
        let mut url = self.text.clone();
        let mut separator = if url.contains('?') { '&' } else { '?' };
        for (name, value) in parameters {
            url.push(separator);
            url.push_str(name);
            url.push('=');
            push_encoded(value, &mut url);
            separator = '&';
        }
        url
    }
}

/// Parameters that a response adds (RFC 6749 §4.1.2, RFC 9207 §2).
const OF_RESPONSE: [&str; 6] = ["code", "state", "iss", "error", "error_description", "error_uri"];

/// Whether the query names a parameter that a response adds: RFC 6749 §3.1 lets none be there twice, and
/// a client may read the first.
fn has_response_parameter(uri: &str) -> bool {
    let Some((_, query)) = uri.split_once('?') else { return false };
    // Some programs divide a query at semicolons too.
    let mut names = query.split(['&', ';']).map(|pair| pair.split('=').next().unwrap_or_default());
    names.any(|name| OF_RESPONSE.iter().any(|of| decoded(name).eq_ignore_ascii_case(of)))
}

/// Without percent-encoding; what is not UTF-8 then is no name that matters.
fn decoded(name: &str) -> String {
    let mut pieces = name.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let byte = piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&piece.as_bytes()[2..]);
            }
            None => {
                bytes.push(b'%');
                bytes.extend_from_slice(piece.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// RFC 3986 §2.1: all but unreserved characters.
fn push_encoded(value: &str, url: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(url, "%{byte:02X}");
        }
    }
}

/// `http://127.0.0.1[:port]/…` or `http://[::1][:port]/…`. Not `localhost`, which may be another
/// machine's (RFC 8252 §8.3).
fn loopback(text: &str) -> Option<Destination> {
    let host = ["http://127.0.0.1", "http://[::1]"].into_iter().find(|host| text.starts_with(host))?;
    let (port, path) = text[host.len()..].split_once('/')?;
    let is_port = |port: &str| port.parse::<u16>().is_ok() && port.bytes().all(|c| c.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return None;
    }
    Some(Destination::Loopback { without_port: format!("{host}/{path}") })
}

/// `com.example.app:/…`: a name of the domain name system backwards, so it has a dot (RFC 8252 §7.1).
fn app(text: &str) -> Option<Destination> {
    let (scheme, rest) = text.split_once(':')?;
    let is_of_scheme = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"+-.".contains(&c);
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.bytes().all(is_of_scheme)
        && scheme.trim_end_matches('.').contains('.');
    (is_scheme && rest.starts_with('/')).then(|| Destination::App { scheme: scheme.to_owned() })
}

fn of_web(text: &str, web: &[Origin]) -> Option<Destination> {
    let host = text.strip_prefix("https://")?;
    let (host, _) = host.split_once('/')?;
    let origin: Origin = format!("https://{host}").parse().ok()?;
    web.contains(&origin).then(|| Destination::Web { origin: origin.as_str().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> Vec<Origin> {
        vec!["https://webmail.example.org".parse().unwrap()]
    }

    #[test]
    fn native_clients_and_allowed_origins_alone() {
        for (uri, source) in [
            ("http://127.0.0.1/redirect", "http://127.0.0.1:*"),
            ("http://127.0.0.1:49152/", "http://127.0.0.1:*"),
            ("http://[::1]/a?b=c", "http:"),
            ("com.example.app:/back", "com.example.app:"),
            ("org.example://oauth?x", "org.example:"),
            ("com.example:/code?codex=code&%=%zz&%e9", "com.example:"),
            ("https://webmail.example.org/back", "https://webmail.example.org"),
            ("https://webmail.example.org:443/back", "https://webmail.example.org"),
        ] {
            let parsed = RedirectUri::parse(uri, &web()).unwrap_or_else(|| panic!("{uri}"));
            assert_eq!((parsed.as_str(), parsed.csp_source().as_str()), (uri, source));
            assert!(!parsed.recipient().is_empty());
        }
        let long = format!("http://127.0.0.1/{}", "x".repeat(OAUTH_REDIRECT_URI_BYTES));
        for uri in [
            "",
            "http://127.0.0.1",
            "http://127.0.0.1.evil.example/",
            "http://127.0.0.1@evil.example/",
            "http://127.0.0.1:x/",
            "http://127.0.0.1:80@evil.example/",
            "http://127.0.0.1:99999/",
            "http://127.0.0.1:+80/",
            "http://127.0.0.2/",
            "http://localhost/",
            "http://[::2]/",
            "https://127.0.0.1/",
            "http://127.0.0.1/../x",
            "http://127.0.0.1/#x",
            "http://127.0.0.1/\r\nSet-Cookie: a=b",
            "http://127.0.0.1/ x",
            "http://127.0.0.1/\"x",
            "javascript:/alert(1)",
            "data:/x",
            "app:/x",
            "com.example:x",
            "com.:/x",
            ".com:/x",
            "Com.example:/x",
            "https://evil.example/",
            "https://webmail.example.org.evil.example/",
            "https://webmail.example.org@evil.example/",
            "https://webmail.example.org:8443/",
            "http://webmail.example.org/",
            "//evil.example/",
            "/relative",
            "com.example:/?code=y",
            "com.example:/back?a=b&state",
            "http://127.0.0.1/?a;error=x",
            "http://[::1]/?%63o%64e=y",
            "https://webmail.example.org/back?ISS=https://evil.example",
            &long,
        ] {
            assert!(RedirectUri::parse(uri, &web()).is_none(), "{uri:?}");
        }
        assert!(RedirectUri::parse("https://webmail.example.org/back", &[]).is_none());
    }

    #[test]
    fn only_a_loopback_port_may_differ_from_the_registered() {
        let parse = |uri: &str| RedirectUri::parse(uri, &web()).unwrap();
        for (asked, registered, expected) in [
            ("http://127.0.0.1:49152/redirect", "http://127.0.0.1/redirect", true),
            ("http://127.0.0.1/redirect", "http://127.0.0.1:80/redirect", true),
            ("http://[::1]:5/", "http://[::1]/", true),
            ("http://127.0.0.1:1/other", "http://127.0.0.1/redirect", false),
            ("http://127.0.0.1:1/redirect?x=1", "http://127.0.0.1/redirect", false),
            ("http://[::1]/redirect", "http://127.0.0.1/redirect", false),
            ("com.example:/a", "com.example:/a", true),
            ("com.example:/b", "com.example:/a", false),
            ("https://webmail.example.org/a", "https://webmail.example.org/b", false),
        ] {
            assert_eq!(parse(asked).is_as_registered(&parse(registered)), expected, "{asked}");
        }
    }

    #[test]
    fn parameters_of_a_response_are_encoded() {
        let uri = RedirectUri::parse("http://127.0.0.1/r?a=b", &[]).unwrap();
        let url = uri.with(&[("state", "a b&c=d#\r\n%ü"), ("code", "sc_x-y")]);
        assert_eq!(url, "http://127.0.0.1/r?a=b&state=a%20b%26c%3Dd%23%0D%0A%25%C3%BC&code=sc_x-y");
        let uri = RedirectUri::parse("com.example:/", &[]).unwrap();
        assert_eq!(uri.with(&[("error", "x")]), "com.example:/?error=x");
    }
}
