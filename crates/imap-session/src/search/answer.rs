//! The response to a search: `* SEARCH`, `* SORT`, or one ESEARCH response with the parts in RETURN (RFC 4731
//! §3.1, RFC 5182 §2.4, RFC 9394 §3, RFC 6203 §4); and the part saved as `$`.

use sealpost_base::{ModSeq, Uid, UidSet, limits};
use sealpost_imap::types::{
    AString, Code, Correlator, PartialRange, Search, SearchData, SearchKey, SearchReturn, Tag,
};
use sealpost_search::Match;

use super::numbered::NumberedScope;
use crate::connection::{Connection, End};
use crate::reply::Reply;

/// The requested parts of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Returns {
    pub(crate) min: bool,
    pub(crate) max: bool,
    pub(crate) all: bool,
    pub(crate) count: bool,
    pub(crate) save: bool,
    pub(crate) relevancy: bool,
    pub(crate) update: bool,
    /// CONTEXT, a hint that the client will repeat the search (RFC 5267 §4.2); it has no effect.
    context: bool,
    pub(crate) partial: Option<PartialRange>,
}

impl Returns {
    /// Whether the result is to be saved, whatever the outcome of the search.
    pub(crate) fn saves(search: &Search) -> bool {
        search.returns.iter().flatten().any(|option| *option == SearchReturn::Save)
    }

    /// The search's return options; `None` without RETURN.
    ///
    /// # Errors
    /// `BAD` for RELEVANCY without FUZZY (RFC 6203 §4).
    pub(crate) fn of(search: &Search) -> Result<Option<Self>, Reply> {
        let Some(options) = &search.returns else { return Ok(None) };
        let mut returns = Returns::default();
        for option in options {
            match option {
                SearchReturn::Min => returns.min = true,
                SearchReturn::Max => returns.max = true,
                SearchReturn::All => returns.all = true,
                SearchReturn::Count => returns.count = true,
                SearchReturn::Save => returns.save = true,
                SearchReturn::Relevancy => returns.relevancy = true,
                SearchReturn::Update => returns.update = true,
                SearchReturn::Context => returns.context = true,
                SearchReturn::Partial(range) => returns.partial = Some(*range),
            }
        }
        // RFC 4731 §3.1: an empty list is the same as (ALL).
        returns.all |= options.is_empty();
        if returns.relevancy && !is_fuzzy(&search.keys) {
            return Err(Reply::bad("there is no relevancy without FUZZY"));
        }
        Ok(Some(returns))
    }

    /// ALL, as without RETURN.
    pub(crate) fn all() -> Self {
        Returns { all: true, ..Returns::default() }
    }

    /// Whether nothing is returned: SAVE alone suppresses the response (RFC 5182 §2.1).
    pub(crate) fn is_silent(&self) -> bool {
        *self == Returns { save: true, context: self.context, ..Returns::default() }
    }

    /// The indices of the results to return (RFC 5182 §2.4, RFC 9394 §3.2); `None` for all.
    fn chosen(&self, len: usize) -> Option<Vec<usize>> {
        if self.all || self.count || !(self.min || self.max || self.partial.is_some()) {
            return None;
        }
        let mut chosen: Vec<usize> = self.partial.map_or(0..0, |range| range.of(len)).collect();
        chosen.extend((self.min && len > 0).then_some(0));
        chosen.extend((self.max && len > 0).then(|| len - 1));
        Some(chosen)
    }
}

/// Whether any key is FUZZY.
pub(crate) fn is_fuzzy(keys: &[SearchKey]) -> bool {
    keys.iter().any(|key| key.any(&|key| matches!(key, SearchKey::Fuzzy(_))))
}

/// A result in its order: by UID, or sorted.
pub(crate) struct Answer<'a> {
    pub(crate) scope: &'a NumberedScope,
    pub(crate) matches: &'a [Match],
    /// Whether UIDs are returned.
    pub(crate) uid: bool,
    /// Whether the search used mod-sequences, so that the highest is returned.
    pub(crate) modseq: bool,
}

