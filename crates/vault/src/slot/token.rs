//! The text of a token: `sp_{account}_{token}_{secret}`, three times base32 (Crockford's alphabet,
//! lower case): the account's name, the slot's id and a 256-bit secret. It says whose it is, so
//! that a program that shows nothing else can log in by it (RFC 6750). One word, so that a double
//! click selects it. The cookie of a web login has the same form behind `sw_`, so that neither is
//! taken for the other.
//!
//! The name is not bound to the secret and need not be: a token opens the slot that it names, in
//! the account where it is found.

use zeroize::Zeroizing;

use crate::cipher::Secret;
use crate::slot::SlotId;
use crate::slot::recovery::{ALPHABET, value};

/// What a text of a kind of slot begins with.
#[derive(Clone, Copy)]
pub(super) struct TokenForm(&'static str);

/// An app password.
pub(super) const APP_PASSWORD: TokenForm = TokenForm("sp_");
/// The cookie of a web login.
pub(super) const WEB_LOGIN: TokenForm = TokenForm("sw_");

/// Characters of the id and of the secret.
const ID_CHARS: usize = chars(8);
const SECRET_CHARS: usize = chars(32);

const fn chars(bytes: usize) -> usize {
    (bytes * 8).div_ceil(5)
}

impl TokenForm {
    pub(super) fn format(self, account: &str, id: SlotId, secret: &Secret) -> Zeroizing<String> {
        let length = self.0.len() + chars(account.len()) + 1 + ID_CHARS + 1 + SECRET_CHARS;
        let mut text = Zeroizing::new(String::with_capacity(length));
        text.push_str(self.0);
        encode(account.as_bytes(), &mut text);
        text.push('_');
        encode(&id.0, &mut text);
        text.push('_');
        encode(secret.bytes(), &mut text);
        text
    }

    /// The slot's id and the secret, if `text` is a token.
    pub(super) fn parse(self, text: &[u8]) -> Option<(SlotId, Secret)> {
        let [account, id, secret] = self.parts(text)?;
        let mut name = Vec::with_capacity(account.len());
        decode(account, |byte| name.push(byte))?;
        if name.is_empty() || id.len() != ID_CHARS || secret.len() != SECRET_CHARS {
            return None;
        }
        let (mut slot, mut at) = (SlotId([0; 8]), 0);
        decode(id, |byte| {
            slot.0[at] = byte;
            at += 1;
        })?;
        let mut found = None;
        let secret = Secret::filled(|bytes| {
            let mut at = 0;
            found = decode(secret, |byte| {
                bytes[at] = byte;
                at += 1;
            });
        });
        found.map(|()| (slot, secret))
    }

    /// The name of the account that a token says it is of; `None` if `text` is no token.
    pub(super) fn account_of(self, text: &[u8]) -> Option<String> {
        self.parse(text)?;
        let [account, ..] = self.parts(text)?;
        let mut name = Vec::with_capacity(account.len());
        decode(account, |byte| name.push(byte))?;
        String::from_utf8(name).ok()
    }

    fn parts(self, text: &[u8]) -> Option<[&[u8]; 3]> {
        let mut parts = text.trim_ascii().strip_prefix(self.0.as_bytes())?.split(|c| *c == b'_');
        let found = [parts.next()?, parts.next()?, parts.next()?];
        parts.next().is_none().then_some(found)
    }
}

/// Appends `bytes` in base32, the last character filled up with zero bits.
fn encode(bytes: &[u8], out: &mut String) {
    let (mut bits, mut count) = (0u32, 0);
    let mut push = |bits: u32| out.push(char::from(ALPHABET[(bits & 31) as usize].to_ascii_lowercase()));
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            push(bits >> count);
        }
    }
    if count > 0 {
        push(bits << (5 - count));
    }
}

/// Gives the bytes of `text` to `push`; `None` if it is not what [`encode`] makes, in any case.
fn decode(text: &[u8], mut push: impl FnMut(u8)) -> Option<()> {
    let (mut bits, mut count) = (0u32, 0);
    for c in text {
        bits = bits << 5 | u32::from(value(*c)?);
        count += 5;
        if count >= 8 {
            count -= 8;
            push((bits >> count) as u8);
        }
    }
    // What is left fills up the last character.
    (count < 5 && bits & ((1 << count) - 1) == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_length_come_back() {
        let id = SlotId([0xff; 8]);
        for length in 1..40 {
            let name: String = "jane.doe+é@example.org-and-more".chars().cycle().take(length).collect();
            let text = APP_PASSWORD.format(&name, id, &Secret::filled(|secret| secret.fill(0xa5)));
            let (found, secret) = APP_PASSWORD.parse(text.as_bytes()).unwrap();
            assert_eq!((found, secret.bytes()[0]), (id, 0xa5));
            assert_eq!(APP_PASSWORD.account_of(text.as_bytes()).as_deref(), Some(name.as_str()));
            assert!(
                text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_'),
                "one word: {}",
                text.as_str()
            );
        }
    }

    #[test]
    fn malformed_tokens_are_refused() {
        let text = APP_PASSWORD.format("me@x", SlotId([1; 8]), &Secret::filled(|secret| secret.fill(2)));
        let text = text.as_str();
        assert!(APP_PASSWORD.account_of(text.as_bytes()).is_some());
        assert!(WEB_LOGIN.account_of(text.as_bytes()).is_none());
        let cut = &text[..text.len() - 1];
        let unnamed = format!("sp__{}", text.splitn(3, '_').nth(2).unwrap());
        for wrong in
            [cut, &unnamed, &format!("{text}_"), &format!("{text}0"), &text.replace("sp_", "sp"), "sp___", ""]
        {
            assert!(
                APP_PASSWORD.account_of(wrong.as_bytes()).is_none()
                    && APP_PASSWORD.parse(wrong.as_bytes()).is_none(),
                "{wrong}"
            );
        }
    }
}
