//! CONTEXT=SEARCH and CONTEXT=SORT (RFC 5267): after a search with UPDATE the server reports messages that
//! enter or leave the result, until CANCELUPDATE or the next SELECT.
//!
//! A context has the prepared search and the result as the client has it: a set of UIDs, or a sorted list.
//! Before each report, the session searches the messages that have changed since the last one and compares
//! them with that result. So it reports nothing twice and leaves nothing out. Results that leave because of
//! an expunge are reported before the expunge, and at once where expunges are delayed (RFC 5267 §4.3.4, A.3).

mod list;
mod results;
mod updates;

use std::sync::Arc;

use sealpost_base::{Position, Timestamp, Uid, UidSet};
use sealpost_imap::types::{AString, Code, Correlator, Status};
use sealpost_mailbox::memory::reserve;
use sealpost_search::{Comparator, Match, Query};

use super::connection::End;
use super::reply::{Failure, Reply};
use super::responses::Responses;
use super::search::{self, numbered::NumberedScope};
use super::selected::Selected;
use super::sort;
use list::Context;
pub(super) use list::{Contexts, Update};
use results::Results;
use updates::Pairs;

/// A search to keep up to date.
pub(super) struct Wanted<'a> {
    pub(super) correlator: Correlator,
    pub(super) uid: bool,
    pub(super) query: Arc<Query>,
    /// The matches, ascending by UID or sorted.
    pub(super) found: &'a [Match],
    /// The sort order, if any.
    pub(super) comparators: Option<Vec<Comparator>>,
    /// The position of the mailbox's log before the search began.
    pub(super) position: Position,
    /// The time from which its ages are counted.
    pub(super) now: Timestamp,
}

/// Checks that no other search with UPDATE has that tag (RFC 5267 §4.3).
///
/// # Errors
/// `BAD` if another one has it.
pub(super) fn check(selected: &Selected, correlator: &Correlator) -> Result<(), Reply> {
    let contexts = &selected.contexts;
    if contexts.list.iter().any(|context| context.correlator.tag == correlator.tag) {
        return Err(Reply::bad("the tag is in use by a search that is kept up to date"));
    }
    Ok(())
}

/// Reports changes of the result from now on, or NOUPDATE if there is no memory for that (RFC 5267 §4.3.1).
pub(super) fn keep_up_to_date(selected: &mut Selected, responses: &mut Responses, wanted: Wanted<'_>) {
    let contexts = &mut selected.contexts;
    let results = match wanted.comparators {
        None => {
            let mut uids: Vec<Uid> = wanted.found.iter().map(|found| found.uid).collect();
            uids.sort_unstable();
            Results::Set(uids.into_iter().collect())
        }
        Some(comparators) => Results::Sorted { comparators, list: wanted.found.to_vec() },
    };
    if !contexts.have_room(&results) {
        return no_update(responses, &wanted.correlator, "there are too many searches to be kept up to date");
    }
    if contexts.list.is_empty() {
        contexts.position = wanted.position;
    }
    let Wanted { correlator, uid, query, now, .. } = wanted;
    contexts.list.push(Context { correlator, uid, query, looked: now.seconds(), results });
}

/// CANCELUPDATE. Ignores unknown tags: they get no updates either way.
pub(super) fn cancel_update(selected: &mut Selected, tags: &[AString]) -> Reply {
    let named = |context: &Context| context.correlator.tag.as_ref().is_some_and(|tag| tags.contains(tag));
    selected.contexts.list.retain(|context| !named(context));
    Reply::ok("CANCELUPDATE completed")
}

fn no_update(responses: &mut Responses, correlator: &Correlator, text: &str) {
    let code = correlator.tag.clone().map(Code::NoUpdate);
    responses.out().status(None, Status::No, code.as_ref(), text);
}

/// Reports results that leave because their messages are expunged.
pub(super) async fn report_gone(responses: &mut Responses, updates: Vec<Update>) -> Result<(), End> {
    for update in updates {
        for goes in update.goes {
            let out = responses.out();
            out.esearch_begin(&update.correlator, update.uid).space();
            out.search_data(&sealpost_imap::types::SearchData::RemoveFrom(goes)).crlf();
            responses.relieve().await?;
        }
    }
    Ok(())
}

