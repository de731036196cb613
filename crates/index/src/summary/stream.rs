//! Summaries of a mailbox as a stream: a window of messages at a time, the next one read while the
//! caller has this one.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use sealpost_base::{Error, MailboxId, ObjectId, Result, Uid, UidSet};

use super::content::Content;
use super::fetch_many;
use super::read_ahead::{Reads, Task};
use super::{Parts, Summary};
use crate::Index;
use sealpost_account::MessageNumber;

/// The size of the summaries of one window, in bytes, if memory permits: the caller has one, and
/// one is read ahead.
pub(super) const WINDOW_BYTES: usize = 1024 * 1024;
/// Messages of one window. Many, because messages that were moved about are scattered over the
/// segments, and each segment is opened once for a window.
pub(super) const WINDOW_MESSAGES: usize = 8192;

/// In which order a stream gives what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOrder {
    /// Ascending by UID.
    Uids,
    /// As it is stored, some thousand messages after the other, so that no segment is read twice for those.
    Stored,
}

/// A message whose summary is requested.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) uid: Uid,
    pub(super) number: MessageNumber,
    pub(super) object: ObjectId,
}

/// What a stream is about.
struct Scope {
    account: Index,
    content: Content,
    mailbox: MailboxId,
    uids: UidSet,
    order: ReadOrder,
    parts: Parts,
}

impl Index {
    /// The summaries of the messages of `mailbox` that are in `uids`. Expunged messages are
    /// skipped. A message whose stored structure or text is damaged gives an error in its place and
    /// does not stop the rest.
    ///
    /// They come in batches of at most `at_once`, each of one window: a reader that drops a batch
    /// before it requests the next one never holds more of them in memory than was reserved.
    ///
    /// Waits for some MiB of the budget when it begins, and for what making a segment takes when it
    /// has to, and gives them back at its end: begin it before holding any other part of it. A
    /// stream that is dropped stops reading.
    pub fn summaries(
        &self,
        mailbox: MailboxId,
        uids: UidSet,
        order: ReadOrder,
        parts: Parts,
        at_once: usize,
    ) -> BoxStream<'static, Vec<(Uid, Result<Summary>)>> {
        self.stream_segments(Content::Summaries, mailbox, uids, order, parts, at_once)
    }

    /// The same for either kind of segments.
    pub(super) fn stream_segments(
        &self,
        content: Content,
        mailbox: MailboxId,
        uids: UidSet,
        order: ReadOrder,
        parts: Parts,
        at_once: usize,
    ) -> BoxStream<'static, Vec<(Uid, Result<Summary>)>> {
        let scope = Arc::new(Scope { account: self.clone(), content, mailbox, uids, order, parts });
        let start = Walk { scope, next: Next::Begin };
        let windows = futures::stream::unfold(start, Walk::step);
        windows.map(move |window| futures::stream::iter(batches(window, at_once))).flatten().boxed()
    }
}

/// The same in order, at most `most` at a time.
fn batches<T>(window: Vec<T>, most: usize) -> impl Iterator<Item = Vec<T>> {
    let mut rest = window.into_iter();
    std::iter::from_fn(move || {
        let batch: Vec<T> = rest.by_ref().take(most).collect();
        (!batch.is_empty()).then_some(batch)
    })
}

/// A stream under way.
struct Walk {
    scope: Arc<Scope>,
    next: Next,
}

enum Next {
    Begin,
    /// What is left, in this memory: the caller has a window that is too large for another one beside it.
    Later(Rest, Reads),
    /// A window that is being read.
    Ahead(Task<(Window, Reads)>),
    /// The caller has the last window, in this memory.
    Last(Reads),
    End,
}

/// A window, and what comes after it.
struct Window {
    summaries: Vec<(Uid, Result<Summary>)>,
    rest: Rest,
}

/// What no window had yet.
struct Rest {
    /// The next messages.
    wanted: Vec<Wanted>,
    /// Where those after them begin.
    next: Option<Uid>,
}

impl Walk {
    async fn step(mut self) -> Option<(Vec<(Uid, Result<Summary>)>, Walk)> {
        let window = match std::mem::replace(&mut self.next, Next::End) {
            Next::Begin => {
                let reads = Reads::new(&self.scope.account, self.scope.content).await;
                let rest = Rest { wanted: Vec::new(), next: Some(Uid::MIN) };
                window(self.scope.clone(), rest, reads).await
            }
            Next::Later(rest, reads) => window(self.scope.clone(), rest, reads).await,
            Next::Ahead(mut ahead) => match (&mut ahead.0).await {
                Ok(window) => window,
                Err(e) => {
                    // Said once, for the first message that has no answer.
                    let error = Error::internal("reading summaries panicked").with_source(e);
                    return Some((vec![(Uid::MIN, Err(error))], self));
                }
            },
            Next::Last(reads) => {
                // Making segments takes the same memory.
                drop(reads);
                self.scope.account.extend_after_stream(self.scope.content);
                return None;
            }
            Next::End => return None,
        };
        let (window, reads) = window;
        self.next = match window.rest.is_empty() {
            true => Next::Last(reads),
            false if reads.alone => Next::Later(window.rest, reads),
            false => Next::Ahead(Task(tokio::spawn(self::window(self.scope.clone(), window.rest, reads)))),
        };
        Some((window.summaries, self))
    }
}

impl Rest {
    fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.next.is_none()
    }
}

async fn window(scope: Arc<Scope>, mut rest: Rest, mut reads: Reads) -> (Window, Reads) {
    let Scope { account, content, parts, .. } = &*scope;
    let mut builds = false;
    if rest.wanted.is_empty()
        && let Some(from) = rest.next
    {
        rest = wanted(&scope, from);
        builds = fetch_many::builds(account, *content, &rest.wanted).await;
        if builds {
            // Nothing is kept while this waits: it has given back what it drew.
            drop(rest);
            reads.begin_building(account).await;
            rest = wanted(&scope, from);
        }
    }
    let gathered = fetch_many::gather(account, *content, &rest.wanted, *parts, builds, &mut reads).await;
    let uids: Vec<Uid> = rest.wanted.drain(..gathered.len()).map(|wanted| wanted.uid).collect();
    (Window { summaries: uids.into_iter().zip(gathered).collect(), rest }, reads)
}

/// The next messages from UID `from` on.
fn wanted(scope: &Scope, from: Uid) -> Rest {
    let state = scope.account.state();
    let mut rest = Rest { wanted: Vec::new(), next: None };
    let Some(mailbox) = state.mailbox(scope.mailbox) else { return rest };
    let ranges = scope.uids.ranges().skip_while(|(_, last)| *last < from);
    let mut rows = ranges.flat_map(|(first, last)| mailbox.rows(first.max(from)..=last));
    for row in rows.by_ref().take(WINDOW_MESSAGES) {
        if let Some(object) = state.message_object(row.message) {
            rest.wanted.push(Wanted { uid: row.uid, number: row.message, object });
        }
    }
    rest.next = rows.next().map(|row| row.uid);
    if scope.order == ReadOrder::Stored {
        rest.wanted.sort_by_key(|wanted| wanted.number);
    }
    rest
}
