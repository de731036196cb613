//! The usage of an account: from its state, which takes its key, or as far as the store shows it
//! without one.
//!
//! What sessions and deliveries write down ([`Directory::usage_record`]) is true of a moment. What
//! is newer is counted: each message is an object of its own, whose last bytes say how large the
//! message is. So a limit that an operator sets holds from then on, whether or not the owner ever
//! logs in. Two things show in the state alone: a message that was expunged stays in the store for
//! a while and is counted until a session writes down what is left, and one that was copied is one
//! object.

use futures::{StreamExt, TryStreamExt};
use sealpost_base::{AccountId, Kind, Result, Timestamp, limits};
use sealpost_directory::{Directory, Usage, UsageRecord};
use sealpost_vault::{ListedObject, Store, message};

use crate::metadata;
use crate::state::AccountState;

/// Sizes that are read at once.
const AT_ONCE: usize = 32;

/// How much a state holds.
pub fn of(state: &AccountState) -> Usage {
    let (storage, messages) = state.mailboxes().fold((0u64, 0u64), |(bytes, messages), mailbox| {
        (bytes.saturating_add(mailbox.bytes()), messages.saturating_add(mailbox.len() as u64))
    });
    let (mailboxes, annotations) = (state.mailbox_count() as u64, metadata::bytes(state) as u64);
    let storage = storage.saturating_add(state.contacts().bytes());
    Usage { storage, messages, mailboxes, annotations }
}

/// How much the state of a share holds, whose messages are in its inbox. The mailbox itself is
/// counted where its name is.
pub fn of_share(share: &AccountState) -> Usage {
    let (inbox, annotations) = (share.inbox(), metadata::bytes(share) as u64);
    Usage { annotations, ..Usage::of_messages(inbox.len() as u64, inbox.bytes()) }
}

/// The usage of an account as far as it is known without its key: the last usage record, and the
/// messages that arrived since, those to shared mailboxes of the account included.
///
/// # Errors
/// What the store says.
pub async fn known(directory: &Directory, account: AccountId) -> Result<Usage> {
    Ok(count(directory, account).await?.usage)
}

/// As [`known`], and writes it down, for deliveries to go by; the record.
///
/// # Errors
/// What the store says; `Retry` if others write all the time.
pub async fn settle(directory: &Directory, account: AccountId) -> Result<UsageRecord> {
    for _ in 0..limits::RECORD_ATTEMPTS {
        let counted = count(directory, account).await?;
        match counted.record {
            Some(record) if record.complete && record.usage == counted.usage => return Ok(record),
            _ => {}
        }
        if let Some(record) = directory.put_counted_usage(account, counted.record, counted.usage).await? {
            return Ok(record);
        }
    }
    Err(sealpost_base::Error::retry("too many concurrent changes of the usage record of an account; retry"))
}

struct Counted {
    usage: Usage,
    /// What it is based on.
    record: Option<UsageRecord>,
}

async fn count(directory: &Directory, account: AccountId) -> Result<Counted> {
    // Before the record is read, so that what comes meanwhile is counted.
    let written = directory.usage_written(account).await?;
    let record = directory.usage_record(account).await?;
    // Of the record itself: what is behind it was planted, and would hide what came before that.
    let is_of = |version: u64| record.is_some_and(|record| version <= record.version);
    let since = written.into_iter().filter(|(version, _)| is_of(*version)).max().map(|(_, at)| at);
    let mut found = UsageScan::default();
    found.look(directory.store(), account, since).await?;
    for share in directory.shares_of(account).await? {
        found.look(directory.store(), share.share, since).await?;
    }
    let usage = match record {
        // The store was copied or restored, and its objects have the time of that: none is known to be new.
        Some(record) if !found.has_older => record.usage.max(found.newer),
        Some(record) => record.usage.with(found.newer),
        // An account begins with some mailboxes.
        None => of(&AccountState::new(account)).with(found.newer),
    };
    Ok(Counted { usage, record })
}

/// What was found in the store.
#[derive(Default)]
struct UsageScan {
    newer: Usage,
    has_older: bool,
}

impl UsageScan {
    /// Counts the messages whose objects were written after that, by the store's clock. That may
    /// tick in seconds; what came in the same tick is taken for counted, because a session that
    /// ends may have stored a thousand messages in its last second, and mail would be refused for
    /// them.
    async fn look(&mut self, store: &Store, account: AccountId, since: Option<Timestamp>) -> Result<()> {
        for below in ["msg", "thin"] {
            // A body is evicted long after its message arrived: the record includes it.
            let counts = since.is_none() || below == "msg";
            let mut has_older = false;
            let newer = store.list(&format!("acct/{account}/{below}"), None).try_filter(|object| {
                let is_newer = since.is_none_or(|since| object.modified > since);
                has_older |= !is_newer;
                std::future::ready(is_newer && counts)
            });
            let sizes = newer.map(|object| async { size(store, &object?).await }).buffer_unordered(AT_ONCE);
            {
                let mut sizes = std::pin::pin!(sizes);
                while let Some(size) = sizes.try_next().await? {
                    let one = size.map_or(Usage::default(), |bytes| Usage::of_messages(1, bytes));
                    self.newer = self.newer.with(one);
                }
            }
            self.has_older |= has_older;
        }
        Ok(())
    }
}

/// Bytes of the message in an object; `None` if it was removed meanwhile. An object whose footer is
/// not this server's counts nothing: else an attacker with write access to the store could plant
/// objects, remove the usage record, and have mail rejected for a full quota. An object with a
/// damaged footer does not count either, until a session writes the usage record. A store without
/// keys for sizes has no such footers, and an object counts with its size.
async fn size(store: &Store, object: &ListedObject) -> Result<Option<u64>> {
    match message::size_in(store, object).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == Kind::NotFound => Ok(None),
        Err(e) if e.kind() == Kind::Corrupt => Ok((!store.seals_sizes()).then_some(object.size)),
        Err(e) => Err(e),
    }
}
