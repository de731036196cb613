//! What a mailbox has already, so that nothing is imported twice.
//!
//! A message of the archive is there already if the mailbox had, when the import began, a message of the same bytes
//! that no other message of the archive was matched with: two alike in the archive are two in the mailbox, however
//! often the import is interrupted and run again. Messages of the same size are compared by their SHA-256, which is
//! computed only for those that share a size with one to be imported, and once.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::Result;
use futures::TryStreamExt;
use ring::digest::{Context, SHA256};
use sealpost_account::{Account, AccountState, MessageNumber};
use sealpost_base::{Kind, MailboxId};

/// SHA-256 of a message's bytes.
pub type Digest = [u8; 32];

/// The messages that a mailbox had when the import began.
pub struct Known {
    /// Sizes with messages, by size and then in the order of the mailbox.
    rows: Vec<(u64, MessageNumber)>,
    /// Of each size that was asked for, the rows whose digest is not known yet.
    unread: HashMap<u64, Range<usize>>,
    /// How many messages of a digest were come across and not matched.
    unmatched: HashMap<Digest, u32>,
}

impl Known {
    /// What is in that mailbox now.
    pub fn new(state: &AccountState, mailbox: MailboxId) -> Self {
        let rows = state.mailbox(mailbox).into_iter().flat_map(|m| m.all_rows());
        let mut rows: Vec<_> =
            rows.filter_map(|row| Some((state.message(row.message)?.size(), row.message))).collect();
        rows.sort_by_key(|(size, _)| *size);
        Known { rows, unread: HashMap::new(), unmatched: HashMap::new() }
    }

    /// Whether there is a message of that size to compare with.
    pub fn has_size(&self, size: u64) -> bool {
        self.rows.binary_search_by_key(&size, |(size, _)| *size).is_ok()
    }

    /// Whether the message is there already; if so, it is matched.
    ///
    /// The next message of that size is looked at first: when an import is run again, archive and mailbox are in the
    /// same order, and each is read once.
    ///
    /// # Errors
    /// If the store cannot be read. A message that is damaged there is not the same as any other.
    pub async fn take(&mut self, account: &Account, size: u64, digest: &Digest) -> Result<bool> {
        if let Some(count) = self.unmatched.get_mut(digest) {
            *count -= 1;
            if *count == 0 {
                self.unmatched.remove(digest);
            }
            return Ok(true);
        }
        let rows = &self.rows;
        let unread = self.unread.entry(size).or_insert_with(|| {
            rows.partition_point(|row| row.0 < size)..rows.partition_point(|row| row.0 <= size)
        });
        for i in unread {
            match digest_of(account, rows[i].1).await? {
                Some(found) if found == *digest => return Ok(true),
                Some(found) => *self.unmatched.entry(found).or_default() += 1,
                None => {}
            }
        }
        Ok(false)
    }
}

/// `None` for a message that cannot be read, or is gone meanwhile.
async fn digest_of(account: &Account, number: MessageNumber) -> Result<Option<Digest>> {
    let message = account.state().message(number);
    let Some(message) = message else { return Ok(None) };
    match of_stored(account, &message).await {
        Ok(digest) => Ok(Some(digest)),
        Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

async fn of_stored(account: &Account, message: &sealpost_account::Message) -> sealpost_base::Result<Digest> {
    let mut hash = Context::new(&SHA256);
    let mut raw = account.reader(message).raw(0..u64::MAX);
    while let Some(piece) = raw.try_next().await? {
        hash.update(&piece);
    }
    Ok(finish(hash))
}

/// The digest of what was hashed.
pub fn finish(hash: Context) -> Digest {
    let mut digest = [0; 32];
    digest.copy_from_slice(hash.finish().as_ref());
    digest
}
