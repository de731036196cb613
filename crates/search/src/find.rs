//! Searches a scope, one mailbox after another.
//!
//! Each step covers only messages that the previous one left undecided: the rows (flags, sizes, dates,
//! numbers); the summaries (Date and common header fields), thousands at a time; the structure and folded
//! text stored with the message, from text segments or one by one; and the message itself, as a stream, if
//! its stored text is truncated. The last two steps run in several concurrent tasks, each with a bounded
//! number of messages.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use sealpost_account::state::{FlagSetId, Mailbox, Row};
use sealpost_account::{Account, AccountState, Message, MessageNumber};
use sealpost_base::{Budget, Error, Kind, Result, Timestamp, Uid, UidSet, limits};
use sealpost_index::Index;
use sealpost_index::summary::{Parts, ReadOrder, ShortText};
use sealpost_mailbox::memory::unless_pressed;
use sealpost_vault::message::READER_BYTES;
use tokio::task::JoinSet;

use crate::engine::Engine;
use crate::evaluate::{KnownFields, Relevance, RowFields};
use crate::matches::{Match, Matches, ResultPermit, TooLarge};
use crate::progress::{Failure, Progress};
use crate::query::{Bound, Query};
use crate::scan;
use crate::scope::{MailboxGone, MailboxIndex, MailboxScope, Scope};

/// Rows read while the account's state is borrowed, in a cheap search.
const BATCH_ROWS: usize = 512;
/// Batches of rows decided without reading before other tasks run.
const BATCHES_OF_ROWS: usize = 16;
/// The least rows of a batch, however many patterns there are.
const BATCH_ROWS_LEAST: usize = 8;
/// Messages for one reading task.
const GROUP_MESSAGES: usize = 64;
/// Concurrent reading tasks.
const TASKS: usize = 4;
/// Memory of one task: the texts that it reads together, of which one is open, or a stream of a message.
const TASK_BYTES: usize = scan::TEXTS_BYTES + 4 * limits::TEXT_BYTES;
/// Up to this many undecided messages are read one by one instead of in summary segments.
const FEW: usize = 8;
/// The same if only their texts can decide: opening this many takes about as long as a segment.
const FEW_TEXTS: usize = 32;

/// Up to this many undecided messages have their texts read one by one.
const MANY: usize = 128;

/// The result of a search.
#[derive(Default)]
pub struct Findings {
    /// The messages that match, by mailbox and UID.
    pub matches: Matches,
    /// Messages that could not be searched because they are damaged.
    pub damaged: Vec<Placement>,
    /// Whether some messages are temporarily unreadable.
    pub unavailable: bool,
    /// Mailboxes deleted or no longer readable: none of their messages is among the matches.
    pub gone: Vec<MailboxIndex>,
}

/// A message in a mailbox of the scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The mailbox.
    pub mailbox: MailboxIndex,
    /// Its UID there.
    pub uid: Uid,
}

/// A message that its row does not decide.
pub(crate) struct Candidate {
    pub(crate) uid: Uid,
    pub(crate) row: RowFields,
    pub(crate) message: Message,
}

/// Why the search of a mailbox ends early.
enum Stop<I> {
    Gone,
    Interrupted(I),
}

impl<I> From<MailboxGone> for Stop<I> {
    fn from(MailboxGone: MailboxGone) -> Self {
        Stop::Gone
    }
}

impl Engine {
    /// The matching messages of the scope, by mailbox and UID. Ages are counted from `now`.
    ///
    /// # Errors
    /// `Retry` if there is no memory for the result at present, `Limit` if the scope is too large for it;
    /// errors of `progress`.
    pub async fn find<P: Progress>(
        &self,
        scope: Scope<'_>,
        query: &Arc<Query>,
        now: Timestamp,
        progress: &mut P,
    ) -> Result<Findings, Failure<P::Interruption>> {
        let memory = self.acquire_for(scope.messages(), progress).await?;
        let (mut found, list) = self.find_within(scope, query, now, progress).await?;
        found.matches = Matches::new(list, memory);
        Ok(found)
    }

    /// As `find`, in memory that the caller has acquired. Returns the matches, and the other findings.
    pub(crate) async fn find_within<P: Progress>(
        &self,
        scope: Scope<'_>,
        query: &Arc<Query>,
        now: Timestamp,
        progress: &mut P,
    ) -> Result<(Findings, Vec<Match>), Failure<P::Interruption>> {
        let goal = scope.messages();
        let (mut found, mut list, mut done) = (Findings::default(), Vec::new(), 0);
        for (index, mailbox) in scope.mailboxes() {
            let bound = Arc::new(query.bind(index, &mailbox.account.state(), now));
            let (budget, outcome) = (&self.budget, Outcome::new(index));
            let mut search =
                MailboxSearch { budget, mailbox, bound, progress: &mut *progress, done, goal, outcome };
            match search.run().await {
                Ok(()) => search.outcome.add_to(&mut found, &mut list),
                Err(Stop::Gone) => found.gone.push(index),
                Err(Stop::Interrupted(interruption)) => return Err(Failure::Interrupted(interruption)),
            }
            done += mailbox.uids.len();
        }
        list.sort_unstable();
        Ok((found, list))
    }

