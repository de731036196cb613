//! Addresses as the envelope carries them (RFC 5321 §4.1.2, extended by RFC 6531 §3.3).
//!
//! A local part is kept without its quoting, because all quoted forms of it are the same (RFC 5321 §4.1.2);
//! writing it uses the least quoting possible. No address holds a control character, so none can break out
//! of a reply or a header field.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes a domain may have (RFC 5321 §4.5.3.1.2).
const DOMAIN_BYTES: usize = 255;
/// Bytes a label of a domain may have (RFC 1035 §2.3.4).
const LABEL_BYTES: usize = 63;

/// The part before the `@`, without quoting.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LocalPart(String);

impl LocalPart {
    /// `text` as a local part; `None` if it has control characters. Empty is allowed (`""@example.org`).
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        (!text.chars().any(char::is_control)).then_some(LocalPart(text))
    }

    /// The text without quoting.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it can be written without quotes: `Dot-string = Atom *("." Atom)`.
    fn is_dot_string(&self) -> bool {
        self.0.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atext))
    }
}

impl fmt::Display for LocalPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_dot_string() {
            return f.write_str(&self.0);
        }
        f.write_str("\"")?;
        for c in self.0.chars() {
            if matches!(c, '"' | '\\') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        f.write_str("\"")
    }
}

/// `atext` (RFC 5322 §3.2.3, with UTF8-non-ascii by RFC 6531 §3.3).
pub(crate) fn is_atext(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || (!c.is_ascii() && !c.is_control())
}

/// A domain name or an address literal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A domain name as it was written; made by [`Host::domain`] only.
    Domain(DomainName),
    /// `[192.0.2.1]`
    Ipv4(Ipv4Addr),
    /// `[IPv6:2001:db8::1]`
    Ipv6(Ipv6Addr),
    /// `[tag:content]` of a standard yet unknown.
    Literal(GeneralLiteral),
}

/// A syntactically valid domain name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DomainName(String);

/// `General-address-literal` without its brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GeneralLiteral(String);

impl Host {
    /// `Domain = sub-domain *("." sub-domain)`, with U-labels (RFC 6531 §3.3); `None` if it is not one.
    pub fn domain(text: &str) -> Option<Self> {
        let valid = text.len() <= DOMAIN_BYTES && text.split('.').all(is_label);
        valid.then(|| Host::Domain(DomainName(text.to_owned())))
    }

    /// The content of an address literal's brackets (RFC 5321 §4.1.3); `None` if it is not one.
    pub fn literal(text: &str) -> Option<Self> {
        if let Ok(v4) = text.parse() {
            return Some(Host::Ipv4(v4));
        }
        let (tag, content) = text.split_once(':')?;
        if tag.eq_ignore_ascii_case("IPv6") {
            return content.parse().ok().map(Host::Ipv6);
        }
        let dcontent = |b: u8| matches!(b, 33..=90 | 94..=126);
        let valid = is_label(tag) && tag.is_ascii() && !content.is_empty() && content.bytes().all(dcontent);
        valid.then(|| Host::Literal(GeneralLiteral(text.to_owned())))
    }

    /// The domain name as it was written, if this is one.
    pub fn as_domain(&self) -> Option<&str> {
        match self {
            Host::Domain(name) => Some(&name.0),
            _ => None,
        }
    }
}

/// `sub-domain = Let-dig [Ldh-str] / U-label`.
fn is_label(label: &str) -> bool {
    let character = |c: char| c.is_ascii_alphanumeric() || c == '-' || (!c.is_ascii() && !c.is_control());
    !label.is_empty()
        && (label.len() <= LABEL_BYTES || !label.is_ascii())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.chars().all(character)
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Domain(name) => f.write_str(&name.0),
            Host::Ipv4(address) => write!(f, "[{address}]"),
            Host::Ipv6(address) => write!(f, "[IPv6:{address}]"),
            Host::Literal(literal) => write!(f, "[{}]", literal.0),
        }
    }
}

/// `Mailbox = Local-part "@" ( Domain / address-literal )`. Displayed as it is written on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mailbox {
    /// Before the `@`.
    pub local: LocalPart,
    /// After the `@`.
    pub host: Host,
}

impl Mailbox {
    /// Whether it can be used without SMTPUTF8 (RFC 6531 §3.5).
    pub fn is_ascii(&self) -> bool {
        self.local.as_str().is_ascii() && self.host.as_domain().is_none_or(str::is_ascii)
    }

    /// `local@host` without any quoting: the form in which accounts and aliases are looked up.
    pub fn address(&self) -> String {
        format!("{}@{}", self.local.as_str(), self.host)
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.local, self.host)
    }
}

/// The address for reports of failures: `Reverse-path = Path / "<>"`. Displayed without the angle brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReversePath {
    /// `<>`: no reports; the message is itself a notification (RFC 5321 §4.5.5).
    Null,
    /// An address.
    Mailbox(Mailbox),
}

impl ReversePath {
    /// Whether it can be used without SMTPUTF8.
    pub fn is_ascii(&self) -> bool {
        match self {
            ReversePath::Null => true,
            ReversePath::Mailbox(mailbox) => mailbox.is_ascii(),
        }
    }
}

impl fmt::Display for ReversePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReversePath::Null => Ok(()),
            ReversePath::Mailbox(mailbox) => mailbox.fmt(f),
        }
    }
}

/// The address of a recipient. Displayed without the angle brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ForwardPath {
    /// `<Postmaster>` without a domain, in any case of letters (RFC 5321 §4.1.1.3).
    Postmaster,
    /// An address.
    Mailbox(Mailbox),
}

impl ForwardPath {
    /// Whether it can be used without SMTPUTF8.
    pub fn is_ascii(&self) -> bool {
        match self {
            ForwardPath::Postmaster => true,
            ForwardPath::Mailbox(mailbox) => mailbox.is_ascii(),
        }
    }
}

impl fmt::Display for ForwardPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForwardPath::Postmaster => f.write_str("Postmaster"),
            ForwardPath::Mailbox(mailbox) => mailbox.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_parts_are_quoted_only_where_they_must_be() {
        for (text, written) in [
            ("fred", "fred"),
            ("fred.bloggs+tag", "fred.bloggs+tag"),
            ("", "\"\""),
            ("a..b", "\"a..b\""),
            ("two words", "\"two words\""),
            ("a\"b\\c", "\"a\\\"b\\\\c\""),
            ("用户", "用户"),
        ] {
            assert_eq!(LocalPart::new(text).unwrap().to_string(), written);
        }
        assert!(LocalPart::new("a\r\nb").is_none());
    }

    #[test]
    fn hosts() {
        for good in ["localhost", "a.b-c.d", "1.example", "例え.jp"] {
            assert_eq!(Host::domain(good).unwrap().to_string(), good);
        }
        let long = format!("{}.example", "a".repeat(64));
        for bad in ["", ".", "a..b", "-a", "a-", "a_b", "a.", "a b", &long] {
            assert!(Host::domain(bad).is_none(), "{bad}");
        }
        for (text, written) in [
            ("192.0.2.1", "[192.0.2.1]"),
            ("ipv6:2001:DB8::1", "[IPv6:2001:db8::1]"),
            ("x-new:a.b", "[x-new:a.b]"),
        ] {
            assert_eq!(Host::literal(text).unwrap().to_string(), written);
        }
        for bad in ["", "192.0.2.256", "192.0.2", "IPv6:192.0.2.1", "IPv6:::g", "tag:", "tag:a b", ":a"] {
            assert!(Host::literal(bad).is_none(), "{bad}");
        }
    }
}
