//! Summaries of a mailbox as a stream: a window of messages at a time, the next one read while the caller has this one.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use sealpost_base::{Error, MailboxId, ObjectId, Permit, Result, Uid, UidSet};

use super::build::BUILD_BYTES;
use super::content::Content;
use super::gather::gather;
use super::reads::{Reads, Task};
use super::{Parts, Summary};
use crate::account::Account;
use crate::state::MessageNumber;

/// Memory of one stream: the window that the caller has, the one that is read ahead, and what reading it takes.
pub const STREAM_BYTES: usize = 2 * WINDOW_BYTES + BUILD_BYTES;
/// Summaries of one window, in bytes.
const WINDOW_BYTES: usize = 2 * 1024 * 1024;
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
    /// Waits for [`STREAM_BYTES`] of the budget when it begins and gives them back at its end: ask for them before
    /// holding any other part of it. A stream that is dropped stops reading.
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
        let start = Walk { scope, permit: None, next: Next::From(Uid::MIN) };
        futures::stream::unfold(start, Walk::step).map(futures::stream::iter).flatten().boxed()
    }
}

/// A stream under way.
struct Walk {
    scope: Arc<Scope>,
    permit: Option<Permit>,
    next: Next,
}

enum Next {
    From(Uid),
    /// A window that is being read.
    Ahead(Task<(Window, Reads)>),
    End,
}

/// A window, and where the next one begins.
struct Window {
    summaries: Vec<(Uid, Result<Summary>)>,
    next: Option<Uid>,
}

impl Walk {
    async fn step(mut self) -> Option<(Vec<(Uid, Result<Summary>)>, Walk)> {
        let granted = match &self.permit {
            Some(permit) => permit.bytes(),
            None => {
                let permit = self.scope.account.budget().acquire(STREAM_BYTES).await;
                self.permit.insert(permit).bytes()
            }
        };
        // With less memory than that, windows are smaller.
        let bytes = WINDOW_BYTES.min(granted / 4);
        let window = match std::mem::replace(&mut self.next, Next::End) {
            Next::From(uid) => {
                let reads = Reads::new(self.scope.content, granted.saturating_sub(2 * bytes));
                window(self.scope.clone(), uid, bytes, reads).await
            }
            Next::Ahead(mut ahead) => match (&mut ahead.0).await {
                Ok(window) => window,
                Err(e) => {
                    // Said once, for the first message that has no answer.
                    let error = Error::internal("reading summaries panicked").with_source(e);
                    return Some((vec![(Uid::MIN, Err(error))], self));
                }
            },
            Next::End => {
                self.scope.account.extend_after_stream(self.scope.content);
                return None;
            }
        };
        let (window, reads) = window;
        if let Some(next) = window.next {
            let ahead = self::window(self.scope.clone(), next, bytes, reads);
            self.next = Next::Ahead(Task(tokio::spawn(ahead)));
        }
        Some((window.summaries, self))
    }
}

async fn window(scope: Arc<Scope>, from: Uid, bytes: usize, mut reads: Reads) -> (Window, Reads) {
    let (wanted, mut next) = wanted(&scope, from);
    let gathered = gather(&scope.account, scope.content, &wanted, scope.parts, bytes, &mut reads).await;
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
