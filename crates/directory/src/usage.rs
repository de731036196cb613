//! What an account may hold, and how much it holds as far as that is known without its key (RFC 9208).
//!
//! The limits are in the account's record. How much an account holds its owner's sessions write
//! down when they end, and deliveries add what came since: `usage/{account id}/{version:016x}`, a
//! record like the others (`docs/format/accounts.md`). What is in none of them is counted
//! (`sealpost_account::usage`). How exact that is: `docs/decisions/0015-mailboxes-and-quota.md`.

use sealpost_base::{AccountId, Error, Result, Timestamp, limits};
use sealpost_vault::{Store, record};

use super::{AccountRecord, Directory};

const ROOT: &str = "usage";

/// A resource that can be limited (RFC 9208 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Bytes of messages.
    Storage,
    /// Messages, each counted in every mailbox that it is in.
    Messages,
    /// Mailboxes.
    Mailboxes,
    /// Bytes of metadata.
    Annotations,
}

/// How much there may be of each; `None`: any number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Bytes of messages.
    pub storage: Option<u64>,
    /// Messages.
    pub messages: Option<u64>,
    /// Mailboxes.
    pub mailboxes: Option<u64>,
    /// Bytes of metadata.
    pub annotations: Option<u64>,
}

/// How much there is of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of messages.
    pub storage: u64,
    /// Messages.
    pub messages: u64,
    /// Mailboxes.
    pub mailboxes: u64,
    /// Bytes of metadata.
    pub annotations: u64,
}

impl Resource {
    /// All of them.
    pub const ALL: [Resource; 4] =
        [Resource::Storage, Resource::Messages, Resource::Mailboxes, Resource::Annotations];
}

impl Usage {
    /// Messages of so many bytes together.
    pub fn of_messages(messages: u64, storage: u64) -> Self {
        Usage { storage, messages, ..Usage::default() }
    }

    /// How much there is of a resource.
    pub fn of(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Storage => self.storage,
            Resource::Messages => self.messages,
            Resource::Mailboxes => self.mailboxes,
            Resource::Annotations => self.annotations,
        }
    }

    /// This without `less`.
    #[must_use]
    pub fn without(self, less: Usage) -> Self {
        Usage {
            storage: self.storage.saturating_sub(less.storage),
            messages: self.messages.saturating_sub(less.messages),
            mailboxes: self.mailboxes.saturating_sub(less.mailboxes),
            annotations: self.annotations.saturating_sub(less.annotations),
        }
    }

    /// Of each whichever is more.
    #[must_use]
    pub fn max(self, other: Usage) -> Self {
        Usage {
            storage: self.storage.max(other.storage),
            messages: self.messages.max(other.messages),
            mailboxes: self.mailboxes.max(other.mailboxes),
            annotations: self.annotations.max(other.annotations),
        }
    }

    /// This and `more`.
    #[must_use]
    pub fn with(self, more: Usage) -> Self {
        Usage {
            storage: self.storage.saturating_add(more.storage),
            messages: self.messages.saturating_add(more.messages),
            mailboxes: self.mailboxes.saturating_add(more.mailboxes),
            annotations: self.annotations.saturating_add(more.annotations),
        }
    }
}

impl Quotas {
    /// How much there may be of a resource.
    pub fn of(&self, resource: Resource) -> Option<u64> {
        match resource {
            Resource::Storage => self.storage,
            Resource::Messages => self.messages,
            Resource::Mailboxes => self.mailboxes,
            Resource::Annotations => self.annotations,
        }
    }

    /// Says how much there may be of a resource.
    pub fn set(&mut self, resource: Resource, limit: Option<u64>) {
        *match resource {
            Resource::Storage => &mut self.storage,
            Resource::Messages => &mut self.messages,
            Resource::Mailboxes => &mut self.mailboxes,
            Resource::Annotations => &mut self.annotations,
        } = limit;
    }

    /// Whether anything about messages is limited.
    pub fn limit_messages(&self) -> bool {
        self.storage.is_some() || self.messages.is_some()
    }

    /// The first resource of which there would be too much if `more` came to `used`. What does not
    /// become more is never too much: an account over its limits can be tidied up.
    pub fn exceeded(&self, used: Usage, more: Usage) -> Option<Resource> {
        let after = used.with(more);
        Resource::ALL
            .into_iter()
            .find(|r| more.of(*r) > 0 && self.of(*r).is_some_and(|limit| after.of(*r) > limit))
    }
}

impl AccountRecord {
    /// What the account may hold.
    pub fn quotas(&self) -> Quotas {
        Quotas {
            storage: self.quota,
            messages: self.quota_messages,
            mailboxes: self.quota_mailboxes,
            annotations: self.quota_annotations,
        }
    }

    /// Says what the account may hold.
    pub fn set_quotas(&mut self, quotas: Quotas) {
        self.quota = quotas.storage;
        self.quota_messages = quotas.messages;
        self.quota_mailboxes = quotas.mailboxes;
        self.quota_annotations = quotas.annotations;
    }
}

/// How much an account held when that was last written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageRecord {
    /// How much that was.
    pub usage: Usage,
    /// It includes all deliveries until then, by any process; else the deliveries of one process
    /// were added to the record before.
    pub complete: bool,
    /// Of this record.
    pub version: u64,
}

/// The size of a sealed record: the same for all, with any content.
const HIDDEN_BYTES: usize = record::HIDDEN_OVERHEAD_BYTES + 4 * 8 + 1;

/// What is hidden: four numbers and a flag.
fn encode(usage: Usage, complete: bool) -> Vec<u8> {
    let Usage { storage, messages, mailboxes, annotations } = usage;
    let numbers = [storage, messages, mailboxes, annotations];
    let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_be_bytes).collect();
    bytes.push(u8::from(complete));
    bytes
}

