//! Reads and makes the key that signs pushes: `push/key`, and `push/keys/{number:02x}` where an object
//! that does not open is in its place.
//!
//! The highest number that opens counts; `push/key` has number 0. If none opens, a node makes a key
//! under the lowest number that is free. Only one of several nodes can create it, and the others read it.

use bytes::Bytes;
use minicbor::{Decode, Encode};
use sealpost_base::{Error, Kind, Result, Timestamp, limits};
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::{Put, Store};
use zeroize::Zeroizing;

use crate::ROOT;
use crate::crypto::SigningKey;
use crate::notes::Notes;

/// What the key that signs is sealed for.
const KEY: &str = "push key";

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

fn path(number: usize) -> String {
    match number {
        0 => format!("{ROOT}/key"),
        number => format!("{ROOT}/keys/{number:02x}"),
    }
}

/// Whether a key can be at that path.
pub(crate) fn is_key(object: &str) -> bool {
    (0..=limits::RECORD_NOISE).any(|number| path(number) == object)
}

impl Notes {
    /// The key that signs pushes; made if the store has none that opens.
    ///
    /// # Errors
    /// `Corrupt` if [`limits::RECORD_NOISE`] objects and `push/key` do not open; what the store says.
    pub(crate) async fn signing_key(&self, now: Timestamp) -> Result<SigningKey> {
        let names = self.store.names_below(&format!("{ROOT}/keys")).await?;
        let is_listed = |number: &usize| names.contains(&format!("{number:02x}"));
        let others = (1..=limits::RECORD_NOISE).rev().filter(is_listed);
        for number in others.chain([0]) {
            if let Some(key) = self.key_at(&path(number)).await? {
                return Ok(key);
            }
        }
        self.make_key(now).await
    }

    async fn make_key(&self, now: Timestamp) -> Result<SigningKey> {
        let pkcs8 = SigningKey::generate()?;
        let mut plain = Zeroizing::new(Vec::with_capacity(1024));
        let note = KeyNote { pkcs8: &pkcs8, created: now };
        minicbor::encode(&note, &mut *plain).map_err(|_| Error::internal("a key cannot be encoded"))?;
        for path in (0..=limits::RECORD_NOISE).map(path) {
            let sealed = self.keys.seal_note(KEY, &path, &plain, &*self.random);
            if self.store.put_new(&path, sealed).await? == Put::Created {
                return SigningKey::from_pkcs8(&pkcs8);
            }
            // Another node was first, or it is noise.
            match read_key(&self.store, &self.keys, &path).await {
                Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => {}
                read => return read,
            }
        }
        Err(Error::corrupt(format!(
            "no mail key opens any of the objects {ROOT}/key and {ROOT}/keys/01 to {:02x}; \"sealpost check\" \
             names them: remove them",
            limits::RECORD_NOISE
        )))
    }

    /// The key at that path; `None` if there is none, or noise, which is reported: once, at the start.
    async fn key_at(&self, path: &str) -> Result<Option<SigningKey>> {
        match read_key(&self.store, &self.keys, path).await {
            Ok(key) => Ok(Some(key)),
            Err(e) if e.kind() == Kind::NotFound => Ok(None),
            Err(error) if error.kind() == Kind::Corrupt => {
                tracing::error!(path, %error, "this is no key that signs pushes: it was planted, or is damaged; passed over");
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}

pub(crate) async fn read_key(store: &Store, keys: &MailKeys, path: &str) -> Result<SigningKey> {
    let open = |object: &Bytes| keys.open_note(KEY, path, object);
    let plain = store.read_opened(path, open).await?;
    let corrupt = |e: minicbor::decode::Error| Error::corrupt(path).with_source(e.to_string());
    let note: KeyNote<'_> = minicbor::decode(&plain).map_err(corrupt)?;
    SigningKey::from_pkcs8(note.pkcs8)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sealpost_base::{SeededRandom, SystemClock};
    use sealpost_directory::Watermarks;
    use sealpost_vault::Sealed;

    use super::*;

    fn notes(store: &Store) -> Notes {
        let keys = MailKeys::generate(&SeededRandom::new(1));
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SeededRandom::new(2)));
        Notes::new(store.clone(), keys, Watermarks::default(), clock, random)
    }

    async fn plant(store: &Store, path: &str) {
        store.put_new(path, Sealed::marker()).await.unwrap();
    }

    async fn public(notes: &Notes) -> Vec<u8> {
        notes.signing_key(Timestamp(0)).await.unwrap().public().to_vec()
    }

    #[tokio::test]
    async fn planted_objects_at_the_key_end_no_pushes() {
        let store = Store::memory();
        for path in ["push/key", "push/keys/01", "push/keys/40", "push/keys/ffffffffffffffff"] {
            plant(&store, path).await;
        }
        let (one, other) = (notes(&store), notes(&store));
        let (a, b) = tokio::join!(public(&one), public(&other));
        assert_eq!(a, b, "one node makes a key, the other reads it");
        plant(&store, "push/keys/03").await;
        assert_eq!(public(&notes(&store)).await, a);
        let named = crate::unopened(&store, &one.keys).await.unwrap();
        let named: Vec<String> = named.into_iter().map(|(path, _)| path).collect();
        assert_eq!(named, ["push/key", "push/keys/01", "push/keys/03", "push/keys/40"]);
        // Without the noise it is the same key.
        store.delete("push/key").await.unwrap();
        assert_eq!(public(&one).await, a);
    }

    #[tokio::test]
    async fn a_key_stays_the_same_over_restarts() {
        let store = Store::memory();
        let key = public(&notes(&store)).await;
        plant(&store, "push/keys/01").await;
        assert_eq!(public(&notes(&store)).await, key);
        assert!(is_key("push/key") && is_key("push/keys/40") && !is_key("push/keys/41"));
    }
}
