//! Which shares belong to which account: so that they are deleted with it, and that one which was
//! not completed is found.
//!
//! A record `shares/{owner's id}/{share's id}/{version:016x}`, written before the share. It names
//! no mailbox. Once the share was given another key it holds that one, sealed to each account that
//! may open it; which accounts that are is for nodes alone to read.

use futures::{StreamExt, TryStreamExt};
use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Error, Kind, Result, Timestamp};
use sealpost_vault::{Epoch, PublicKey, ShareKeys};

use super::{AccountName, Directory};

const ROOT: &str = "shares";
/// Entries that a share's log begins with: its UIDVALIDITY; what it is, and who may do what.
const FIRST_ENTRIES: usize = 2;
/// Objects removed by one transaction.
const DELETED_TOGETHER: usize = 256;

/// What is recorded about a share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareRecord {
    /// The share's log.
    pub share: AccountId,
    /// The account whose mailbox it is.
    pub owner: AccountId,
    /// What can be sealed to it.
    pub public: PublicKey,
    /// When it was made.
    pub created: Timestamp,
    /// Its newest root key, for those who may have it; `None` in the first epoch: the links have it.
    pub keys: Option<ShareKeys>,
    /// Which version of the record this is.
    version: u64,
}

/// The same as it is stored: who may have the key is for nodes alone to read.
#[derive(Encode, Decode)]
struct StoredShare {
    #[n(0)]
    share: AccountId,
    #[n(1)]
    owner: AccountId,
    #[n(2)]
    public: PublicKey,
    #[n(3)]
    created: Timestamp,
    #[cbor(n(4), with = "minicbor::bytes")]
    hidden_keys: Option<Vec<u8>>,
}

impl ShareRecord {
    /// Of which epoch its newest root key is.
    pub fn epoch(&self) -> Epoch {
        self.public.epoch()
    }
}

impl Directory {
    /// Records a share that is about to be made.
    ///
    /// # Errors
    /// `Conflict` if it exists; what the store says.
    pub async fn record_share(
        &self,
        owner: AccountId,
        share: AccountId,
        public: PublicKey,
    ) -> Result<ShareRecord> {
        let created = self.clock.now();
        let record = ShareRecord { share, owner, public, created, keys: None, version: 1 };
        match self.versions.put_after(&directory(owner, share), 0, &self.encode(&record)?).await? {
            true => Ok(record),
            false => Err(Error::conflict(format!("the share {share} exists"))),
        }
    }

    /// What is recorded about a share of `owner`; `None` if nothing is.
    ///
    /// # Errors
    /// `Corrupt` for a record that is not one of this server's; `Retry` if it is older than one that this node
    /// has read: mail would be sealed to an earlier key; what the store says.
    pub async fn share(&self, owner: AccountId, share: AccountId) -> Result<Option<ShareRecord>> {
        let at = directory(owner, share);
        let seen = self.versions.watermarks.version_of(&at);
        let mut newest = self.versions.newest(&at).await?;
        if self.versions.is_doubtful(seen, newest.as_ref()) {
            newest = self.versions.newest(&at).await?;
        }
        // A deleted one is missing, and its mailbox with it.
        let Some(newest) = newest else { return Ok(None) };
        self.versions.watermarks.record_since(&at, seen, Some(newest.version))?;
        self.decode(&at, newest.version, &newest.bytes).map(Some)
    }

    /// As [`Directory::share`], of the account that has or had that name last: also of one that was
    /// removed and can be brought back.
    ///
    /// # Errors
    /// As [`Directory::share`].
    pub async fn share_of(&self, owner: &AccountName, share: AccountId) -> Result<Option<ShareRecord>> {
        match self.newest_account(owner).await? {
            Some(owner) => self.share(owner.id, share).await,
            None => Ok(None),
        }
    }

    /// Gives a share, as it was read, other keys; `false` if its record has changed since.
    ///
    /// # Errors
    /// What the store says; `Retry` when it is unknown whether the change counts.
    pub async fn set_share_keys(
        &self,
        record: &ShareRecord,
        public: PublicKey,
        keys: ShareKeys,
    ) -> Result<bool> {
        let changed = ShareRecord { public, keys: Some(keys), ..record.clone() };
        let at = directory(record.owner, record.share);
        self.versions.put_after(&at, record.version, &self.encode(&changed)?).await
    }

    /// The shares of an account, those included that were never completed or were deleted lately.
    ///
    /// # Errors
    /// `Corrupt` for a record that is not one of this server's; what the store says.
    pub async fn shares_of(&self, owner: AccountId) -> Result<Vec<ShareRecord>> {
        self.shares_below(&format!("{ROOT}/{owner}")).await
    }

