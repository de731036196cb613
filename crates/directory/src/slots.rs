//! The slots of an account: its password, app passwords, recovery code.
//!
//! A change of a secret needs the account opened with another one: there is no way around the
//! owner's key, also not for the operator.

use sealpost_base::{AccountId, Error, Kind, Result, limits};
use sealpost_vault::RootKey;
use sealpost_vault::slot::{PasswordParams, Slot, SlotId, SlotKind, SlotList, SlotTrust};
use zeroize::Zeroizing;

use super::record::is_revocable;
use super::{AccountName, AccountRecord, AppPassword, Directory, Secret};

impl Directory {
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

    pub(super) async fn password_slot(
        &self,
        root: &RootKey,
        id: AccountId,
        password: Secret,
    ) -> Result<Slot> {
        let (root, random, now) = (root.clone(), self.random.clone(), self.clock.now());
        blocking(move || {
            let slot = Slot::password(&root, id, password.bytes(), PasswordParams::default(), &*random);
            slot.labelled(None, now).tagged(&root, id)
        })
        .await
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

/// What the watermarks call the lists of slots of an account.
fn slot_lists(account: AccountId) -> String {
    format!("slots/{account}")
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Error::new(Kind::Internal, "a password check did not finish").with_source(e))
}
