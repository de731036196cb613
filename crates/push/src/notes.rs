//! Reads and writes notes: `push/accounts/{account}/{version:016x}`, and the key that signs.
//!
//! A change writes the next version, which only one of several writers can create; the others read
//! it and decide again. An account without subscriptions keeps an empty note, so that versions never
//! begin again. Earlier versions are removed at once: they have URLs and keys of subscriptions that
//! ended (RFC 8620 §7.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Error, Kind, Random, Result, Timestamp};
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::{Put, Store};
use zeroize::Zeroizing;

use crate::ROOT;
use crate::crypto::SigningKey;
use crate::subscription::AccountNote;

/// What notes of accounts are sealed for.
const ACCOUNT: &str = "push account";
/// What the key that signs is sealed for.
const KEY: &str = "push key";
/// Versions of one note that are tried, newest first: others may have planted objects.
const VERSIONS: usize = 8;
/// How often a change that another writer crossed is decided again.
const ATTEMPTS: usize = 16;

/// The notes in one store. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Notes {
    store: Store,
    keys: MailKeys,
    random: Arc<dyn Random>,
}

/// The key that signs pushes.
#[derive(Encode, Decode)]
#[cbor(map)]
struct KeyNote<'a> {
    /// In PKCS #8, DER.
    #[cbor(b(0), with = "minicbor::bytes")]
    pkcs8: &'a [u8],
    #[n(1)]
    created: Timestamp,
}

fn accounts() -> String {
    format!("{ROOT}/accounts")
}

fn folder(account: AccountId) -> String {
    format!("{ROOT}/accounts/{account}")
}

fn path(account: AccountId, version: u64) -> String {
    format!("{ROOT}/accounts/{account}/{version:016x}")
}

/// The account and version of a path below [`accounts`].
pub(crate) fn parse_path(path: &str) -> Option<(AccountId, u64)> {
    let mut parts = path.strip_prefix(ROOT)?.strip_prefix("/accounts/")?.split('/');
    let (account, version, None) = (parts.next()?, parts.next()?, parts.next()) else { return None };
    let number = u64::from_str_radix(version, 16).ok()?;
    (format!("{number:016x}") == version).then_some(())?;
    Some((account.parse().ok()?, number))
}

impl Notes {
    pub(crate) fn new(store: Store, keys: MailKeys, random: Arc<dyn Random>) -> Self {
        Notes { store, keys, random }
    }

    /// The newest version of each account's note, as the paths tell.
    pub(crate) async fn list(&self) -> Result<BTreeMap<AccountId, u64>> {
        let mut found = BTreeMap::new();
        let mut listed = self.store.list(&accounts(), None);
        while let Some(object) = listed.try_next().await? {
            if let Some((account, version)) = parse_path(&object.path) {
                let newest = found.entry(account).or_insert(version);
                *newest = version.max(*newest);
            }
        }
        Ok(found)
    }

    /// The note of an account with its version; version 0 if there is none.
    pub(crate) async fn read(&self, account: AccountId) -> Result<(u64, AccountNote)> {
        let mut unreadable = None;
        for version in self.versions(account).await?.into_iter().rev().take(VERSIONS) {
            match self.open(account, version).await {
                Ok(note) => return Ok((version, note)),
                // Another writer has replaced it.
                Err(e) if e.kind() == Kind::NotFound => {
                    return Err(Error::retry("push subscriptions changed while they were read; retry"));
                }
                Err(e) if e.kind() == Kind::Corrupt => {
                    tracing::error!(path = path(account, version), error = %e, "push subscriptions cannot be read");
                    unreadable = Some(version);
                }
                Err(e) => return Err(e),
            }
        }
        // Damaged subscriptions end: their clients make new ones.
        Ok((unreadable.unwrap_or(0), AccountNote::default()))
    }

