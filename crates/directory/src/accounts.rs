//! Accounts: made, listed, changed, suspended, removed. The slots that open them are in `slots.rs`.

use futures::StreamExt;
use futures::stream::BoxStream;
use sealpost_base::{AccountId, Error, Result, Timestamp, limits};
use sealpost_vault::RootKey;
#[cfg(test)]
use sealpost_vault::slot::Slot;

use super::{AccountName, AccountRecord, Directory, Role, Secret, SlotInfo, path};

pub(super) const ROOT: &str = "accounts";

/// What a new account starts with.
pub struct NewAccount {
    /// Its password.
    pub password: Secret,
    /// Bytes of mail it may hold; `None`: any number.
    pub quota: Option<u64>,
    /// What its owner may do.
    pub role: Role,
}

impl NewAccount {
    /// An ordinary account with this password and no quota.
    pub fn with_password(password: Secret) -> Self {
        NewAccount { password, quota: None, role: Role::User }
    }
}

/// What becomes of slots without a right tag when an account gets a new root key: that is never
/// sealed to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnverifiedSlots {
    /// They stay, and so does the key: the change is refused.
    Refuse,
    /// They are removed.
    Remove,
}

/// An account with a new root key.
pub struct Rekeyed {
    /// The key.
    pub root: RootKey,
    /// Slots that were removed.
    pub removed: Vec<SlotInfo>,
    /// Slots that the key was sealed to.
    pub kept: Vec<SlotInfo>,
    /// How many OAuth grants and web logins ended.
    pub ended: usize,
}

impl Directory {
    /// Makes an account and returns its record with its root key, so that mail can be put into it
    /// at once. Takes as long as a password check.
    ///
    /// # Errors
    /// `Conflict` if there is an account or alias of that name, or one was removed and can still be
    /// brought back; `Invalid` for a name with a character that cannot be seen.
    pub async fn create(&self, name: &AccountName, new: NewAccount) -> Result<(AccountRecord, RootKey)> {
        name.address().check_visible()?;
        let before = self.newest_account(name).await?;
        if let Some(before) = &before
            && !before.purged
        {
            let what = match before.is_active() {
                true => "exists",
                false => "is removed; `sealpost account undelete` brings it back",
            };
            return Err(Error::conflict(format!("the account {name} {what}")));
        }
        if self.alias_of(name.address()).await?.is_some() {
            return Err(Error::conflict(format!("{name} is an alias")));
        }
        let id = AccountId::random(&*self.random);
        let root = RootKey::generate(&*self.random);
        let slot = self.password_slot(&root, id, new.password).await?;
        let mut record = AccountRecord {
            id,
            name: name.clone(),
            created: self.clock.now(),
            quota: new.quota,
            role: new.role,
            public: root.delivery_key(id),
            slots: vec![slot],
            removed: None,
            purged: false,
            suspended: None,
            earlier: None,
            slot_list: None,
            identity: None,
            quota_messages: None,
            quota_mailboxes: None,
            quota_annotations: None,
            sending: None,
            vacation: None,
            version: before.map_or(0, |before| before.version),
        };
        let list = record.list_slots(&root, None);
        record.version += 1;
        if !self.put(&record).await? {
            return Err(Error::conflict(format!("another process has just created the account {name}")));
        }
        self.saw_slot_list(id, list);
        Ok((record, root))
    }

    /// The account called `name`, as the store has it now.
    ///
    /// # Errors
    /// `NotFound` if there is none or it was removed; `Corrupt` if its record is not one of this server's.
    pub async fn get(&self, name: &AccountName) -> Result<AccountRecord> {
        self.find(name).await?.ok_or_else(|| Error::not_found(format!("there is no account {name}")))
    }

    /// Below which path of the store the versions of its record are.
    pub fn path_of(&self, name: &AccountName) -> String {
        directory(name)
    }

    /// The same as [`Directory::get`], `None` if there is no such account.
    pub async fn find(&self, name: &AccountName) -> Result<Option<AccountRecord>> {
        Ok(self.newest_account(name).await?.filter(AccountRecord::is_active))
    }

