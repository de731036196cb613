//! Addresses in one canonical spelling, so that comparing them is comparing strings.
//!
//! Canonical: local part without quotes, Unicode NFC, lower case (RFC 5321 §2.4 leaves the case of local parts to
//! the host that owns them; here it never matters); domain in NFKC, lower case, A-labels (`xn--…`) decoded to
//! U-labels (RFC 5890 §2.3.2.1), so that both spellings of an internationalized address are one (RFC 6531 §3.2).

use std::fmt;
use std::str::FromStr;

use minicbor::decode::{self, Decoder};
use minicbor::encode::{self, Encoder, Write};
use minicbor::{Decode, Encode};
use sealpost_base::{Error, Result, limits};
use unicode_normalization::UnicodeNormalization;

use super::punycode;

/// An address, `local@domain`, in canonical form. It cannot be invalid; two addresses are the same exactly if
/// they are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    text: String,
    at: usize,
}

/// The name of an account: its address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountName(Address);

impl Address {
    /// Reads `local@domain`; the local part may be quoted (RFC 5321 §4.1.2).
    ///
    /// # Errors
    /// `Invalid`, saying what is wrong; `Limit` if a part is longer than RFC 5321 §4.5.3.1 allows.
    pub fn parse(text: &str) -> Result<Self> {
        let (local, domain) =
            text.rsplit_once('@').ok_or_else(|| Error::invalid("an address has the form name@domain"))?;
        Self::from_parts(local, domain)
    }

    /// The same, and a name without a domain is one of `host`.
    pub(super) fn parse_on(text: &str, host: &str) -> Result<Self> {
        if text.contains('@') { Self::parse(text) } else { Self::from_parts(text, host) }
    }

    /// An address of its two parts, neither of which needs to be canonical.
    ///
    /// # Errors
    /// As [`Address::parse`].
    pub fn from_parts(local: &str, domain: &str) -> Result<Self> {
        let local = canonical_local(local)?;
        let domain = canonical_domain(domain)?;
        Ok(Address { at: local.len(), text: format!("{local}@{domain}") })
    }

    /// What stands before the last `@`, without quotes.
    pub fn local(&self) -> &str {
        &self.text[..self.at]
    }

    /// What stands after the last `@`.
    pub fn domain(&self) -> &str {
        &self.text[self.at + 1..]
    }

    /// The whole address.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// `user+tag@domain` as `user@domain` and `tag`; `None` without a tag. The first `+` separates (RFC 5233 §4
    /// leaves the choice to the host).
    pub fn split_tag(&self) -> Option<(Address, &str)> {
        let (user, tag) = self.local().split_once('+')?;
        if user.is_empty() {
            return None;
        }
        Some((Address { at: user.len(), text: format!("{user}@{}", self.domain()) }, tag))
    }
}

impl AccountName {
    /// Reads an account name; see [`Address::parse`].
    ///
    /// # Errors
    /// As [`Address::parse`].
    pub fn parse(text: &str) -> Result<Self> {
        Address::parse(text).map(AccountName)
    }

    /// The name as an address.
    pub fn address(&self) -> &Address {
        &self.0
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl From<Address> for AccountName {
    fn from(address: Address) -> Self {
        AccountName(address)
    }
}

fn canonical_local(local: &str) -> Result<String> {
    if local.len() > 2 * limits::LOCAL_PART_BYTES {
        return Err(Error::limit("the part of the address before the @ is too long"));
    }
    let local = unquote(local)?;
    if local.chars().any(char::is_control) {
        return Err(Error::invalid("an address has no control characters"));
    }
    let local: String = local.nfc().flat_map(char::to_lowercase).collect::<String>().nfc().collect();
    match local.len() {
        0 => Err(Error::invalid("there is nothing before the @ of the address")),
        // RFC 5321 §4.5.3.1.1.
        n if n > limits::LOCAL_PART_BYTES => {
            Err(Error::limit("the part of the address before the @ is too long"))
        }
        _ => Ok(local),
    }
}

/// Takes a quoted string (RFC 5321 §4.1.2) apart; anything else stays as it is.
fn unquote(local: &str) -> Result<String> {
    let Some(inner) = local.strip_prefix('"') else { return Ok(local.to_owned()) };
    let unfinished = || Error::invalid("the quoted part of the address does not end");
    let inner = inner.strip_suffix('"').ok_or_else(unfinished)?;
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.push(chars.next().ok_or_else(unfinished)?),
            '"' => return Err(unfinished()),
            c => text.push(c),
        }
    }
    Ok(text)
}

