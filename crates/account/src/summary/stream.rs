//! Summaries of a mailbox as a stream: a window of messages at a time, the next one read while the caller has this one.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use sealpost_base::{Error, MailboxId, ObjectId, Result, Uid, UidSet};

use super::content::Content;
use super::gather::gather;
use super::reads::{Reads, Task};
use super::{Parts, Summary};
use crate::account::Account;
use crate::state::MessageNumber;

/// Summaries of one window, in bytes, if there is room: the caller has one, and one is read ahead.
pub(super) const WINDOW_BYTES: usize = 2 * 1024 * 1024;
/// Messages of one window. Many, because messages that were moved about are scattered over the segments, and each
/// segment is opened once for a window.
const WINDOW_MESSAGES: usize = 8192;

/// A message whose summary is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) uid: Uid,
    pub(super) number: MessageNumber,
    pub(super) object: ObjectId,
}

/// What a stream is about.
struct Scope {
    account: Arc<Account>,
    content: Content,
    mailbox: MailboxId,
    uids: UidSet,
    parts: Parts,
}

impl Account {
    /// The summaries of the messages of `mailbox` that are in `uids`, ascending by UID. Messages that were expunged are
    /// passed over. A message whose stored structure or text is damaged has an error in its place and does not stop the rest.
    ///
    /// Waits for some MiB of the budget when it begins, and for what making a segment takes when it has to, and gives them back at its
    /// end: begin it before holding any other part of it. A stream that is dropped stops reading.
    pub fn summaries(
        self: &Arc<Self>,
        mailbox: MailboxId,
        uids: UidSet,
        parts: Parts,
    ) -> BoxStream<'static, (Uid, Result<Summary>)> {
        self.from_segments(Content::Summaries, mailbox, uids, parts)
    }

    /// The same for either kind of segments.
    pub(super) fn from_segments(
        self: &Arc<Self>,
        content: Content,
        mailbox: MailboxId,
        uids: UidSet,
        parts: Parts,
    ) -> BoxStream<'static, (Uid, Result<Summary>)> {
        let scope = Arc::new(Scope { account: self.clone(), content, mailbox, uids, parts });
        let start = Walk { scope, next: Next::From(Uid::MIN) };
        futures::stream::unfold(start, Walk::step).map(futures::stream::iter).flatten().boxed()
    }
}

/// A stream under way.
struct Walk {
    scope: Arc<Scope>,
    next: Next,
}

enum Next {
    From(Uid),
    /// A window that is being read.
    Ahead(Task<(Window, Reads)>),
    /// The caller has the last window, in this memory.
    Last(Reads),
    End,
}

/// A window, and where the next one begins.
struct Window {
    summaries: Vec<(Uid, Result<Summary>)>,
    next: Option<Uid>,
}

impl Walk {
    async fn step(mut self) -> Option<(Vec<(Uid, Result<Summary>)>, Walk)> {
        let window = match std::mem::replace(&mut self.next, Next::End) {
            Next::From(uid) => {
                let reads = Reads::new(&self.scope.account, self.scope.content).await;
                window(self.scope.clone(), uid, reads).await
            }
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
        self.next = match window.next {
            Some(next) => Next::Ahead(Task(tokio::spawn(self::window(self.scope.clone(), next, reads)))),
            None => Next::Last(reads),
        };
        Some((window.summaries, self))
    }
}

async fn window(scope: Arc<Scope>, from: Uid, mut reads: Reads) -> (Window, Reads) {
    let (wanted, mut next) = wanted(&scope, from);
    let gathered = gather(&scope.account, scope.content, &wanted, scope.parts, &mut reads).await;
    if let Some(first_left) = wanted.get(gathered.len()) {
        next = Some(first_left.uid);
    }
    let summaries = wanted.iter().map(|wanted| wanted.uid).zip(gathered).collect();
    (Window { summaries, next }, reads)
}

/// The messages of the window that begins at `from`, and where the next one begins.
fn wanted(scope: &Scope, from: Uid) -> (Vec<Wanted>, Option<Uid>) {
    let state = scope.account.state();
    let Some(mailbox) = state.mailbox(scope.mailbox) else { return (Vec::new(), None) };
    let mut wanted = Vec::new();
    for (first, last) in scope.uids.ranges().skip_while(|(_, last)| *last < from) {
        for row in mailbox.rows(first.max(from)..=last) {
            if wanted.len() == WINDOW_MESSAGES {
                return (wanted, Some(row.uid));
            }
            if let Some(message) = state.message(row.message) {
                wanted.push(Wanted { uid: row.uid, number: row.message, object: message.object });
            }
        }
    }
    (wanted, None)
}
