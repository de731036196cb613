//! The server's keys: what authenticates that something in a store comes from this installation.
//! They open no mail.
//!
//! There is one current key, which everything new is authenticated with, and older ones, which only
//! verify. Each has an id, and a MAC key of its own for every [`Purpose`]. The key file holds all
//! of them; it is never in the store, and each node has a copy. Format:
//! `docs/format/keys-and-slots.md`.
//!
//! A key that was replaced passes through [`Role::Older`], when it still authenticates records, to
//! [`Role::Retired`]: then all records were written again, and it verifies nothing but log entries,
//! and opens sizes, which are never written again.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use sealpost_base::{Error, Random, Result, limits};
use sealpost_files::owner;
use zeroize::Zeroizing;

use crate::cipher::{Secret, derive, equal, hmac_sha256, sha256};
use crate::key_file;

/// Bytes of a MAC.
pub const MAC_BYTES: usize = 32;

/// "Sealpost keys", version 1.
const MAGIC: [u8; 4] = *b"SPK\x01";
const KEY_BYTES: usize = 32;
/// Magic and number of keys; a role and a key for each; a checksum.
const HEAD_BYTES: usize = MAGIC.len() + 1;
const ENTRY_BYTES: usize = 1 + KEY_BYTES;
const CHECKSUM_BYTES: usize = 8;
const FILE_BYTES: usize = HEAD_BYTES + limits::SERVER_KEYS * ENTRY_BYTES + CHECKSUM_BYTES;

/// Names a server key without telling anything of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 4]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a MAC is for. Keys of different purposes have nothing to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Account records, aliases, and what else is a record.
    Record,
    /// What a node remembers of a store, outside of it.
    Watermark,
    /// The state that all nodes of a bucket share.
    Store,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Purpose::Record => b"records",
            Purpose::Watermark => b"watermarks",
            Purpose::Store => b"store marks",
        }
    }
}

/// What a server key is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Authenticates what is new.
    Current,
    /// Will be the current one; until then it verifies everything, so that nodes may change one
    /// after the other.
    Next,
    /// Was the current one; verifies everything until all records were written again.
    Older,
    /// Verifies log entries that were there when it was retired, and opens sizes: those are never
    /// written again.
    Retired,
}

impl Role {
    fn code(self) -> u8 {
        match self {
            Role::Current => 0,
            Role::Next => 1,
            Role::Older => 2,
            Role::Retired => 3,
        }
    }

    fn of_code(code: u8) -> Option<Self> {
        [Role::Current, Role::Next, Role::Older, Role::Retired].into_iter().find(|role| role.code() == code)
    }
}

/// One server key: 32 random bytes.
#[derive(Clone)]
pub struct ServerKey {
    secret: Secret,
    id: KeyId,
}

impl ServerKey {
    /// A new key.
    pub fn generate(random: &dyn Random) -> Self {
        Self::new(Secret::filled(|secret| random.fill(secret)))
    }

    /// Its name.
    pub fn id(&self) -> KeyId {
        self.id
    }

    fn new(secret: Secret) -> Self {
        let derived = derive(b"sealpost server key v1", secret.bytes(), &[b"id"]);
        let mut id = KeyId([0; 4]);
        id.0.copy_from_slice(&derived.bytes()[..4]);
        ServerKey { secret, id }
    }

    fn derived(&self, label: &[u8]) -> Secret {
        derive(b"sealpost server key v1", self.secret.bytes(), &[label])
    }

    fn mac(&self, purpose: Purpose) -> Secret {
        self.derived(purpose.label())
    }

    fn purpose(&self, label: &str) -> Secret {
        derive(b"sealpost server purpose v1", self.secret.bytes(), &[label.as_bytes()])
    }
}

/// The server's keys. Cheap to clone.
#[derive(Clone)]
pub struct ServerKeys(Arc<KeySet>);

#[derive(Clone)]
struct KeySet {
    current: ServerKey,
    /// Those that only verify, the newest first.
    older: Vec<(Role, ServerKey)>,
}

impl ServerKeys {
    /// A new key that is kept nowhere, for tests.
    pub fn generate(random: &dyn Random) -> Self {
        Self::of(ServerKey::generate(random), Vec::new())
    }

    fn of(current: ServerKey, older: Vec<(Role, ServerKey)>) -> Self {
        ServerKeys(Arc::new(KeySet { current, older }))
    }

