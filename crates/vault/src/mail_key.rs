//! The mail key seals data that a node reads while no user is logged in, queued outbound mail first
//! of all.
//!
//! It is 32 random bytes in the file `mail.key` of the data directory, beside `server.key`; each
//! node has a copy, and no store ever has one. So a stolen bucket or backup says nothing of mail
//! that waits. The file lists all mail keys that the installation ever had, and each has a number,
//! its [`Epoch`], which everything that is sealed carries: after a rotation what was sealed before
//! still opens. Format: `docs/format/keys-and-slots.md`.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use sealpost_base::{AccountId, Error, Random, Result, limits};
use sealpost_files::owner;
use zeroize::Zeroizing;

use crate::cipher::{ObjectCipher, Secret, derive, hmac_sha256, sha256};
use crate::server_key::KeyId;
use crate::{AccountKeys, Epoch, Sealed, chunk, key_file};

/// "Sealpost mail keys", version 1.
const MAGIC: [u8; 4] = *b"SPE\x01";
const KEY_BYTES: usize = 32;
const HEAD_BYTES: usize = MAGIC.len() + 2;
const CHECKSUM_BYTES: usize = 8;
const FILE_BYTES: usize = HEAD_BYTES + limits::MAIL_KEYS * KEY_BYTES + CHECKSUM_BYTES;

/// "Sealpost note", version 1: something small under a mail key.
const NOTE_MAGIC: [u8; 4] = *b"SPN\x01";
const SALT_BYTES: usize = 32;
const SECTION: u8 = 0;

/// The mail keys of an installation. Cheap to clone; never shown.
#[derive(Clone)]
pub struct MailKeys(Arc<KeySet>);

struct KeySet {
    /// The first epoch's first.
    keys: Vec<Secret>,
    /// Of which epoch the key is that seals. One later key may follow, which only opens until all
    /// nodes have it.
    current: Epoch,
}

impl MailKeys {
    /// A new key that is kept nowhere, for tests.
    pub fn generate(random: &dyn Random) -> Self {
        Self::of(vec![Secret::filled(|key| random.fill(key))], Epoch::FIRST)
    }

    fn of(keys: Vec<Secret>, current: Epoch) -> Self {
        MailKeys(Arc::new(KeySet { keys, current }))
    }

