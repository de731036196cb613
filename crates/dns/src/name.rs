//! Domain names in one canonical form, so that equal names are equal strings.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Bytes of a name without its last dot (RFC 1035 §2.3.4: 255 on the wire).
const NAME_BYTES: usize = 253;
/// Bytes of a label (RFC 1035 §2.3.4).
const LABEL_BYTES: usize = 63;

/// A fully qualified name: ASCII, lower case, without the last dot. The root is the empty string.
///
/// Labels may hold any printable ASCII but dots, spaces and backslashes, `_` among them
/// (`_25._tcp.mx.example`). Others, which DNS allows and mail never uses, are no names here.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DnsName(Box<str>);

impl DnsName {
    /// `text`, with or without its last dot; U-labels become A-labels (RFC 5891 §4.4). `None` if it
    /// is not a name.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return None;
        }
        if !text.is_ascii() {
            return Self::from_ascii(&idna::domain_to_ascii(text).ok()?);
        }
        Self::from_ascii(text)
    }

    /// The root of the name space, which a null MX names (RFC 7505 §3).
    pub fn root() -> Self {
        DnsName("".into())
    }

    /// The name under which the PTR record of `address` is (RFC 1035 §3.5, RFC 3596 §2.5).
    pub fn reverse(address: IpAddr) -> Self {
        let text = match address {
            IpAddr::V4(v4) => {
                let [a, b, c, d] = v4.octets();
                format!("{d}.{c}.{b}.{a}.in-addr.arpa")
            }
            IpAddr::V6(v6) => {
                let nibbles = v6.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
                let mut text: String = nibbles.map(|nibble| format!("{nibble:x}.")).collect();
                text += "ip6.arpa";
                text
            }
        };
        DnsName(text.into())
    }

    /// The name `prefix` below this one, such as `_25._tcp`; `None` if that is too long or not a name.
    pub fn below(&self, prefix: &str) -> Option<Self> {
        Self::from_ascii(&format!("{prefix}.{}", self.0))
    }

    /// The canonical text, without the last dot.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    fn from_ascii(text: &str) -> Option<Self> {
        let label = |label: &str| {
            let printable = label.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
            !label.is_empty() && label.len() <= LABEL_BYTES && printable
        };
        let valid = text.len() <= NAME_BYTES && text.split('.').all(label);
        valid.then(|| DnsName(text.to_ascii_lowercase().into()))
    }
}

impl fmt::Display for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "." } else { &self.0 })
    }
}

impl fmt::Debug for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a domain name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAName;

impl fmt::Display for NotAName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a domain name")
    }
}

impl std::error::Error for NotAName {}

impl FromStr for DnsName {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        DnsName::new(text).ok_or(NotAName)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_form() {
        for (text, canonical) in [
            ("Example.ORG.", "example.org"),
            ("_25._tcp.mx.example.org", "_25._tcp.mx.example.org"),
            ("Bücher.example", "xn--bcher-kva.example"),
            ("例え.jp", "xn--r8jz45g.jp"),
        ] {
            assert_eq!(DnsName::new(text).unwrap().as_str(), canonical);
        }
        let long_label = format!("{}.example", "a".repeat(64));
        let long_name = "a.".repeat(127) + "b";
        for bad in ["", ".", "a..b", ".a", "a b", "a\r\nb", &long_label, &long_name] {
            assert!(DnsName::new(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn reverse_names() {
        let name = |text: &str| DnsName::reverse(text.parse().unwrap()).to_string();
        assert_eq!(name("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        // RFC 3596 §2.5 has this example.
        assert_eq!(
            name("4321:0:1:2:3:4:567:89ab"),
            "b.a.9.8.7.6.5.0.4.0.0.0.3.0.0.0.2.0.0.0.1.0.0.0.0.0.0.0.1.2.3.4.ip6.arpa"
        );
    }

    #[test]
    fn prefixes_keep_the_bound() {
        let name = DnsName::new(&("a.".repeat(124) + "b")).unwrap();
        assert!(name.below("_25._tcp").is_none());
        assert_eq!(DnsName::new("x.y").unwrap().below("_mta-sts").unwrap().as_str(), "_mta-sts.x.y");
    }
}
