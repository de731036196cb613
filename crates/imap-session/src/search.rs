//! SEARCH (RFC 3501 §6.4.4, RFC 4731), and the parts that it shares with SORT, THREAD and ESEARCH.
//!
//! A command is translated ([`compile`]), run by the search engine on a [`numbered`] scope, and its result
//! written ([`answer`]). The result can be saved as `$` (RFC 5182), a set of UIDs in the session's view.

pub(super) mod answer;
pub(super) mod charset;
mod compile;
pub(super) mod numbered;

use std::sync::Arc;

use sealpost_base::{Timestamp, UidSet};
use sealpost_imap::types::{Code, Search, Status, Tag};
use sealpost_mailbox::changes::vanished_since;
use sealpost_search::{MailboxIndex, Matches, Placement, Query};

use super::connection::End;
use super::contexts;
use super::contexts::Wanted;
use super::filters;
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::selected::Selected;
use super::user::User;
use answer::{Answer, Returns, correlator};
use charset::Charset;
use compile::Translator;
use numbered::NumberedScope;
use sealpost_session::Context;

/// SEARCH.
pub(super) async fn search(
    ctx: &Context,
    user: &User,
    selected: &mut Selected,
    responses: &mut Responses,
    tag: &Tag,
    search: Search,
) -> Outcome {
    let saves = Returns::saves(&search);
    let outcome = search_selected(ctx, user, selected, responses, tag, search).await;
    keep_saved(Some(selected), saves, outcome)
}

async fn search_selected(
    ctx: &Context,
    user: &User,
    selected: &mut Selected,
    responses: &mut Responses,
    tag: &Tag,
    search: Search,
) -> Outcome {
    let scope = NumberedScope::selected(selected);
    may_name_charset(responses, &search)?;
    let search = filters::with_filters(user, responses, search)?;
    let returns = Returns::of(&search)?;
    let correlator = correlator(tag);
    if returns.is_some_and(|returns| returns.update) {
        contexts::check(selected, &correlator)?;
    }
    let position = scope.mailbox().account.state().position();
    let query = query(&search, &scope)?;
    let now = ctx.clock.now();
    let matches = find(ctx, responses, &scope, &query, now).await?;
    let answer =
        Answer { scope: &scope, matches: &matches, uid: search.uid, modseq: query.asks_for_modseq() };
    // RFC 9051 §6.4.4: IMAP4rev2 has no SEARCH response, and no RETURN means (ALL).
    let returns = returns.or_else(|| responses.dialect.rev2().then(Returns::all));
    let Some(returns) = returns else {
        answer.write_plain(&mut responses.connection, "SEARCH").await?;
        return Ok(Reply::ok("SEARCH completed"));
    };
    if !returns.is_silent() {
        answer.write(&mut responses.connection, &correlator, &returns).await?;
    }
    if returns.update {
        let (uid, found) = (search.uid, &*matches);
        contexts::keep_up_to_date(
            selected,
            responses,
            Wanted { correlator, uid, query, found, comparators: None, position, now },
        );
    }
    save_result(selected, &answer, &returns)?;
    Ok(Reply::ok("SEARCH completed"))
}

/// RFC 6855 §3: after ENABLE UTF8=ACCEPT, strings are UTF-8 and CHARSET is not allowed.
///
/// # Errors
/// `BAD` if there is a CHARSET.
pub(super) fn may_name_charset(responses: &Responses, search: &Search) -> Result<(), Reply> {
    if responses.dialect.utf8_accept() && search.charset.is_some() {
        return Err(Reply::bad("no CHARSET after ENABLE UTF8=ACCEPT"));
    }
    Ok(())
}

/// SORT and THREAD must name a charset: after ENABLE UTF8=ACCEPT, UTF-8 or its subset ASCII (RFC 6855 §3,
/// erratum 4029).
///
/// # Errors
/// `BAD` for another one.
pub(super) fn may_sort_in_charset(responses: &Responses, search: &Search) -> Result<(), Reply> {
    let is_utf8 = Charset::is_utf8(search.charset.as_ref());
    if responses.dialect.utf8_accept() && !is_utf8 {
        return Err(Reply::bad("no CHARSET but UTF-8 after ENABLE UTF8=ACCEPT"));
    }
    Ok(())
}

