//! Addresses in one canonical spelling, so that comparing them is comparing strings.
//!
//! An address is a Mailbox as RFC 5321 §4.1.2 has it, with UTF-8 as RFC 6531 §3.3 adds it.
//! Canonical: the local part in Unicode NFC, lower case (RFC 5321 §2.4 leaves the case of local
//! parts to the host that owns them; here it never matters), and in quotes only if it cannot be
//! without; the domain in NFKC, lower case, A-labels (`xn--…`) decoded to U-labels (RFC 5890
//! §2.3.2.1), so that both spellings of an internationalized address are one (RFC 6531 §3.2).
//!
//! Accounts and aliases have names that need no quotes, in a domain: RFC 5321 §4.1.2 asks hosts not
//! to define others. Mail for other addresses can still come, and go to a catch-all.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use minicbor::decode::{self, Decoder};
use minicbor::encode::{self, Encoder, Write};
use minicbor::{Decode, Encode};
use sealpost_base::{Error, Result, limits};
use sealpost_mime::is_ignorable;
use unicode_normalization::UnicodeNormalization;

use super::punycode;

/// Bytes of a label (RFC 1035 §2.3.4).
const LABEL_BYTES: usize = 63;

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
    /// Reads `local@domain`.
    ///
    /// # Errors
    /// `Invalid`, saying what is wrong; `Limit` if a part is longer than RFC 5321 §4.5.3.1 allows.
    pub fn parse(text: &str) -> Result<Self> {
        // A quoted local part may have an @; a Dot-string and a domain have none.
        let quoted = text.strip_prefix('"').and_then(|rest| Some(end_of_quoted(rest)? + 1));
        let at = match quoted {
            Some(end) if text[end..].starts_with('@') => Some(end),
            Some(_) => None,
            None => text.find('@'),
        };
        let no_form = || Error::invalid("an address has the form name@domain");
        let at = at.ok_or_else(no_form).map_err(|e| not_an_address(text, e))?;
        Self::from_parts(&text[..at], &text[at + 1..]).map_err(|e| not_an_address(text, e))
    }

    /// The same, and a name without a domain is one of `domain`; the name is checked before that is
    /// appended to it.
    ///
    /// # Errors
    /// As [`Address::parse`]; `Invalid` for a name without a domain, if there is none to put behind it.
    pub fn parse_in(text: &str, domain: Option<&str>) -> Result<Self> {
        if text.contains('@') {
            return Self::parse(text);
        }
        canonical_local(text).map_err(|e| not_an_address(text, e))?;
        match domain {
            Some(domain) => Self::from_parts(text, domain),
            None => Err(Error::invalid(format!(
                "{text:?} has no domain: write it out, as in {text}@example.org, or set `domain` in the configuration"
            ))),
        }
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

    /// What stands before the `@`, in quotes if it needs them.
    pub fn local(&self) -> &str {
        &self.text[..self.at]
    }

    /// What stands after the `@`.
    pub fn domain(&self) -> &str {
        &self.text[self.at + 1..]
    }

    /// The whole address.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// `user+tag@domain` as `user@domain` and `tag`; `None` without a tag. The first `+` separates
    /// (RFC 5233 §4 leaves the choice to the host).
    pub fn split_tag(&self) -> Option<(Address, &str)> {
        let (user, tag) = self.local().split_once('+')?;
        // What is left of `a.+b` is no address, nor is a part of a quoted string.
        if wrong_in_dot_string(user).is_some() {
            return None;
        }
        Some((Address { at: user.len(), text: format!("{user}@{}", self.domain()) }, tag))
    }

    /// Refuses what looks like another address, or like none: characters that cannot be seen, and
    /// those that turn the direction of the text. Names that exist keep them.
    ///
    /// # Errors
    /// `Invalid`.
    pub(super) fn check_visible(&self) -> Result<()> {
        match self.text.chars().find(|c| is_ignorable(*c)) {
            Some(c) => Err(not_a_name(
                self,
                &format!("the invisible character U+{:04X} is not allowed", u32::from(c)),
            )),
            None => Ok(()),
        }
    }

    /// Whether an account or alias may be called so.
    fn check_name(&self) -> Result<()> {
        if self.local().starts_with('"') {
            return Err(not_a_name(self, "the part before the @ must not need quotes (RFC 5321 §4.1.2)"));
        }
        if self.domain().starts_with('[') {
            return Err(not_a_name(self, "the part after the @ must be a domain name"));
        }
        Ok(())
    }
}

impl AccountName {
    /// Reads an account name.
    ///
    /// # Errors
    /// As [`Address::parse`] and [`AccountName::new`].
    pub fn parse(text: &str) -> Result<Self> {
        Address::parse(text).and_then(Self::new)
    }