fn decode(bytes: &[u8]) -> Option<(Usage, bool)> {
    let (numbers, [complete @ 0..=1]) = bytes.split_at_checked(4 * 8)? else { return None };
    let (numbers, _) = numbers.as_chunks::<8>();
    let [storage, messages, mailboxes, annotations] =
        <[_; 4]>::try_from(numbers).ok()?.map(u64::from_be_bytes);
    Some((Usage { storage, messages, mailboxes, annotations }, *complete == 1))
}

impl Directory {
    /// What was last written down of how much an account holds; `None` if nothing ever was, or this
    /// node has seen a later record than what is there.
    ///
    /// # Errors
    /// What the store says; `Corrupt` if the record is not one of this server's.
    pub async fn usage_record(&self, account: AccountId) -> Result<Option<UsageRecord>> {
        Ok(self.last_usage(account).await?.0)
    }

    /// The same, and the version behind which the next one is written.
    async fn last_usage(&self, account: AccountId) -> Result<(Option<UsageRecord>, u64)> {
        let (newest, after) = self.versions.newest_unless_back(&directory(account)).await?;
        let Some(newest) = newest else { return Ok((None, after)) };
        let hidden = newest.bytes.get(..HIDDEN_BYTES).unwrap_or_default();
        let plain = self.versions.reveal(&directory(account), hidden)?;
        let (usage, complete) =
            decode(&plain).ok_or_else(|| Error::corrupt("a usage record cannot be read"))?;
        Ok((Some(UsageRecord { usage, complete, version: newest.version }), after))
    }

    /// When its versions were written, by the store's clock; the versions that are listed, which
    /// may be planted.
    ///
    /// # Errors
    /// What the store says.
    pub async fn usage_written(&self, account: AccountId) -> Result<Vec<(u64, Timestamp)>> {
        self.versions.written(&directory(account)).await
    }

    /// Writes down how much an account holds now, all that has come included; the record.
    ///
    /// # Errors
    /// What the store says; `Retry` if others write all the time.
    pub async fn record_usage(&self, account: AccountId, usage: Usage) -> Result<UsageRecord> {
        self.change_usage(account, true, |_| usage).await
    }

    /// Adds what one process has delivered to what is written down; the record.
    ///
    /// # Errors
    /// As [`Directory::record_usage`].
    pub async fn add_usage(&self, account: AccountId, more: Usage) -> Result<UsageRecord> {
        self.change_usage(account, false, |before| before.with(more)).await
    }

    async fn change_usage(
        &self,
        account: AccountId,
        complete: bool,
        change: impl Fn(Usage) -> Usage,
    ) -> Result<UsageRecord> {
        for _ in 0..limits::RECORD_ATTEMPTS {
            let (before, after) = self.last_usage(account).await?;
            let usage = change(before.map_or(Usage::default(), |record| record.usage));
            if let Some(record) = self.put_usage_after(account, after, usage, complete).await? {
                return Ok(record);
            }
        }
        Err(Error::retry("too many concurrent changes of the usage record of an account; retry"))
    }

    /// Writes down what was counted on the basis of `before`, all that has come included; `None` if
    /// another writer was first.
    ///
    /// # Errors
    /// What the store says.
    pub async fn put_counted_usage(
        &self,
        account: AccountId,
        before: Option<UsageRecord>,
        usage: Usage,
    ) -> Result<Option<UsageRecord>> {
        let (newest, after) = self.last_usage(account).await?;
        if newest != before {
            return Ok(None);
        }
        self.put_usage_after(account, after, usage, true).await
    }

    async fn put_usage_after(
        &self,
        account: AccountId,
        version: u64,
        usage: Usage,
        complete: bool,
    ) -> Result<Option<UsageRecord>> {
        let directory = directory(account);
        let hidden = self.versions.hide(&directory, &encode(usage, complete));
        let is_written = self.versions.put_after(&directory, version, &hidden).await?;
        Ok(is_written.then_some(UsageRecord { usage, complete, version: version + 1 }))
    }

    /// The store that it is in.
    pub fn store(&self) -> &Store {
        self.versions.store()
    }
}

/// Where the records of an account are.
pub(super) fn directory(account: AccountId) -> String {
    format!("{ROOT}/{account}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_growing_resources_can_exceed_a_quota() {
        let quotas = Quotas { storage: Some(100), messages: Some(2), ..Quotas::default() };
        let used = Usage::of_messages(1, 90);
        assert_eq!(quotas.exceeded(used, Usage::of_messages(1, 10)), None);
        assert_eq!(quotas.exceeded(used, Usage::of_messages(1, 11)), Some(Resource::Storage));
        assert_eq!(quotas.exceeded(used, Usage::of_messages(2, 0)), Some(Resource::Messages));
        let over = Usage { mailboxes: 1, ..Usage::of_messages(9, 900) };
        assert_eq!(quotas.exceeded(over, Usage { mailboxes: 1, ..Usage::default() }), None);
        assert_eq!(
            quotas.exceeded(Usage::of_messages(0, u64::MAX), Usage::of_messages(0, 1)),
            Some(Resource::Storage)
        );
    }

    #[test]
    fn usage_round_trips_at_one_length() {
        let full = Usage { storage: u64::MAX, messages: 1, mailboxes: 2, annotations: u64::MAX };
        for (usage, complete) in [(Usage::default(), false), (full, true)] {
            let bytes = encode(usage, complete);
            assert_eq!(bytes.len() + record::HIDDEN_OVERHEAD_BYTES, HIDDEN_BYTES);
            assert_eq!(decode(&bytes), Some((usage, complete)));
            assert_eq!(decode(&bytes[1..]), None);
            assert_eq!(decode(&[&bytes[..32], &[2]].concat()), None);
        }
    }
}
