//! Another root key for an account, sealed to the secrets that are known to be its owner's.

use sealpost_base::{Error, Result};
use sealpost_vault::slot::Slot;
use sealpost_vault::{EarlierKeys, Epoch, RootKey};

use super::accounts::{Rekeyed, UnverifiedSlots};
use super::slots::owned;
use super::{AccountName, Directory, SlotInfo};

impl Directory {
    /// Gives the account a new root key and a new key pair for later deliveries: an attacker with
    /// an earlier copy and a password of that time cannot open it. Passwords, app passwords and the
    /// recovery code stay as they are; earlier mail stays readable by its own keys. OAuth grants and
    /// web logins end: a thief of the password may have made them. The new key is sealed to verified
    /// slots alone: the others may be planted. Sessions that use the account with the old key have
    /// to log in again.
    ///
    /// # Errors
    /// As [`Directory::set_password`]; `Limit` if that was done too often; `Conflict` if there are
    /// slots without a right tag and they are not to be removed.
    pub async fn rekey(
        &self,
        name: &AccountName,
        root: &RootKey,
        unverified: UnverifiedSlots,
    ) -> Result<Rekeyed> {
        let next = root.next(&*self.random);
        let next =
            next.ok_or_else(|| Error::limit(format!("{name} was given {} keys already", Epoch::LAST.0)))?;
        let id = self.get(name).await?.id;
        let (public, earlier) =
            (next.delivery_key(id), EarlierKeys::of(&next, id, &*self.random).map(Box::new));
        let removed = self.update(name, |record| {
            owned(record, id, root)?;
            let ended = record.take_logins();
            let removed: Vec<_> = record.unverified(root).map(SlotInfo::of).collect();
            if unverified == UnverifiedSlots::Refuse && !removed.is_empty() {
                return Err(refused(name, &removed));
            }
            let verified: Vec<_> =
                record.slots.iter().filter(|slot| record.is_verified(root, slot)).cloned().collect();
            record.slots = verified;
            if record.slots.is_empty() {
                let why =
                    "no slot of it is verified: log in once, or change the password, and repeat the command";
                return Err(Error::conflict(format!("{name}: {why}")));
            }
            let resealed = |slot: &Slot| Ok(slot.reseal(&next, id, &*self.random)?.tagged(&next, id));
            record.slots = record.slots.iter().map(resealed).collect::<Result<_>>()?;
            (record.public, record.earlier) = (public, earlier.clone());
            record.slot_list = None;
            let list = record.list_slots(&next, None);
            Ok((removed, record.slots.iter().map(SlotInfo::of).collect(), ended, list))
        });
        let (removed, kept, ended, list) = removed.await?;
        self.saw_slot_list(id, list);
        self.forget_login_uses(id, &ended).await;
        Ok(Rekeyed { root: next, removed, kept, ended: ended.len() })
    }
}

fn refused(name: &AccountName, slots: &[SlotInfo]) -> Error {
    let named: Vec<_> = slots.iter().map(SlotInfo::to_string).collect();
    Error::conflict(format!(
        "{name} has slots that may have been planted: {}. No new key is sealed to them. Log in once with each app password that you use, \
         make a new recovery code (sealpost account recovery), revoke what you do not know, and repeat the command; or repeat it \
         with --remove-unverified, which removes them",
        named.join(", ")
    ))
}
