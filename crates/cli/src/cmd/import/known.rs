//! What a mailbox has already, so that nothing is imported twice.
//!
//! A message of the archive is there already if the mailbox had, when the import began, a message
//! of the same bytes that no other message of the archive was matched with: two alike in the
//! archive are two in the mailbox, however often the import is interrupted and run again. Messages
//! of the same size are compared by their SHA-256, which is computed only for those that share a
//! size with one to be imported, and once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use anyhow::Result;
use futures::TryStreamExt;
use ring::digest::{Context, SHA256};
use sealpost_account::{Account, AccountState, MessageNumber};
use sealpost_base::{Kind, MailboxId, Uid};

/// SHA-256 of a message's bytes.
pub type Digest = [u8; 32];
/// Where a message is.
pub type At = (MailboxId, Uid);

/// What is there already, in all mailboxes that are imported into.
#[derive(Default)]
pub struct Present {
    mailboxes: HashMap<MailboxId, KnownMailbox>,
    /// The beginnings of digests of messages of Gmail that this import has met.
    of_gmail: HashSet<[u8; 16]>,
}

impl Present {
    /// Notes what a mailbox has, before anything is imported into it.
    pub fn begin(&mut self, state: &AccountState, mailbox: MailboxId) {
        self.mailboxes.entry(mailbox).or_insert_with(|| KnownMailbox::new(state, mailbox));
    }

    /// Whether one of the mailboxes has a message of that size to compare with.
    pub fn has_size(&self, mailboxes: &[MailboxId], size: u64) -> bool {
        mailboxes.iter().any(|id| self.mailboxes.get(id).is_some_and(|known| known.has_size(size)))
    }

    /// Whether this import has met the message that Gmail has under that number already: files of
    /// single labels have a message as often as it has labels.
    pub fn was_met(&mut self, number: &str, digest: &Digest) -> bool {
        let mut hash = Context::new(&SHA256);
        hash.update(digest);
        hash.update(number.as_bytes());
        let begins = finish(hash).first_chunk::<16>().copied().unwrap_or_default();
        !self.of_gmail.insert(begins)
    }

    /// Where the message is, mailbox by mailbox; it is matched there then.
    ///
    /// # Errors
    /// As [`KnownMailbox::take`].
    pub async fn find(
        &mut self,
        account: &Account,
        mailboxes: &[MailboxId],
        size: u64,
        digest: &Digest,
    ) -> Result<Vec<Option<At>>> {
        let mut found = Vec::with_capacity(mailboxes.len());
        for id in mailboxes {
            let uid = match self.mailboxes.get_mut(id).filter(|known| known.has_size(size)) {
                Some(known) => known.take(account, size, digest).await?,
                None => None,
            };
            found.push(uid.map(|uid| (*id, uid)));
        }
        Ok(found)
    }
}

/// The messages that a mailbox had when the import began.
struct KnownMailbox {
    /// Sizes with messages, by size and then in the order of the mailbox.
    rows: Vec<(u64, MessageNumber, Uid)>,
    /// For each requested size, the rows whose digest is not known yet.
    unread: HashMap<u64, Range<usize>>,
    /// The messages of a digest that were come across and not matched.
    unmatched: HashMap<Digest, VecDeque<Uid>>,
}

impl KnownMailbox {
    /// What is in that mailbox now.
    fn new(state: &AccountState, mailbox: MailboxId) -> Self {
        let rows = state.mailbox(mailbox).into_iter().flat_map(|m| m.all_rows());
        let mut rows: Vec<_> =
            rows.filter_map(|row| Some((state.message(row.message)?.size(), row.message, row.uid))).collect();
        rows.sort_by_key(|(size, ..)| *size);
        KnownMailbox { rows, unread: HashMap::new(), unmatched: HashMap::new() }
    }

    /// Whether there is a message of that size to compare with.
    fn has_size(&self, size: u64) -> bool {
        self.rows.binary_search_by_key(&size, |(size, ..)| *size).is_ok()
    }

    /// The UID of the message if it is there already; it is matched then.
    ///
    /// The next message of that size is compared first: when an import is repeated, archive and
    /// mailbox are in the same order, and each is read once.
    ///
    /// # Errors
    /// If the store cannot be read. A message that is damaged there is not the same as any other.
    async fn take(&mut self, account: &Account, size: u64, digest: &Digest) -> Result<Option<Uid>> {
        if let Some(uids) = self.unmatched.get_mut(digest) {
            let uid = uids.pop_front();
            if uids.is_empty() {
                self.unmatched.remove(digest);
            }
            return Ok(uid);
        }
        let rows = &self.rows;
        let unread = self.unread.entry(size).or_insert_with(|| {
            rows.partition_point(|row| row.0 < size)..rows.partition_point(|row| row.0 <= size)
        });
        for i in unread {
            let (_, message, uid) = rows[i];
            match digest_of(account, message).await? {
                Some(found) if found == *digest => return Ok(Some(uid)),
                Some(found) => self.unmatched.entry(found).or_default().push_back(uid),
                None => {}
            }
        }
        Ok(None)
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
