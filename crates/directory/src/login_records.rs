//! Reads and writes the records of the last use of OAuth grants and web logins (`login_use.rs`).

use sealpost_base::{AccountId, Error, Result, limits};
use sealpost_vault::AppendMode;
use sealpost_vault::slot::SlotId;

use super::login_use::{HIDDEN_BYTES, LoginUse, Rotation, decode, directory, encode};
use super::{AccountRecord, Directory};

impl Directory {
    /// What was written down of the use of that slot; `None` if nothing was. It may be older than what this
    /// node has seen, if an attacker has removed the rest; then the login ends sooner.
    ///
    /// # Errors
    /// What the store says; `Corrupt` if the record is not one of this server's.
    pub async fn login_use(&self, account: AccountId, slot: SlotId) -> Result<Option<LoginUse>> {
        Ok(self.login_use_and_seen(account, slot).await?.0)
    }

    /// The same, and the version of the record that this node had seen before.
    async fn login_use_and_seen(
        &self,
        account: AccountId,
        slot: SlotId,
    ) -> Result<(Option<LoginUse>, Option<u64>)> {
        let directory = directory(account, slot);
        let seen = self.versions.watermarks.version_of(&directory);
        let mut newest = self.versions.newest_despite_noise(&directory).await?;
        if self.versions.is_doubtful(seen, newest.as_ref()) {
            newest = self.versions.newest_despite_noise(&directory).await?;
        }
        let Some(newest) = newest else { return Ok((None, seen)) };
        let hidden = newest.bytes.get(..HIDDEN_BYTES).unwrap_or_default();
        let plain = self.versions.reveal(&directory, hidden)?;
        let (generation, used) =
            decode(&plain).ok_or_else(|| Error::corrupt(format!("the record {directory} cannot be read")))?;
        Ok((Some(LoginUse { generation, used, version: newest.version }), seen))
    }

    /// Writes down that a web login was used now, unless another node has just done so.
    ///
    /// # Errors
    /// As [`Directory::login_use`].
    pub async fn note_login_use(&self, account: AccountId, slot: SlotId) -> Result<()> {
        let (before, seen) = self.login_use_and_seen(account, slot).await?;
        let generation = before.map_or(0, |before| before.generation);
        let version = before.map_or(0, |before| before.version);
        // What is behind a record that went back is the next one. With ballots it follows what is there.
        let seen = seen.filter(|_| self.versions.store().append_mode() == AppendMode::Conditional);
        self.put_login_use(account, slot, seen.unwrap_or(0).max(version), generation).await?;
        Ok(())
    }

    /// A client shows the code or refresh token of that generation, whose secret has opened the slot of the
    /// account as `record` says.
    ///
    /// # Errors
    /// As [`Directory::login_use`]; `Retry` if others change it all the time, or if the record of its use has
    /// gone back: an earlier refresh token would be good again.
    pub async fn rotate_grant(
        &self,
        record: &AccountRecord,
        slot: SlotId,
        generation: u64,
    ) -> Result<Rotation> {
        let account = record.id;
        for _ in 0..limits::RECORD_ATTEMPTS {
            let (before, seen) = self.login_use_and_seen(account, slot).await?;
            let version = before.map(|before| before.version);
            if version < seen {
                // A record is deleted with its slot, perhaps by another node a moment ago.
                if !self.has_slot(record, slot).await? {
                    return Ok(Rotation::Ended);
                }
                self.versions.watermarks.record_since(&directory(account, slot), seen, version)?;
            }
            let version = version.unwrap_or(0);
            let newest = before.map_or(0, |before| before.generation);
            // A store that was restored knows an earlier generation than the client.
            if generation >= newest {
                let next = generation.saturating_add(1);
                match self.put_login_use(account, slot, version, next).await? {
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
        version: u64,
        generation: u64,
    ) -> Result<bool> {
        let directory = directory(account, slot);
        let hidden = self.versions.hide(&directory, &encode(generation, self.clock.now()));
        self.versions.put_after(&directory, version, &hidden).await
    }

    /// Whether the account has that slot now.
    async fn has_slot(&self, record: &AccountRecord, slot: SlotId) -> Result<bool> {
        let newest = self.newest_account(&record.name).await?;
        Ok(newest.is_some_and(|newest| {
            newest.id == record.id && newest.slots.iter().any(|other| other.id() == slot)
        }))
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