/// Prepares a search.
///
/// # Errors
/// `NO [BADCHARSET]` for an unknown charset; `NO [LIMIT]` for too many fuzzy strings.
pub(super) fn query(search: &Search, scope: &NumberedScope) -> Result<Arc<Query>, Failure> {
    let Some(charset) = Charset::named(search.charset.as_ref()) else {
        // Hundreds of names are known. The list of them is optional, and a partial one would be wrong (RFC
        // 3501 §7.1, RFC 9051 §7.1).
        let code = Code::BadCharset(Vec::new());
        return Err(Reply::no(code, "charset not known; UTF-8 always is").into());
    };
    let criterion = Translator { scope, charset: &charset }.all(&search.keys)?;
    Ok(Arc::new(Query::new(&criterion)?))
}

/// The matching messages of the scope, ascending by UID. Reports corrupt ones to the client.
///
/// # Errors
/// `NO [UNAVAILABLE]` if messages are temporarily unreadable; `NO [LIMIT]` if there are too many for the
/// memory; the end of the session, or of the mailbox.
pub(super) async fn find(
    ctx: &Context,
    responses: &mut Responses,
    scope: &NumberedScope,
    query: &Arc<Query>,
    now: Timestamp,
) -> Result<Matches, Failure> {
    let found = ctx.search.find(scope.scope(), query, now, &mut responses.reporter()).await?;
    none_gone(&found.gone)?;
    if found.unavailable {
        return Err(Reply::no(Code::Unavailable, "some messages cannot be read now").into());
    }
    report_damaged(responses, &found.damaged, "was not searched").await?;
    Ok(found.matches)
}

/// Reports to the client which messages are corrupt, and the consequence.
pub(super) async fn report_damaged(
    responses: &mut Responses,
    damaged: &[Placement],
    meaning: &str,
) -> Result<(), End> {
    for Placement { uid, .. } in damaged {
        let text = format!("message UID {uid} is damaged and {meaning}");
        responses.out().status(None, Status::No, Some(&Code::Corruption), &text);
        responses.relieve().await?;
    }
    Ok(())
}

/// Saves the result as `$`, if SAVE was requested.
pub(super) fn save_result(
    selected: &mut Selected,
    answer: &Answer<'_>,
    returns: &Returns,
) -> Result<(), Reply> {
    if returns.save {
        selected.save(answer.saved(returns)?);
    }
    Ok(())
}

/// RFC 5182 §2.1: a search with SAVE that gets NO empties `$`; one that gets BAD keeps it.
pub(super) fn keep_saved(selected: Option<&mut Selected>, saves: bool, outcome: Outcome) -> Outcome {
    if let (true, Err(Failure::Reply(Reply { status: Status::No, .. })), Some(selected)) =
        (saves, &outcome, selected)
    {
        selected.save(UidSet::new());
    }
    outcome
}

/// Removes expunged messages from `$`, whether or not the expunge was reported (RFC 5182 §2.1).
pub(super) fn forget_expunged(selected: &mut Selected) {
    if selected.saved().is_empty() {
        return;
    }
    let account = selected.account().clone();
    let state = account.state();
    if let Ok(mailbox) = selected.mailbox_in(&state) {
        let gone = vanished_since(mailbox, selected.reported_expunges(), selected.saved());
        if !gone.is_empty() {
            let left = selected.saved().difference(&gone);
            selected.save(left);
        }
    }
}

/// Checks that the searched mailboxes still exist (RFC 2180 §3.3).
///
/// # Errors
/// `MailboxGone` if not.
pub(super) fn none_gone(gone: &[MailboxIndex]) -> Result<(), End> {
    if gone.is_empty() { Ok(()) } else { Err(End::MailboxGone) }
}
