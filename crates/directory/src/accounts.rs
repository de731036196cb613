//! Accounts: made, listed, changed, removed; and the slots that open them.
//!
//! A change of a secret needs the account opened with another one: there is no way around the
//! owner's key, also not for the operator.

use futures::StreamExt;
use futures::stream::BoxStream;
use sealpost_base::{AccountId, Error, Kind, Result, Timestamp, limits};
use sealpost_vault::RootKey;
use sealpost_vault::slot::{PasswordParams, Slot, SlotId, SlotKind, SlotList, SlotTrust};
use zeroize::Zeroizing;

use super::record::is_revocable;
use super::{AccountName, AccountRecord, AppPassword, Directory, Role, Secret, SlotInfo, path};

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
            let _ = self.versions.store().gives_out().await;
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

    async fn update_any<T>(
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

    /// Opens an account with its password, a token or the recovery code; for commands, as logins go
    /// through the server's authenticator. Takes as long as a password check.
    ///
    /// # Errors
    /// `NotFound` if there is no such account, `Denied` if nothing opens with the secret.
    pub async fn unlock(&self, name: &AccountName, secret: Secret) -> Result<(AccountRecord, RootKey)> {
        let record = self.get(name).await?;
        let (open, slots) = (record.opener(), record.slots.clone());
        let opened = blocking(move || slots.iter().find_map(|slot| open(slot, secret.bytes()))).await?;
        match opened {
            Some(opened) => Ok((record, opened.root)),
            None => Err(Error::denied(format!("wrong password for {name}"))),
        }
    }

    /// Replaces the password, and ends the OAuth grants and web logins: a thief of the password may
    /// have made them. Returns how many. The mail, the app passwords and the recovery code stay as
    /// they are.
    ///
    /// # Errors
    /// `NotFound` if there is no such account, `Denied` if `root` is not its key.
    pub async fn set_password(&self, name: &AccountName, root: &RootKey, password: Secret) -> Result<usize> {
        let id = self.get(name).await?.id;
        let slot = self.password_slot(root, id, password).await?;
        let ended = self.replace(name, root, id, slot, AccountRecord::take_logins).await?;
        self.forget_login_uses(id, &ended).await;
        Ok(ended.len())
    }

    /// Gives `slot`, which its secret has just opened and which publishes the key of that secret, a
    /// tag under `root`, the key that was in it. That shows that it is the owner's; nothing else
    /// does, of a slot that came without a tag.
    ///
    /// # Errors
    /// `NotFound` if there is no such account, `Conflict` if it has no such slot any more.
    pub async fn verify_slot(&self, name: &AccountName, root: &RootKey, slot: &Slot) -> Result<()> {
        let noted = self.update(name, |record| {
            let (id, found) = (record.id, record.slots.iter_mut().find(|known| *known == slot));
            let found = found.ok_or_else(|| Error::conflict(format!("the record of {name} has changed")))?;
            *found = slot.clone().tagged(root, id);
            let is_right = record.slot_list.as_deref().is_none_or(|list| list.is_authentic(root, id));
            Ok((id, is_right.then(|| record.list_slots(root, None))))
        });
        if let (id, Some(list)) = noted.await? {
            self.saw_slot_list(id, list);
        }
        Ok(())
    }

    /// Makes the list of slots of an account say which slots it has, if it does not: an earlier
    /// version made the record, or an app password was revoked, which takes no key.
    ///
    /// # Errors
    /// As [`Directory::set_password`].
    pub async fn list_slots(&self, name: &AccountName, root: &RootKey) -> Result<()> {
        let (id, list) = self
            .update(name, |record| {
                owned(record, record.id, root)?;
                Ok((record.id, record.list_slots(root, None)))
            })
            .await?;
        self.saw_slot_list(id, list);
        Ok(())
    }

    /// Whether the record has the list of slots that this node saw last of the account, or a later
    /// one: a process that has `server.key` can put an earlier record back as a new version.
    ///
    /// # Errors
    /// `Retry` if it is an earlier list, or none, or the record has changed since it was read.
    pub async fn check_slot_list(&self, record: &AccountRecord, root: &RootKey) -> Result<()> {
        let list = record.slot_list.as_deref();
        let number = list.filter(|list| list.is_authentic(root, record.id)).map(SlotList::number);
        let (watermarks, lists) = (&self.versions.watermarks, slot_lists(record.id));
        if watermarks.is_behind(&lists, number)
            && self.newest_account(&record.name).await?.is_none_or(|newest| newest.version != record.version)
        {
            return Err(Error::retry(format!("the record of {} has just changed", record.name)));
        }
        watermarks.record(&lists, number)
    }

    /// This process has made that list, with the account's key: what others made may have any number.
    pub(super) fn saw_slot_list(&self, account: AccountId, number: u64) {
        let _ = self.versions.watermarks.record(&slot_lists(account), Some(number));
        self.versions.watermarks.wrote();
    }

    /// Makes a recovery code, which replaces the one before, and returns it.
    ///
    /// # Errors
    /// As [`Directory::set_password`].
    pub async fn set_recovery(&self, name: &AccountName, root: &RootKey) -> Result<Zeroizing<String>> {
        let id = self.get(name).await?.id;
        let (slot, code) = Slot::recovery(root, id, &*self.random);
        let slot = slot.labelled(None, self.clock.now()).tagged(root, id);
        self.replace(name, root, id, slot, |_| ()).await?;
        Ok(code)
    }

    /// Makes an app password and returns it with its secret, which is shown this once.
    ///
    /// # Errors
    /// As [`Directory::set_password`]; `Limit` beyond [`limits::ACCOUNT_APP_PASSWORDS`], `Invalid`
    /// for a label that is empty, too long or has control characters.
    pub async fn add_app_password(
        &self,
        name: &AccountName,
        root: &RootKey,
        label: &str,
    ) -> Result<(AppPassword, Zeroizing<String>)> {
        if label.is_empty() || label.len() > limits::TOKEN_LABEL_BYTES || label.chars().any(char::is_control)
        {
            return Err(Error::invalid("the label of an app password must be a short text"));
        }
        let id = self.get(name).await?.id;
        let (slot, secret) = Slot::token(root, id, name.as_str(), &*self.random);
        let slot = slot.labelled(Some(label.to_owned()), self.clock.now()).tagged(root, id);
        let listed = self.update(name, |record| {
            owned(record, id, root)?;
            if record.app_passwords().count() >= limits::ACCOUNT_APP_PASSWORDS {
                return Err(Error::limit(format!(
                    "an account has at most {} app passwords; revoke one first",
                    limits::ACCOUNT_APP_PASSWORDS
                )));
            }
            record.slots.push(slot.clone());
            Ok(record.list_slots(root, Some(slot.id())))
        });
        self.saw_slot_list(id, listed.await?);
        let kind = SlotKind::Token;
        Ok((AppPassword { id: slot.id(), kind, label: label.to_owned(), created: slot.created() }, secret))
    }

    /// Revokes an app password, an OAuth grant or a web login; logins with it fail from now on. Also of a
    /// removed account, which can be brought back with all others.
    ///
    /// # Errors
    /// `NotFound` if there is no such account or login.
    pub async fn revoke_app_password(&self, name: &AccountName, id: SlotId) -> Result<()> {
        let revoked = self.update_any(name, |record| {
            let is_it = |slot: &Slot| slot.id() == id && is_revocable(slot.kind());
            let kind = record.slots.iter().find(|slot| is_it(slot)).map(Slot::kind);
            let kind = kind.ok_or_else(|| Error::not_found(format!("{name} has no app password {id}")))?;
            record.slots.retain(|slot| !is_it(slot));
            Ok((record.id, kind))
        });
        let (account, kind) = revoked.await?;
        if kind != SlotKind::Token {
            self.forget_login_uses(account, &[id]).await;
        }
        Ok(())
    }

    /// Puts `slot` in the place of all of its kind; `also` changes the same version of the record.
    async fn replace<T>(
        &self,
        name: &AccountName,
        root: &RootKey,
        id: AccountId,
        slot: Slot,
        also: impl Fn(&mut AccountRecord) -> T,
    ) -> Result<T> {
        let replaced = self.update(name, |record| {
            owned(record, id, root)?;
            let outcome = also(record);
            record.slots.retain(|other| other.kind() != slot.kind());
            record.slots.push(slot.clone());
            Ok((outcome, record.list_slots(root, Some(slot.id()))))
        });
        let (outcome, list) = replaced.await?;
        self.saw_slot_list(id, list);
        Ok(outcome)
    }

    async fn password_slot(&self, root: &RootKey, id: AccountId, password: Secret) -> Result<Slot> {
        let (root, random, now) = (root.clone(), self.random.clone(), self.clock.now());
        blocking(move || {
            let slot = Slot::password(&root, id, password.bytes(), PasswordParams::default(), &*random);
            slot.labelled(None, now).tagged(&root, id)
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

/// A slot for another key than the account's would lock its owner out. A public key that others
/// have put there is put right: a tag shows which key the account has.
pub(super) fn owned(record: &mut AccountRecord, id: AccountId, root: &RootKey) -> Result<()> {
    let public = root.delivery_key(id);
    let is_verified = |slot: &Slot| slot.trust(root, id) == SlotTrust::Verified;
    if record.id != id || record.public != public && !record.slots.iter().any(is_verified) {
        return Err(Error::denied(format!("wrong key for the account {}", record.name)));
    }
    if record.public != public {
        tracing::error!(account = %record.name, "the record had another public key than the account; it is put right");
        record.public = public;
    }
    Ok(())
}

fn directory(name: &AccountName) -> String {
    format!("{ROOT}/{}", path::encode(name.as_str()))
}

/// What the watermarks call the lists of slots of an account.
fn slot_lists(account: AccountId) -> String {
    format!("slots/{account}")
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

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Error::new(Kind::Internal, "a password check did not finish").with_source(e))
}