    /// Changes the note of an account; what `decide` returns. Nothing is written if it changes nothing.
    ///
    /// # Errors
    /// Those of `decide`; `Retry` if other writers change it all the time; what the store says.
    pub(crate) async fn change<T>(
        &self,
        account: AccountId,
        decide: impl Fn(&mut AccountNote) -> Result<T>,
    ) -> Result<(u64, AccountNote, T)> {
        for _ in 0..ATTEMPTS {
            let (version, mut note) = match self.read(account).await {
                Err(e) if e.kind() == Kind::Retry => continue,
                read => read?,
            };
            let before = note.clone();
            let value = decide(&mut note)?;
            if note == before {
                return Ok((version, note, value));
            }
            if let Some(version) = self.write(account, version, &note).await? {
                return Ok((version, note, value));
            }
        }
        Err(Error::retry("push subscriptions are changed too often; retry"))
    }

    /// Writes the version after `version`, and removes those before it; `None` if another writer was
    /// first.
    async fn write(&self, account: AccountId, version: u64, note: &AccountNote) -> Result<Option<u64>> {
        let Some(next) = version.checked_add(1) else {
            return Err(Error::corrupt(format!("{} has no next version", path(account, version))));
        };
        let path = path(account, next);
        let mut plain = Zeroizing::new(Vec::with_capacity(16 * 1024));
        minicbor::encode(note, &mut *plain).map_err(|_| Error::internal("a note cannot be encoded"))?;
        let sealed = self.keys.seal_note(ACCOUNT, &path, &plain, &*self.random);
        if self.store.put_new(&path, sealed).await? == Put::Exists {
            return Ok(None);
        }
        let versions = self.versions(account).await?;
        if versions.iter().any(|other| *other > next) {
            // This writer was suspended for so long that others removed the version it followed.
            self.store.delete(&path).await?;
            return Ok(None);
        }
        let old = versions.into_iter().filter(|other| *other < next);
        let old: Vec<String> = old.map(|version| self::path(account, version)).collect();
        self.store.delete_in_order(old).await?;
        Ok(Some(next))
    }

    /// The versions of a note, in order.
    async fn versions(&self, account: AccountId) -> Result<Vec<u64>> {
        let listed = self.store.list(&folder(account), None);
        let mut versions: Vec<u64> = listed
            .try_filter_map(async |object| Ok(parse_path(&object.path).map(|(_, version)| version)))
            .try_collect()
            .await?;
        versions.sort_unstable();
        Ok(versions)
    }

    async fn open(&self, account: AccountId, version: u64) -> Result<AccountNote> {
        let path = path(account, version);
        let open = |object: &Bytes| self.keys.open_note(ACCOUNT, &path, object);
        let plain = self.store.read_opened(&path, open).await?;
        decode_note(&plain).map_err(|e| e.context(path.clone()))
    }

    /// The key that signs pushes; made if the store has none.
    pub(crate) async fn signing_key(&self, now: Timestamp) -> Result<SigningKey> {
        let path = format!("{ROOT}/key");
        match self.read_key(&path).await {
            Err(e) if e.kind() == Kind::NotFound => {}
            read => return read,
        }
        let pkcs8 = SigningKey::generate()?;
        let mut plain = Zeroizing::new(Vec::with_capacity(1024));
        let note = KeyNote { pkcs8: &pkcs8, created: now };
        minicbor::encode(&note, &mut *plain).map_err(|_| Error::internal("a key cannot be encoded"))?;
        let sealed = self.keys.seal_note(KEY, &path, &plain, &*self.random);
        match self.store.put_new(&path, sealed).await? {
            Put::Created => SigningKey::from_pkcs8(&pkcs8),
            // Another node was first.
            Put::Exists => self.read_key(&path).await,
        }
    }

    async fn read_key(&self, path: &str) -> Result<SigningKey> {
        let open = |object: &Bytes| self.keys.open_note(KEY, path, object);
        let plain = self.store.read_opened(path, open).await?;
        let note: KeyNote<'_> =
            minicbor::decode(&plain).map_err(|e| Error::corrupt(path).with_source(e.to_string()))?;
        SigningKey::from_pkcs8(note.pkcs8)
    }
}

