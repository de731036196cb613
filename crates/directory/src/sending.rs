//! What an account may send: as whom besides itself, and to how many recipients.

use minicbor::{Decode, Encode};
use sealpost_base::{Error, Result, limits};

use super::{AccountRecord, Address, AliasName};

/// What the operator decided about the sending of one account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Sending {
    /// Addresses and domains (`@domain`) that it may send as, besides its own: each in the
    /// canonical form of [`AliasName`].
    #[n(0)]
    #[cbor(default)]
    from: Vec<String>,
    /// Recipients in an hour; `None`: as the configuration says.
    #[n(1)]
    pub hour: Option<u32>,
    /// Recipients in a day; `None`: as the configuration says.
    #[n(2)]
    pub day: Option<u32>,
}

impl Sending {
    /// What it may send as besides its own addresses, as it was allowed.
    pub fn allowed(&self) -> &[String] {
        &self.from
    }

    /// Allows to send as `name`; whether that is new.
    ///
    /// # Errors
    /// `Limit` beyond [`limits::ALLOWED_SENDERS`].
    pub fn allow(&mut self, name: &AliasName) -> Result<bool> {
        let name = name.to_string();
        if self.from.contains(&name) {
            return Ok(false);
        }
        if self.from.len() >= limits::ALLOWED_SENDERS {
            return Err(Error::limit(format!(
                "an account may be allowed at most {} other senders; allow the whole domain instead",
                limits::ALLOWED_SENDERS
            )));
        }
        self.from.push(name);
        Ok(true)
    }

    /// Takes it back; whether it was allowed.
    pub fn forbid(&mut self, name: &AliasName) -> bool {
        let (name, before) = (name.to_string(), self.from.len());
        self.from.retain(|allowed| *allowed != name);
        self.from.len() < before
    }

    fn allows(&self, address: &Address) -> bool {
        let without_tag = address.split_tag().map(|(user, _)| user);
        self.from.iter().any(|allowed| match allowed.strip_prefix('@') {
            Some(domain) => domain == address.domain(),
            None => {
                [Some(address), without_tag.as_ref()].into_iter().flatten().any(|a| a.as_str() == allowed)
            }
        })
    }
}

impl AccountRecord {
    /// Whether the operator allowed the account to send as `address`, which need not lead to it.
    pub fn may_send_from(&self, address: &Address) -> bool {
        self.sending.as_ref().is_some_and(|sending| sending.allows(address))
    }

    /// Changes what it may send.
    pub fn change_sending<T>(&mut self, change: impl FnOnce(&mut Sending) -> T) -> T {
        let mut sending = self.sending.take().unwrap_or_default();
        let result = change(&mut sending);
        self.sending = Some(sending).filter(|sending| **sending != Sending::default());
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_tags_and_domains() {
        let mut sending = Sending::default();
        let name = |text: &str| AliasName::parse(text).unwrap();
        assert!(sending.allow(&name("Info@Example.org")).unwrap());
        assert!(!sending.allow(&name("info@example.org")).unwrap());
        assert!(sending.allow(&name("@shop.example")).unwrap());
        for (address, allowed) in [
            ("info@example.org", true),
            ("info+news@example.org", true),
            ("other@example.org", false),
            ("anything@shop.example", true),
            ("anything@sub.shop.example", false),
        ] {
            assert_eq!(sending.allows(&Address::parse(address).unwrap()), allowed, "{address}");
        }
        assert!(sending.forbid(&name("@shop.example")));
        assert!(!sending.forbid(&name("@shop.example")));
        assert_eq!(sending.allowed(), ["info@example.org"]);
    }

    #[test]
    fn allowed_senders_are_bounded() {
        let mut sending = Sending::default();
        for i in 0..limits::ALLOWED_SENDERS {
            sending.allow(&AliasName::parse(&format!("a{i}@example.org")).unwrap()).unwrap();
        }
        let error = sending.allow(&AliasName::parse("more@example.org").unwrap()).unwrap_err();
        assert_eq!(error.kind(), sealpost_base::Kind::Limit);
    }
}
