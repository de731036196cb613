//! Threads the results of a search: one pass over the summaries, and one of two algorithms over a few numbers
//! and hashes per message (RFC 5256).

mod forest;
mod ordered;
mod references;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;

use sealpost_base::{Error, Permit};
use sealpost_index::summary::{Parts, Summary};
use sealpost_mime::collate;
use sealpost_mime::header::subject;
use sealpost_vault::Hash;

use crate::engine::Engine;
use crate::find::Placement;
use crate::matches::Match;
use crate::progress::{Failure, Progress};
use crate::scope::{MailboxIndex, Scope};
use crate::summaries::{SortRow, sent, with_summaries};
pub use forest::{Forest, Step};
use references::Links;

/// Maximum memory of a message during threading, in bytes.
const MESSAGE_BYTES: usize = 56;
/// Additional memory to acquire for referenced messages that do not exist, in bytes.
const REFERENCE_BYTES: usize = 512;

/// The threading algorithms (RFC 5256 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// One thread for each base subject.
    OrderedSubject,
    /// By Message-ID, References and In-Reply-To.
    References,
}

/// The threads of the matches.
pub struct Threads {
    /// Trees of indices into the matches.
    pub forest: Forest,
    /// Corrupt messages, whose subjects and references are unknown.
    pub damaged: Vec<Placement>,
    /// Mailboxes that no longer exist, or may no longer be read: their messages must not be shown.
    pub gone: Vec<MailboxIndex>,
    /// The memory for the forest.
    _permit: Permit,
}

/// The fields of a message for threading.
#[derive(Debug, Clone, Copy)]
struct ThreadItem {
    /// Its index among the matches.
    at: u32,
    /// The sent date, in seconds since 1970; the time of arrival if it is unknown (RFC 5256 §2.2).
    sent: i64,
    /// Its base subject, in comparator form; `None` if empty.
    subject: Option<ShortHash>,
    /// Whether its subject is that of a reply or a forward (RFC 5256 §3).
    is_reply: bool,
}

impl ThreadItem {
    fn new(at: usize, sent: i64, subject: &str) -> Self {
        let base = subject::base(subject);
        let mut key = Vec::new();
        collate::key(&base.text, usize::MAX / 2, &mut key);
        let subject = (!key.is_empty()).then(|| ShortHash::of(&key));
        ThreadItem { at: at as u32, sent, subject, is_reply: base.reply }
    }

    /// The hash for tables of subjects.
    fn subject_hash(&self) -> u64 {
        self.subject.map_or(0, ShortHash::get)
    }
}

/// The first 64 bits of a hash. Of a million strings two collide by chance in one mailbox out of thirty
/// million, and finding a second preimage is infeasible. A sender that makes two colliding strings confuses
/// only its own messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShortHash(NonZeroU64);

impl ShortHash {
    fn of(bytes: &[u8]) -> Self {
        let mut first = [0; 8];
        first.copy_from_slice(&Hash::of(bytes).0[..8]);
        ShortHash(NonZeroU64::new(u64::from_be_bytes(first)).unwrap_or(NonZeroU64::MIN))
    }

    fn get(self) -> u64 {
        self.0.get()
    }
}

impl Engine {
    /// The threads of matches in the scope, given by mailbox and UID.
    ///
    /// # Errors
    /// `Retry` if messages are temporarily unreadable, `Limit` if there are too many for the memory; errors
    /// of `progress`.
    pub async fn thread<P: Progress>(
        &self,
        scope: Scope<'_>,
        found: &[Match],
        algorithm: Algorithm,
        progress: &mut P,
    ) -> Result<Threads, Failure<P::Interruption>> {
        // Few at a time, as with sorting.
        let turn = progress.acquire_with_progress(self.sorting.clone().acquire_owned()).await;
        let turn = turn.map_err(Failure::Interrupted)?;
        let wanted = found.len().saturating_mul(MESSAGE_BYTES + REFERENCE_BYTES) + REFERENCE_BYTES * 1024;
        let permit = progress.acquire_with_progress(self.budget.acquire(wanted)).await;
        let permit = permit.map_err(Failure::Interrupted)?;
        let Some(for_references) = room(permit.bytes(), found.len()) else {
            return Err(Failure::Error(Error::limit("too many messages to be threaded at once")));
        };
        let with_ids = algorithm == Algorithm::References;
        let parts = if with_ids { Parts::FIELDS | Parts::IDS } else { Parts::FIELDS };
        let mut items = Vec::with_capacity(found.len());
        let mut links = Links::new(found.len(), for_references);
        let missing = with_summaries(scope, found, Some(parts), progress, |at, row, summary| {
            let item = item(at, row, summary);
            items.push(item);
            if with_ids {
                link(&mut links, summary);
            }
        })
        .await?;
        let thread = move || {
            let forest = if with_ids { links.thread(&items) } else { ordered::thread(&mut items) };
            drop((items, turn));
            (forest, permit)
        };
        let threaded = progress.await_with_progress(tokio::task::spawn_blocking(thread)).await;
        let (forest, permit) = threaded
            .map_err(Failure::Interrupted)?
            .map_err(|error| Failure::Error(Error::internal("threading failed").with_source(error)))?;
        Ok(Threads { forest, damaged: missing.damaged, gone: missing.gone, _permit: permit })
    }
}

/// How many of these bytes are left for referenced messages; `None` if there are too few for the others.
fn room(bytes: usize, messages: usize) -> Option<usize> {
    bytes.checked_sub(messages.saturating_mul(MESSAGE_BYTES))
}

fn item(at: usize, row: SortRow, summary: Option<&Summary>) -> ThreadItem {
    ThreadItem::new(at, sent(row, summary), summary.and_then(Summary::subject).unwrap_or_default())
}

/// The references of a message: those of References, or else the first of In-Reply-To (RFC 5256 §3).
fn link(links: &mut Links, summary: Option<&Summary>) {
    let id = summary.and_then(Summary::message_id).map(|id| ShortHash::of(id.as_bytes()));
    let mut references: Vec<ShortHash> =
        summary.into_iter().flat_map(Summary::references).map(|id| ShortHash::of(id.as_bytes())).collect();
    if references.is_empty() {
        let parent = summary.and_then(|summary| summary.in_reply_to().next());
        references.extend(parent.map(|id| ShortHash::of(id.as_bytes())));
    }
    links.add(id, &references);
}
