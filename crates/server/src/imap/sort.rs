//! SORT (RFC 5256), with RETURN (ESORT, RFC 5267 §3) and the keys of SORT=DISPLAY (RFC 5957).
//!
//! A SORT is a search, and then an order that is known already ([`orders`]), or one pass over the summaries of what was found,
//! in which only the keys are kept ([`keys`]), and a sort of indices. Keys are drawn from the memory budget before they are made.

pub(super) mod keys;
pub(super) mod orders;
mod strings;

use std::sync::Arc;

use futures::StreamExt;
use sealpost_account::summary::{Parts, ReadOrder, Summary};
use sealpost_account::{AccountState, Mailbox};
use sealpost_base::{Kind, Uid, UidSet};
use sealpost_imap::types::{Code, Sort, SortCriterion, SortKey, Status, Tag};

use super::contexts::Wanted;
use super::reply::{Failure, Outcome, Reply};
use super::search::answer::{Answer, Returns, correlator, is_fuzzy};
use super::search::area::Area;
use super::search::found::Found;
use super::search::run::Match;
use super::session::Session;
use keys::{Keys, Row};
use orders::{Key, Order};

/// Summaries looked at while the account's state is held.
const BATCH_ROWS: usize = 512;
/// How many sessions sort or thread at once: each holds at most two fair parts of the budget, an eighth of it each, and
/// waits for the second one while it has the first. Less than all of it, so that somebody can always go on.
const TURNS: usize = 3;
/// What a message takes while it is sorted, besides its key: its number in the order, and its place in the new one.
const SORTED_BYTES: usize = size_of::<u32>() + size_of::<Match>();
/// So many are sorted right here, more on a thread of their own.
const FEW: usize = 2048;

impl Session {
    /// SORT.
    pub(super) async fn sort(&mut self, tag: &Tag, sort: Sort) -> Outcome {
        let saves = Returns::saves(&sort.search);
        let outcome = self.sort_selected(tag, sort).await;
        self.keep_saved(saves, outcome)
    }

    async fn sort_selected(&mut self, tag: &Tag, sort: Sort) -> Outcome {
        let area = Area::selected(self.view()?);
        self.may_sort_in_charset(&sort.search)?;
        let sort = Sort { search: self.with_filters(sort.search)?, ..sort };
        let returns = Returns::of(&sort.search)?;
        let by_relevancy = sort.criteria.iter().any(|criterion| criterion.key == SortKey::Relevancy);
        if by_relevancy && !is_fuzzy(&sort.search.keys) {
            return Err(Reply::bad("there is no relevancy without FUZZY").into());
        }
        let correlator = correlator(tag);
        if returns.is_some_and(|returns| returns.update) {
            self.check_context(&correlator)?;
        }
        let position = area.account.state().position();
        let query = self.query(&sort.search, &area)?;
        let found = self.find(&area, &query).await?;
        let sorted = self.sorted(&area, found, &sort.criteria).await?;
        let (uid, modseq) = (sort.search.uid, query.asks_for_modseq());
        let answer = Answer { area: &area, matches: &sorted, uid, modseq };
        let Some(returns) = returns else {
            answer.write_plain(&mut self.connection, "SORT").await?;
            return Ok(Reply::ok("SORT completed"));
        };
        if !returns.is_silent() {
            answer.write(&mut self.connection, &correlator, &returns).await?;
        }
        if returns.update {
            let (found, criteria) = (&*sorted, Some(sort.criteria));
            self.keep_up_to_date(Wanted { correlator, uid, query, found, criteria, position });
        }
        self.save_result(&answer, &returns)?;
        Ok(Reply::ok("SORT completed"))
    }

