//! OAuth grants and web logins: slots that a consent or a login in a browser makes, and that end
//! when they are revoked or were not used for too long.

use sealpost_base::{AccountId, Error, Result, Timestamp, limits};
use sealpost_vault::RootKey;
use sealpost_vault::slot::{Slot, SlotId, SlotKind, SlotSecret};
use zeroize::Zeroizing;

use super::slots::owned;
use super::{AccountRecord, Directory};

/// A login of an account, and when it was used last.
struct Used {
    id: SlotId,
    at: Timestamp,
    is_over: bool,
}

impl Directory {
    /// Makes a grant for the client that is called `label`; its secret belongs into sealed tokens.
    /// `opened` is the account as the password has opened it.
    ///
    /// # Errors
    /// As [`Directory::set_password`]; `Denied` also if that password is not its own any more;
    /// `Limit` beyond [`limits::ACCOUNT_GRANTS`].
    pub async fn add_grant(
        &self,
        opened: &AccountRecord,
        root: &RootKey,
        label: &str,
    ) -> Result<(AccountId, SlotId, SlotSecret)> {
        let (slot, secret) = Slot::grant(root, opened.id, &*self.random);
        let id = self.add_login(opened, root, slot, label).await?;
        Ok((opened.id, id, secret))
    }

    /// Makes a web login for the browser that is called `label`, and returns its slot and the value of
    /// its cookie. Beyond [`limits::ACCOUNT_WEB_LOGINS`] it takes the place of the one that was used
    /// least lately.
    ///
    /// # Errors
    /// As [`Directory::add_grant`], without `Limit`.
    pub async fn add_web_login(
        &self,
        opened: &AccountRecord,
        root: &RootKey,
        label: &str,
    ) -> Result<(SlotId, Zeroizing<String>)> {
        let (slot, cookie) = Slot::web_login(root, opened.id, opened.name.as_str(), &*self.random);
        Ok((self.add_login(opened, root, slot, label).await?, cookie))
    }

    async fn add_login(
        &self,
        opened: &AccountRecord,
        root: &RootKey,
        slot: Slot,
        label: &str,
    ) -> Result<SlotId> {
        let (id, kind, name) = (opened.id, slot.kind(), &opened.name);
        let record = self.get(name).await?;
        let slot = slot.labelled(Some(label.to_owned()), self.clock.now()).tagged(root, id);
        let most = if kind == SlotKind::Grant { limits::ACCOUNT_GRANTS } else { limits::ACCOUNT_WEB_LOGINS };
        let mut removed = Vec::new();
        if of_kind(&record, kind).count() >= most {
            removed = self.logins_to_remove(&record, kind).await?;
        }
        let listed = self.update(name, |record| {
            owned(record, id, root)?;
            // A password change ends these logins: none may come after it by the password before.
            let is_left = |slot: &Slot| record.slots.iter().any(|other| other.id() == slot.id());
            if !of_kind(opened, SlotKind::Password).all(is_left) {
                return Err(Error::denied(format!("the password of {name} has just changed")));
            }
            record.slots.retain(|slot| !removed.contains(&slot.id()));
            if of_kind(record, kind).count() >= most {
                let why = "an account has at most so many OAuth grants and web logins; revoke one first";
                return Err(Error::limit(format!("{name}: {why} ({most})")));
            }
            record.slots.push(slot.clone());
            Ok(record.list_slots(root, Some(slot.id())))
        });
        self.saw_slot_list(id, listed.await?);
        self.forget_login_uses(id, &removed).await;
        Ok(slot.id())
    }

    /// Logins of that kind to remove for a new one: all that are over; of web logins else the one that
    /// was used least lately.
    async fn logins_to_remove(&self, record: &AccountRecord, kind: SlotKind) -> Result<Vec<SlotId>> {
        let mut used = self.uses(record, kind).await?;
        let over: Vec<SlotId> = used.iter().filter(|login| login.is_over).map(|login| login.id).collect();
        if !over.is_empty() || kind == SlotKind::Grant {
            return Ok(over);
        }
        used.sort_by_key(|login| login.at);
        Ok(used.first().map(|login| login.id).into_iter().collect())
    }

    /// Removes the grants and web logins of an account that are over; how many.
    ///
    /// # Errors
    /// What the store says.
    pub(super) async fn remove_unused_logins(&self, record: &AccountRecord) -> Result<usize> {
        if !record.is_active() {
            return Ok(0);
        }
        let mut over = Vec::new();
        for kind in [SlotKind::Grant, SlotKind::WebLogin] {
            // Servers ask for all accounts again and again: no record is read for logins that are new.
            let is_old = |slot: &Slot| slot.created().is_none_or(|made| self.is_idle(kind, made));
            if of_kind(record, kind).any(is_old) {
                over.extend(self.uses(record, kind).await?.into_iter().filter(|login| login.is_over));
            }
        }
        if over.is_empty() {
            return Ok(0);
        }
        let is_over = |slot: &Slot| over.iter().any(|login| login.id == slot.id());
        self.update(&record.name, |record| {
            record.slots.retain(|slot| !is_over(slot));
            Ok(())
        })
        .await?;
        let over: Vec<SlotId> = over.iter().map(|login| login.id).collect();
        self.forget_login_uses(record.id, &over).await;
        Ok(over.len())
    }

    async fn uses(&self, record: &AccountRecord, kind: SlotKind) -> Result<Vec<Used>> {
        let mut uses = Vec::new();
        for slot in of_kind(record, kind) {
            let made = slot.created().unwrap_or(Timestamp(0));
            // One that is new was not written down yet, and cannot be over.
            let written = match self.is_past(made, limits::OAUTH_CODE_LIFETIME) {
                true => self.login_use(record.id, slot.id()).await?,
                false => None,
            };
            let at = written.map_or(made, |written| written.used.max(made));
            // A code that no client has exchanged is a grant that was never used.
            let is_unclaimed = kind == SlotKind::Grant
                && written.is_none()
                && self.is_past(made, limits::OAUTH_CODE_LIFETIME);
            uses.push(Used { id: slot.id(), at, is_over: is_unclaimed || self.is_idle(kind, at) });
        }
        Ok(uses)
    }

    /// Whether a login of that kind, which was used last at `used`, is over.
    pub fn is_idle(&self, kind: SlotKind, used: Timestamp) -> bool {
        match kind {
            SlotKind::Grant => self.is_past(used, limits::GRANT_IDLE),
            SlotKind::WebLogin => self.is_past(used, limits::WEB_LOGIN_IDLE),
            SlotKind::Password | SlotKind::Token | SlotKind::Recovery => false,
        }
    }

    fn is_past(&self, since: Timestamp, time: std::time::Duration) -> bool {
        self.clock.now() > since.after(time)
    }
}

fn of_kind(record: &AccountRecord, kind: SlotKind) -> impl Iterator<Item = &Slot> {
    record.slots.iter().filter(move |slot| slot.kind() == kind)
}