impl Answer<'_> {
    /// The new value of `$`.
    ///
    /// # Errors
    /// `NO [NOTSAVED]` if it takes too much memory (RFC 5182 §2.5).
    pub(crate) fn saved(&self, returns: &Returns) -> Result<UidSet, Reply> {
        let uids = match returns.chosen(self.matches.len()) {
            // Usually they ascend and take one range per gap.
            None if self.matches.is_sorted_by_key(|found| found.uid) => {
                let set: UidSet = self.matches.iter().map(|found| found.uid).collect();
                return bounded(set).ok_or_else(too_scattered);
            }
            None => self.matches.iter().map(|found| found.uid).collect(),
            Some(chosen) => chosen.into_iter().map(|i| self.matches[i].uid).collect(),
        };
        kept(uids).ok_or_else(too_scattered)
    }

    /// `* SEARCH 2 84 882` or `* SORT 2 84 882`
    pub(crate) async fn write_plain(&self, connection: &mut Connection, name: &str) -> Result<(), End> {
        connection.out().raw(b"* ").raw(name);
        for number in self.matches.iter().filter_map(|found| self.number(found.uid)) {
            connection.out().space().number(u64::from(number));
            connection.relieve().await?;
        }
        // RFC 7162 §3.1.5: not if nothing was found.
        if let Some(modseq) = self.highest_modseq(&Returns::all()) {
            connection.out().raw(b" (MODSEQ ").number(modseq.0).close();
        }
        connection.out().crlf();
        Ok(())
    }

    /// `* ESEARCH (TAG "A282") MIN 2 COUNT 3`
    pub(crate) async fn write(
        &self,
        connection: &mut Connection,
        correlator: &Correlator,
        returns: &Returns,
    ) -> Result<(), End> {
        connection.out().esearch_begin(correlator, self.uid);
        // RFC 4731 §3.1: MIN, MAX and ALL are left out if nothing was found; COUNT never is.
        if let Some(number) = self.matches.first().filter(|_| returns.min).and_then(|m| self.number(m.uid)) {
            connection.out().space().search_data(&SearchData::Min(number));
        }
        if let Some(number) = self.matches.last().filter(|_| returns.max).and_then(|m| self.number(m.uid)) {
            connection.out().space().search_data(&SearchData::Max(number));
        }
        if returns.all && !self.matches.is_empty() {
            connection.out().raw(b" ALL ");
            self.write_set(connection, self.matches).await?;
        }
        let mut window = self.matches;
        if let Some(range) = returns.partial {
            window = &self.matches[range.of(self.matches.len())];
            connection.out().raw(b" PARTIAL (").partial_range(range.in_order()).space();
            if window.is_empty() {
                connection.out().nil();
            } else {
                self.write_set(connection, window).await?;
            }
            connection.out().close();
        }
        if returns.count {
            let count = u32::try_from(self.matches.len()).unwrap_or(u32::MAX);
            connection.out().space().search_data(&SearchData::Count(count));
        }
        if returns.relevancy {
            connection.out().raw(b" RELEVANCY ").open();
            for (i, found) in window.iter().enumerate() {
                connection.out().raw(if i > 0 { " " } else { "" }).number(u64::from(found.relevance));
                connection.relieve().await?;
            }
            connection.out().close();
        }
        if let Some(modseq) = self.highest_modseq(returns) {
            connection.out().space().search_data(&SearchData::ModSeq(modseq.0));
        }
        connection.out().crlf();
        Ok(())
    }

    /// The numbers in order, with ranges for consecutive ones (RFC 5267 §3.2: ascending only).
    async fn write_set(&self, connection: &mut Connection, matches: &[Match]) -> Result<(), End> {
        let mut run: Option<(u32, u32)> = None;
        let mut begun = false;
        for number in matches.iter().filter_map(|found| self.number(found.uid)) {
            match &mut run {
                Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
                _ => {
                    if let Some((first, last)) = run.replace((number, number)) {
                        connection.out().raw(if begun { "," } else { "" }).number_range(first, last);
                        connection.relieve().await?;
                        begun = true;
                    }
                }
            }
        }
        if let Some((first, last)) = run {
            connection.out().raw(if begun { "," } else { "" }).number_range(first, last);
        }
        Ok(())
    }

    /// The highest mod-sequence of the returned messages (RFC 4731 §3.2), if it was requested and there are
    /// any.
    fn highest_modseq(&self, returns: &Returns) -> Option<ModSeq> {
        if !self.modseq {
            return None;
        }
        let state = self.scope.mailbox().account.state();
        let mailbox = self.scope.mailbox_in(&state).ok()?;
        let modseq = |found: &Match| mailbox.row(found.uid).map(|row| row.modseq);
        match returns.chosen(self.matches.len()) {
            None => self.matches.iter().filter_map(modseq).max(),
            Some(chosen) => chosen.into_iter().filter_map(|i| modseq(&self.matches[i])).max(),
        }
    }

    fn number(&self, uid: Uid) -> Option<u32> {
        if self.uid { Some(uid.get()) } else { self.scope.number(uid) }
    }
}

/// The UIDs as a set, in any order and with duplicates; `None` if it is too large to keep.
fn kept(mut uids: Vec<Uid>) -> Option<UidSet> {
    uids.sort_unstable();
    uids.dedup();
    bounded(uids.into_iter().collect())
}

fn bounded(set: UidSet) -> Option<UidSet> {
    (set.range_count() <= limits::IMAP_SAVED_RANGES).then_some(set)
}

fn too_scattered() -> Reply {
    Reply::no(Code::NotSaved, "the result is too scattered to be kept")
}

/// The correlator of a search of the selected mailbox.
pub(crate) fn correlator(tag: &Tag) -> Correlator {
    Correlator { tag: Some(AString::from(tag.as_str())), ..Correlator::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_results_are_bounded_in_ranges() {
        let scattered = |n: usize| (1..=n as u32).rev().filter_map(|n| Uid::new(n * 2)).collect::<Vec<_>>();
        let most = kept(scattered(limits::IMAP_SAVED_RANGES)).unwrap();
        assert_eq!((most.len(), most.range_count()), (limits::IMAP_SAVED_RANGES, limits::IMAP_SAVED_RANGES));
        assert!(kept(scattered(limits::IMAP_SAVED_RANGES + 1)).is_none());
        let many = (1..1_000_000).chain(1..10).filter_map(Uid::new).collect();
        assert_eq!(kept(many).unwrap().range_count(), 1);
    }
}
