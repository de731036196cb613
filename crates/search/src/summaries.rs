//! One pass over the summaries of the matches, for sorting and threading.

use futures::StreamExt;
use sealpost_account::{AccountState, Mailbox};
use sealpost_base::{Error, Kind, UidSet};
use sealpost_index::Index;
use sealpost_index::summary::{Parts, ReadOrder, Summary};

use crate::find::Placement;
use crate::matches::Match;
use crate::progress::{Failure, Progress};
use crate::scope::{MailboxGone, MailboxIndex, MailboxScope, Scope};

/// Summaries read while an account's state is borrowed.
const BATCH_ROWS: usize = 512;

/// The fields of a message that need no summary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SortRow {
    /// INTERNALDATE in seconds since 1970.
    pub(crate) received: i64,
    /// The size in bytes.
    pub(crate) size: u64,
    /// From 1 to 100.
    pub(crate) relevance: u8,
}

/// Messages that could not be read.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// Messages that are damaged.
    pub(crate) damaged: Vec<Placement>,
    /// Mailboxes that no longer exist, or may no longer be read.
    pub(crate) gone: Vec<MailboxIndex>,
}

enum Stop<I> {
    Gone,
    Failed(Failure<I>),
}

impl<I> From<MailboxGone> for Stop<I> {
    fn from(MailboxGone: MailboxGone) -> Self {
        Stop::Gone
    }
}

/// The sent date in UTC; INTERNALDATE if there is none (RFC 5256 §2.2).
pub(crate) fn sent(row: SortRow, summary: Option<&Summary>) -> i64 {
    summary.and_then(Summary::sent).map_or(row.received, |sent| sent.seconds)
}

/// Calls `each` for the messages, by mailbox and UID, with index, row and summary, if one was requested and
/// is readable. Skips expunged messages.
///
/// # Errors
/// `Retry` if messages are temporarily unreadable; errors of `progress`.
pub(crate) async fn with_summaries<P: Progress>(
    scope: Scope<'_>,
    found: &[Match],
    parts: Option<Parts>,
    progress: &mut P,
    mut each: impl FnMut(usize, SortRow, Option<&Summary>) + Send,
) -> Result<Missing, Failure<P::Interruption>> {
    let mut missing = Missing::default();
    let mut next = 0;
    for found in found.chunk_by(|a, b| a.mailbox == b.mailbox) {
        let (before, index) = (next, found[0].mailbox);
        next += found.len();
        let Some(mailbox) = scope.mailbox(index) else { continue };
        let mut pass = Pass { index, mailbox, found, before, each: &mut each, missing: &mut missing };
        let passed = match parts {
            None => pass.rows(progress).await,
            Some(parts) => pass.summaries(parts, progress).await,
        };
        match passed {
            Ok(()) => {}
            Err(Stop::Gone) => missing.gone.push(index),
            Err(Stop::Failed(failure)) => return Err(failure),
        }
    }
    Ok(missing)
}

/// The pass over the matches in one mailbox.
struct Pass<'a, F> {
    index: MailboxIndex,
    mailbox: &'a MailboxScope,
    found: &'a [Match],
    /// The number of matches in earlier mailboxes.
    before: usize,
    each: &'a mut F,
    missing: &'a mut Missing,
}

impl<F: FnMut(usize, SortRow, Option<&Summary>) + Send> Pass<'_, F> {
    async fn rows<P: Progress>(&mut self, progress: &mut P) -> Result<(), Stop<P::Interruption>> {
        let mut at = self.before;
        for batch in self.found.chunks(BATCH_ROWS) {
            yield_or_shutdown(progress).await?;
            let state = self.mailbox.account.state();
            let mailbox = self.mailbox.mailbox_in(&state)?;
            for found in batch {
                if let Some(row) = sort_row(&state, mailbox, found) {
                    (self.each)(at, row, None);
                }
                at += 1;
            }
        }
        Ok(())
    }

    async fn summaries<P: Progress>(
        &mut self,
        parts: Parts,
        progress: &mut P,
    ) -> Result<(), Stop<P::Interruption>> {
        let MailboxScope { account, mailbox, .. } = self.mailbox;
        let uids: UidSet = self.found.iter().map(|found| found.uid).collect();
        let mut stream = Index::of(account).summaries(*mailbox, uids, ReadOrder::Uids, parts, BATCH_ROWS);
        let (mut at, mut unavailable) = (0, false);
        while let Some(batch) = progress.await_with_progress(stream.next()).await.map_err(interrupted)? {
            yield_or_shutdown(progress).await?;
            let state = account.state();
            let mailbox = self.mailbox.mailbox_in(&state)?;
            for (uid, summary) in batch {
                // Both ascend. An error that concerns no particular message has the lowest UID.
                at += self.found[at..].iter().take_while(|found| found.uid < uid).count();
                let Some(found) = self.found.get(at).filter(|found| found.uid == uid) else {
                    unavailable |= summary.is_err();
                    continue;
                };
                let Some(row) = sort_row(&state, mailbox, found) else { continue };
                match &summary {
                    Ok(_) => {}
                    Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => {
                        self.missing.damaged.push(Placement { mailbox: self.index, uid });
                    }
                    Err(_) => unavailable = true,
                }
                (self.each)(self.before + at, row, summary.ok().as_ref());
            }
        }
        if unavailable {
            let error = Error::retry("some messages cannot be read now");
            return Err(Stop::Failed(Failure::Error(error)));
        }
        Ok(())
    }
}

fn sort_row(state: &AccountState, mailbox: &Mailbox, found: &Match) -> Option<SortRow> {
    let message = state.message_fields(mailbox.row(found.uid)?.message)?;
    let received = message.received.seconds();
    Some(SortRow { received, size: message.size, relevance: found.relevance })
}

async fn yield_or_shutdown<P: Progress>(progress: &mut P) -> Result<(), Stop<P::Interruption>> {
    progress.yield_or_shutdown().await.map_err(interrupted)
}

fn interrupted<I>(interruption: I) -> Stop<I> {
    Stop::Failed(Failure::Interrupted(interruption))
}