    /// The account name that is this address.
    ///
    /// # Errors
    /// `Invalid` if an account may not be called so: the local part needs quotes, or there is a
    /// number for a domain.
    pub fn new(address: Address) -> Result<Self> {
        address.check_name()?;
        Ok(AccountName(address))
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

impl From<AccountName> for Address {
    fn from(name: AccountName) -> Self {
        name.0
    }
}

fn not_an_address(text: &str, why: Error) -> Error {
    why.context(format!("{text:?} is not an address"))
}

fn not_a_name(address: &Address, why: &str) -> Error {
    Error::invalid(format!("{address} cannot be the name of an account or alias: {why}"))
}

/// `Local-part = Dot-string / Quoted-string`.
fn canonical_local(local: &str) -> Result<String> {
    // Twice as much, for characters that are quoted one by one.
    if local.len() > 2 * limits::LOCAL_PART_BYTES {
        return Err(long_local());
    }
    let (content, is_quoted) = match local.strip_prefix('"') {
        Some(rest) => (unquote(rest)?, true),
        None => (local.to_owned(), false),
    };
    let content: String = content.nfc().flat_map(char::to_lowercase).collect::<String>().nfc().collect();
    let local = match wrong_in_dot_string(&content) {
        None => content,
        Some(_) if is_quoted => quote(&content)?,
        Some(wrong) => return Err(Error::invalid(wrong)),
    };
    // RFC 5321 §4.5.3.1.1.
    if local.len() > limits::LOCAL_PART_BYTES { Err(long_local()) } else { Ok(local) }
}

fn long_local() -> Error {
    Error::limit("the part of the address before the @ is too long")
}

/// What keeps `text` from being a `Dot-string = Atom *("." Atom)`, in words.
fn wrong_in_dot_string(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("there is nothing before the @".to_owned());
    }
    let printable = |c: char| match c {
        ' ' => "a space".to_owned(),
        c if c.is_control() || c.is_whitespace() => format!("the character U+{:04X}", u32::from(c)),
        c => c.to_string(),
    };
    if let Some(c) = text.chars().find(|c| *c != '.' && !is_atext(*c)) {
        return Some(format!("{} is not allowed before the @", printable(c)));
    }
    let empty = text.split('.').any(str::is_empty);
    empty.then(|| "the part before the @ cannot begin or end with a dot, or have two in a row".to_owned())
}

/// RFC 5322 §3.2.3, with `UTF8-non-ascii` (RFC 6531 §3.3) except for what cannot be seen as a
/// character of its own.
fn is_atext(c: char) -> bool {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => true,
        c if c.is_ascii() => "!#$%&'*+-/=?^_`{|}~".contains(c),
        c => !c.is_control() && !c.is_whitespace(),
    }
}

/// Where the quoted string ends whose content begins `rest`: behind its closing quote.
fn end_of_quoted(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some(at + 1),
            '\\' => drop(chars.next()?),
            _ => {}
        }
    }
    None
}

/// The content of a quoted string without its first quote (RFC 5321 §4.1.2).
fn unquote(rest: &str) -> Result<String> {
    let inner = match end_of_quoted(rest) {
        Some(end) if end == rest.len() => &rest[..end - 1],
        _ => return Err(Error::invalid("the quoted part before the @ does not end there")),
    };
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        text.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    Ok(text)
}

/// `Quoted-string`, as short as it can be.
fn quote(content: &str) -> Result<String> {
    if content.is_empty() {
        return Err(Error::invalid("there is nothing before the @"));
    }
    if content.chars().any(char::is_control) {
        return Err(Error::invalid("control characters are not allowed before the @"));
    }
    let mut text = String::with_capacity(content.len() + 2);
    text.push('"');
    for c in content.chars() {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
    Ok(text)
}

fn canonical_domain(domain: &str) -> Result<String> {
    if domain.len() > limits::DOMAIN_BYTES {
        // RFC 5321 §4.5.3.1.2.
        return Err(Error::limit("the domain of the address is too long"));
    }
    if let Some(literal) = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return canonical_literal(literal);
    }
    // RFC 3490 §3.1: the ideographic full stop separates labels too (NFKC makes its other forms this one).
    let domain = fold_domain(domain).replace('\u{3002}', ".");
    let domain = domain.strip_suffix('.').unwrap_or(&domain);
    if domain.is_empty() {
        return Err(Error::invalid("a domain name is required"));
    }
    let labels = domain.split('.').map(canonical_label).collect::<Result<Vec<_>>>()?;
    let domain = labels.join(".");
    if domain.len() > limits::DOMAIN_BYTES {
        return Err(Error::limit("the domain of the address is too long"));
    }
    Ok(domain)
}

/// An address literal (RFC 5321 §4.1.3) names a host by number.
fn canonical_literal(literal: &str) -> Result<String> {
    let lower = literal.to_ascii_lowercase();
    let is_valid = match lower.strip_prefix("ipv6:") {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => lower.parse::<Ipv4Addr>().is_ok(),
    };
    match is_valid {
        true => Ok(format!("[{lower}]")),
        false => Err(Error::invalid(format!(
            "[{literal}] is no address of a host, such as [192.0.2.1] or [IPv6:2001:db8::1]"
        ))),
    }
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
    Err(Error::invalid(match label.is_empty() {
        true => "the name of a domain cannot begin with a dot, or have two in a row".to_owned(),
        false => format!("{label:?} cannot be a part of the name of a domain"),
    }))
}

/// `sub-domain = Let-dig [Ldh-str]`, or `U-label` (RFC 6531 §3.3). Hosts of private networks have
/// names with `_`.
fn proper_label(label: &str) -> bool {
    let fine = |c: char| match c {
        'a'..='z' | '0'..='9' | '-' | '_' => true,
        c => !c.is_ascii() && !c.is_control() && !c.is_whitespace() && c != '\u{3002}',
    };
    let is_short = !label.is_ascii() || label.len() <= LABEL_BYTES;
    !label.is_empty()
        && is_short
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.chars().all(fine)
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
        AccountName::new(Address::decode(d, ctx)?).map_err(decode::Error::message)
    }
}

#[cfg(test)]
mod tests;
