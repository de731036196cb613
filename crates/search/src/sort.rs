//! Sorts the results of a search: by a cached order ([`orders`]), or with one pass over the summaries that
//! keeps only the keys ([`keys`]), and a sort of indices. Memory for the keys is acquired beforehand.

mod keys;
pub(crate) mod orders;
pub(crate) mod strings;

use sealpost_base::Error;

use crate::engine::Engine;
use crate::find::Placement;
use crate::matches::{Match, Matches};
use crate::progress::{Failure, Progress};
use crate::scope::{MailboxIndex, MailboxScope, Scope};
use crate::summaries::{SortRow, with_summaries};
use keys::Keys;
pub use keys::{Comparator, SortKey};
use orders::{Key, Order};

/// Memory of a message during a sort in addition to its key: its number in the order, and its entry in the
/// new one.
const SORTED_BYTES: usize = size_of::<u32>() + size_of::<Match>();
/// Up to this many are sorted on the calling thread, more on a blocking thread.
const FEW: usize = 2048;

/// The matches, sorted.
#[derive(Default)]
pub struct Sorted {
    /// The messages.
    pub matches: Matches,
    /// Damaged messages, which have no meaningful position in the order.
    pub damaged: Vec<Placement>,
    /// Mailboxes deleted or no longer readable: none of their messages is left.
    pub gone: Vec<MailboxIndex>,
}

impl Engine {
    /// Sorts matches of the scope, given by mailbox and UID, by the comparators. Equal messages stay in the
    /// order of mailbox and UID (RFC 5256 §3).
    ///
    /// # Errors
    /// `Retry` if messages are temporarily unreadable; errors of `progress`.
    pub async fn sort<P: Progress>(
        &self,
        scope: Scope<'_>,
        found: Matches,
        comparators: &[Comparator],
        progress: &mut P,
    ) -> Result<Sorted, Failure<P::Interruption>> {
        let key = Key::of(scope, comparators);
        if let Some(sorted) = self.sorted_before(&found, key.as_ref(), progress).await? {
            let gone = gone(scope);
            let sorted = if gone.is_empty() { sorted } else { Vec::new() };
            return Ok(Sorted { matches: found.map(|_| sorted), damaged: Vec::new(), gone });
        }
        // Few at a time, since they hold memory while they wait for more, in the part of the summaries.
        let turn = progress.acquire_with_progress(self.sorting.clone().acquire_owned()).await;
        let turn = turn.map_err(Failure::Interrupted)?;
        let besides = found.len() * SORTED_BYTES;
        let wanted = Keys::bytes(found.len(), comparators).saturating_add(besides);
        let permit = progress.acquire_with_progress(self.budget.acquire(wanted)).await;
        let permit = permit.map_err(Failure::Interrupted)?;
        let mut keys = Keys::new(comparators, permit.bytes().saturating_sub(besides));
        let (parts, mut incomplete) = (keys.parts(), false);
        let missing = with_summaries(scope, &found, parts, progress, |at, row: SortRow, summary| {
            incomplete |= parts.is_some() && summary.is_none();
            keys.push(at, row, summary);
        })
        .await?;
        let few = found.len() <= FEW;
        let is_most = found.len() > scope.messages() / 2;
        let keeps = is_most && !incomplete && missing.gone.is_empty() && keys.are_whole(found.len());
        let (key, orders) = (key.filter(|_| keeps), self.orders.clone());
        let gone = missing.gone.clone();
        let (found, memory) = found.into_parts();
        let sort = move || {
            let order: Vec<u32> = keys.order().map(|at| at as u32).collect();
            let mut sorted: Vec<Match> = order.iter().map(|at| found[*at as usize]).collect();
            if !gone.is_empty() {
                sorted.retain(|found| !gone.contains(&found.mailbox));
            }
            if let Some(key) = key {
                orders.keep(key, Order::new(&found, order));
            }
            drop((found, permit, turn));
            Matches::from_parts(sorted, memory)
        };
        let matches = if few {
            sort()
        } else {
            let sorted = progress.await_with_progress(tokio::task::spawn_blocking(sort)).await;
            sorted
                .map_err(Failure::Interrupted)?
                .map_err(|error| Failure::Error(Error::internal("sorting failed").with_source(error)))?
        };
        Ok(Sorted { matches, damaged: missing.damaged, gone: missing.gone })
    }

    /// Sorts by a cached order, if one has all messages.
    async fn sorted_before<P: Progress>(
        &self,
        found: &[Match],
        key: Option<&Key>,
        progress: &mut P,
    ) -> Result<Option<Vec<Match>>, Failure<P::Interruption>> {
        let Some(order) = key.and_then(|key| self.orders.get(key)) else { return Ok(None) };
        let acquiring = self.budget.acquire(order.work_bytes(found.len()));
        let _permit = progress.await_with_progress(acquiring).await.map_err(Failure::Interrupted)?;
        Ok(order.sort(found))
    }
}

/// The mailboxes of the scope that no longer exist.
fn gone(scope: Scope<'_>) -> Vec<MailboxIndex> {
    let is_gone = |mailbox: &MailboxScope| mailbox.mailbox_in(&mailbox.account.state()).is_err();
    scope.mailboxes().filter(|(_, mailbox)| is_gone(mailbox)).map(|(index, _)| index).collect()
}
