//! Searching a mailbox.
//!
//! Steps, each only for messages that the one before left undecided: the rows (flags, sizes, dates, numbers); the
//! summaries (Date and the common header fields), thousands at a time; what is stored with the message (structure and
//! folded text), from segments of texts, and one by one where there is none; and the message itself, read as a stream, if its
//! stored text is cut off. The last two run in several tasks at once, with a bounded number of messages each.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use sealpost_account::state::{FlagSetId, Mailbox, Row};
use sealpost_account::summary::{Parts, ReadOrder, ShortText};
use sealpost_account::{Account, AccountState, Message};
use sealpost_base::{Budget, Kind, Result, Uid, UidSet, limits};
use sealpost_imap::types::{Code, Status};
use sealpost_mailbox::memory::unless_pressed;
use sealpost_vault::message::READER_BYTES;
use tokio::task::JoinSet;

use super::area::Area;
use super::evaluate::{Columns, Knowledge, Verdict};
use super::found::{Found, TooLarge};
use super::key::Query;
use super::scan;
use crate::imap::connection::End;
use crate::imap::reply::{Failure, Reply};
use crate::imap::session::Session;
use crate::imap::targets::Cursor;

/// Rows looked at while the account's state is held, of a search for little.
const BATCH_ROWS: usize = 512;
/// Batches of rows that nothing is read for, before others have a turn.
const BATCHES_OF_ROWS: usize = 16;
/// Rows of a batch in a search for whatever much.
const BATCH_ROWS_LEAST: usize = 8;
/// Messages that one task reads.
const GROUP_MESSAGES: usize = 64;
/// Tasks that read at once.
const TASKS: usize = 4;
/// Memory of one task: the texts it reads at once, of which one is open, or a stream of a message.
const TASK_BYTES: usize = scan::TEXTS_BYTES + 4 * limits::TEXT_BYTES;
/// Up to so many undecided messages are read one by one and not in the segments of the summaries.
const FEW: usize = 8;
/// The same if only their texts can say no: that many are opened about as quickly as a segment.
const FEW_TEXTS: usize = 32;

/// Up to so many undecided messages have their texts read one by one.
const MANY: usize = 128;

/// A message that its row does not decide.
pub(super) struct Candidate {
    pub(super) uid: Uid,
    pub(super) columns: Columns,
    pub(super) message: Message,
}

/// A message that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::imap) struct Match {
    pub(in crate::imap) uid: Uid,
    /// From 1 to 100; 100 unless FUZZY was asked for.
    pub(in crate::imap) relevancy: u8,
}

/// What a search found out.
#[derive(Default)]
pub(in crate::imap) struct Findings {
    /// Ascending by UID.
    pub(in crate::imap) matches: Vec<Match>,
    /// Messages that could not be read, because they are damaged.
    damaged: Vec<Uid>,
    /// Messages could not be read for now.
    unavailable: bool,
}

impl Session {
    /// The messages of the area that match, ascending by UID. Says which are damaged.
    ///
    /// # Errors
    /// `NO [UNAVAILABLE]` if messages cannot be read for now; `NO [LIMIT]` if there are too many for the memory; the end of the session, or of the mailbox.
    pub(in crate::imap) async fn find(&mut self, area: &Area, query: &Arc<Query>) -> Result<Found, Failure> {
        let (results, messages) = (self.ctx.results.clone(), area.uids.len());
        let accounts = self.ctx.accounts.clone();
        let drawing = unless_pressed(|| accounts.are_pressed(), results.for_search(messages));
        let drawn = self.patiently(drawing).await?;
        let drawn = drawn.ok_or_else(|| Reply::no(Code::Unavailable, "no memory to search with now"))?;
        let memory = drawn.map_err(|TooLarge| {
            Reply::no(Code::Limit, "the mailbox is too large to be searched with the memory of this server")
        })?;
        let mut found = Findings::default();
        let mut undecided = self.by_rows(area, query, &mut found).await?;
        let mut texts = query.asks_for_texts();
        // What is looked for in all of a text is mostly not in its header.
        if undecided.len() > MANY
            && !query.asks_for_fields()
            && let Some(headers) = texts.take()
        {
            undecided = self.by_texts(area, query, undecided, headers, &mut found).await?;
        }
        // That a string which is looked for everywhere is not there, headers do not say.
        let few = if query.asks_for_fields() { FEW } else { FEW_TEXTS };
        if undecided.len() > few && query.asks_for_headers() {
            undecided = self.by_summaries(area, query, undecided, &mut found).await?;
        }
        if undecided.len() > MANY
            && let Some(headers) = texts
        {
            undecided = self.by_texts(area, query, undecided, headers, &mut found).await?;
        }
        self.by_reading(area, query, undecided, &mut found).await?;
        if found.unavailable {
            return Err(Reply::no(Code::Unavailable, "some messages cannot be read now").into());
        }
        for uid in &found.damaged {
            let text = format!("message UID {uid} is damaged and was not searched");
            self.connection.out().status(None, Status::No, Some(&Code::Corruption), &text);
            self.connection.relieve().await?;
        }
        found.matches.sort_unstable();
        Ok(Found::new(found.matches, memory))
    }

