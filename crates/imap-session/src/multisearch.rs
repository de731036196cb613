//! ESEARCH (RFC 7377): one search of several mailboxes, none of which need be selected.
//!
//! The mailboxes are searched one after another, each in its state at that time; only their names are
//! collected beforehand.

use std::sync::Arc;

use sealpost_account::rights::Rights;
use sealpost_account::{ops, share};
use sealpost_base::{AccountId, MailboxId, Timestamp};
use sealpost_imap::types::{
    Code, Correlator, HIERARCHY_DELIMITER, Mailbox, MailboxFilter, MultiSearch, Search, Tag,
};
use sealpost_search::{Matches, Query};

use super::connection::End;
use super::contexts::{self, Wanted};
use super::filters;
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::search;
use super::search::answer::{Answer, Returns, correlator};
use super::search::numbered::NumberedScope;
use super::selected::Selected;
use super::user::User;
use sealpost_session::Context;

/// A mailbox to search.
struct Target {
    name: Mailbox,
    /// Whether the client named it, instead of a set of mailboxes: then its existence is no secret (RFC 7377
    /// §2.2).
    named: bool,
}

/// The search in each mailbox, and the requested parts of the result.
struct Asked<'a> {
    tag: &'a Tag,
    search: &'a Search,
    returns: &'a Returns,
}

/// ESEARCH.
pub(super) async fn multi_search(
    ctx: &Context,
    user: &User,
    mut selected: Option<&mut Selected>,
    responses: &mut Responses,
    tag: &Tag,
    multi: MultiSearch,
) -> Outcome {
    let saves = Returns::saves(&multi.search);
    let outcome = search_sources(ctx, user, selected.as_deref_mut(), responses, tag, multi).await;
    search::keep_saved(selected, saves, outcome)
}