/// Updates the results with messages that are new in the view, and with changes up to `position`.
pub(super) async fn update(
    ctx: &sealpost_session::Context,
    selected: &mut Selected,
    responses: &mut Responses,
    arrived: &UidSet,
    position: Position,
) -> Result<(), End> {
    if selected.contexts.list.is_empty() {
        return Ok(());
    }
    let mut contexts = std::mem::take(&mut selected.contexts);
    let changed = {
        let state = selected.account().state();
        let mailbox = selected.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
        let since = contexts.position;
        let changed: UidSet = mailbox.changed_since(since).map(|row| row.uid).collect();
        changed.intersection(selected.uids()).union(arrived)
    };
    let _room = reserve(&ctx.accounts, &[&changed]).await.map_err(|_| End::Crowded)?;
    let mut kept = Vec::with_capacity(contexts.list.len());
    for mut context in contexts.list {
        match update_one(ctx, selected, responses, &mut context, &changed).await {
            Ok(()) => kept.push(context),
            Err(Failure::Reply(_)) => {
                no_update(responses, &context.correlator, "the search cannot be kept up to date any longer");
            }
            Err(Failure::End(end)) => return Err(end),
        }
    }
    contexts.list = kept;
    contexts.position = position;
    selected.contexts = contexts;
    Ok(())
}

async fn update_one(
    ctx: &sealpost_session::Context,
    selected: &Selected,
    responses: &mut Responses,
    context: &mut Context,
    changed: &UidSet,
) -> Result<(), Failure> {
    let now = ctx.clock.now();
    let uids = to_look_at(selected, context, changed, now.seconds())?;
    if uids.is_empty() {
        return Ok(());
    }
    let scope = NumberedScope::among(selected, uids);
    let found = search::find(ctx, responses, &scope, &context.query, now).await?;
    let matching: UidSet = found.iter().map(|found| found.uid).collect();
    let goes = scope.mailbox().uids.difference(&matching);
    let (goes, comes) = match &mut context.results {
        Results::Set(set) => {
            let (goes, comes) = (goes.intersection(set), matching.difference(set));
            *set = set.difference(&goes).union(&comes);
            (updates::unplaced(goes.iter()), updates::unplaced(comes.iter()))
        }
        Results::Sorted { comparators, list } => {
            let removed = updates::removals(list, |uid| goes.contains(uid));
            list.retain(|found| !goes.contains(found.uid));
            let old: UidSet = results::uids(list);
            let new = found.map(|mut found| {
                found.retain(|found| !old.contains(found.uid));
                found
            });
            if new.is_empty() {
                (removed, Vec::new())
            } else {
                let whole = NumberedScope::selected(selected);
                // Few more than the search found: a kept result is bounded.
                let all = new.map(|new| results::together(list, new));
                let all = sort::sorted(ctx, responses, &whole, all, comparators).await?;
                let (removed, comes) = results::placed(removed, list, &all, &old);
                *list = all.into_list();
                (removed, comes)
            }
        }
    };
    if context.results.are_too_long() {
        return Err(Reply::no(Code::Limit, "the result is too long").into());
    }
    report_update(selected, responses, context, goes, comes).await
}

/// The messages that may have entered or left the result.
fn to_look_at(
    selected: &Selected,
    context: &mut Context,
    changed: &UidSet,
    now: i64,
) -> Result<UidSet, Failure> {
    let state = selected.account().state();
    let before = std::mem::replace(&mut context.looked, now);
    let ages = context.query.ages();
    if ages.is_empty() || now == before {
        return Ok(changed.clone());
    }
    let mailbox = selected.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
    let crossed = |received: i64| ages.iter().any(|age| (before - age..=now - age).contains(&received));
    let crossed: UidSet = mailbox
        .all_rows()
        .filter(|row| state.message_fields(row.message).is_some_and(|m| crossed(m.received.seconds())))
        .map(|row| row.uid)
        .collect();
    Ok(changed.union(&crossed.intersection(selected.uids())))
}

async fn report_update(
    selected: &Selected,
    responses: &mut Responses,
    context: &Context,
    goes: Pairs,
    comes: Pairs,
) -> Result<(), Failure> {
    use sealpost_imap::types::SearchData;
    let number = |uid: Uid| if context.uid { Some(uid.get()) } else { selected.sequence(uid) };
    let goes: Vec<_> = updates::responses(goes, number).map(SearchData::RemoveFrom).collect();
    let comes: Vec<_> = updates::responses(comes, number).map(SearchData::AddTo).collect();
    for data in goes.into_iter().chain(comes) {
        let out = responses.out();
        out.esearch_begin(&context.correlator, context.uid).space().search_data(&data).crlf();
        responses.relieve().await?;
    }
    Ok(())
}