    /// The keys in the file `path`.
    ///
    /// # Errors
    /// `NotFound` if there is no file, `Retry` if it cannot be read, `Corrupt` if it is no key file.
    pub fn load(path: &Path) -> Result<Self> {
        match key_file::read(path, FILE_BYTES + 1) {
            Ok(bytes) => parse(&bytes).ok_or_else(|| {
                let why = "is not a mail key; restore it from the backup";
                Error::corrupt(format!("{} {why}", path.display()))
            }),
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

    /// The number and the id of each key, the first one's first.
    pub fn list(&self) -> impl Iterator<Item = (Epoch, KeyId)> {
        self.0.keys.iter().zip(1..).map(|(key, epoch)| (Epoch(epoch), id_of(key)))
    }

    /// The key that seals.
    pub fn current(&self) -> Epoch {
        self.0.current
    }

    /// The same with a key that will be the current one, if there is none yet: until all nodes have
    /// it, it only opens.
    ///
    /// # Errors
    /// `Limit` beyond [`limits::MAIL_KEYS`].
    pub fn with_next(&self, random: &dyn Random) -> Result<Self> {
        if self.has_next() {
            return Ok(self.clone());
        }
        if self.0.keys.len() >= limits::MAIL_KEYS {
            return Err(Error::limit(format!("an installation has at most {} mail keys", limits::MAIL_KEYS)));
        }
        let mut keys = self.0.keys.clone();
        keys.push(Secret::filled(|key| random.fill(key)));
        Ok(Self::of(keys, self.0.current))
    }

    /// Whether there is a key that will be the current one.
    pub fn has_next(&self) -> bool {
        self.0.keys.len() > self.0.current.0 as usize
    }

    /// The same after the next key has become the current one.
    #[must_use]
    pub fn rotated(&self) -> Self {
        let newest = u32::try_from(self.0.keys.len()).map_or(self.0.current, Epoch);
        Self::of(self.0.keys.clone(), newest)
    }

    /// What the queue of `node` is sealed under.
    pub fn queue(&self, node: AccountId) -> AccountKeys {
        let secrets: Vec<_> = self.0.keys.iter().map(|key| purpose(key, b"queue")).collect();
        AccountKeys::of_epochs(&secrets, self.0.current, node).expect("a mail key file has its current key")
    }

    /// Seals something small, such as a request to a queue or a signing key. It opens only with the
    /// same `label`, which names what it is for, and under the same `name`, which is its path.
    pub fn seal_note(&self, label: &str, name: &str, plaintext: &[u8], random: &dyn Random) -> Sealed {
        let mut salt = [0; SALT_BYTES];
        random.fill(&mut salt);
        let mut object = Vec::with_capacity(128 + plaintext.len());
        object.extend_from_slice(&NOTE_MAGIC);
        object.extend_from_slice(&self.0.current.0.to_be_bytes());
        object.extend_from_slice(&salt);
        let key = &self.0.keys[self.0.current.0 as usize - 1];
        chunk::seal_section_raw(&note_cipher(key, &salt, label, name), SECTION, plaintext, &mut object);
        Sealed::new(object)
    }

    /// Opens what [`MailKeys::seal_note`] sealed, of at most [`limits::MAIL_NOTE_BYTES`].
    ///
    /// # Errors
    /// `Corrupt` for anything that is not exactly what was sealed under this label and name.
    pub fn open_note(&self, label: &str, name: &str, object: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        let corrupt = || Error::corrupt(format!("{name}: not sealed under a mail key of this installation"));
        let rest = object.strip_prefix(&NOTE_MAGIC).ok_or_else(corrupt)?;
        let (epoch, rest) = rest.split_first_chunk().ok_or_else(corrupt)?;
        let (salt, body) = rest.split_at_checked(SALT_BYTES).ok_or_else(corrupt)?;
        let index = (u32::from_be_bytes(*epoch) as usize).checked_sub(1).ok_or_else(corrupt)?;
        let key = self.0.keys.get(index).ok_or_else(corrupt)?;
        chunk::open_section(&note_cipher(key, salt, label, name), SECTION, body, limits::MAIL_NOTE_BYTES)
            .map_err(|e| e.context(name.to_owned()))
    }

    /// HMAC-SHA256 of `text` for the purpose `label` under each key: the one to write under first,
    /// then the others, newest first, which were or will be written under.
    pub fn macs(&self, label: &str, text: &[u8]) -> impl Iterator<Item = [u8; 32]> {
        let current = self.0.current.0 as usize - 1;
        let others = (0..self.0.keys.len()).rev().filter(move |key| *key != current);
        let key = move |key: usize| purpose(&self.0.keys[key], label.as_bytes());
        std::iter::once(current).chain(others).map(move |at| hmac_sha256(&key(at), &[text]))
    }

    /// The bytes of a key file.
    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let count = |n: usize| u8::try_from(n).expect("fewer than MAIL_KEYS");
        let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES));
        bytes.extend_from_slice(&MAGIC);
        bytes.push(count(self.0.current.0 as usize));
        bytes.push(count(self.0.keys.len()));
        self.0.keys.iter().for_each(|key| bytes.extend_from_slice(key.bytes()));
        let checksum = sha256(&[&bytes]);
        bytes.extend_from_slice(&checksum[..CHECKSUM_BYTES]);
        bytes
    }
}

/// Whether `object` has the form of a note. Only the mail key tells whether it is one.
pub fn looks_like_note(object: &[u8]) -> bool {
    let Some(rest) = object.strip_prefix(&NOTE_MAGIC) else { return false };
    let Some((epoch, rest)) = rest.split_first_chunk() else { return false };
    let epoch = u32::from_be_bytes(*epoch) as usize;
    (1..=limits::MAIL_KEYS).contains(&epoch) && rest.len() > SALT_BYTES
}

