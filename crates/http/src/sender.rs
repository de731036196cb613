//! Which page sends a request, by what its browser says: `Origin` (RFC 6454 §7) and
//! `Sec-Fetch-Site` (W3C Fetch Metadata). Browsers add cookies by themselves, so a request with one
//! counts only if a page of this server sends it: `SameSite=Strict` alone would let pages of other
//! hosts of the same domain do so.

use http::{HeaderMap, HeaderName};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The page that sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// One of this server, by its `Origin`.
    OwnPage,
    /// One of another origin, or one that hides it.
    Foreign,
    /// The browser does not say: no page but its user began it, or it is no browser.
    Unknown,
}

impl Sender {
    /// The sender of a request with these fields; `base_url` is where clients reach this server.
    pub(crate) fn of(headers: &HeaderMap, base_url: &str) -> Self {
        let mut origins = headers.get_all(http::header::ORIGIN).iter();
        let (origin, another) = (origins.next(), origins.next());
        let is_own = |origin: &[u8]| origin == base_url.as_bytes();
        if another.is_some() || origin.is_some_and(|origin| !is_own(origin.as_bytes())) {
            return Sender::Foreign;
        }
        // `none`: the user typed the address, or opened a bookmark.
        let is_own_site = |site: &[u8]| matches!(site, b"same-origin" | b"none");
        if headers.get_all(SEC_FETCH_SITE).iter().any(|site| !is_own_site(site.as_bytes())) {
            return Sender::Foreign;
        }
        if origin.is_some() { Sender::OwnPage } else { Sender::Unknown }
    }

    /// Whether a page of this server sends it.
    pub fn is_own_page(self) -> bool {
        self == Sender::OwnPage
    }

    /// Whether a page of another origin sends it.
    pub fn is_foreign(self) -> bool {
        self == Sender::Foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_other_origins_are_distinguished() {
        let own = "https://mail.example.org";
        for (origin, site, expected) in [
            (Some(own), Some("same-origin"), Sender::OwnPage),
            (Some(own), None, Sender::OwnPage),
            (None, None, Sender::Unknown),
            (None, Some("same-origin"), Sender::Unknown),
            (None, Some("none"), Sender::Unknown),
            (None, Some("cross-site"), Sender::Foreign),
            (None, Some("same-site"), Sender::Foreign),
            (Some("https://evil.example"), None, Sender::Foreign),
            (Some("https://www.example.org"), Some("same-site"), Sender::Foreign),
            (Some("http://mail.example.org"), None, Sender::Foreign),
            (Some("https://mail.example.org:8443"), None, Sender::Foreign),
            (Some("null"), Some("same-origin"), Sender::Foreign),
            (Some(own), Some("cross-site"), Sender::Foreign),
            (Some(""), None, Sender::Foreign),
        ] {
            let mut headers = HeaderMap::new();
            let mut add = |name, value: Option<&str>| {
                value.map(|value| headers.append(name, value.parse().unwrap()));
            };
            add(http::header::ORIGIN, origin);
            add(SEC_FETCH_SITE, site);
            assert_eq!(Sender::of(&headers, own), expected, "{origin:?} {site:?}");
        }
        let mut twice = HeaderMap::new();
        twice.append(http::header::ORIGIN, own.parse().unwrap());
        twice.append(http::header::ORIGIN, own.parse().unwrap());
        assert_eq!(Sender::of(&twice, own), Sender::Foreign);
    }
}
