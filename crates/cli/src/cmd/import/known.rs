//! What a mailbox has already, so that nothing is imported twice.
//!
//! A message of the archive is there already if the mailbox had, when the import began, a message of the same bytes
//! that no other message of the archive was matched with: two alike in the archive are two in the mailbox, however
//! often the import is interrupted and run again. Messages of the same size are compared by their SHA-256, which is
//! computed only for those that share a size with one to be imported, and once.

use std::collections::HashMap;

use anyhow::Result;
use futures::TryStreamExt;
use ring::digest::{Context, SHA256};
use sealpost_account::{Account, AccountState, MessageNumber};
use sealpost_base::{Kind, MailboxId, Timestamp};

/// SHA-256 of a message's bytes.
pub type Digest = [u8; 32];

/// The messages that a mailbox had when the import began.
pub struct Known {
    /// By size.
    rows: Vec<Row>,
    digests: HashMap<MessageNumber, Option<Digest>>,
}

struct Row {
    size: u64,
    message: MessageNumber,
    matched: bool,
}

impl Known {
    /// What is in that mailbox now.
    pub fn new(state: &AccountState, mailbox: MailboxId) -> Self {
        let rows = state.mailbox(mailbox).into_iter().flat_map(|m| m.all_rows());
        let mut rows: Vec<Row> = rows
            .filter_map(|row| {
                let size = state.message(row.message)?.size();
                Some(Row { size, message: row.message, matched: false })
            })
            .collect();
        rows.sort_by_key(|row| row.size);
        Known { rows, digests: HashMap::new() }
    }

    /// Whether there is a message of that size to compare with.
    pub fn has_size(&self, size: u64) -> bool {
        self.of_size(size).any(|i| !self.rows[i].matched)
    }

    /// Whether the message is there already; if so, it is matched.
    ///
    /// # Errors
    /// If the store cannot be read. A message that is damaged there is not the same as any other.
    pub async fn take(
        &mut self,
        account: &Account,
        size: u64,
        digest: &Digest,
        received: Timestamp,
    ) -> Result<bool> {
        let mut candidates: Vec<usize> = self.of_size(size).filter(|i| !self.rows[*i].matched).collect();
        // The one received at the same time is most likely the one, and then the others need not be read.
        {
            let state = account.state();
            let same_time = |i: &usize| {
                let message = state.message(self.rows[*i].message);
                message.is_some_and(|m| m.received.seconds() == received.seconds())
            };
            candidates.sort_by_key(|i| !same_time(i));
        }
        for i in candidates {
            if self.digest(account, self.rows[i].message).await?.as_ref() == Some(digest) {
                self.rows[i].matched = true;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn of_size(&self, size: u64) -> std::ops::Range<usize> {
        let start = self.rows.partition_point(|row| row.size < size);
        start..start + self.rows[start..].partition_point(|row| row.size == size)
    }

    /// `None` for a message that cannot be read.
    async fn digest(&mut self, account: &Account, number: MessageNumber) -> Result<Option<Digest>> {
        if let Some(known) = self.digests.get(&number) {
            return Ok(*known);
        }
        let message = account.state().message(number).cloned();
        let digest = match message {
            Some(message) => match of_stored(account, &message).await {
                Ok(digest) => Some(digest),
                Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => None,
                Err(e) => return Err(e.into()),
            },
            None => None,
        };
        self.digests.insert(number, digest);
        Ok(digest)
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