    /// Acquires memory for the results of a search of that many messages.
    pub(crate) async fn acquire_for<P: Progress>(
        &self,
        messages: usize,
        progress: &mut P,
    ) -> Result<Option<ResultPermit>, Failure<P::Interruption>> {
        let acquiring = unless_pressed(|| self.accounts.is_pressure_severe(), self.results.acquire(messages));
        let permit = progress.await_with_progress(acquiring).await.map_err(Failure::Interrupted)?;
        let permit = permit.ok_or_else(|| {
            Failure::Error(Error::retry(
                "not enough memory for the search; \
            retry later",
            ))
        })?;
        permit.map_err(|TooLarge| {
            let text = "the mailbox is too large to be searched with the memory of this server";
            Failure::Error(Error::limit(text))
        })
    }
}

/// The search of one mailbox of the scope.
struct MailboxSearch<'a, P> {
    budget: &'a Budget,
    mailbox: &'a MailboxScope,
    bound: Arc<Bound>,
    progress: &'a mut P,
    /// The number of messages in earlier mailboxes, and in all.
    done: usize,
    goal: usize,
    outcome: Outcome,
}

/// The result in one mailbox.
struct Outcome {
    mailbox: MailboxIndex,
    matches: Vec<Match>,
    damaged: Vec<Uid>,
    unavailable: bool,
}