    /// As [`Directory::find`], for logins: it makes as many requests to a bucket whether the
    /// account exists or not, so that the time reveals nothing.
    ///
    /// # Errors
    /// As [`Directory::get`], without `NotFound`.
    pub async fn find_to_log_in(&self, name: &AccountName) -> Result<Option<AccountRecord>> {
        Ok(self.find_to_end_login(name).await?.filter(AccountRecord::is_active))
    }

    /// As [`Directory::find_to_log_in`], also an account that was removed and can be brought back: to end
    /// logins, which would be back with it, and for nothing else.
    ///
    /// # Errors
    /// As [`Directory::find_to_log_in`].
    pub async fn find_to_end_login(&self, name: &AccountName) -> Result<Option<AccountRecord>> {
        let newest = self.newest_account(name).await?;
        if newest.is_none() {
            // In the place of the record something is read that is there.
            let _ = self.versions.store().serves_reads().await;
        }
        Ok(newest.filter(|record| !record.purged))
    }

    /// All accounts, by name, with removed ones in their grace period (see
    /// [`AccountRecord::removed`]). A record that cannot be read is an error in its place and does
    /// not end the stream.
    pub fn list(&self) -> BoxStream<'static, Result<AccountRecord>> {
        let records = self.list_with_purged();
        records.filter(|record| std::future::ready(!matches!(record, Ok(r) if r.purged))).boxed()
    }

    /// The accounts of a domain that are in use, by name, at most `most` of them. Records that cannot
    /// be read are left out.
    ///
    /// # Errors
    /// What the store says.
    pub async fn accounts_in(&self, domain: &str, most: usize) -> Result<Vec<AccountName>> {
        let suffix = format!("@{}", path::encode(domain));
        let mut records = self.versions.all_where(ROOT, move |directory| directory.ends_with(&suffix));
        let mut found = Vec::new();
        while let Some((directory, newest)) = records.next().await {
            let newest = newest?;
            match decode(&directory, newest.version, &newest.bytes) {
                Ok(record) if record.is_active() => found.push(record.name),
                Ok(_) => {}
                Err(error) => tracing::warn!(%directory, %error, "an account record cannot be read"),
            }
            if found.len() >= most {
                break;
            }
        }
        Ok(found)
    }

    /// As [`Directory::list`], with those whose objects are being deleted, or were.
    pub fn list_with_purged(&self) -> BoxStream<'static, Result<AccountRecord>> {
        let records = self.versions.all(ROOT).map(|(directory, newest)| match newest {
            Ok(newest) => decode(&directory, newest.version, &newest.bytes),
            Err(e) => Err(e),
        });
        records.boxed()
    }

    /// Changes an account's record. `change` may run again, on a newer record, after a concurrent
    /// change; neither change is lost.
    ///
    /// # Errors
    /// `NotFound` if there is no such account; errors of `change`; `Retry` after too many
    /// concurrent changes.
    pub async fn update<T>(
        &self,
        name: &AccountName,
        mut change: impl FnMut(&mut AccountRecord) -> Result<T>,
    ) -> Result<T> {
        self.update_any(name, |record| {
            if !record.is_active() {
                return Err(Error::not_found(format!("there is no account {name}")));
            }
            change(record)
        })
        .await
    }

    pub(super) async fn update_any<T>(
        &self,
        name: &AccountName,
        mut change: impl FnMut(&mut AccountRecord) -> Result<T>,
    ) -> Result<T> {
        for _ in 0..limits::RECORD_ATTEMPTS {
            let found = self.newest_account(name).await?.filter(|record| !record.purged);
            let mut record = found.ok_or_else(|| Error::not_found(format!("there is no account {name}")))?;
            let before = record.slots.clone();
            let outcome = change(&mut record)?;
            record.version += 1;
            if self.put(&record).await? {
                if before.iter().any(|slot| !record.slots.contains(slot)) {
                    self.forget_before(&record).await?;
                }
                return Ok(outcome);
            }
        }
        Err(Error::retry(format!("too many concurrent changes of the record of {name}; retry")))
    }

    /// Removes an account: logins fail, mail for it is refused, its mail stays for the retention
    /// period.
    ///
    /// # Errors
    /// `NotFound` if there is no such account.
    pub async fn remove(&self, name: &AccountName) -> Result<()> {
        let now = self.clock.now();
        self.update(name, |record| {
            record.removed = Some(now);
            Ok(())
        })
        .await
    }

    /// Suspends an account: logins fail, and sessions end; its mail still arrives. Returns since
    /// when: an account that is suspended already stays so.
    ///
    /// # Errors
    /// `NotFound` if there is no such account.
    pub async fn suspend(&self, name: &AccountName) -> Result<Timestamp> {
        let now = self.clock.now();
        self.update(name, |record| Ok(*record.suspended.get_or_insert(now))).await
    }

    /// Lets logins to a suspended account in again; since when it was suspended, if it was.
    ///
    /// # Errors
    /// `NotFound` if there is no such account.
    pub async fn resume(&self, name: &AccountName) -> Result<Option<Timestamp>> {
        self.update(name, |record| Ok(record.suspended.take())).await
    }

    /// Brings a removed account back, with all its mail and passwords.
    ///
    /// # Errors
    /// `NotFound` if there is nothing to bring back, `Conflict` if it was not removed.
    pub async fn undelete(&self, name: &AccountName) -> Result<()> {
        self.update_any(name, |record| match record.removed.take() {
            Some(_) => Ok(()),
            None => Err(Error::conflict(format!("the account {name} was not removed"))),
        })
        .await
    }

    /// Deletes a removed account permanently: wipes its slots, which makes its mail unreadable, and
    /// frees the name. Returns the account whose objects may now be deleted. Only if it was removed
    /// before `removed_before`.
    ///
    /// # Errors
    /// `NotFound` if there is no such account, `Conflict` if it was not removed, or too recently.
    pub async fn purge(&self, name: &AccountName, removed_before: Timestamp) -> Result<AccountId> {
        self.update_any(name, |record| match record.removed {
            Some(removed) if removed < removed_before => {
                record.purged = true;
                record.slots.clear();
                record.slot_list = None;
                record.vacation = None;
                Ok(record.id)
            }
            Some(_) => Err(Error::conflict(format!("the account {name} was removed too recently"))),
            None => Err(Error::conflict(format!("the account {name} was not removed"))),
        })
        .await
    }

    /// The newest record of `name`, also one that was removed or purged.
    pub(super) async fn newest_account(&self, name: &AccountName) -> Result<Option<AccountRecord>> {
        let directory = directory(name);
        let Some(newest) = self.versions.newest(&directory).await? else { return Ok(None) };
        decode(&directory, newest.version, &newest.bytes).map(Some)
    }

    /// Writes `record` as its version; `false` if there is one already.
    pub(super) async fn put(&self, record: &AccountRecord) -> Result<bool> {
        self.versions.put_after(&directory(&record.name), record.version - 1, &encode(record)?).await
    }

    /// Removes the versions before `record`, which was just written: a slot that was withdrawn
    /// opens the mail for as long as there is a copy of it.
    async fn forget_before(&self, record: &AccountRecord) -> Result<()> {
        let (directory, bytes) = (directory(&record.name), encode(record)?);
        self.versions.forget_before(&directory, record.version, &bytes).await.map_err(|e| {
            let why = "the change is done, but the store may still hold a copy of the withdrawn secret: \
                       repeat the command";
            e.context(format!("{}: {why}", record.name))
        })
    }
}

fn directory(name: &AccountName) -> String {
    format!("{ROOT}/{}", path::encode(name.as_str()))
}

fn encode(record: &AccountRecord) -> Result<Vec<u8>> {
    minicbor::to_vec(record)
        .map_err(|e| Error::internal("an account record cannot be encoded").with_source(e.to_string()))
}

pub(super) fn decode(at: &str, version: u64, bytes: &[u8]) -> Result<AccountRecord> {
    let corrupt =
        |why: String| Error::corrupt(format!("the account record {at}/{version:016x}")).with_source(why);
    let undecodable = |e| Error::undecodable(format!("the account record {at}/{version:016x}"), e);
    let mut record: AccountRecord = minicbor::decode(bytes).map_err(undecodable)?;
    if directory(&record.name) != at {
        return Err(corrupt(format!("it is the record of {}", record.name)));
    }
    record.version = version;
    Ok(record)
}

/// The slots of a version of a record; `None` if it is none.
#[cfg(test)]
pub(super) fn slots_of(bytes: &[u8]) -> Option<Vec<Slot>> {
    minicbor::decode::<AccountRecord>(bytes).ok().map(|record| record.slots)
}
