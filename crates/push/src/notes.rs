//! Reads and writes notes: `push/accounts/{account}/{version:016x}`.
//!
//! A change writes the next version, which only one of several writers can create; the others read
//! it and decide again. An account without subscriptions keeps an empty note, so that versions never
//! begin again. Earlier versions are removed at once: they have URLs and keys of subscriptions that
//! ended (RFC 8620 §7.2).
//!
//! An attacker with write access to the store can plant objects beside a note. Without the mail key
//! none of them opens: readers pass them over ([`Noise`]), and the next version is written behind
//! them. The attacker can also put an earlier note back: a node that has read a later one refuses it
//! ([`Watermarks`]). A note that is missing or damaged has ended, because it is deleted with its account.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use sealpost_base::{AccountId, Clock, Error, Kind, Random, Result, limits};
use sealpost_directory::Watermarks;
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::{ListedObject, Put, Store};
use zeroize::Zeroizing;

use crate::ROOT;
use crate::noise::Noise;
use crate::signing_key::{is_key, read_key};
use crate::subscription::AccountNote;

/// What notes of accounts are sealed for.
const ACCOUNT: &str = "push account";
/// How often a change that another writer crossed is decided again.
const ATTEMPTS: usize = 16;

/// The notes in one store. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Notes {
    pub(crate) store: Store,
    pub(crate) keys: MailKeys,
    pub(crate) random: Arc<dyn Random>,
    noise: Arc<Noise>,
    /// The latest versions that this node has read.
    watermarks: Watermarks,
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
    pub(crate) fn new(
        store: Store,
        keys: MailKeys,
        watermarks: Watermarks,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        Notes { store, keys, random, noise: Arc::new(Noise::new(clock)), watermarks }
    }

    /// The newest version of each account's note, as the paths tell, without known noise.
    pub(crate) async fn list(&self) -> Result<BTreeMap<AccountId, u64>> {
        let mut found = BTreeMap::new();
        let mut listed = self.store.list(&accounts(), None);
        while let Some(object) = listed.try_next().await? {
            if let Some((account, version)) = parse_path(&object.path)
                && Self::may_open(version, &object)
                && !self.noise.is_known(&object)
            {
                let newest = found.entry(account).or_insert(version);
                *newest = version.max(*newest);
            }
        }
        Ok(found)
    }

    /// The note of an account with its version: the newest that opens. Version 0 if there is none.
    ///
    /// # Errors
    /// `Retry` if another writer replaces it meanwhile, or if this node has read a later one; `Corrupt` behind
    /// more than [`limits::RECORD_NOISE`] objects that do not open; what the store says.
    pub(crate) async fn read(&self, account: AccountId) -> Result<(u64, AccountNote)> {
        let folder = folder(account);
        let seen = self.watermarks.version_of(&folder);
        let mut read = self.read_newest(account).await?;
        // One reply of a remote store may be wrong.
        if Some(read.0) < seen && !self.store.notices_commits() {
            read = self.read_newest(account).await?;
        }
        if read.0 > 0 {
            self.watermarks.record_since(&folder, seen, Some(read.0))?;
        }
        Ok(read)
    }

    /// Whether this node has read a later version of the account's note; reported once.
    pub(crate) fn is_back(&self, account: AccountId, version: u64) -> bool {
        let folder = folder(account);
        let seen = self.watermarks.version_of(&folder).filter(|seen| version < *seen);
        seen.is_some() && self.watermarks.record_since(&folder, seen, Some(version)).is_err()
    }

    async fn read_newest(&self, account: AccountId) -> Result<(u64, AccountNote)> {
        let mut noise = 0;
        for (version, object) in self.objects(account).await?.into_iter().rev() {
            if self.noise.is_known(&object) {
                continue;
            }
            if noise > limits::RECORD_NOISE {
                return Err(too_many(account));
            }
            if let Some(note) = self.opened(account, version, &object).await? {
                return Ok((version, note));
            }
            noise += 1;
        }
        // Damaged subscriptions end: their clients make new ones.
        Ok((0, AccountNote::default()))
    }

    /// Changes the note of an account; what `decide` returns. Nothing is written if it changes nothing.
    /// What is written has a later version than `known`, which this process has seen: the store may have
    /// gone back.
    ///
    /// # Errors
    /// Those of `decide`; `Retry` if other writers change it all the time; what the store says.
    pub(crate) async fn change<T>(
        &self,
        account: AccountId,
        known: u64,
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
            // A node that has read a later version, which was damaged or removed, would refuse an earlier one.
            let seen = self.watermarks.version_of(&folder(account)).unwrap_or(0);
            if let Some(version) = self.write(account, version.max(known).max(seen), &note).await? {
                self.watermarks.saw_record(&folder(account), version);
                return Ok((version, note, value));
            }
        }
        Err(Error::retry("push subscriptions are changed too often; retry"))
    }

    /// Writes the version after `version`, behind noise in its place, and removes those before it; `None`
    /// if another writer was first.
    async fn write(&self, account: AccountId, version: u64, note: &AccountNote) -> Result<Option<u64>> {
        let mut plain = Zeroizing::new(Vec::with_capacity(16 * 1024));
        minicbor::encode(note, &mut *plain).map_err(|_| Error::internal("a note cannot be encoded"))?;
        for next in
            (version..limits::RECORD_VERSIONS).map(|version| version + 1).take(limits::RECORD_NOISE + 1)
        {
            let path = path(account, next);
            let sealed = self.keys.seal_note(ACCOUNT, &path, &plain, &*self.random);
            if self.store.put_new(&path, sealed).await? == Put::Created {
                return self.settle(account, next).await;
            }
            match self.open(account, next).await {
                Ok(_) => return Ok(None),
                Err(e) if e.kind() == Kind::NotFound && !self.store.withholds(&path).await? => {
                    return Ok(None);
                }
                Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => {}
                Err(e) => return Err(e),
            }
        }
        Err(too_many(account))
    }

    /// Removes the versions before `written`; `None`, and removes that, if another writer has written a
    /// later one: this one was suspended for so long that others removed the version it followed.
    async fn settle(&self, account: AccountId, written: u64) -> Result<Option<u64>> {
        let objects = self.objects(account).await?;
        let later =
            objects.iter().filter(|(version, object)| *version > written && !self.noise.is_known(object));
        for (version, object) in later.take(limits::RECORD_NOISE) {
            let is_passed = match self.opened(account, *version, object).await {
                // Replaced meanwhile by one that is later still, unless the store fails.
                Err(e) if e.kind() == Kind::Retry => true,
                opened => opened?.is_some(),
            };
            if is_passed {
                self.store.delete(&path(account, written)).await?;
                return Ok(None);
            }
        }
        let old = objects.into_iter().filter(|(version, _)| *version < written);
        self.store.delete_in_order(old.map(|(_, object)| object.path).collect()).await?;
        Ok(Some(written))
    }

    /// The objects of a note with their versions, in order: the last of them. Those that no version has
    /// are noise, and left out.
    async fn objects(&self, account: AccountId) -> Result<VecDeque<(u64, ListedObject)>> {
        let mut listed = self.store.list(&folder(account), None);
        let mut objects = VecDeque::new();
        while let Some(object) = listed.try_next().await? {
            let Some((_, version)) = parse_path(&object.path) else { continue };
            if !Self::may_open(version, &object) {
                self.noise.note(&object, &impossible(&object));
                continue;
            }
            // By path, and so by version.
            objects.push_back((version, object));
            if objects.len() > limits::RECORD_NOISE_REMEMBERED {
                objects.pop_front();
            }
        }
        Ok(objects)
    }

    /// Whether a writer can have written it, as number and size tell.
    fn may_open(version: u64, object: &ListedObject) -> bool {
        version <= limits::RECORD_VERSIONS && !object.is_too_large()
    }

    /// The note in a listed object; `None` if it is noise.
    async fn opened(
        &self,
        account: AccountId,
        version: u64,
        object: &ListedObject,
    ) -> Result<Option<AccountNote>> {
        match self.open(account, version).await {
            Ok(note) => Ok(Some(note)),
            Err(e) if e.kind() == Kind::NotFound && !self.store.withholds(&object.path).await? => {
                Err(Error::retry("push subscriptions changed while they were read; retry"))
            }
            Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => {
                self.noise.note(object, &e);
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    async fn open(&self, account: AccountId, version: u64) -> Result<AccountNote> {
        open_account(&self.store, &self.keys, &path(account, version)).await
    }
}

fn too_many(account: AccountId) -> Error {
    Error::corrupt(format!(
        "more than {} objects of {} open under no mail key; \"sealpost check\" names them: remove them",
        limits::RECORD_NOISE,
        folder(account)
    ))
}

fn impossible(object: &ListedObject) -> Error {
    Error::corrupt(format!("{} has a number or size that no version has", object.path))
}

/// Whether an object of that path and size can be one of those below [`ROOT`] that this crate stores.
pub fn is_stored(object: &ListedObject) -> bool {
    match parse_path(&object.path) {
        Some((_, version)) => Notes::may_open(version, object),
        None => is_key(&object.path) && !object.is_too_large(),
    }
}

/// The objects below [`ROOT`] that these keys do not open, and why; for `sealpost check`.
///
/// # Errors
/// What the store says of the listing.
pub async fn unopened(store: &Store, keys: &MailKeys) -> Result<Vec<(String, Error)>> {
    let mut found = Vec::new();
    let mut listed = store.list(ROOT, None);
    while let Some(object) = listed.try_next().await? {
        let opened = match parse_path(&object.path) {
            Some((_, version)) if !Notes::may_open(version, &object) => Err(impossible(&object)),
            Some(_) => open_account(store, keys, &object.path).await.map(drop),
            None if is_key(&object.path) => read_key(store, keys, &object.path).await.map(drop),
            // The name is reported.
            None => continue,
        };
        match opened {
            // Replaced since it was listed.
            Err(e) if e.kind() != Kind::NotFound => found.push((object.path, e)),
            _ => {}
        }
    }
    Ok(found)
}

async fn open_account(store: &Store, keys: &MailKeys, path: &str) -> Result<AccountNote> {
    let open = |object: &Bytes| keys.open_note(ACCOUNT, path, object);
    let plain = store.read_opened(path, open).await?;
    decode_note(&plain).map_err(|e| e.context(path.to_owned()))
}

/// Reads the plaintext of an account's note.
pub(crate) fn decode_note(plain: &[u8]) -> Result<AccountNote> {
    minicbor::decode(plain).map_err(|e| Error::corrupt("no push subscriptions").with_source(e.to_string()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sealpost_base::{FakeClock, SeededRandom, Timestamp};
    use sealpost_vault::Sealed;
    use sealpost_vault::slot::SlotId;

    use super::*;
    use crate::subscription::{Subscription, SubscriptionId};

    const ME: AccountId = AccountId([7; 16]);

    fn notes(store: &Store) -> Notes {
        of_key(store, 1, &Arc::new(FakeClock::new(Timestamp(0))))
    }

    fn of_key(store: &Store, key: u64, clock: &Arc<FakeClock>) -> Notes {
        let keys = MailKeys::generate(&SeededRandom::new(key));
        let random = Arc::new(SeededRandom::new(key + 1));
        Notes::new(store.clone(), keys, Watermarks::default(), clock.clone(), random)
    }

    async fn plant(store: &Store, versions: impl IntoIterator<Item = u64>) {
        for version in versions {
            store.put_new(&path(ME, version), Sealed::marker()).await.unwrap();
        }
    }

    async fn add(notes: &Notes, number: u8) -> Result<u64> {
        let added = notes.change(ME, 0, |note| {
            note.subscriptions.push(subscription(number));
            Ok(())
        });
        added.await.map(|(version, ..)| version)
    }

    async fn count(notes: &Notes) -> (u64, usize) {
        let (version, note) = notes.read(ME).await.unwrap();
        (version, note.subscriptions.len())
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
        let (a, b) = tokio::join!(one.change(ME, 0, add(1)), other.change(ME, 0, add(2)));
        assert_eq!(a.unwrap().0 + b.unwrap().0, 3);
        let (version, note) = one.read(ME).await.unwrap();
        assert_eq!((version, note.subscriptions.len()), (2, 2));
        assert_eq!(one.list().await.unwrap(), BTreeMap::from([(ME, 2)]));
        // What is there is sealed, and nothing of earlier versions is left.
        let objects: Vec<_> = store.list(ROOT, None).try_collect().await.unwrap();
        assert_eq!(objects.len(), 1);
        let object = store.read(&objects[0].path).await.unwrap();
        assert!(!object.windows(6).any(|bytes| bytes == b"secret"));
        let unchanged = one.change(ME, 0, |_| Ok(())).await.unwrap();
        assert_eq!(unchanged.0, 2);
        let clear = |note: &mut AccountNote| {
            note.subscriptions.clear();
            Ok(())
        };
        one.change(ME, 0, clear).await.unwrap();
        assert_eq!(other.read(ME).await.unwrap().0, 3, "versions go on");
    }

    #[tokio::test]
    async fn notes_of_another_mail_key_are_passed_over() {
        let store = Store::memory();
        add(&notes(&store), 1).await.unwrap();
        let foreign = of_key(&store, 9, &Arc::new(FakeClock::new(Timestamp(0))));
        assert_eq!(count(&foreign).await, (0, 0));
        assert_eq!(add(&foreign, 2).await.unwrap(), 2, "behind it");
    }

    #[tokio::test]
    async fn planted_objects_beside_a_note_stop_nothing() {
        let store = Store::memory();
        let (one, other) = (notes(&store), notes(&store));
        plant(&store, [1, u64::MAX]).await;
        assert_eq!(add(&one, 1).await.unwrap(), 2, "noise has the first number");
        plant(&store, [3, 4, 7, limits::RECORD_VERSIONS]).await;
        assert_eq!((count(&one).await, count(&other).await), ((2, 1), (2, 1)));
        assert_eq!(add(&other, 2).await.unwrap(), 5);
        assert_eq!(count(&one).await, (5, 2));
        assert_eq!(one.list().await.unwrap(), BTreeMap::from([(ME, 5)]), "known noise is not looked at");
        let clear = |note: &mut AccountNote| {
            note.subscriptions.clear();
            Ok(())
        };
        assert_eq!(one.change(ME, 0, clear).await.unwrap().0, 6);
        assert_eq!(count(&notes(&store)).await, (6, 0), "for a node that starts, too");
        // What is named, and what an earlier version was.
        let named = unopened(&store, &one.keys).await.unwrap();
        let named: Vec<String> = named.into_iter().map(|(path, _)| path).collect();
        assert_eq!(named, [7, limits::RECORD_VERSIONS, u64::MAX].map(|version| path(ME, version)));
    }

    #[tokio::test]
    async fn nodes_that_change_a_note_beside_noise_lose_nothing() {
        let store = Store::memory();
        plant(&store, [1, 2, 4, u64::MAX]).await;
        let (one, other, third) = (notes(&store), notes(&store), notes(&store));
        let (a, b, c) = tokio::join!(add(&one, 1), add(&other, 2), add(&third, 3));
        for added in [a, b, c] {
            added.unwrap();
        }
        assert_eq!(count(&one).await.1, 3);
    }

    #[tokio::test]
    async fn more_planted_objects_than_are_read_are_named() {
        let store = Store::memory();
        let node = notes(&store);
        add(&node, 1).await.unwrap();
        let most = limits::RECORD_NOISE as u64;
        plant(&store, 2..2 + most).await;
        assert_eq!(count(&notes(&store)).await, (1, 1));
        plant(&store, 2 + most..4 + most).await;
        let refused = notes(&store).read(ME).await.err().unwrap();
        assert!(refused.to_string().contains("sealpost check"), "{refused}");
        assert_eq!(add(&node, 2).await.unwrap_err().kind(), Kind::Corrupt);
    }

    #[tokio::test]
    async fn damage_of_the_newest_version_ends_subscriptions_only() {
        let store = Store::memory();
        let node = notes(&store);
        plant(&store, [7]).await;
        let added = node.change(ME, 7, |note| {
            note.name.push('x');
            Ok(())
        });
        assert_eq!(added.await.unwrap().0, 8, "this process has seen version 7");
        assert_eq!(count(&notes(&store)).await, (8, 0));
    }

    #[tokio::test]
    async fn a_note_that_went_back_is_refused() {
        let store = Store::memory();
        let (one, other) = (notes(&store), notes(&store));
        add(&one, 1).await.unwrap();
        let earlier = minicbor::to_vec(one.read(ME).await.unwrap().1).unwrap();
        let end = |note: &mut AccountNote| {
            note.subscriptions.clear();
            Ok(())
        };
        other.change(ME, 0, end).await.unwrap();
        assert_eq!(count(&one).await, (2, 0));
        // An attacker puts the earlier version, with its subscription, back.
        store.delete(&path(ME, 2)).await.unwrap();
        let earlier = one.keys.seal_note(ACCOUNT, &path(ME, 1), &earlier, &*one.random);
        store.put_new(&path(ME, 1), earlier).await.unwrap();
        for node in [&one, &other] {
            let refused = node.read(ME).await.err().unwrap();
            assert!(refused.kind() == Kind::Retry && refused.to_string().contains("confirm-restore"));
            assert_eq!(add(node, 3).await.unwrap_err().kind(), Kind::Retry);
            assert!(node.is_back(ME, 1) && !node.is_back(ME, 2));
            assert_eq!(node.watermarks.back(), 1);
        }
        // Without that, the account has none, and a new one is behind what was seen.
        store.delete(&path(ME, 1)).await.unwrap();
        assert_eq!(count(&one).await, (0, 0));
        assert_eq!(add(&one, 4).await.unwrap(), 3);
        assert_eq!(count(&other).await, (3, 1));
        assert_eq!(one.watermarks.back(), 0);
    }

    #[tokio::test]
    async fn noise_is_reported_once_an_hour() {
        let store = Store::memory();
        let clock = Arc::new(FakeClock::new(Timestamp(0)));
        let node = of_key(&store, 1, &clock);
        plant(&store, [1]).await;
        let (_, object) = node.objects(ME).await.unwrap().remove(0).unwrap();
        let error = impossible(&object);
        assert!(!node.noise.is_known(&object));
        assert!(node.noise.note(&object, &error) && node.noise.is_known(&object));
        clock.advance(Duration::from_secs(61));
        assert!(!node.noise.is_known(&object), "it is read again");
        assert!(!node.noise.note(&object, &error), "and not reported");
        clock.advance(Duration::from_secs(3600));
        assert!(node.noise.note(&object, &error));
        let replaced = ListedObject { size: object.size + 1, ..object };
        assert!(!node.noise.is_known(&replaced) && node.noise.note(&replaced, &error));
    }

    #[test]
    fn paths_lead_back_to_accounts() {
        assert_eq!(parse_path(&path(ME, 0x2f)), Some((ME, 0x2f)));
        for bad in ["push/key", "push/accounts", "push/accounts/x/1", &format!("{}/2f", folder(ME))] {
            assert_eq!(parse_path(bad), None, "{bad}");
        }
    }
}
