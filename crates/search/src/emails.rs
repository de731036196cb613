//! Queries over the emails of an account: each message once, whatever its mailboxes and logs
//! ([`sealpost_mailbox::emails`]).
//!
//! [`Engine::emails`] returns the ordered results of a query at one moment of all logs. A scan of the state
//! finds them ([`scan`]), with a search of its own for each condition on content ([`contents`]). Results are
//! cached. The next query uses them if nothing has changed; after a change it examines only the changed
//! emails ([`patch`]). This also gives the changes of the results ([`changes`]).
//!
//! Nothing awaits while it borrows a state. Reasons: `docs/decisions/0097-queries-of-emails.md`.

mod changes;
mod contents;
mod facts;
mod list;
mod order;
mod patch;
mod plan;
mod query;
mod scan;

use std::collections::HashMap;
use std::sync::Arc;

use sealpost_account::Account;
use sealpost_account::state::ObjectKind;
use sealpost_base::{AccountId, Error, ObjectId, Permit};
use sealpost_mailbox::account_changes::{LogPositions, at_once, last_changes, positions};
use sealpost_mailbox::shared_accounts::Reach;
use sealpost_mime::structure::StoredStructure;

pub use changes::{Bounds, EmailChanges};
use contents::Places;
pub(crate) use list::{EmailList, ListKey};
use list::{Entry, Logs, entries_of, forgotten};
use order::{Keyed, fill_in_texts, sorted, too_large};
pub use patch::UnknownChanges;
use patch::{PATCHED_EMAILS, Patched, patched};
use plan::{Plan, Verdicts};
pub use query::{
    Collation, EmailComparator, EmailFilter, EmailKeyword, EmailQuery, EmailSortKey, KeywordOf, MailboxPlace,
};
use scan::{KnownContents, Scan, Scanned, verdicts, visible_place};

use crate::engine::Engine;
use crate::progress::{Failure, Progress};

/// Attempts at a query while the account changes too much.
const ATTEMPTS: usize = 4;
/// Estimated bytes of a string in a sort key.
const STRING_BYTES: usize = 200;
/// Bytes per result for the update of a list.
const PATCH_BYTES: usize = 32;
/// Lists up to this size, in bytes, are updated in the memory of a connection.
const SMALL: usize = 16 * 1024;

/// Whether a message has an attachment, from its structure; the protocol defines the meaning.
pub type IsAttached = fn(&StoredStructure<'_>) -> bool;

/// A query, and the logs in which it runs.
#[derive(Clone, Copy)]
pub struct EmailSearch<'a> {
    /// The logs of the account: its own, then those of its shared mailboxes; or those that another
    /// owner shares, as far as the user may read them.
    pub logs: &'a [Arc<Account>],
    /// The user who searches.
    pub user: AccountId,
    /// How the user reaches the logs.
    pub reach: Reach,
    /// What is asked for.
    pub query: &'a EmailQuery,
    /// Decides [`EmailFilter::Attached`].
    pub is_attached: IsAttached,
}

/// The results of a query at one moment. With `collapsed`, only the first of each thread counts.
pub struct EmailsView<'a> {
    logs: &'a Logs<'a>,
    plan: &'a Plan,
    list: &'a EmailList,
}

impl EmailsView<'_> {
    /// The number of results.
    pub fn len(&self, collapsed: bool) -> usize {
        self.list.len(collapsed)
    }

    /// Whether there are no results.
    pub fn is_empty(&self) -> bool {
        self.list.len(false) == 0
    }

    /// The results from that index.
    pub fn from(&self, first: usize, collapsed: bool) -> impl Iterator<Item = ObjectId> + '_ {
        self.list.from(first, collapsed).filter_map(|entry| entry.object(self.logs))
    }

    /// The index of an email; `None` if it is not among the results.
    pub fn index(&self, object: ObjectId, collapsed: bool) -> Option<usize> {
        let entries: Vec<Entry> = entries_of(self.logs, object).collect();
        self.list.index(self.list.find(&entries)?, collapsed)
    }

    /// The logs, the account's own first.
    pub fn logs(&self) -> impl Iterator<Item = AccountId> + '_ {
        self.logs.iter().map(|(log, _)| *log)
    }

    /// The last changes of emails as of these results: no other emails have other ones.
    pub fn last_changes(&self) -> LogPositions {
        last_changes(self.logs, ObjectKind::Emails)
    }

    /// Whether [`EmailsView::changes`] is possible: not for an order with too little memory.
    pub fn has_changes(&self) -> bool {
        self.list.is_exact
    }
}