    /// The keys in the file `path`.
    ///
    /// # Errors
    /// `NotFound` if there is no file, `Retry` if it cannot be read, `Corrupt` if it is no key file.
    pub fn load(path: &Path) -> Result<Self> {
        match key_file::read(path, FILE_BYTES + 1) {
            Ok(bytes) => parse(&bytes).ok_or_else(|| not_a_key(path)),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                Err(Error::not_found(format!("{} is missing", path.display())))
            }
            Err(e) => Err(failed(path, e)),
        }
    }

    /// The keys in the file `path`; a new one, made and durable there, if there is no file. Of
    /// several processes that start at once, one makes it and the others read it.
    ///
    /// # Errors
    /// `Retry` if the file cannot be read or written, `Corrupt` if it is no key file.
    pub fn load_or_create(path: &Path, random: &dyn Random) -> Result<Self> {
        match Self::load(path) {
            Err(e) if e.kind() == sealpost_base::Kind::NotFound => {}
            loaded => return loaded,
        }
        // Another process may be first: its key is the key.
        key_file::create(path, &Self::generate(random).encode(), random).map_err(|e| failed(path, e))?;
        Self::load(path)
    }

    /// Puts these keys into the place of those in the file `path`; durable when it returns, and
    /// whole or not at all.
    ///
    /// # Errors
    /// `Retry` if the file cannot be written.
    pub fn replace(&self, path: &Path, random: &dyn Random) -> Result<()> {
        key_file::replace(path, &self.encode(), random).map_err(|e| failed(path, e))
    }

    /// The key that authenticates what is new.
    pub fn current(&self) -> &ServerKey {
        &self.0.current
    }

    /// Those that only verify, the newest first, and what they are good for.
    pub fn older(&self) -> impl Iterator<Item = (Role, &ServerKey)> {
        self.0.older.iter().map(|(role, key)| (*role, key))
    }

    /// Makes and verifies MACs of one purpose.
    pub fn macs(&self, purpose: Purpose) -> Macs {
        let older = self.0.older.iter().filter(|(role, _)| *role != Role::Retired);
        Macs {
            current: (self.0.current.id, self.0.current.mac(purpose)),
            older: older.map(|(_, key)| (key.id, key.mac(purpose))).collect(),
        }
    }

    /// A key for another purpose of the server's, named by `label`. It changes with the current key.
    pub fn purpose(&self, label: &str) -> Zeroizing<[u8; KEY_BYTES]> {
        Zeroizing::new(*self.0.current.purpose(label).bytes())
    }

    /// For what is never written again: a key of each server key, retired ones included. The first
    /// is the current one's.
    pub(crate) fn derived(&self, label: &[u8]) -> Vec<Secret> {
        self.all().map(|key| key.derived(label)).collect()
    }

    /// The same for purposes that are named as in [`ServerKeys::purpose`], and what each key is good for.
    pub(crate) fn purposes(&self, label: &str) -> Vec<(Role, Secret)> {
        let all = std::iter::once((Role::Current, self.current())).chain(self.older());
        all.map(|(role, key)| (role, key.purpose(label))).collect()
    }

    /// The same with the id of each key.
    pub(crate) fn purposes_by_id(&self, label: &str) -> Vec<(Role, KeyId, Secret)> {
        let ids = self.all().map(ServerKey::id);
        self.purposes(label).into_iter().zip(ids).map(|((role, secret), id)| (role, id, secret)).collect()
    }

    fn all(&self) -> impl Iterator<Item = &ServerKey> {
        std::iter::once(self.current()).chain(self.0.older.iter().map(|(_, key)| key))
    }

    /// The same with a key that will be the current one, if there is none yet.
    ///
    /// # Errors
    /// `Limit` beyond [`limits::SERVER_KEYS`].
    pub fn with_next(&self, random: &dyn Random) -> Result<Self> {
        if self.next().is_some() {
            return Ok(self.clone());
        }
        if self.0.older.len() + 2 > limits::SERVER_KEYS {
            let most = limits::SERVER_KEYS;
            return Err(Error::limit(format!("a server has at most {most} keys, older ones included")));
        }
        let mut set = (*self.0).clone();
        set.older.insert(0, (Role::Next, ServerKey::generate(random)));
        Ok(ServerKeys(Arc::new(set)))
    }

    /// The key that will be the current one.
    pub fn next(&self) -> Option<&ServerKey> {
        self.older().find(|(role, _)| *role == Role::Next).map(|(_, key)| key)
    }

    /// The same after the next key has become the current one.
    pub fn rotated(&self) -> Self {
        let Some(next) = self.next() else { return self.clone() };
        let kept = self.0.older.iter().filter(|(role, _)| *role != Role::Next).cloned();
        let older = std::iter::once((Role::Older, self.0.current.clone())).chain(kept).collect();
        Self::of(next.clone(), older)
    }

    /// Whether older keys still authenticate records.
    pub fn is_rotating(&self) -> bool {
        self.older().any(|(role, _)| role == Role::Older)
    }

    /// The same after all records were written again.
    #[must_use]
    pub fn settled(&self) -> Self {
        let mut set = (*self.0).clone();
        for (role, _) in &mut set.older {
            if *role == Role::Older {
                *role = Role::Retired;
            }
        }
        ServerKeys(Arc::new(set))
    }

    /// The bytes of a key file.
    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES));
        bytes.extend_from_slice(&MAGIC);
        bytes.push(u8::try_from(1 + self.0.older.len()).expect("fewer than SERVER_KEYS"));
        for (role, key) in std::iter::once((Role::Current, self.current())).chain(self.older()) {
            bytes.push(role.code());
            bytes.extend_from_slice(key.secret.bytes());
        }
        let checksum = sha256(&[&bytes]);
        bytes.extend_from_slice(&checksum[..CHECKSUM_BYTES]);
        bytes
    }
}

