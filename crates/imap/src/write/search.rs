//! SEARCH, SORT, THREAD and ESEARCH for the client; the ESEARCH response for the server, whole or
//! piece by piece.

use super::Writer;
use crate::types::{
    Correlator, ESearch, MailboxFilter, MultiSearch, PartialRange, SearchData, SearchReturn, SequenceSet,
    Sort, Thread,
};

impl Writer {
    /// ` SORT` arguments.
    pub(super) fn sort(&mut self, sort: &Sort) -> &mut Self {
        self.search_returns(sort.search.returns.as_deref()).space().list(&sort.criteria, |w, criterion| {
            w.raw(if criterion.reverse { "REVERSE " } else { "" }).raw(criterion.key.name());
        });
        self.criteria_of_search(&sort.search)
    }

    /// ` THREAD` arguments.
    pub(super) fn thread(&mut self, thread: &Thread) -> &mut Self {
        self.space().raw(thread.algorithm.name()).criteria_of_search(&thread.search)
    }

    fn criteria_of_search(&mut self, search: &crate::types::Search) -> &mut Self {
        match &search.charset {
            Some(charset) => self.space().astring(charset.as_bytes()),
            None => self.raw(b" UTF-8"),
        };
        search.keys.iter().fold(self, |w, key| w.space().search_key(key))
    }

    /// ` ESEARCH` arguments.
    pub(super) fn multi_search(&mut self, multi: &MultiSearch) -> &mut Self {
        if let Some(sources) = &multi.sources {
            self.raw(b" IN ").list(sources, |w, source| {
                w.mailbox_filter(source);
            });
        }
        self.search(&multi.search)
    }

    pub(super) fn mailbox_filter(&mut self, filter: &MailboxFilter) -> &mut Self {
        self.raw(filter.name());
        match filter.names() {
            [] => self,
            [one] => self.space().mailbox(one),
            several => self.space().list(several, |w, name| {
                w.mailbox(name);
            }),
        }
    }

    /// ` RETURN (…)`
    pub(super) fn search_returns(&mut self, returns: Option<&[SearchReturn]>) -> &mut Self {
        let Some(returns) = returns else { return self };
        self.raw(b" RETURN ").list(returns, |w, option| {
            match option {
                SearchReturn::Min => w.raw(b"MIN"),
                SearchReturn::Max => w.raw(b"MAX"),
                SearchReturn::All => w.raw(b"ALL"),
                SearchReturn::Count => w.raw(b"COUNT"),
                SearchReturn::Save => w.raw(b"SAVE"),
                SearchReturn::Partial(range) => w.raw(b"PARTIAL ").partial_range(*range),
                SearchReturn::Relevancy => w.raw(b"RELEVANCY"),
                SearchReturn::Update => w.raw(b"UPDATE"),
                SearchReturn::Context => w.raw(b"CONTEXT"),
            };
        })
    }

    /// `1:100`, `-1:-100`
    pub fn partial_range(&mut self, range: PartialRange) -> &mut Self {
        let sign = if range.from_end { "-" } else { "" };
        self.raw(sign).number(u64::from(range.first.get())).raw(b":");
        self.raw(sign).number(u64::from(range.last.get()))
    }

    /// `* ESEARCH (TAG "x") UID`: data follow, each after a space; end with [`Writer::crlf`].
    pub fn esearch_begin(&mut self, correlator: &Correlator, uid: bool) -> &mut Self {
        self.raw(b"* ESEARCH");
        if *correlator != Correlator::default() {
            self.space().open();
            let mut between: &[u8] = b"";
            if let Some(tag) = &correlator.tag {
                self.raw(b"TAG ").string(tag.as_bytes());
                between = b" ";
            }
            if let Some(mailbox) = &correlator.mailbox {
                self.raw(between).raw(b"MAILBOX ").mailbox(mailbox);
                between = b" ";
            }
            if let Some(validity) = correlator.uid_validity {
                self.raw(between).raw(b"UIDVALIDITY ").number(u64::from(validity));
            }
            self.close();
        }
        if uid { self.raw(b" UID") } else { self }
    }

    /// `* ESEARCH …`, but for the line end.
    pub(super) fn esearch(&mut self, found: &ESearch) -> &mut Self {
        self.esearch_begin(&found.correlator, found.uid);
        found.data.iter().fold(self, |w, data| w.space().search_data(data))
    }

    /// `search-return-data`
    pub fn search_data(&mut self, data: &SearchData) -> &mut Self {
        match data {
            SearchData::Min(n) => self.raw(b"MIN ").number(u64::from(*n)),
            SearchData::Max(n) => self.raw(b"MAX ").number(u64::from(*n)),
            SearchData::All(set) => self.raw(b"ALL ").sequence_set(set),
            SearchData::Count(n) => self.raw(b"COUNT ").number(u64::from(*n)),
            SearchData::ModSeq(n) => self.raw(b"MODSEQ ").number(*n),
            SearchData::Partial(range, results) => {
                self.raw(b"PARTIAL (").partial_range(*range).space();
                match results {
                    Some(results) => self.sequence_set(results),
                    None => self.nil(),
                };
                self.close()
            }
            SearchData::Relevancy(scores) => self.raw(b"RELEVANCY ").list(scores, |w, score| {
                w.number(u64::from(*score));
            }),
            SearchData::AddTo(updates) => self.raw(b"ADDTO ").updates(updates),
            SearchData::RemoveFrom(updates) => self.raw(b"REMOVEFROM ").updates(updates),
        }
    }

    fn updates(&mut self, updates: &[(u32, SequenceSet)]) -> &mut Self {
        self.list(updates, |w, (position, set)| {
            w.number(u64::from(*position)).space().sequence_set(set);
        })
    }
}