impl<P: Progress> MailboxSearch<'_, P> {
    async fn run(&mut self) -> Result<(), Stop<P::Interruption>> {
        let query = self.bound.query.clone();
        let mut undecided = self.by_rows().await?;
        let mut texts = query.asks_for_texts();
        // A pattern for the whole text rarely occurs in the header.
        if undecided.len() > MANY
            && !query.asks_for_fields()
            && let Some(headers) = texts.take()
        {
            undecided = self.by_texts(undecided, headers).await?;
        }
        // Headers cannot rule out a string that may be anywhere.
        let few = if query.asks_for_fields() { FEW } else { FEW_TEXTS };
        if undecided.len() > few && query.asks_for_headers() {
            undecided = self.by_summaries(undecided).await?;
        }
        if undecided.len() > MANY
            && let Some(headers) = texts
        {
            undecided = self.by_texts(undecided, headers).await?;
        }
        self.by_reading(undecided).await
    }

    /// Decides by the rows where possible; returns the undecided messages.
    async fn by_rows(&mut self) -> Result<UidSet, Stop<P::Interruption>> {
        let mailbox = self.mailbox;
        let mut undecided = UidSet::new();
        let mut next = mailbox.uids.first();
        for batch in 0usize.. {
            let Some(first) = next else { break };
            if batch.is_multiple_of(BATCHES_OF_ROWS) {
                self.yield_or_shutdown().await?;
            }
            mailbox.account.wait_for_bulk_update().await;
            let state = mailbox.account.state();
            // Another state may number other flag sets in the same way.
            let mut decided = ByFlags::default();
            let mut rows = rows(mailbox, mailbox.mailbox_in(&state)?, first);
            for row in rows.by_ref().take(BATCH_ROWS) {
                let relevance = decided.get(&self.bound, &state, row.flags).or_else(|| {
                    let message = state.message_fields(row.message)?;
                    let fields = RowFields::new(&row, state.flags(row.flags), &message, mailbox);
                    self.bound.decide(&fields, &KnownFields::none())
                });
                match relevance {
                    Some(relevance) => self.outcome.note(row.uid, Ok(relevance)),
                    None => undecided.push(row.uid),
                }
            }
            next = rows.next().map(|row| row.uid);
        }
        Ok(undecided)
    }

    /// Decides by the summaries where possible; returns the undecided messages.
    async fn by_summaries(&mut self, undecided: UidSet) -> Result<UidSet, Stop<P::Interruption>> {
        let mailbox = self.mailbox;
        let mut decided = UidSet::new();
        let (uids, at_once) = (undecided.clone(), batch_rows(&self.bound.query));
        let mut stream = Index::of(&mailbox.account).summaries(
            mailbox.mailbox,
            uids,
            ReadOrder::Stored,
            Parts::HEADERS,
            at_once,
        );
        self.report(undecided.len()).await?;
        while let Some(batch) = self.await_with_progress(stream.next()).await? {
            self.yield_or_shutdown().await?;
            self.report(undecided.len() - decided.len()).await?;
            // A message without a summary is read later.
            let batch: Vec<_> =
                batch.into_iter().filter_map(|(uid, summary)| Some((uid, summary.ok()?))).collect();
            let uids: Vec<Uid> = batch.iter().map(|(uid, _)| *uid).collect();
            let state = mailbox.account.state();
            let mut summaries = batch.into_iter();
            for (uid, row, _) in candidates(mailbox, &state, &uids)? {
                let Some((_, summary)) = summaries.find(|(known, _)| *known == uid) else { break };
                let mut known = KnownFields::none();
                known.learn_summary(summary);
                if let Some(relevance) = self.bound.decide(&row, &known) {
                    self.outcome.note(uid, Ok(relevance));
                    decided.push(uid);
                }
            }
        }
        Ok(undecided.difference(&decided))
    }

    /// Decides by the texts in segments, thousands at a time, where possible; returns the undecided messages.
    /// First by the short texts and the Bloom filters of long ones, then by the remaining long ones if they
    /// are many.
    async fn by_texts(&mut self, undecided: UidSet, headers: bool) -> Result<UidSet, Stop<P::Interruption>> {
        let MailboxScope { account, mailbox, .. } = self.mailbox;
        let (index, at_once) = (Index::of(account), batch_rows(&self.bound.query));
        let short = index.short_texts(*mailbox, undecided.clone(), headers, at_once);
        let undecided = self.by_texts_of(undecided, headers, short).await?;
        if undecided.len() <= MANY {
            return Ok(undecided);
        }
        let longer = index.longer_texts(*mailbox, undecided.clone(), headers, at_once);
        self.by_texts_of(undecided, headers, longer).await
    }

    async fn by_texts_of(
        &mut self,
        undecided: UidSet,
        headers: bool,
        mut stream: BoxStream<'static, Vec<(Uid, ShortText)>>,
    ) -> Result<UidSet, Stop<P::Interruption>> {
        let mailbox = self.mailbox;
        let mut decided = UidSet::new();
        self.report(undecided.len()).await?;
        while let Some(batch) = self.await_with_progress(stream.next()).await? {
            self.yield_or_shutdown().await?;
            self.report(undecided.len() - decided.len()).await?;
            let uids: Vec<Uid> = batch.iter().map(|(uid, _)| *uid).collect();
            let state = mailbox.account.state();
            let mut texts = batch.into_iter();
            for (uid, row, _) in candidates(mailbox, &state, &uids)? {
                let Some((_, text)) = texts.find(|(known, _)| *known == uid) else { break };
                let mut known = KnownFields::none();
                known.learn_short_text(text, headers);
                if let Some(relevance) = self.bound.decide(&row, &known) {
                    self.outcome.note(uid, Ok(relevance));
                    decided.push(uid);
                }
            }
        }
        Ok(undecided.difference(&decided))
    }

    /// Decides the rest, by the stored texts and by the messages themselves.
    async fn by_reading(&mut self, undecided: UidSet) -> Result<(), Stop<P::Interruption>> {
        let mut tasks = JoinSet::new();
        let mut left = undecided.len();
        self.report(left).await?;
        let mut uids = undecided.iter();
        loop {
            let group: Vec<Uid> = uids.by_ref().take(GROUP_MESSAGES).collect();
            if group.is_empty() {
                break;
            }
            self.yield_or_shutdown().await?;
            let group = {
                let state = self.mailbox.account.state();
                let found = candidates(self.mailbox, &state, &group)?;
                found
                    .filter_map(|(uid, row, number)| {
                        Some(Candidate { uid, row, message: state.message(number)? })
                    })
                    .collect()
            };
            if tasks.len() >= TASKS {
                self.join(&mut tasks).await?;
                left = left.saturating_sub(GROUP_MESSAGES);
                self.report(left).await?;
            }
            let account = self.mailbox.account.clone();
            tasks.spawn(search_group(account, self.bound.clone(), self.budget.clone(), group));
        }
        while !tasks.is_empty() {
            self.join(&mut tasks).await?;
        }
        Ok(())
    }

    async fn join(&mut self, tasks: &mut JoinSet<Outcome>) -> Result<(), Stop<P::Interruption>> {
        match self.await_with_progress(tasks.join_next()).await? {
            Some(Ok(outcome)) => self.outcome.extend(outcome),
            Some(Err(e)) => {
                tracing::error!(error = %e, "a search task failed");
                self.outcome.unavailable = true;
            }
            None => {}
        }
        Ok(())
    }

    /// Reports progress; `left` messages of the mailbox remain.
    async fn report(&mut self, left: usize) -> Result<(), Stop<P::Interruption>> {
        let done = self.done + self.mailbox.uids.len().saturating_sub(left);
        self.progress.report_progress(done, self.goal).await.map_err(Stop::Interrupted)
    }

    async fn await_with_progress<T: Send>(
        &mut self,
        work: impl Future<Output = T> + Send,
    ) -> Result<T, Stop<P::Interruption>> {
        self.progress.await_with_progress(work).await.map_err(Stop::Interrupted)
    }

    async fn yield_or_shutdown(&mut self) -> Result<(), Stop<P::Interruption>> {
        self.progress.yield_or_shutdown().await.map_err(Stop::Interrupted)
    }
}