    /// The messages in the order of the criteria; equal ones in that of the mailbox (RFC 5256 §3).
    ///
    /// # Errors
    /// `NO [UNAVAILABLE]` if messages cannot be read for now.
    pub(super) async fn sorted(
        &mut self,
        area: &Area,
        found: Found,
        criteria: &[SortCriterion],
    ) -> Result<Found, Failure> {
        let key = Key::of(area, criteria);
        if let Some(sorted) = self.sorted_before(area, &found, key.as_ref()).await? {
            return Ok(found.map(|_| sorted));
        }
        // Few at a time: they hold memory while they wait for more of it, the part of the summaries.
        let (turns, budget) = (self.ctx.sorting.clone(), self.ctx.budget.clone());
        let turn = self.in_turn(turns.acquire_owned()).await?;
        let besides = found.len() * SORTED_BYTES;
        let wanted = Keys::bytes(found.len(), criteria).saturating_add(besides);
        let permit = self.in_turn(budget.acquire(wanted)).await?;
        let mut keys = Keys::new(criteria, permit.bytes().saturating_sub(besides));
        let (parts, mut damaged) = (keys.parts(), false);
        self.with_summaries(area, &found, parts, |at, row, summary| {
            damaged |= parts.is_some() && summary.is_none();
            keys.push(at, Row { relevancy: found[at].relevancy, ..row }, summary);
        })
        .await?;
        let few = found.len() <= FEW;
        let is_most = found.len() > area.uids.len() / 2;
        let keeps = is_most && !damaged && keys.are_whole(found.len());
        let (key, orders) = (key.filter(|_| keeps), self.ctx.orders.clone());
        let (found, memory) = found.into_parts();
        let sort = move || {
            let order: Vec<u32> = keys.order().map(|at| at as u32).collect();
            let sorted = order.iter().map(|at| found[*at as usize]).collect();
            if let Some(key) = key {
                orders.keep(key, Order::new(&found, order));
            }
            drop((found, permit, turn));
            Found::from_parts(sorted, memory)
        };
        if few {
            return Ok(sort());
        }
        self.patiently(tokio::task::spawn_blocking(sort)).await?.map_err(|error| {
            tracing::error!(%error, "sorting failed");
            Reply::no(Code::ServerBug, "internal error").into()
        })
    }

    /// The messages in an order that is kept, if one knows all of them.
    async fn sorted_before(
        &mut self,
        area: &Area,
        found: &[Match],
        key: Option<&Key>,
    ) -> Result<Option<Vec<Match>>, Failure> {
        let Some(order) = key.and_then(|key| self.ctx.orders.get(key)) else { return Ok(None) };
        let budget = self.ctx.budget.clone();
        let _permit = self.patiently(budget.acquire(order.work_bytes(found.len()))).await?;
        area.mailbox_in(&area.account.state())?;
        Ok(order.sort(found))
    }

    /// Gives `each` of the messages, which are ascending by UID, with its index, its row and its summary, if one was asked for
    /// and can be had. Messages that are gone are passed over; says which are damaged.
    ///
    /// # Errors
    /// `NO [UNAVAILABLE]` if messages cannot be read for now.
    pub(super) async fn with_summaries(
        &mut self,
        area: &Area,
        found: &[Match],
        parts: Option<Parts>,
        mut each: impl FnMut(usize, Row, Option<&Summary>),
    ) -> Result<(), Failure> {
        let mut at = 0;
        let Some(parts) = parts else {
            for batch in found.chunks(BATCH_ROWS) {
                self.goes_on().await?;
                let state = area.account.state();
                let mailbox = area.mailbox_in(&state)?;
                for found in batch {
                    if let Some(row) = row(&state, mailbox, found.uid) {
                        each(at, row, None);
                    }
                    at += 1;
                }
            }
            return Ok(());
        };
        let uids: UidSet = found.iter().map(|found| found.uid).collect();
        let mut stream = area.account.summaries(area.mailbox, uids, ReadOrder::Uids, parts, BATCH_ROWS);
        let (mut damaged, mut unavailable) = (Vec::new(), false);
        while let Some(batch) = self.patiently(stream.next()).await? {
            self.goes_on().await?;
            let state = area.account.state();
            let mailbox = area.mailbox_in(&state)?;
            for (uid, summary) in batch {
                // Both ascend. An error that is nobody's has the lowest UID.
                at += found[at..].iter().take_while(|found| found.uid < uid).count();
                if found.get(at).is_none_or(|found| found.uid != uid) {
                    unavailable |= summary.is_err();
                    continue;
                }
                let Some(row) = row(&state, mailbox, uid) else { continue };
                match &summary {
                    Ok(_) => {}
                    Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => damaged.push(uid),
                    Err(_) => unavailable = true,
                }
                each(at, row, summary.ok().as_ref());
            }
        }
        drop(stream);
        if unavailable {
            return Err(Reply::no(Code::Unavailable, "some messages cannot be read now").into());
        }
        for uid in damaged {
            let text = format!("message UID {uid} is damaged and has no place in this order");
            self.connection.out().status(None, Status::No, Some(&Code::Corruption), &text);
            self.connection.relieve().await?;
        }
        Ok(())
    }
}

fn row(state: &AccountState, mailbox: &Mailbox, uid: Uid) -> Option<Row> {
    let message = state.message(mailbox.row(uid)?.message)?;
    Some(Row { received: message.received.seconds(), size: message.size(), relevancy: 100 })
}

/// The turns that sessions take to sort or thread.
pub(crate) fn turns() -> Arc<tokio::sync::Semaphore> {
    Arc::new(tokio::sync::Semaphore::new(TURNS))
}
