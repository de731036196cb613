//! Tokens (RFC 4467 §2.4.1, §2.5). A token has a version, so that the algorithm can change; the server's
//! mark, which identifies this server's URLs without the owner's key; and the tag under the mailbox access
//! key, which decides.

use ring::hmac;
use sealpost_base::AccountId;
use sealpost_vault::server_key::ServerKeys;

use super::key::AccessKey;

/// Two HMAC-SHA256.
const VERSION: u8 = 1;
const TAG_BYTES: usize = 32;

/// The server's key for marks.
pub(crate) struct UrlMarks(hmac::Key);

impl UrlMarks {
    pub(crate) fn new(key: &ServerKeys) -> Self {
        UrlMarks(hmac::Key::new(hmac::HMAC_SHA256, &*key.purpose("urlauth")))
    }

    /// The token for a URL of that account, in hexadecimal.
    pub(super) fn token(&self, owner: AccountId, key: &AccessKey, rump: &str) -> String {
        let mark = hmac::sign(&self.0, &message(owner, rump.as_bytes()));
        let tag = key.sign(rump.as_bytes());
        let bytes = [&[VERSION], mark.as_ref(), tag.as_ref()].concat();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The tag to verify with the mailbox access key, if this server made the token for that URL.
    pub(super) fn genuine<'a>(&self, owner: AccountId, rump: &[u8], token: &'a [u8]) -> Option<&'a [u8]> {
        let (version, rest) = token.split_first()?;
        let (mark, tag) = rest.split_at_checked(TAG_BYTES)?;
        let verified = hmac::verify(&self.0, &message(owner, rump), mark).is_ok();
        (verified && *version == VERSION && tag.len() == TAG_BYTES).then_some(tag)
    }

    /// Takes as much time as a check.
    pub(super) fn waste(&self, rump: &[u8]) {
        let _ = hmac::verify(&self.0, &message(AccountId([0; 16]), rump), &[0; TAG_BYTES]);
    }
}

/// The marked bytes. They include the account id, because a name may have belonged to another account.
fn message(owner: AccountId, rump: &[u8]) -> Vec<u8> {
    [&owner.0[..], rump].concat()
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;

    use super::*;

    #[test]
    fn a_token_authorizes_one_url_of_one_account_and_key() {
        let random = SeededRandom::new(1);
        let marks = UrlMarks::new(&ServerKeys::generate(&random));
        let (key, other) = (AccessKey::generate(&random, 0), AccessKey::generate(&random, 1));
        let (me, you) = (AccountId([1; 16]), AccountId([2; 16]));
        let hex = marks.token(me, &key, "url");
        let byte = |at: usize| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap();
        let token: Vec<u8> = (0..hex.len() / 2).map(byte).collect();
        let tag = marks.genuine(me, b"url", &token).unwrap();
        assert!(key.verifies(b"url", tag) && !other.verifies(b"url", tag) && !key.verifies(b"urk", tag));
        assert!(marks.genuine(you, b"url", &token).is_none());
        assert!(marks.genuine(me, b"urls", &token).is_none());
        for at in 0..token.len() {
            let mut wrong = token.clone();
            wrong[at] ^= 1;
            assert!(!marks.genuine(me, b"url", &wrong).is_some_and(|tag| key.verifies(b"url", tag)), "{at}");
            assert!(!marks.genuine(me, b"url", &token[..at]).is_some_and(|tag| key.verifies(b"url", tag)));
        }
        assert_eq!(AccessKey::generate(&random, 7).encode().len(), 36);
    }
}