/// Decisions by flags only, once per flag set of a state.
#[derive(Default)]
struct ByFlags {
    known: HashMap<FlagSetId, Option<Relevance>>,
    last: Option<(FlagSetId, Option<Relevance>)>,
}

impl ByFlags {
    fn get(&mut self, bound: &Bound, state: &AccountState, flags: FlagSetId) -> Option<Relevance> {
        // Most messages have the flags of the previous one.
        if let Some((last, relevance)) = self.last
            && last == flags
        {
            return relevance;
        }
        let decide = || bound.decide_by_flags(state.flags(flags));
        let relevance = *self.known.entry(flags).or_insert_with(decide);
        self.last = Some((flags, relevance));
        relevance
    }
}

/// The rows of the searched messages that still exist, from that UID on.
fn rows<'a>(scope: &'a MailboxScope, mailbox: &'a Mailbox, first: Uid) -> impl Iterator<Item = Row> + 'a {
    scope.uids.ranges_from(first).flat_map(move |(from, to)| mailbox.rows(from.max(first)..=to))
}

/// Messages whose texts are searched before other tasks run: fewer with more patterns.
fn batch_rows(query: &Query) -> usize {
    (BATCH_ROWS / (1 + query.patterns.len() / 16)).max(BATCH_ROWS_LEAST)
}

/// The messages that still exist. One that was expunged meanwhile matches nothing (RFC 2180 §4.3).
fn candidates<'a>(
    scope: &'a MailboxScope,
    state: &'a AccountState,
    uids: &'a [Uid],
) -> Result<impl Iterator<Item = (Uid, RowFields, MessageNumber)>, MailboxGone> {
    let mailbox = scope.mailbox_in(state)?;
    Ok(uids.iter().filter_map(move |uid| {
        let row = mailbox.row(*uid)?;
        let message = state.message_fields(row.message)?;
        Some((row.uid, RowFields::new(&row, state.flags(row.flags), &message, scope), row.message))
    }))
}

async fn search_group(
    account: Arc<Account>,
    bound: Arc<Bound>,
    budget: Budget,
    group: Vec<Candidate>,
) -> Outcome {
    let _permit = budget.acquire(TASK_BYTES.max(READER_BYTES)).await;
    let mut found = Outcome::new(bound.mailbox);
    let mut undecided = Vec::new();
    for (candidate, decided) in scan::by_stored_texts(&account, &bound, group).await {
        match decided.transpose() {
            Some(decided) => found.note(candidate.uid, decided),
            None => undecided.push(candidate),
        }
    }
    for candidate in undecided {
        let decided = scan::by_message(&account, &bound, &candidate.row, &candidate.message).await;
        found.note(candidate.uid, decided);
    }
    found
}

impl Outcome {
    fn new(mailbox: MailboxIndex) -> Self {
        Outcome { mailbox, matches: Vec::new(), damaged: Vec::new(), unavailable: false }
    }

    fn note(&mut self, uid: Uid, decided: Result<Relevance>) {
        match decided {
            Ok(Relevance(0)) => {}
            Ok(Relevance(relevance)) => self.matches.push(Match { mailbox: self.mailbox, uid, relevance }),
            Err(error) => {
                tracing::error!(%uid, %error, "a message could not be searched");
                match error.kind() {
                    Kind::Corrupt | Kind::NotFound => self.damaged.push(uid),
                    _ => self.unavailable = true,
                }
            }
        }
    }

    fn extend(&mut self, other: Outcome) {
        self.matches.extend(other.matches);
        self.damaged.extend(other.damaged);
        self.unavailable |= other.unavailable;
    }

    /// Adds these results to those of other mailboxes. The first are moved without a copy.
    fn add_to(self, found: &mut Findings, matches: &mut Vec<Match>) {
        let Outcome { mailbox, matches: list, damaged, unavailable } = self;
        if matches.is_empty() {
            *matches = list
        } else {
            matches.extend(list)
        }
        found.damaged.extend(damaged.into_iter().map(|uid| Placement { mailbox, uid }));
        found.unavailable |= unavailable;
    }
}