impl Engine {
    /// Runs a query and shows its results, as they are at one moment, to `pick`, which must not
    /// wait for anything.
    ///
    /// # Errors
    /// `Limit` if the query or the account is too large; `Retry` if there is no memory, messages
    /// cannot be read for now, or the account changes too fast; errors of `progress`.
    pub async fn emails<P: Progress, T>(
        &self,
        search: EmailSearch<'_>,
        progress: &mut P,
        pick: impl Fn(&EmailsView<'_>) -> T,
    ) -> Result<T, Failure<P::Interruption>> {
        let plan = Arc::new(Plan::new(search.query).map_err(Failure::Error)?);
        // An account of which nothing may be read has no logs.
        let account = search.logs.first().map_or(AccountId([0; 16]), |log| log.id());
        let key = ListKey { account, query: Arc::new(search.query.clone()) };
        let mut kept = self.orders.emails(&key);
        for _ in 0..ATTEMPTS {
            let is_new = kept.is_none();
            let list = match kept.take() {
                Some(list) => list,
                None => Arc::new(self.make(search, &plan, progress).await?),
            };
            let done = self.bring_up_to_date(search, &plan, list.clone(), progress, &pick).await?;
            let Some((newer, picked)) = done else { continue };
            if is_new || !Arc::ptr_eq(&list, &newer) {
                self.orders.keep_emails(key, newer);
            }
            return Ok(picked);
        }
        Err(Failure::Error(changes_too_fast()))
    }

    /// Shows the results to `pick` once the list is up to date, which it gives back; `None` if it has
    /// to be made again.
    async fn bring_up_to_date<P: Progress, T>(
        &self,
        search: EmailSearch<'_>,
        plan: &Plan,
        list: Arc<EmailList>,
        progress: &mut P,
        pick: impl Fn(&EmailsView<'_>) -> T,
    ) -> Result<Option<(Arc<EmailList>, T)>, Failure<P::Interruption>> {
        let show = |logs: &Logs<'_>, list: &EmailList| pick(&EmailsView { logs, plan, list });
        let current = |logs: &Logs<'_>| {
            let is_current = list.is_of(logs) && list.upto == positions(logs);
            is_current.then(|| show(logs, &list))
        };
        if let Some(picked) = at_once(search.logs, current).await.map_err(Failure::Error)? {
            return Ok(Some((list, picked)));
        }
        let mut decided: HashMap<ObjectId, Verdicts> = HashMap::new();
        for _ in 0..ATTEMPTS {
            let permit = self.permit_for(&list, progress).await?;
            let step = |logs: &Logs<'_>| {
                let patched = patched(&list, plan, logs, &decided);
                let picked = match &patched {
                    Patched::Current => Some(show(logs, &list)),
                    Patched::Newer(newer) => Some(show(logs, newer)),
                    Patched::Undecided(_) | Patched::Stale => None,
                };
                (patched, picked)
            };
            let done = at_once(search.logs, step).await.map_err(Failure::Error)?;
            drop(permit);
            match done {
                (Patched::Current, Some(picked)) => return Ok(Some((list, picked))),
                (Patched::Newer(newer), Some(picked)) => return Ok(Some((Arc::new(newer), picked))),
                (Patched::Undecided(emails), _) => {
                    decided.extend(self.decide(search, plan, &emails, progress).await?);
                }
                _ => return Ok(None),
            }
        }
        Err(Failure::Error(changes_too_fast()))
    }

    async fn permit_for<P: Progress>(
        &self,
        list: &EmailList,
        progress: &mut P,
    ) -> Result<Option<Permit>, Failure<P::Interruption>> {
        let bytes = list.len(false) * PATCH_BYTES;
        if bytes <= SMALL {
            return Ok(None);
        }
        let permit = progress.await_with_progress(self.budget.acquire(bytes)).await;
        permit.map(Some).map_err(Failure::Interrupted)
    }

    /// Decides the conditions on contents of some emails.
    async fn decide<P: Progress>(
        &self,
        search: EmailSearch<'_>,
        plan: &Plan,
        emails: &[(ObjectId, Entry)],
        progress: &mut P,
    ) -> Result<HashMap<ObjectId, Verdicts>, Failure<P::Interruption>> {
        let mut places = Places::new();
        for (_, entry) in emails {
            let state = search.logs[usize::from(entry.log)].state();
            // One that has gone by now is looked at again with the next change.
            if let Some((mailbox, uid)) = visible_place(&state, entry.number) {
                places.entry((entry.log, mailbox)).or_default().insert(uid);
            }
        }
        let contents = self.contents(search, plan, &places, progress).await?;
        Ok(emails.iter().map(|(object, entry)| (*object, verdicts(&contents.known, *entry))).collect())
    }

