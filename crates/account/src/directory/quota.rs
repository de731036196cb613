//! What an account may hold, and how much it holds as far as that is known without its key (RFC 9208).
//!
//! The limits are in the account's record. How much an account holds only its owner's sessions can tell, and they
//! write it down: `usage/{account id}/{version:016x}`, a record like the others (`docs/format/accounts.md`). Deliveries go by
//! it; what it costs that it is not always the latest is in `docs/decisions/0015-mailboxes-and-quota.md`.

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Error, Result, limits};

use super::{AccountRecord, Directory};

const ROOT: &str = "usage";

/// A resource that can be limited (RFC 9208 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Octets of messages.
    Storage,
    /// Messages, each counted in every mailbox that it is in.
    Messages,
    /// Mailboxes.
    Mailboxes,
    /// Octets of metadata.
    Annotations,
}

/// How much there may be of each; `None`: any number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Octets of messages.
    pub storage: Option<u64>,
    /// Messages.
    pub messages: Option<u64>,
    /// Mailboxes.
    pub mailboxes: Option<u64>,
    /// Octets of metadata.
    pub annotations: Option<u64>,
}

/// How much there is of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Usage {
    /// Octets of messages.
    #[n(0)]
    pub storage: u64,
    /// Messages.
    #[n(1)]
    pub messages: u64,
    /// Mailboxes.
    #[n(2)]
    pub mailboxes: u64,
    /// Octets of metadata.
    #[n(3)]
    pub annotations: u64,
}

impl Resource {
    /// All of them.
    pub const ALL: [Resource; 4] =
        [Resource::Storage, Resource::Messages, Resource::Mailboxes, Resource::Annotations];
}

impl Usage {
    /// Messages of so many octets together.
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

    /// The first resource of which there would be too much if `more` came to `used`. What does not become more is never
    /// too much: an account over its limits can be tidied up.
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

impl Directory {
    /// How much an account held when that was last written down; `None` if it never was.
    ///
    /// # Errors
    /// What the store says; `Corrupt` if the record is not one of this server's.
    pub async fn usage(&self, account: AccountId) -> Result<Option<Usage>> {
        let Some(newest) = self.versions.newest(&directory(account)).await? else { return Ok(None) };
        let usage = minicbor::decode(&newest.bytes);
        usage.map(Some).map_err(|e| Error::corrupt("a usage record cannot be read").with_source(e))
    }

    /// Writes down how much an account holds now.
    ///
    /// # Errors
    /// What the store says; `Retry` if others write all the time.
    pub async fn record_usage(&self, account: AccountId, usage: Usage) -> Result<()> {
        let (directory, bytes) = (directory(account), minicbor::to_vec(usage).unwrap_or_default());
        for _ in 0..limits::RECORD_ATTEMPTS {
            let version = self.versions.newest(&directory).await?.map_or(0, |newest| newest.version);
            if self.versions.put_after(&directory, version, &bytes).await? {
                return Ok(());
            }
        }
        Err(Error::retry("the usage of an account is being written by others all the time"))
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
    fn only_what_becomes_more_can_be_too_much() {
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
}
