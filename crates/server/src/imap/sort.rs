//! SORT (RFC 5256), with RETURN (ESORT, RFC 5267 §3) and the keys of SORT=DISPLAY (RFC 5957): a search, then
//! an order.

use sealpost_imap::types::{Sort, SortCriterion, SortKey as Key, Tag};
use sealpost_search::{Comparator, Matches, SortKey};

use super::contexts::Wanted;
use super::reply::{Failure, Outcome, Reply};
use super::search::answer::{Answer, Returns, correlator, is_fuzzy};
use super::search::none_gone;
use super::search::numbered::NumberedScope;
use super::session::Session;

impl Session {
    /// SORT.
    pub(super) async fn sort(&mut self, tag: &Tag, sort: Sort) -> Outcome {
        let saves = Returns::saves(&sort.search);
        let outcome = self.sort_selected(tag, sort).await;
        self.keep_saved(saves, outcome)
    }

    async fn sort_selected(&mut self, tag: &Tag, sort: Sort) -> Outcome {
        let scope = NumberedScope::selected(self.view()?);
        self.may_sort_in_charset(&sort.search)?;
        let sort = Sort { search: self.with_filters(sort.search)?, ..sort };
        let returns = Returns::of(&sort.search)?;
        let by_relevancy = sort.criteria.iter().any(|criterion| criterion.key == Key::Relevancy);
        if by_relevancy && !is_fuzzy(&sort.search.keys) {
            return Err(Reply::bad("there is no relevancy without FUZZY").into());
        }
        let correlator = correlator(tag);
        if returns.is_some_and(|returns| returns.update) {
            self.check_context(&correlator)?;
        }
        let position = scope.mailbox().account.state().position();
        let query = self.query(&sort.search, &scope)?;
        let now = self.ctx.clock.now();
        let found = self.find(&scope, &query, now).await?;
        let comparators: Vec<Comparator> = sort.criteria.iter().map(comparator).collect();
        let sorted = self.sorted(&scope, found, &comparators).await?;
        let (uid, modseq) = (sort.search.uid, query.asks_for_modseq());
        let answer = Answer { scope: &scope, matches: &sorted, uid, modseq };
        let Some(returns) = returns else {
            answer.write_plain(&mut self.connection, "SORT").await?;
            return Ok(Reply::ok("SORT completed"));
        };
        if !returns.is_silent() {
            answer.write(&mut self.connection, &correlator, &returns).await?;
        }
        if returns.update {
            let (found, comparators) = (&*sorted, Some(comparators));
            self.keep_up_to_date(Wanted { correlator, uid, query, found, comparators, position, now });
        }
        self.save_result(&answer, &returns)?;
        Ok(Reply::ok("SORT completed"))
    }

    /// The messages in the order of the comparators; equal ones in that of the mailbox (RFC 5256 §3). Tells
    /// the client which are damaged.
    ///
    /// # Errors
    /// `NO [UNAVAILABLE]` if messages cannot be read for now.
    pub(super) async fn sorted(
        &mut self,
        scope: &NumberedScope,
        found: Matches,
        comparators: &[Comparator],
    ) -> Result<Matches, Failure> {
        let (engine, mut progress) = self.search_engine();
        let sorted = engine.sort(scope.scope(), found, comparators, &mut progress).await?;
        none_gone(&sorted.gone)?;
        self.tell_damaged(&sorted.damaged, "has no place in this order").await?;
        Ok(sorted.matches)
    }
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