    /// The shares of all accounts.
    ///
    /// # Errors
    /// As [`Directory::shares_of`].
    pub async fn shares(&self) -> Result<Vec<ShareRecord>> {
        self.shares_below(ROOT).await
    }

    async fn shares_below(&self, root: &str) -> Result<Vec<ShareRecord>> {
        let mut records = self.versions.all(root);
        let mut shares = Vec::new();
        while let Some((at, newest)) = records.next().await {
            let newest = match newest {
                // Planted, or damaged: `check` names it. The account and its other shares do not
                // wait for that.
                Err(e) if e.kind() == Kind::Corrupt => {
                    tracing::warn!(record = at, error = %e, "the record of a shared mailbox is not authentic; it is passed over");
                    continue;
                }
                newest => newest?,
            };
            shares.push(self.decode(&at, newest.version, &newest.bytes)?);
        }
        Ok(shares)
    }

    /// Deletes a share permanently, and then its record. Returns the number of its objects.
    ///
    /// # Errors
    /// What the store says; the record is then still there.
    pub async fn delete_share(&self, record: &ShareRecord) -> Result<usize> {
        let objects = self.delete_share_objects(record.share).await?;
        self.delete_below(&directory(record.owner, record.share)).await?;
        Ok(objects)
    }

    /// Deletes the objects of a share, and not its record; how many there were.
    ///
    /// # Errors
    /// What the store says.
    pub async fn delete_share_objects(&self, share: AccountId) -> Result<usize> {
        self.delete_below(&format!("acct/{share}")).await
    }

    /// Whether there is nothing of a share but the entries that it began with: no message, and no change.
    ///
    /// # Errors
    /// What the store says.
    pub async fn share_was_never_used(&self, share: AccountId) -> Result<bool> {
        let log = format!("acct/{share}/log/");
        let mut listed = self.versions.store().list(&format!("acct/{share}"), None);
        let mut entries = 0;
        while let Some(object) = listed.next().await {
            entries += 1;
            if entries > FIRST_ENTRIES || !object?.path.starts_with(&log) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// When something was last appended to the share's log; `None`: never.
    ///
    /// # Errors
    /// What the store says.
    pub async fn share_last_changed(&self, share: AccountId) -> Result<Option<Timestamp>> {
        let mut listed = self.versions.store().list(&format!("acct/{share}/log"), None);
        let mut last = None;
        while let Some(object) = listed.next().await {
            last = last.max(Some(object?.modified));
        }
        Ok(last)
    }

    fn encode(&self, record: &ShareRecord) -> Result<Vec<u8>> {
        let failed = |e: minicbor::encode::Error<std::convert::Infallible>| {
            Error::internal("a share record cannot be encoded").with_source(e.to_string())
        };
        let ShareRecord { share, owner, public, created, .. } = *record;
        let keys = record.keys.as_ref().map(minicbor::to_vec).transpose().map_err(failed)?;
        let hidden_keys = keys.map(|keys| self.versions.hide(&directory(owner, share), &keys));
        minicbor::to_vec(StoredShare { share, owner, public, created, hidden_keys }).map_err(failed)
    }

    fn decode(&self, at: &str, version: u64, bytes: &[u8]) -> Result<ShareRecord> {
        let corrupt = |e: minicbor::decode::Error| {
            Error::corrupt(format!("the share record {at}")).with_source(e.to_string())
        };
        let stored: StoredShare = minicbor::decode(bytes).map_err(corrupt)?;
        let StoredShare { share, owner, public, created, hidden_keys } = stored;
        if directory(owner, share) != at {
            return Err(Error::corrupt(format!("the share record {at} is another's")));
        }
        let revealed = hidden_keys.map(|hidden| self.versions.reveal(at, &hidden)).transpose()?;
        let keys = revealed.map(|keys| minicbor::decode(&keys)).transpose().map_err(corrupt)?;
        Ok(ShareRecord { share, owner, public, created, keys, version })
    }

    pub(super) async fn delete_below(&self, prefix: &str) -> Result<usize> {
        let store = self.versions.store();
        let mut listed = store.list(prefix, None).try_chunks(DELETED_TOGETHER);
        let mut deleted = 0;
        while let Some(objects) = listed.next().await {
            let paths: Vec<_> = objects.map_err(|e| e.1)?.into_iter().map(|object| object.path).collect();
            deleted += paths.len();
            store.delete_in_order(paths).await?;
        }
        Ok(deleted)
    }
}

fn directory(owner: AccountId, share: AccountId) -> String {
    format!("{ROOT}/{owner}/{share}")
}