    /// Makes a list of everything. It is of no moment while that took: its positions are those at
    /// the begin, and what changed since then is looked at again.
    async fn make<P: Progress>(
        &self,
        search: EmailSearch<'_>,
        plan: &Arc<Plan>,
        progress: &mut P,
    ) -> Result<EmailList, Failure<P::Interruption>> {
        let begin = |logs: &Logs<'_>| ((positions(logs), forgotten(logs)), scan::size(logs, plan));
        let (begin, size) = at_once(search.logs, begin).await.map_err(Failure::Error)?;
        let wanted = scan::bytes(size, plan);
        let mut contents = None;
        if !plan.contents.is_empty() {
            let undecided = {
                let _memory = self.memory_to_sort(size.0, wanted, plan, progress).await?;
                self.scan(search, plan, None, progress).await?.undecided
            };
            contents = Some(self.contents(search, plan, &undecided, progress).await?);
        }
        let memory = self.memory_to_sort(size.0, wanted, plan, progress).await?;
        let known = contents.as_ref().map(|contents| contents.known.clone());
        let found = self.scan(search, plan, known, progress).await?;
        drop(contents);
        let mut keyed = Keyed { entries: found.entries, keys: found.keys, is_exact: true };
        if plan.sorts_by_text() {
            let room = memory.bytes().saturating_sub(wanted);
            fill_in_texts(&mut keyed, plan, search, room, progress).await?;
        }
        let (logs, plan) = (search.logs.to_vec(), plan.clone());
        let sort = move || {
            let list = sorted(keyed, &plan, &logs, begin);
            drop(memory);
            list
        };
        run_blocking(sort, progress).await
    }

    async fn scan<P: Progress>(
        &self,
        search: EmailSearch<'_>,
        plan: &Arc<Plan>,
        contents: Option<Arc<KnownContents>>,
        progress: &mut P,
    ) -> Result<Scanned, Failure<P::Interruption>> {
        for log in search.logs {
            log.wait_for_bulk_update().await;
        }
        let scan = Scan { logs: search.logs.to_vec(), plan: plan.clone(), contents: contents.clone() };
        let mut found = run_blocking(move || scan.run(), progress).await?;
        let deferred = std::mem::take(&mut found.deferred);
        for objects in deferred.chunks(PATCHED_EMAILS) {
            let decide = |logs: &Logs<'_>| scan::decide_deferred(logs, plan, objects, contents.as_deref());
            found.add(at_once(search.logs, decide).await.map_err(Failure::Error)?);
        }
        Ok(found)
    }

    /// Memory to go through an account, and the right to wait for some of it while the rest is held.
    async fn memory_to_sort<P: Progress>(
        &self,
        rows: usize,
        wanted: usize,
        plan: &Plan,
        progress: &mut P,
    ) -> Result<SortMemory, Failure<P::Interruption>> {
        let turn = progress.acquire_with_progress(self.sorting.clone().acquire_owned()).await;
        let turn = turn.map_err(Failure::Interrupted)?.ok();
        let fair = self.budget.fair_part();
        let strings = plan.sort.iter().filter(|comparator| comparator.is_string()).count();
        // Reading summaries takes the second part.
        let most = if plan.sorts_by_text() { fair } else { 2 * fair };
        if wanted > most {
            return Err(Failure::Error(too_large()));
        }
        let mut memory = SortMemory { permits: Vec::new(), _turn: turn };
        let mut left = wanted.saturating_add(strings * rows * STRING_BYTES).min(most);
        while left > 0 {
            let acquired = progress.acquire_with_progress(self.budget.acquire(left)).await;
            let acquired = acquired.map_err(Failure::Interrupted)?;
            left = left.saturating_sub(acquired.bytes());
            memory.permits.push(acquired);
        }
        Ok(memory)
    }
}

/// Memory for a scan and a sort.
struct SortMemory {
    permits: Vec<Permit>,
    _turn: Option<tokio::sync::OwnedSemaphorePermit>,
}

impl SortMemory {
    fn bytes(&self) -> usize {
        self.permits.iter().map(Permit::bytes).sum()
    }
}

fn changes_too_fast() -> Error {
    Error::retry("the account changes faster than it can be searched")
}

/// Does something that keeps its thread for long on a thread for that.
async fn run_blocking<T: Send + 'static, P: Progress>(
    work: impl FnOnce() -> T + Send + 'static,
    progress: &mut P,
) -> Result<T, Failure<P::Interruption>> {
    let done = progress.await_with_progress(tokio::task::spawn_blocking(work)).await;
    done.map_err(Failure::Interrupted)?
        .map_err(|error| Failure::Error(Error::internal("a query panicked").with_source(error)))
}
