//! Reads and writes the records of the last use of OAuth grants and web logins (`login_use.rs`).

use sealpost_base::{AccountId, Error, Result, limits};
use sealpost_vault::slot::SlotId;

use super::Directory;
use super::login_use::{HIDDEN_BYTES, LoginUse, Rotation, decode, directory, encode};

impl Directory {
    /// What was written down of the use of that slot; `None` if nothing was.
    ///
    /// # Errors
    /// What the store says; `Corrupt` if the record is not one of this server's.
    pub async fn login_use(&self, account: AccountId, slot: SlotId) -> Result<Option<LoginUse>> {
        let directory = directory(account, slot);
        let Some(newest) = self.versions.newest_despite_noise(&directory).await? else { return Ok(None) };
        let hidden = newest.bytes.get(..HIDDEN_BYTES).unwrap_or_default();
        let plain = self.versions.reveal(&directory, hidden)?;
        let (generation, used) =
            decode(&plain).ok_or_else(|| Error::corrupt(format!("the record {directory} cannot be read")))?;
        Ok(Some(LoginUse { generation, used, version: newest.version }))
    }

    /// Writes down that a web login was used now, unless another node has just done so.
    ///
    /// # Errors
    /// As [`Directory::login_use`].
    pub async fn note_login_use(&self, account: AccountId, slot: SlotId) -> Result<()> {
        let before = self.login_use(account, slot).await?;
        self.put_login_use(account, slot, before, before.map_or(0, |before| before.generation)).await?;
        Ok(())
    }

    /// A client shows the code or refresh token of that generation, whose secret has opened the slot.
    ///
    /// # Errors
    /// As [`Directory::login_use`]; `Retry` if others change it all the time.
    pub async fn rotate_grant(&self, account: AccountId, slot: SlotId, generation: u64) -> Result<Rotation> {
        for _ in 0..limits::RECORD_ATTEMPTS {
            let before = self.login_use(account, slot).await?;
            let newest = before.map_or(0, |before| before.generation);
            // A store that was restored knows an earlier generation than the client.
            if generation >= newest {
                let next = generation.saturating_add(1);
                match self.put_login_use(account, slot, before, next).await? {
                    true => return Ok(Rotation::Next(next)),
                    false => continue,
                }
            }
            let grace_end = before.map_or(0, |before| before.used.0)
                + i64::try_from(limits::OAUTH_REFRESH_GRACE.as_millis()).unwrap_or(0);
            // RFC 6749 §4.1.2: a code is used once, without grace.
            let is_repeated = generation > 0 && generation + 1 == newest && self.clock.now().0 <= grace_end;
            return Ok(if is_repeated { Rotation::Repeated(newest) } else { Rotation::Reused });
        }
        Err(Error::retry("too many concurrent uses of one grant; retry"))
    }

    async fn put_login_use(
        &self,
        account: AccountId,
        slot: SlotId,
        before: Option<LoginUse>,
        generation: u64,
    ) -> Result<bool> {
        let directory = directory(account, slot);
        let hidden = self.versions.hide(&directory, &encode(generation, self.clock.now()));
        self.versions.put_after(&directory, before.map_or(0, |before| before.version), &hidden).await
    }

    /// Removes what was written down of slots that were revoked. What stays says nothing any more.
    pub(super) async fn forget_login_uses(&self, account: AccountId, slots: &[SlotId]) {
        for slot in slots {
            if let Err(error) = self.delete_below(&directory(account, *slot)).await {
                tracing::debug!(%error, "the record of a revoked login is still there");
            }
        }
    }
}
