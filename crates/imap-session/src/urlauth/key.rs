//! Mailbox access keys (RFC 4467 §2.2): one per user and mailbox, stored as small objects of the user's
//! account and sealed like all others. Format: `docs/format/events.md`.

use ring::hmac;
use sealpost_account::AccountState;
use sealpost_base::{AccountId, MailboxId, Random};
use zeroize::Zeroizing;

/// The prefix of the names of all keys.
pub(super) const PREFIX: &str = "urlauth/";
const KEY_BYTES: usize = 32;

/// The secret that authorizes URLs of a mailbox.
pub(super) struct AccessKey {
    key: Zeroizing<[u8; KEY_BYTES]>,
    resets: u32,
}

/// The name of the object with the key of a mailbox in that log.
pub(super) fn name(account: AccountId, mailbox: MailboxId) -> String {
    format!("{PREFIX}{account}/{:08x}", mailbox.0)
}

impl AccessKey {
    /// The key in that state of the user's account.
    pub(super) fn of(state: &AccountState, account: AccountId, mailbox: MailboxId) -> Option<Self> {
        let (key, resets) = state.object(&name(account, mailbox))?.split_first_chunk::<KEY_BYTES>()?;
        Some(AccessKey { key: Zeroizing::new(*key), resets: u32::from_be_bytes(resets.try_into().ok()?) })
    }

    /// A new key after `resets` resets.
    pub(super) fn generate(random: &dyn Random, resets: u32) -> Self {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        random.fill(&mut *key);
        AccessKey { key, resets }
    }

    /// Encodes the content of the object.
    pub(super) fn encode(&self) -> Vec<u8> {
        [&self.key[..], &self.resets.to_be_bytes()].concat()
    }

    /// How often the key was reset.
    pub(super) fn resets(&self) -> u32 {
        self.resets
    }

    /// Signs a URL up to its access identifier.
    pub(super) fn sign(&self, rump: &[u8]) -> hmac::Tag {
        hmac::sign(&self.hmac(), rump)
    }

    /// Whether `tag` is correct, in constant time.
    pub(super) fn verifies(&self, rump: &[u8], tag: &[u8]) -> bool {
        hmac::verify(&self.hmac(), rump, tag).is_ok()
    }

    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &*self.key)
    }
}