/// Reads the plaintext of an account's note.
pub(crate) fn decode_note(plain: &[u8]) -> Result<AccountNote> {
    minicbor::decode(plain).map_err(|e| Error::corrupt("no push subscriptions").with_source(e.to_string()))
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;
    use sealpost_vault::slot::SlotId;

    use super::*;
    use crate::subscription::{Subscription, SubscriptionId};

    const ME: AccountId = AccountId([7; 16]);

    fn notes(store: &Store) -> Notes {
        Notes::new(store.clone(), MailKeys::generate(&SeededRandom::new(1)), Arc::new(SeededRandom::new(2)))
    }

    fn subscription(number: u8) -> Subscription {
        Subscription {
            id: SubscriptionId([number; 16]),
            device: format!("device {number}"),
            url: "https://push.example.org/secret-path".to_owned(),
            keys: None,
            code: "code".to_owned(),
            is_verified: false,
            expires: Timestamp(1),
            types: None,
            slot: SlotId([1; 8]),
        }
    }

    #[tokio::test]
    async fn changes_of_several_nodes_are_all_kept() {
        let store = Store::memory();
        let (one, other) = (notes(&store), notes(&store));
        let add = |number| {
            move |note: &mut AccountNote| {
                note.subscriptions.push(subscription(number));
                Ok(())
            }
        };
        let (a, b) = tokio::join!(one.change(ME, add(1)), other.change(ME, add(2)));
        assert_eq!(a.unwrap().0 + b.unwrap().0, 3);
        let (version, note) = one.read(ME).await.unwrap();
        assert_eq!((version, note.subscriptions.len()), (2, 2));
        assert_eq!(one.list().await.unwrap(), BTreeMap::from([(ME, 2)]));
        // What is there is sealed, and nothing of earlier versions is left.
        let objects: Vec<_> = store.list(ROOT, None).try_collect().await.unwrap();
        assert_eq!(objects.len(), 1);
        let object = store.read(&objects[0].path).await.unwrap();
        assert!(!object.windows(6).any(|bytes| bytes == b"secret"));
        let unchanged = one.change(ME, |_| Ok(())).await.unwrap();
        assert_eq!(unchanged.0, 2);
        let clear = |note: &mut AccountNote| {
            note.subscriptions.clear();
            Ok(())
        };
        one.change(ME, clear).await.unwrap();
        assert_eq!(other.read(ME).await.unwrap().0, 3, "versions go on");
    }

    #[tokio::test]
    async fn notes_of_another_mail_key_are_unreadable() {
        let store = Store::memory();
        let rename = |note: &mut AccountNote| {
            note.name.push('x');
            Ok(())
        };
        notes(&store).change(ME, rename).await.unwrap();
        let key = notes(&store).signing_key(Timestamp(0)).await.unwrap();
        let again = notes(&store).signing_key(Timestamp(0)).await.unwrap();
        assert_eq!(key.public(), again.public());
        let keys = MailKeys::generate(&SeededRandom::new(9));
        let foreign = Notes::new(store.clone(), keys, Arc::new(SeededRandom::new(9)));
        assert!(foreign.signing_key(Timestamp(0)).await.is_err_and(|e| e.kind() == Kind::Corrupt));
        let (version, note) = foreign.read(ME).await.unwrap();
        assert_eq!((version, note.name.as_str()), (1, ""));
    }

    #[test]
    fn paths_lead_back_to_accounts() {
        assert_eq!(parse_path(&path(ME, 0x2f)), Some((ME, 0x2f)));
        for bad in ["push/key", "push/accounts", "push/accounts/x/1", &format!("{}/2f", folder(ME))] {
            assert_eq!(parse_path(bad), None, "{bad}");
        }
    }
}