async fn search_sources(
    ctx: &Context,
    user: &User,
    selected: Option<&mut Selected>,
    responses: &mut Responses,
    tag: &Tag,
    multi: MultiSearch,
) -> Outcome {
    search::may_name_charset(responses, &multi.search)?;
    let search = filters::with_filters(user, responses, multi.search)?;
    // RFC 7377 §2.1: without result options, ALL.
    let returns = Returns::of(&search)?.unwrap_or(Returns::all());
    let asked = Asked { tag, search: &search, returns: &returns };
    let sources = multi.sources.unwrap_or(vec![MailboxFilter::Selected]);
    let only_selected = sources.iter().all(|source| *source == MailboxFilter::Selected);
    if returns.save && !only_selected {
        return Err(Reply::bad("only a search of the selected mailbox can be saved").into());
    }
    let mut searched: Vec<(AccountId, MailboxId)> = Vec::new();
    let answered = sources.contains(&MailboxFilter::Selected);
    if answered || returns.update {
        let selected = selected.ok_or_else(|| Reply::bad("select a mailbox first"))?;
        search_selection(ctx, user, selected, responses, &asked, answered).await?;
        if answered {
            searched.push((selected.account().id(), selected.mailbox()));
        }
    }
    for target in targets(user, &sources)? {
        let Some(scope) = scope_of(user, &target).await? else { continue };
        // RFC 7377 §2.2: a mailbox that several sources name is searched once.
        let mailbox = (scope.mailbox().account.id(), scope.mailbox().mailbox);
        if !searched.contains(&mailbox) {
            searched.push(mailbox);
            let correlator = of_mailbox(tag, &scope, Some(target.name));
            let now = ctx.clock.now();
            match search_one(ctx, responses, &asked, &scope, Some(&correlator), now).await {
                // It was deleted or became unreadable meanwhile: treated as if that had happened before.
                Ok(_) | Err(Failure::End(End::MailboxGone)) => {}
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(Reply::ok("ESEARCH completed"))
}

/// Searches the selected mailbox. UPDATE applies only to it, even if it is not in the scope (RFC 7377 §2.2).
async fn search_selection(
    ctx: &Context,
    user: &User,
    selected: &mut Selected,
    responses: &mut Responses,
    asked: &Asked<'_>,
    answered: bool,
) -> Result<(), Failure> {
    let Asked { tag, returns, .. } = *asked;
    let name = selected_name(user, selected).await?;
    let scope = NumberedScope::selected(selected);
    let correlator = of_mailbox(tag, &scope, name);
    if returns.update {
        contexts::check(selected, &correlator)?;
    }
    let position = scope.mailbox().account.state().position();
    let now = ctx.clock.now();
    let answers = Some(&correlator).filter(|_| answered);
    let (query, found) = search_one(ctx, responses, asked, &scope, answers, now).await?;
    let (matches, modseq) = (&*found, query.asks_for_modseq());
    search::save_result(selected, &Answer { scope: &scope, matches, uid: true, modseq }, returns)?;
    if returns.update {
        let found = matches;
        contexts::keep_up_to_date(
            selected,
            responses,
            Wanted { correlator, uid: true, query, found, comparators: None, position, now },
        );
    }
    Ok(())
}

/// Searches a mailbox. Sends the response if there is a correlator and the search found messages (RFC 7377
/// §2.1).
async fn search_one(
    ctx: &Context,
    responses: &mut Responses,
    asked: &Asked<'_>,
    scope: &NumberedScope,
    correlator: Option<&Correlator>,
    now: Timestamp,
) -> Result<(Arc<Query>, Matches), Failure> {
    let query = search::query(asked.search, scope)?;
    let matches = search::find(ctx, responses, scope, &query, now).await?;
    let answer = Answer { scope, matches: &matches, uid: true, modseq: query.asks_for_modseq() };
    if let Some(correlator) = correlator.filter(|_| !matches.is_empty() && !asked.returns.is_silent()) {
        answer.write(&mut responses.connection, correlator, asked.returns).await?;
    }
    Ok((query, matches))
}

/// The messages of a mailbox; `None` if it does not exist, or not for this user (RFC 7377 §2.2).
async fn scope_of(user: &User, target: &Target) -> Result<Option<NumberedScope>, Failure> {
    let resolved = match user.resolve(&target.name).await {
        Ok(resolved) => resolved,
        Err(Failure::Reply(reply)) if reply.code != Some(Code::Unavailable) => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let needed = if target.named { Rights::READ } else { Rights::READ.with(Rights::LOOKUP) };
    if !resolved.rights.contains(needed) {
        return Ok(None);
    }
    let state = resolved.account.state();
    Ok(state
        .mailbox(resolved.mailbox)
        .map(|mailbox| NumberedScope::whole(resolved.account.clone(), resolved.access, mailbox)))
}

/// The mailboxes that the sources name, each once, in order.
fn targets(user: &User, sources: &[MailboxFilter]) -> Result<Vec<Target>, Reply> {
    let account = user.account();
    let state = account.state();
    let mut targets: Vec<Target> = Vec::new();
    let mut known = std::collections::HashSet::new();
    let mut add = |name: &str, named: bool| {
        if known.insert(name.to_owned())
            && let Ok(name) = Mailbox::new(name)
        {
            targets.push(Target { name, named });
        }
    };
    for source in sources {
        for named in source.names().iter().filter_map(|named| ops::find(&state, named.as_str())) {
            add(named.name(), true);
        }
        match source {
            MailboxFilter::Selected | MailboxFilter::Mailboxes(_) => {}
            MailboxFilter::Inboxes => {
                state.mailboxes().filter(|m| takes_deliveries(m.name())).for_each(|m| add(m.name(), false));
            }
            MailboxFilter::Personal => {
                state
                    .mailboxes()
                    .filter(|m| !share::is_of_others(m.name()))
                    .for_each(|m| add(m.name(), false));
            }
            MailboxFilter::Subscribed => state.subscriptions().for_each(|name| add(name, false)),
            // Names are paths, so the hierarchy has no loops.
            MailboxFilter::Subtree(tops) => {
                for top in tops {
                    let top = ops::written(&state, top.as_str());
                    state.inferiors(&top).for_each(|m| add(m.name(), false));
                }
            }
            MailboxFilter::SubtreeOne(tops) => {
                for top in tops {
                    let top = ops::written(&state, top.as_str());
                    let prefix = top.len() + HIERARCHY_DELIMITER.len_utf8();
                    state
                        .inferiors(&top)
                        .filter(|m| !m.name()[prefix..].contains(HIERARCHY_DELIMITER))
                        .for_each(|m| add(m.name(), false));
                }
            }
        }
    }
    Ok(targets)
}

/// The user's name for the selected mailbox.
async fn selected_name(user: &User, selected: &Selected) -> Result<Option<Mailbox>, Failure> {
    let own = user.account();
    if selected.account().id() == own.id() {
        let name = own.state().mailbox(selected.mailbox()).and_then(|m| Mailbox::new(m.name()).ok());
        return Ok(name);
    }
    let links: Vec<Mailbox> = {
        let state = own.state();
        state.mailboxes().filter(|m| m.link().is_some()).filter_map(|m| Mailbox::new(m.name()).ok()).collect()
    };
    for name in links {
        if let Ok(resolved) = user.resolve(&name).await
            && resolved.account.id() == selected.account().id()
            && resolved.mailbox == selected.mailbox()
        {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// RFC 7377 §2.1: every response names its mailbox.
fn of_mailbox(tag: &Tag, scope: &NumberedScope, mailbox: Option<Mailbox>) -> Correlator {
    Correlator { mailbox, uid_validity: Some(scope.mailbox().uid_validity.0.get()), ..correlator(tag) }
}

/// Whether mail may be delivered there (RFC 5465 §6.3). Deliveries go to the inbox unless they name another
/// mailbox, which only the user's own rules do.
fn takes_deliveries(name: &str) -> bool {
    name == sealpost_account::state::INBOX
}