/// MACs of one purpose, under all keys that verify it. Keep one: making it costs some ten hashes a key.
#[derive(Clone)]
pub struct Macs {
    current: (KeyId, Secret),
    older: Vec<(KeyId, Secret)>,
}

impl Macs {
    /// The key that [`Macs::sign`] uses.
    pub fn current(&self) -> KeyId {
        self.current.0
    }

    /// HMAC-SHA256 under the current key over the concatenation of `parts`. Parts of variable
    /// length must be last or carry their length.
    pub fn sign(&self, parts: &[&[u8]]) -> [u8; MAC_BYTES] {
        hmac_sha256(&self.current.1, parts)
    }

    /// Whether it is the MAC of `parts` under the key that is called `id`; not if that is none of
    /// this server's.
    pub fn verify(&self, id: KeyId, parts: &[&[u8]], mac: &[u8; MAC_BYTES]) -> bool {
        self.all().any(|(key, secret)| *key == id && equal(&hmac_sha256(secret, parts), mac))
    }

    /// Which key it is the MAC of `parts` under, if it does not say.
    pub fn verify_any(&self, parts: &[&[u8]], mac: &[u8; MAC_BYTES]) -> Option<KeyId> {
        self.all().find(|(_, secret)| equal(&hmac_sha256(secret, parts), mac)).map(|(id, _)| *id)
    }

    fn all(&self) -> impl Iterator<Item = &(KeyId, Secret)> {
        std::iter::once(&self.current).chain(&self.older)
    }
}

/// The keys of a key file.
pub(crate) fn parse(bytes: &[u8]) -> Option<ServerKeys> {
    // Versions before this one kept one key, and nothing else.
    if !bytes.starts_with(&MAGIC)
        && let Ok(key) = <&[u8; KEY_BYTES]>::try_from(bytes)
    {
        return Some(ServerKeys::of(ServerKey::new(Secret::filled(|secret| *secret = *key)), Vec::new()));
    }
    let (head, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    if sha256(&[head])[..CHECKSUM_BYTES] != checksum[..] {
        return None;
    }
    let (count, keys) = head.strip_prefix(&MAGIC)?.split_first()?;
    if keys.len() != usize::from(*count) * ENTRY_BYTES || usize::from(*count) > limits::SERVER_KEYS {
        return None;
    }
    let mut keys = keys.chunks_exact(ENTRY_BYTES).map(|entry| {
        let secret = Secret::filled(|secret| secret.copy_from_slice(&entry[1..]));
        Some((Role::of_code(entry[0])?, ServerKey::new(secret)))
    });
    let (role, current) = keys.next()??;
    let older = keys.collect::<Option<Vec<_>>>()?;
    let is_sound = role == Role::Current && older.iter().all(|(role, _)| *role != Role::Current);
    is_sound.then(|| ServerKeys::of(current, older))
}

fn not_a_key(path: &Path) -> Error {
    Error::corrupt(format!("{} is not a server key; restore it from the backup", path.display()))
}

fn failed(path: &Path, e: io::Error) -> Error {
    let e = owner::explained(path, e);
    Error::retry(format!("server key {}", path.display())).with_source(e)
}

#[cfg(test)]
mod tests;
