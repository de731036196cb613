//! SORT (RFC 5256), with RETURN (ESORT, RFC 5267 §3) and the keys of SORT=DISPLAY (RFC 5957): a search, then
//! an order.

use sealpost_imap::types::{Sort, SortCriterion, SortKey as Key, Tag};
use sealpost_search::{Comparator, Matches, SortKey};

use super::contexts::{self, Wanted};
use super::filters;
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::search::answer::{Answer, Returns, correlator, is_fuzzy};
use super::search::numbered::NumberedScope;
use super::search::{self, none_gone};
use super::selected::Selected;
use super::user::User;
use sealpost_session::Context;

/// SORT.
pub(super) async fn sort(
    ctx: &Context,
    user: &User,
    selected: &mut Selected,
    responses: &mut Responses,
    tag: &Tag,
    sort: Sort,
) -> Outcome {
    let saves = Returns::saves(&sort.search);
    let outcome = sort_selected(ctx, user, selected, responses, tag, sort).await;
    search::keep_saved(Some(selected), saves, outcome)
}

async fn sort_selected(
    ctx: &Context,
    user: &User,
    selected: &mut Selected,
    responses: &mut Responses,
    tag: &Tag,
    sort: Sort,
) -> Outcome {
    let scope = NumberedScope::selected(selected);
    search::may_sort_in_charset(responses, &sort.search)?;
    let sort = Sort { search: filters::with_filters(user, responses, sort.search)?, ..sort };
    let returns = Returns::of(&sort.search)?;
    let by_relevancy = sort.criteria.iter().any(|criterion| criterion.key == Key::Relevancy);
    if by_relevancy && !is_fuzzy(&sort.search.keys) {
        return Err(Reply::bad("there is no relevancy without FUZZY").into());
    }
    let correlator = correlator(tag);
    if returns.is_some_and(|returns| returns.update) {
        contexts::check(selected, &correlator)?;
    }
    let position = scope.mailbox().account.state().position();
    let query = search::query(&sort.search, &scope)?;
    let now = ctx.clock.now();
    let found = search::find(ctx, responses, &scope, &query, now).await?;
    let comparators: Vec<Comparator> = sort.criteria.iter().map(comparator).collect();
    let sorted = sorted(ctx, responses, &scope, found, &comparators).await?;
    let (uid, modseq) = (sort.search.uid, query.asks_for_modseq());
    let answer = Answer { scope: &scope, matches: &sorted, uid, modseq };
    let Some(returns) = returns else {
        answer.write_plain(&mut responses.connection, "SORT").await?;
        return Ok(Reply::ok("SORT completed"));
    };
    if !returns.is_silent() {
        answer.write(&mut responses.connection, &correlator, &returns).await?;
    }
    if returns.update {
        let (found, comparators) = (&*sorted, Some(comparators));
        contexts::keep_up_to_date(
            selected,
            responses,
            Wanted { correlator, uid, query, found, comparators, position, now },
        );
    }
    search::save_result(selected, &answer, &returns)?;
    Ok(Reply::ok("SORT completed"))
}

/// The messages in the order of the comparators; equal ones in mailbox order (RFC 5256 §3). Reports corrupt
/// ones to the client.
///
/// # Errors
/// `NO [UNAVAILABLE]` if messages are temporarily unreadable.
pub(super) async fn sorted(
    ctx: &Context,
    responses: &mut Responses,
    scope: &NumberedScope,
    found: Matches,
    comparators: &[Comparator],
) -> Result<Matches, Failure> {
    let sorted = ctx.search.sort(scope.scope(), found, comparators, &mut responses.reporter()).await?;
    none_gone(&sorted.gone)?;
    search::report_damaged(responses, &sorted.damaged, "left out of the result").await?;
    Ok(sorted.matches)
}

fn comparator(criterion: &SortCriterion) -> Comparator {
    let key = match criterion.key {
        Key::Arrival => SortKey::Received,
        Key::Cc => SortKey::Cc,
        Key::Date => SortKey::Sent,
        Key::DisplayFrom => SortKey::DisplayFrom,
        Key::DisplayTo => SortKey::DisplayTo,
        Key::From => SortKey::From,
        Key::Relevancy => SortKey::Relevance,
        Key::Size => SortKey::Size,
        Key::Subject => SortKey::Subject,
        Key::To => SortKey::To,
    };
    Comparator { key, descending: criterion.reverse }
}