    /// Decides by the rows alone where that is possible; the others.
    async fn by_rows(&self, area: &Area, query: &Query, found: &mut Findings) -> Result<UidSet, Failure> {
        let mut undecided = UidSet::new();
        let mut next = area.uids.first();
        for batch in 0usize.. {
            let Some(first) = next else { break };
            if batch.is_multiple_of(BATCHES_OF_ROWS) {
                self.goes_on().await?;
            }
            area.account.settled().await;
            let state = area.account.state();
            // Another state may have other sets of the same numbers.
            let mut verdicts = ByFlags::default();
            let mut rows = rows(area, area.mailbox_in(&state)?, first);
            for row in rows.by_ref().take(BATCH_ROWS) {
                let verdict = verdicts.get(query, &state, row.flags).or_else(|| {
                    let message = state.message(row.message)?;
                    query.decide(
                        &Columns::new(&row, state.flags(row.flags), &message, area),
                        &Knowledge::none(),
                    )
                });
                match verdict {
                    Some(verdict) => found.note(row.uid, Ok(verdict)),
                    None => undecided.push(row.uid),
                }
            }
            next = rows.next().map(|row| row.uid);
        }
        Ok(undecided)
    }

    /// Decides by the summaries where that is possible; the others.
    async fn by_summaries(
        &mut self,
        area: &Area,
        query: &Query,
        undecided: UidSet,
        found: &mut Findings,
    ) -> Result<UidSet, Failure> {
        let mut decided = UidSet::new();
        let (uids, at_once) = (undecided.clone(), batch_rows(query));
        let mut stream =
            area.account.summaries(area.mailbox, uids, ReadOrder::Stored, Parts::HEADERS, at_once);
        let (rows, before) = (area.uids.len(), area.uids.len() - undecided.len());
        self.progress.reach(before, rows);
        while let Some(batch) = self.patiently(stream.next()).await? {
            self.goes_on().await?;
            self.advance(before + decided.len(), rows).await?;
            // A summary that cannot be made leaves the message to be read.
            let batch: Vec<_> =
                batch.into_iter().filter_map(|(uid, summary)| Some((uid, summary.ok()?))).collect();
            let uids: Vec<Uid> = batch.iter().map(|(uid, _)| *uid).collect();
            let state = area.account.state();
            let mut summaries = batch.into_iter();
            for (uid, columns, _) in candidates(area, &state, &uids)? {
                let Some((_, summary)) = summaries.find(|(known, _)| *known == uid) else { break };
                let mut known = Knowledge::none();
                known.learn_summary(summary);
                if let Some(verdict) = query.decide(&columns, &known) {
                    found.note(uid, Ok(verdict));
                    decided.push(uid);
                }
            }
        }
        Ok(undecided.difference(&decided))
    }

    /// Decides by the texts that segments have, thousands at a time, where that is possible; the others. First by the short
    /// ones and by what the others cannot hold, then by those others that are left if they are many.
    async fn by_texts(
        &mut self,
        area: &Area,
        query: &Query,
        undecided: UidSet,
        headers: bool,
        found: &mut Findings,
    ) -> Result<UidSet, Failure> {
        let (account, mailbox) = (&area.account, area.mailbox);
        let at_once = batch_rows(query);
        let short = account.short_texts(mailbox, undecided.clone(), headers, at_once);
        let undecided = self.by_texts_of(area, query, undecided, headers, short, found).await?;
        if undecided.len() <= MANY {
            return Ok(undecided);
        }
        let longer = account.longer_texts(mailbox, undecided.clone(), headers, at_once);
        self.by_texts_of(area, query, undecided, headers, longer, found).await
    }

    async fn by_texts_of(
        &mut self,
        area: &Area,
        query: &Query,
        undecided: UidSet,
        headers: bool,
        mut texts: BoxStream<'static, Vec<(Uid, ShortText)>>,
        found: &mut Findings,
    ) -> Result<UidSet, Failure> {
        let mut decided = UidSet::new();
        let (rows, before) = (area.uids.len(), area.uids.len() - undecided.len());
        self.progress.reach(before, rows);
        while let Some(batch) = self.patiently(texts.next()).await? {
            self.goes_on().await?;
            self.advance(before + decided.len(), rows).await?;
            let uids: Vec<Uid> = batch.iter().map(|(uid, _)| *uid).collect();
            let state = area.account.state();
            let mut batch = batch.into_iter();
            for (uid, columns, _) in candidates(area, &state, &uids)? {
                let Some((_, text)) = batch.find(|(known, _)| *known == uid) else { break };
                let mut known = Knowledge::none();
                known.learn_short_text(text, headers);
                if let Some(verdict) = query.decide(&columns, &known) {
                    found.note(uid, Ok(verdict));
                    decided.push(uid);
                }
            }
        }
        Ok(undecided.difference(&decided))
    }

