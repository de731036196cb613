//! THREAD (RFC 5256): a search, one pass over the summaries of what was found, and one of two algorithms over what was kept
//! of them: a few numbers and hashes a message, never a header.

mod forest;
mod ordered;
mod references;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;

use sealpost_account::summary::{Parts, Summary};
use sealpost_base::Permit;
use sealpost_imap::types::{Code, Thread, ThreadAlgorithm};
use sealpost_mime::collate;
use sealpost_mime::header::subject;
use sealpost_vault::Hash;

use super::reply::{Failure, Outcome, Reply};
use super::search::area::Area;
use super::search::run::Match;
use super::session::Session;
use super::sort::keys::{Row, sent};
use forest::{Forest, Step};
use references::Links;

/// What a message takes while it is threaded, at most.
const MESSAGE_BYTES: usize = 56;
/// What is asked for besides, for messages that are referred to and are not there.
const REFERENCE_BYTES: usize = 512;

/// What threading knows of a message.
#[derive(Debug, Clone, Copy)]
struct Item {
    /// Which of the messages that were found it is.
    at: u32,
    /// When it was sent, in seconds since 1970; when it arrived if that is not known (RFC 5256 §2.2).
    sent: i64,
    /// Its base subject, as the comparator compares it; `None` if that is empty.
    subject: Option<Short>,
    /// It is a reply or a forward, as its subject has it (RFC 5256 §3).
    is_reply: bool,
}

impl Item {
    fn new(at: usize, sent: i64, subject: &str) -> Self {
        let base = subject::base(subject);
        let mut key = Vec::new();
        collate::key(&base.text, usize::MAX / 2, &mut key);
        let subject = (!key.is_empty()).then(|| Short::of(&key));
        Item { at: at as u32, sent, subject, is_reply: base.reply }
    }

    /// By which it is found in a table of subjects.
    fn subject_hash(&self) -> u64 {
        self.subject.map_or(0, Short::get)
    }
}

/// The first 64 bits of a hash. Of a million strings two share them by chance in one mailbox out of thirty million, and nobody finds
/// a string that shares them with a given one; who makes two strings that share them has confused only their own messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Short(NonZeroU64);

impl Short {
    fn of(octets: &[u8]) -> Self {
        let mut first = [0; 8];
        first.copy_from_slice(&Hash::of(octets).0[..8]);
        Short(NonZeroU64::new(u64::from_be_bytes(first)).unwrap_or(NonZeroU64::MIN))
    }

    fn get(self) -> u64 {
        self.0.get()
    }
}

impl Session {
    /// THREAD.
    pub(super) async fn thread(&mut self, thread: Thread) -> Outcome {
        self.may_sort_in_charset(&thread.search)?;
        let thread = Thread { search: self.with_filters(thread.search)?, ..thread };
        let area = Area::selected(self.view()?);
        let query = self.query(&thread.search, &area)?;
        let found = self.find(&area, &query).await?;
        let (forest, _memory) = self.threaded(&area, &found, thread.algorithm).await?;
        self.write_threads(&area, &found, &forest, thread.search.uid).await?;
        Ok(Reply::ok("THREAD completed"))
    }

    async fn threaded(
        &mut self,
        area: &Area,
        found: &[Match],
        algorithm: ThreadAlgorithm,
    ) -> Result<(Forest, Permit), Failure> {
        // Few at a time, as with SORT.
        let (turns, budget) = (self.ctx.sorting.clone(), self.ctx.budget.clone());
        let turn = self.in_turn(turns.acquire_owned()).await?;
        let wanted = found.len().saturating_mul(MESSAGE_BYTES + REFERENCE_BYTES) + REFERENCE_BYTES * 1024;
        let permit = self.in_turn(budget.acquire(wanted)).await?;
        let Some(for_references) = room(permit.bytes(), found.len()) else {
            return Err(Reply::no(Code::Limit, "too many messages to be threaded at once").into());
        };
        let with_ids = algorithm == ThreadAlgorithm::References;
        let parts = if with_ids { Parts::FIELDS | Parts::IDS } else { Parts::FIELDS };
        let mut items = Vec::with_capacity(found.len());
        let mut links = Links::new(found.len(), for_references);
        self.with_summaries(area, found, Some(parts), |at, row, summary| {
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
        self.patiently(tokio::task::spawn_blocking(thread)).await?.map_err(|error| {
            tracing::error!(%error, "threading failed");
            Reply::no(Code::ServerBug, "internal error").into()
        })
    }

    /// `* THREAD (2)(3 6 (4 23)(44 7 96))`
    async fn write_threads(
        &mut self,
        area: &Area,
        found: &[Match],
        forest: &Forest,
        uid: bool,
    ) -> Result<(), Failure> {
        self.connection.out().raw(b"* THREAD");
        let mut begun = false;
        for step in forest.steps() {
            let out = self.connection.out();
            if !std::mem::replace(&mut begun, true) {
                out.space();
            }
            match step {
                Step::Open => out.open(),
                Step::Close => out.close(),
                Step::Space => out.space(),
                Step::Message(at) => {
                    let message = found[at as usize].uid;
                    let number = if uid { Some(message.get()) } else { area.number(message) };
                    out.number(u64::from(number.unwrap_or_default()))
                }
            };
            self.connection.relieve().await?;
        }
        self.connection.out().crlf();
        Ok(())
    }
}

/// What of so many bytes is left for messages that are only referred to; `None` if they are too few for the others.
fn room(bytes: usize, messages: usize) -> Option<usize> {
    bytes.checked_sub(messages.saturating_mul(MESSAGE_BYTES))
}

fn item(at: usize, row: Row, summary: Option<&Summary>) -> Item {
    Item::new(at, sent(row, summary), summary.and_then(Summary::subject).unwrap_or_default())
}

/// The references of a message: those of References, or else the first of In-Reply-To (RFC 5256 §3).
fn link(links: &mut Links, summary: Option<&Summary>) {
    let id = summary.and_then(Summary::message_id).map(|id| Short::of(id.as_bytes()));
    let mut references: Vec<Short> =
        summary.into_iter().flat_map(Summary::references).map(|id| Short::of(id.as_bytes())).collect();
    if references.is_empty() {
        let parent = summary.and_then(|summary| summary.in_reply_to().next());
        references.extend(parent.map(|id| Short::of(id.as_bytes())));
    }
    links.add(id, &references);
}
