//! What an operator decides about HTTP.

use std::fmt;
use std::str::FromStr;

use super::IpRange;

/// How HTTP is served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Http {
    /// Pages of these origins may use the server (CORS); others only if they come from the server.
    pub allowed_origins: Vec<Origin>,
    /// Reverse proxies that speak HTTP: what they say of their clients (`Forwarded`,
    /// `X-Forwarded-For`, `X-Forwarded-Proto`) is believed, and they may speak it without TLS.
    /// [`super::Settings::trusted_proxies`] are others, which speak the PROXY protocol.
    pub trusted_proxies: Vec<IpRange>,
    /// Web applications of these origins may be clients of OAuth; without it only native programs are.
    pub oauth_redirect_origins: Vec<Origin>,
    /// Where clients reach the server, such as `https://mail.example.org`; none: where the request
    /// went.
    pub url: Option<Origin>,
}

/// Where a page comes from (RFC 6454): scheme, host and port, such as `https://mail.example.org`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// As browsers write it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no origin, such as \"https://mail.example.org\"");
        let lower = text.to_ascii_lowercase();
        let (scheme, host) = lower.split_once("://").ok_or_else(wrong)?;
        let default_port = match scheme {
            "https" => ":443",
            "http" => ":80",
            _ => return Err(wrong()),
        };
        // RFC 6454 §6.2: the scheme's own port is not written.
        let host = host.strip_suffix(default_port).unwrap_or(host);
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        if host.is_empty() || host.starts_with(':') || !host.bytes().all(is_host) {
            return Err(wrong());
        }
        Ok(Origin(format!("{scheme}://{host}")))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_as_browsers_write_them() {
        for (text, origin) in [
            ("https://mail.example.org", "https://mail.example.org"),
            ("HTTPS://Mail.Example.org:443", "https://mail.example.org"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[::1]:8080", "http://[::1]:8080"),
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().as_str(), origin);
        }
        for text in ["", "*", "null", "mail.example.org", "https://", "https://a/", "ftp://a", "https://a b"]
        {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }
}