    /// Decides the rest, by what is stored with the messages and by the messages.
    async fn by_reading(
        &mut self,
        area: &Area,
        query: &Arc<Query>,
        undecided: UidSet,
        found: &mut Findings,
    ) -> Result<(), Failure> {
        let mut tasks = JoinSet::new();
        let (rows, mut left) = (area.uids.len(), undecided.len());
        self.progress.reach(rows - left, rows);
        let mut cursor = Cursor::new(undecided);
        while let Some(uids) = cursor.next_batch(GROUP_MESSAGES) {
            self.goes_on().await?;
            let group = candidates(area, &area.account.state(), &uids)?
                .map(|(uid, columns, message)| Candidate { uid, columns, message })
                .collect();
            if tasks.len() >= TASKS {
                self.patiently(join(&mut tasks, found)).await?;
                left = left.saturating_sub(GROUP_MESSAGES);
                self.advance(rows - left, rows).await?;
            }
            let (account, budget) = (area.account.clone(), self.ctx.budget.clone());
            tasks.spawn(search_group(account, query.clone(), budget, group));
        }
        while !tasks.is_empty() {
            self.patiently(join(&mut tasks, found)).await?;
        }
        Ok(())
    }

    /// Lets others have a turn; ends when the server does.
    pub(in crate::imap) async fn goes_on(&self) -> Result<(), Failure> {
        tokio::task::yield_now().await;
        if self.connection.is_stopping() { Err(End::Shutdown.into()) } else { Ok(()) }
    }
}

/// What flags alone decide, once for each set of them in a state.
#[derive(Default)]
struct ByFlags {
    known: HashMap<FlagSetId, Option<Verdict>>,
    last: Option<(FlagSetId, Option<Verdict>)>,
}

impl ByFlags {
    fn get(&mut self, query: &Query, state: &AccountState, flags: FlagSetId) -> Option<Verdict> {
        // Mostly the next message has the flags of the one before.
        if let Some((last, verdict)) = self.last
            && last == flags
        {
            return verdict;
        }
        let decide = || query.decide_by_flags(state.flags(flags));
        let verdict = *self.known.entry(flags).or_insert_with(decide);
        self.last = Some((flags, verdict));
        verdict
    }
}

/// The rows of the area that are still there, from that UID on.
fn rows<'a>(area: &'a Area, mailbox: &'a Mailbox, first: Uid) -> impl Iterator<Item = Row> + 'a {
    area.uids.ranges_from(first).flat_map(move |(from, to)| mailbox.rows(from.max(first)..=to))
}

/// Messages whose texts are looked at before others have a turn: the fewer the more is looked for in each.
fn batch_rows(query: &Query) -> usize {
    (BATCH_ROWS / (1 + query.patterns.len() / 16)).max(BATCH_ROWS_LEAST)
}

/// Those of the messages that are still there. One that was expunged meanwhile matches nothing (RFC 2180 §4.3).
fn candidates<'a>(
    area: &'a Area,
    state: &'a AccountState,
    uids: &'a [Uid],
) -> Result<impl Iterator<Item = (Uid, Columns, Message)>, Failure> {
    let mailbox = area.mailbox_in(state)?;
    Ok(uids.iter().filter_map(move |uid| {
        let row = mailbox.row(*uid)?;
        let message = state.message(row.message)?;
        Some((row.uid, Columns::new(&row, state.flags(row.flags), &message, area), message))
    }))
}

async fn join(tasks: &mut JoinSet<Findings>, found: &mut Findings) {
    match tasks.join_next().await {
        Some(Ok(findings)) => {
            found.matches.extend(findings.matches);
            found.damaged.extend(findings.damaged);
            found.unavailable |= findings.unavailable;
        }
        Some(Err(e)) => {
            tracing::error!(error = %e, "a search task failed");
            found.unavailable = true;
        }
        None => {}
    }
}

async fn search_group(
    account: Arc<Account>,
    query: Arc<Query>,
    budget: Budget,
    group: Vec<Candidate>,
) -> Findings {
    let _permit = budget.acquire(TASK_BYTES.max(READER_BYTES)).await;
    let mut found = Findings::default();
    let mut undecided = Vec::new();
    for (candidate, decided) in scan::by_stored_texts(&account, &query, group).await {
        match decided.transpose() {
            Some(decided) => found.note(candidate.uid, decided),
            None => undecided.push(candidate),
        }
    }
    for candidate in undecided {
        let decided = scan::by_message(&account, &query, &candidate.columns, &candidate.message).await;
        found.note(candidate.uid, decided);
    }
    found
}

impl Findings {
    fn note(&mut self, uid: Uid, decided: Result<Verdict>) {
        match decided {
            Ok(Verdict(0)) => {}
            Ok(Verdict(relevancy)) => self.matches.push(Match { uid, relevancy }),
            Err(error) => {
                tracing::error!(%uid, %error, "a message could not be searched");
                match error.kind() {
                    Kind::Corrupt | Kind::NotFound => self.damaged.push(uid),
                    _ => self.unavailable = true,
                }
            }
        }
    }
}
