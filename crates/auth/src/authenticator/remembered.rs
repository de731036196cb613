//! A cache of successful logins, so that a polling client does not pay for Argon2 each time.
//!
//! The key of an entry is HMAC-SHA256 (RFC 2104) over the account and the secret, under a key of this
//! process. So the table reveals no password, and a wrong password is a cache miss. An entry is valid only
//! for the version of the account's record that it was made for. So a changed password or a removed account
//! takes effect at once, whichever process changed it.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lru::LruCache;
use ring::hmac;
use sealpost_base::{Clock, Random};
use sealpost_directory::AccountRecord;
use sealpost_vault::RootKey;
use sealpost_vault::slot::SlotId;
use zeroize::Zeroizing;

/// The cached logins. An account's key is wiped when its entry is removed.
pub struct Remembered {
    key: hmac::Key,
    keep: Duration,
    clock: Arc<dyn Clock>,
    table: Mutex<LruCache<[u8; 32], Login>>,
}

struct Login {
    version: u64,
    until: Duration,
    root: RootKey,
    slot: SlotId,
}

/// The key of a login in the table; it does not reveal the secret.
#[derive(Clone, Copy)]
pub struct Tag([u8; 32]);

impl Remembered {
    /// An empty cache of at most `capacity` logins, each kept for `keep`.
    pub fn new(capacity: usize, keep: Duration, clock: Arc<dyn Clock>, random: &dyn Random) -> Self {
        let mut key = Zeroizing::new([0; 32]);
        random.fill(&mut *key);
        let capacity = NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN);
        let table = Mutex::new(LruCache::new(capacity));
        Remembered { key: hmac::Key::new(hmac::HMAC_SHA256, &*key), keep, clock, table }
    }

    /// The tag of a login at `record`'s account with `secret`.
    pub fn tag(&self, record: &AccountRecord, secret: &[u8]) -> Tag {
        let mut context = hmac::Context::with_key(&self.key);
        // The id has a fixed length, so no two pairs have the same concatenation.
        context.update(&record.id.0);
        context.update(secret);
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        Tag(tag)
    }

    /// The account's root key and the slot that the secret opens, if this login is cached and the record is
    /// unchanged.
    pub fn find(&self, tag: Tag, record: &AccountRecord) -> Option<(RootKey, SlotId)> {
        let now = self.clock.monotonic();
        let mut table = self.lock();
        // `peek` keeps the order of insertion, so that the oldest entries are evicted.
        let login = table.peek(&tag.0)?;
        if login.until <= now || login.version != record.version {
            table.pop(&tag.0);
            return None;
        }
        Some((login.root.clone(), login.slot))
    }

    /// Caches a successful login for this version of `record`.
    pub fn insert(&self, tag: Tag, record: &AccountRecord, root: RootKey, slot: SlotId) {
        if self.keep.is_zero() {
            return;
        }
        let until = self.clock.monotonic() + self.keep;
        self.lock().put(tag.0, Login { version: record.version, until, root, slot });
    }

    /// Wipes expired entries. The server calls it periodically, so that no key stays much longer.
    pub fn sweep(&self) {
        let now = self.clock.monotonic();
        let mut table = self.lock();
        while table.peek_lru().is_some_and(|(_, login)| login.until <= now) {
            table.pop_lru();
        }
    }

    /// The number of cached logins.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<[u8; 32], Login>> {
        self.table.lock().unwrap_or_else(|e| e.into_inner())
    }
}
