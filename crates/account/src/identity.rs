//! Identities of an account (RFC 8621 §6): addresses that its user sends from, and what clients add to such
//! mail.

use minicbor::{Decode, Encode};
use sealpost_base::IdentityId;
use sealpost_vault::Hash;

/// An address that the user sends from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Identity {
    /// The name in From.
    #[n(0)]
    pub name: String,
    /// The address in From; `*@example.org` is any of the domain.
    #[n(1)]
    pub email: String,
    /// Addresses in Reply-To.
    #[n(2)]
    pub reply_to: Option<Vec<NamedAddress>>,
    /// Addresses in Bcc.
    #[n(3)]
    pub bcc: Option<Vec<NamedAddress>>,
    /// A signature for plain text.
    #[n(4)]
    pub text_signature: String,
    /// A signature for HTML.
    #[n(5)]
    pub html_signature: String,
    /// It is there because the account has the address, and goes when it has it no more.
    #[n(6)]
    pub is_own: bool,
}

/// An address with a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct NamedAddress {
    /// The name.
    #[n(0)]
    pub name: Option<String>,
    /// The address.
    #[n(1)]
    pub email: String,
}

impl Identity {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let address =
            |address: &NamedAddress| 64 + address.email.len() + address.name.as_ref().map_or(0, String::len);
        let addresses = |list: &Option<Vec<NamedAddress>>| list.iter().flatten().map(address).sum::<usize>();
        let texts = [&self.name, &self.email, &self.text_signature, &self.html_signature];
        let texts: usize = texts.into_iter().map(String::len).sum();
        256 + texts + addresses(&self.reply_to) + addresses(&self.bcc)
    }
}

/// The id of the identity that an account has because it has that address: always the same.
pub fn own_identity_id(email: &str) -> IdentityId {
    let hash = Hash::of(format!("sealpost identity {}", email.to_lowercase()).as_bytes());
    let mut id = IdentityId([0; 16]);
    id.0.copy_from_slice(&hash.0[..16]);
    id
}
