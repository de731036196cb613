//! Where an alias leads: to addresses of this server, and to addresses of others.
//!
//! Which of the two a target is, is decided when the alias is made and recorded. So mail never
//! leaves this server because the last account of a domain was removed.

use std::fmt;
use std::str::FromStr;

use minicbor::decode::{self, Decoder};
use minicbor::encode::{self, Encoder, Write};
use minicbor::{Decode, Encode};
use sealpost_base::{Error, Result};

use super::{Address, Directory};

/// An address of another server, in the spelling in which it was given: that server alone knows
/// what the case of its local part means (RFC 5321 §2.4).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutsideAddress {
    text: String,
    canonical: Address,
}

/// The targets of an alias.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// Accounts of this server, and aliases.
    pub here: Vec<Address>,
    /// Addresses of other servers.
    pub outside: Vec<OutsideAddress>,
}

impl OutsideAddress {
    /// Reads `local@domain`.
    ///
    /// # Errors
    /// `Invalid` if it is no address, has characters that cannot be seen, or an address literal for a
    /// domain; `Limit` if a part is too long.
    pub fn parse(text: &str) -> Result<Self> {
        let canonical = Address::parse(text)?;
        canonical.check_visible()?;
        if canonical.domain().starts_with('[') {
            return Err(Error::invalid(format!("{text} cannot get forwarded mail: it has no domain name")));
        }
        Ok(OutsideAddress { text: text.to_owned(), canonical })
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// In canonical form, to compare it.
    pub fn canonical(&self) -> &Address {
        &self.canonical
    }
}

impl Targets {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.here.len() + self.outside.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether one of them is `address`.
    pub fn contains(&self, address: &Address) -> bool {
        self.here.contains(address) || self.outside.iter().any(|outside| outside.canonical == *address)
    }

    /// All of them, as text.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.here.iter().map(Address::as_str).chain(self.outside.iter().map(OutsideAddress::as_str))
    }

    /// Those that `keep` says yes to.
    #[must_use]
    pub(super) fn filtered(&self, keep: impl Fn(&Address) -> bool) -> Self {
        Targets {
            here: self.here.iter().filter(|target| keep(target)).cloned().collect(),
            outside: self.outside.iter().filter(|target| keep(&target.canonical)).cloned().collect(),
        }
    }

    /// These and others, each once, in order.
    #[must_use]
    pub(super) fn with(mut self, others: Targets) -> Self {
        self.here.extend(others.here);
        self.outside.extend(others.outside);
        self.here.sort();
        self.here.dedup();
        self.outside.sort_by(|a, b| a.canonical.cmp(&b.canonical));
        self.outside.dedup_by(|a, b| a.canonical == b.canonical);
        self
    }
}

impl Directory {
    /// Targets as an operator writes them: an address in a domain that is served here is of this
    /// server, every other one is outside; a name without a domain is of the host's.
    ///
    /// # Errors
    /// `Invalid` if one is no address; what the store says.
    pub async fn targets(&self, texts: &[String]) -> Result<Targets> {
        let mut targets = Targets::default();
        for text in texts {
            let address = Address::parse_in(text, self.host.domain.as_deref())?;
            if self.serves(address.domain()).await? {
                targets.here.push(self.account_name(text)?.into());
            } else {
                targets.outside.push(OutsideAddress::parse(text)?);
            }
        }
        Ok(targets)
    }
}

impl From<&[Address]> for Targets {
    fn from(here: &[Address]) -> Self {
        Targets { here: here.to_vec(), outside: Vec::new() }
    }
}

impl<const N: usize> From<&[Address; N]> for Targets {
    fn from(here: &[Address; N]) -> Self {
        here.as_slice().into()
    }
}

impl From<&Vec<Address>> for Targets {
    fn from(here: &Vec<Address>) -> Self {
        here.as_slice().into()
    }
}

impl fmt::Display for OutsideAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for OutsideAddress {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        Self::parse(s)
    }
}

impl<C> Encode<C> for OutsideAddress {
    fn encode<W: Write>(
        &self,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> std::result::Result<(), encode::Error<W::Error>> {
        e.str(&self.text)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for OutsideAddress {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> std::result::Result<Self, decode::Error> {
        Self::parse(d.str()?).map_err(|_| decode::Error::message("not an address of another server"))
    }
}
