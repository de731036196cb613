//! Log objects under retired keys. They count if they existed when the keys were retired.
//!
//! Log entries and manifests are never rewritten, so they outlive their key. An attacker with that key and
//! write access to the store could forge more. So before keys are retired, an object under the new key lists
//! the hashes of all objects under older ones (decision 61). Any other object under a retired key is ignored.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::try_join_all;
use sealpost_base::{Position, Result, limits};
use sealpost_vault::mark::{NameVerdict, Verdict};
use sealpost_vault::{Hash, entry, mark};

use crate::manifests::{MarkRead, Name, READ_AHEAD, names};
use crate::noise::Judge;
use crate::read::Object;
use crate::{EntryName, Journal};

/// Why any other object under a retired key does not count.
pub(crate) const NOT_VOUCHED_FOR: &str =
    "it is under a retired server key, and did not exist when that key was retired";

/// The objects under retired keys that count.
#[derive(Default)]
pub(crate) struct Vouched(HashSet<Hash>);

impl Vouched {
    pub(crate) fn names(&self, object: &[u8]) -> bool {
        self.0.contains(&Hash::of(object))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Judge {
    /// The objects that attestations list, read once.
    pub(crate) async fn vouched(&self) -> Result<Arc<Vouched>> {
        if let Some(vouched) = self.known_vouched() {
            return Ok(vouched);
        }
        let folder = format!("{}/manifest", self.folder());
        let names = names(self.store(), &folder, Some(&format!("{folder}/k"))).await?;
        let names = names.into_iter().filter(|name| matches!(name, Name::Attestation(_)));
        let (mut ours, mut others) = (Vec::new(), Vec::new());
        for name in names {
            match self.name_of(name) {
                NameVerdict::Authentic => ours.push(name),
                // An attestation from an earlier retirement of keys.
                NameVerdict::Retired => {}
                NameVerdict::Unknown => others.push(name),
            }
        }
        let mut vouched = Vouched::default();
        // The last rotation listed every object. Without one, only attestations of an older version remain,
        // among names that an attacker with write access may have planted.
        if !self.vouched_by(&ours, &mut vouched).await? {
            let beyond = others.split_off(others.len().min(limits::LOG_GAP as usize));
            self.note_unread(beyond.len());
            self.vouched_by(&others, &mut vouched).await?;
        }
        let vouched = Arc::new(vouched);
        self.knows_vouched(vouched.clone());
        Ok(vouched)
    }

    /// Adds the objects that these attestations list to `vouched`. Returns whether any attestation was
    /// authentic.
    async fn vouched_by(&self, names: &[Name], vouched: &mut Vouched) -> Result<bool> {
        let mut found = false;
        for some in names.chunks(READ_AHEAD) {
            let read = try_join_all(some.iter().map(|name| self.read_mark(*name))).await?;
            for (name, read) in some.iter().zip(read) {
                match read {
                    MarkRead::Authentic(object) => {
                        let (at, kind) = (Position::ZERO, name.kind());
                        if let Verdict::Authentic(said) =
                            mark::judge(self.key(), self.account(), at, kind, &object)
                        {
                            vouched.0.extend(mark::attested(said));
                            found = true;
                        }
                    }
                    MarkRead::Noise(why) => self.note_mark(*name, &why),
                    MarkRead::Superseded | MarkRead::Gone => {}
                }
            }
        }
        Ok(found)
    }
}

impl Journal {
    /// The hashes of all entries under keys older than the current one.
    pub(crate) async fn entries_under_older_keys(&self) -> Result<Vec<Hash>> {
        let mut found = Vec::new();
        let places: Vec<EntryName> = self.chain.list(Position::ZERO).await?;
        for some in places.chunks(crate::read::READ_AHEAD) {
            let read = some.iter().map(|place| self.object(place, true));
            for object in futures::future::try_join_all(read).await? {
                let Object::Entry(object, ..) = object else { continue };
                if !entry::is_current(self.judge.key(), &object) {
                    found.push(Hash::of(&object));
                }
            }
        }
        Ok(found)
    }
}