/// The keys of a key file.
pub(crate) fn parse(bytes: &[u8]) -> Option<MailKeys> {
    let (head, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    if sha256(&[head])[..CHECKSUM_BYTES] != checksum[..] {
        return None;
    }
    let ([current, count], keys) = head.strip_prefix(&MAGIC)?.split_first_chunk()?;
    let (current, count) = (usize::from(*current), usize::from(*count));
    let (keys, rest) = keys.as_chunks::<KEY_BYTES>();
    let is_sound = rest.is_empty()
        && keys.len() == count
        && count <= limits::MAIL_KEYS
        && (current == count || current + 1 == count)
        && current > 0;
    let copied = keys.iter().map(|bytes| Secret::filled(|key| key.copy_from_slice(bytes)));
    is_sound.then(|| MailKeys::of(copied.collect(), Epoch(current as u32)))
}

fn id_of(key: &Secret) -> KeyId {
    let derived = purpose(key, b"id");
    let mut id = KeyId([0; 4]);
    id.0.copy_from_slice(&derived.bytes()[..4]);
    id
}

fn purpose(key: &Secret, label: &[u8]) -> Secret {
    derive(b"sealpost mail key v1", key.bytes(), &[label])
}

fn note_cipher(key: &Secret, salt: &[u8], label: &str, name: &str) -> ObjectCipher {
    let length = (label.len() as u64).to_be_bytes();
    let context = sha256(&[b"sealpost note v1", &length, label.as_bytes(), name.as_bytes()]);
    ObjectCipher::new(salt, purpose(key, b"notes").bytes(), context)
}

fn failed(path: &Path, e: io::Error) -> Error {
    let e = owner::explained(path, e);
    Error::retry(format!("mail key {}", path.display())).with_source(e)
}

#[cfg(test)]
mod tests {
    use sealpost_base::{Kind, SeededRandom};

    use super::*;

    #[test]
    fn a_key_is_made_once_and_kept_with_those_before() {
        let (dir, random) = (tempfile::tempdir().unwrap(), SeededRandom::new(1));
        let path = dir.path().join("mail.key");
        assert!(MailKeys::load(&path).is_err_and(|e| e.kind() == Kind::NotFound));
        let made = MailKeys::load_or_create(&path, &random).unwrap();
        let loaded = MailKeys::load_or_create(&path, &random).unwrap();
        let ids = |keys: &MailKeys| keys.list().collect::<Vec<_>>();
        assert_eq!(ids(&made), ids(&loaded));
        let prepared = loaded.with_next(&random).unwrap();
        assert!(prepared.has_next() && prepared.current() == Epoch::FIRST);
        assert_eq!(ids(&prepared.with_next(&random).unwrap()), ids(&prepared));
        prepared.rotated().replace(&path, &random).unwrap();
        let rotated = MailKeys::load(&path).unwrap();
        assert_eq!((rotated.current(), rotated.has_next()), (Epoch(2), false));
        assert_eq!(ids(&rotated)[0], ids(&made)[0]);
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        let mut keys = made;
        for _ in 1..limits::MAIL_KEYS {
            keys = keys.with_next(&random).unwrap().rotated();
        }
        assert!(keys.with_next(&random).is_err_and(|e| e.kind() == Kind::Limit));
    }

    #[test]
    fn every_flipped_bit_of_a_key_file_is_noticed() {
        let random = SeededRandom::new(1);
        let bytes = MailKeys::generate(&random).with_next(&random).unwrap().encode();
        assert!(parse(&bytes).is_some());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&damaged).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn notes_open_under_their_name_and_after_a_rotation() {
        let random = SeededRandom::new(1);
        let keys = MailKeys::generate(&random);
        let note = keys.seal_note("request", "queue/a/requests/1", b"hold", &random);
        let later = keys.with_next(&random).unwrap();
        let rotated = later.rotated();
        for keys in [&keys, &later, &rotated] {
            let opened = keys.open_note("request", "queue/a/requests/1", note.as_ref()).unwrap();
            assert_eq!(*opened, b"hold");
        }
        let newer = rotated.seal_note("request", "queue/a/requests/1", b"hold", &random);
        assert!(later.open_note("request", "queue/a/requests/1", newer.as_ref()).is_ok());
        let other = MailKeys::generate(&random);
        for (keys, label, name, object) in [
            (&other, "request", "queue/a/requests/1", &note),
            (&keys, "dkim", "queue/a/requests/1", &note),
            (&keys, "request", "queue/b/requests/1", &note),
            (&keys, "request", "queue/a/requests/1", &newer),
        ] {
            let refused = keys.open_note(label, name, object.as_ref());
            assert!(refused.is_err_and(|e| e.kind() == Kind::Corrupt));
        }
    }

    #[test]
    fn random_bytes_do_not_look_like_notes() {
        let random = SeededRandom::new(1);
        let keys = MailKeys::generate(&random);
        let note = keys.seal_note("request", "a", b"", &random);
        assert!(looks_like_note(note.as_ref()));
        let mut of_no_epoch = note.as_ref().to_vec();
        of_no_epoch[4..8].copy_from_slice(&[0, 0, 0, 65]);
        let magic_alone = &note.as_ref()[..4];
        for noise in [b"", b"SPN\x02".as_slice(), Sealed::marker().as_ref(), magic_alone, &of_no_epoch] {
            assert!(!looks_like_note(noise), "{noise:?}");
        }
    }

    #[test]
    fn a_queue_opens_entries_of_earlier_and_next_keys() {
        use crate::entry::{Header, LogKey, open, seal_owner_raw};
        use crate::{Hash, entry::Generation};
        let (random, node, log) = (SeededRandom::new(1), AccountId([7; 16]), LogKey::for_tests());
        let first = MailKeys::generate(&random);
        let prepared = first.with_next(&random).unwrap();
        let header = Header {
            account: node,
            position: sealpost_base::Position(1),
            prev: Hash::ZERO,
            generation: Generation(0),
        };
        let seal = |keys: &MailKeys| seal_owner_raw(&keys.queue(node), &log, &header, &[7; 500], &random);
        let (old, new) = (seal(&first), seal(&prepared.rotated()));
        assert!(old.len() > 500, "entries of a queue are not compressed");
        for keys in [&prepared, &prepared.rotated()] {
            for object in [&old, &new] {
                assert!(open(&keys.queue(node), node, header.position, object.as_ref()).is_ok());
            }
        }
        assert!(open(&first.queue(node), node, header.position, new.as_ref()).is_err());
        let other = first.queue(AccountId([8; 16]));
        assert!(open(&other, node, header.position, old.as_ref()).is_err());
    }
}