fn canonical_domain(domain: &str) -> Result<String> {
    if domain.len() > limits::DOMAIN_BYTES {
        // RFC 5321 §4.5.3.1.2.
        return Err(Error::limit("the domain of the address is too long"));
    }
    // An address literal (RFC 5321 §4.1.3) names a host by number; it has no labels.
    if let Some(literal) = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b':' | b'-');
        if literal.is_empty() || !literal.bytes().all(fine) {
            return Err(Error::invalid("the domain of the address is not a valid address literal"));
        }
        return Ok(domain.to_ascii_lowercase());
    }
    // RFC 3490 §3.1: the ideographic full stop separates labels too (NFKC makes its other forms this one).
    let domain = fold_domain(domain).replace('\u{3002}', ".");
    let domain = domain.strip_suffix('.').unwrap_or(&domain);
    let labels = domain.split('.').map(canonical_label).collect::<Result<Vec<_>>>()?;
    let domain = labels.join(".");
    if domain.len() > limits::DOMAIN_BYTES {
        return Err(Error::limit("the domain of the address is too long"));
    }
    Ok(domain)
}

fn fold_domain(text: &str) -> String {
    text.nfkc().flat_map(char::to_lowercase).collect::<String>().nfkc().collect()
}

fn canonical_label(label: &str) -> Result<String> {
    let unicode = label.strip_prefix("xn--").and_then(punycode::decode);
    // An A-label that does not decode to a proper U-label stays what it is: some other host's odd name.
    let label = match unicode {
        Some(unicode)
            if !unicode.is_ascii() && fold_domain(&unicode) == unicode && proper_label(&unicode) =>
        {
            unicode
        }
        _ => label.to_owned(),
    };
    if proper_label(&label) {
        return Ok(label);
    }
    Err(Error::invalid("the domain of the address is not a valid domain name"))
}

fn proper_label(label: &str) -> bool {
    let fine = |c: char| match c {
        'a'..='z' | '0'..='9' | '-' | '_' => true,
        c => !c.is_ascii() && !c.is_control() && !c.is_whitespace() && c != '\u{3002}',
    };
    !label.is_empty() && label.chars().all(fine)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        Self::parse(s)
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for AccountName {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        Self::parse(s)
    }
}

impl<C> Encode<C> for Address {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
        e.str(&self.text)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Address {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        let text = d.str()?;
        let address = Address::parse(text).map_err(decode::Error::message)?;
        if address.text != text {
            return Err(decode::Error::message("an address that is not in canonical form"));
        }
        Ok(address)
    }
}

impl<C> Encode<C> for AccountName {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), encode::Error<W::Error>> {
        self.0.encode(e, ctx)
    }
}

impl<'b, C> Decode<'b, C> for AccountName {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        Address::decode(d, ctx).map(AccountName)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sealpost_base::Kind;

    use super::*;

    #[test]
    fn spellings_of_one_address() {
        for (spelling, canonical) in [
            ("Me@LocalHost", "me@localhost"),
            ("\"me\"@localhost", "me@localhost"),
            ("\"j\\.d oe\"@x.org", "j.d oe@x.org"),
            ("GRÜN@EXÄMPLE.org", "grün@exämple.org"),
            ("gru\u{308}n@exa\u{308}mple.org", "grün@exämple.org"),
            ("a@XN--BCHER-KVA.example", "a@bücher.example"),
            ("a@bücher\u{3002}example.", "a@bücher.example"),
            ("a@xn--999999999.example", "a@xn--999999999.example"),
            ("a@[IPv6:::1]", "a@[ipv6:::1]"),
            ("\"a@b\"@c", "a@b@c"),
        ] {
            assert_eq!(Address::parse(spelling).unwrap().as_str(), canonical);
            assert_eq!(Address::parse(canonical).unwrap().as_str(), canonical, "canonical is a fixed point");
        }
    }

    #[test]
    fn what_is_no_address() {
        for bad in [
            "", "me", "@x", "me@", "me@a..b", "me@a/b", "me@a b", "m\0e@x", "\"me@x", "\"\"@x", "me@[]",
            "a@℀.x",
        ] {
            assert_eq!(Address::parse(bad).unwrap_err().kind(), Kind::Invalid, "{bad:?}");
        }
        let long = format!("{}@x", "a".repeat(limits::LOCAL_PART_BYTES + 1));
        assert_eq!(Address::parse(&long).unwrap_err().kind(), Kind::Limit);
        let long = format!("a@{}", "b".repeat(limits::DOMAIN_BYTES + 1));
        assert_eq!(Address::parse(&long).unwrap_err().kind(), Kind::Limit);
    }

    #[test]
    fn a_tag_follows_the_first_plus() {
        let address = Address::parse("me+a+b@x").unwrap();
        let (user, tag) = address.split_tag().unwrap();
        assert_eq!((user.as_str(), user.local(), user.domain(), tag), ("me@x", "me", "x", "a+b"));
        assert!(Address::parse("+a@x").unwrap().split_tag().is_none());
        assert!(Address::parse("me@x").unwrap().split_tag().is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn canonical_form_is_a_fixed_point(text in "\\PC{1,12}@\\PC{1,12}") {
            if let Ok(address) = Address::parse(&text) {
                // A local part that starts with a quote after unquoting cannot be read back without quotes.
                if !address.local().starts_with('"') {
                    prop_assert_eq!(&Address::parse(address.as_str()).unwrap(), &address);
                }
            }
        }
    }
}
