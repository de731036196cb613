//! A prepared query: keywords and conditions on content are numbered, and conditions are decided from the
//! known facts of an email.

use std::sync::Arc;

use sealpost_base::{Error, Result, Timestamp, limits};

use super::query::{
    EmailComparator, EmailFilter, EmailKeyword, EmailQuery, EmailSortKey, KeywordOf, MailboxPlace,
};
use crate::criterion::Criterion;
use crate::query::Query;

/// A prepared query, which can run any number of times.
pub(crate) struct Plan {
    root: Node,
    /// The keywords in the query, a bit each.
    pub(super) keywords: Vec<EmailKeyword>,
    /// The conditions on the content of messages.
    pub(super) contents: Vec<Content>,
    pub(super) sort: Vec<PlannedComparator>,
    /// Whether the query has keywords of threads.
    pub(super) threads: bool,
    /// The only mailbox that decides on matches, if the query has no other condition on mailboxes or
    /// keywords.
    pub(super) only: Option<MailboxPlace>,
    /// [`EmailQuery::is_lasting`].
    pub(super) is_lasting: bool,
}

/// A condition on the content of messages.
pub(super) enum Content {
    /// Text in headers and bodies.
    Text(Arc<Query>),
    /// Whether there is an attachment.
    Attached,
}

/// A comparator of a plan.
#[derive(Clone)]
pub(super) struct PlannedComparator {
    pub(super) key: PlannedKey,
    pub(super) descending: bool,
}

#[derive(Clone)]
pub(super) enum PlannedKey {
    Received,
    Size,
    /// Whether the bit of a keyword is set.
    Keyword(KeywordOf, u64),
    /// A field of the summary.
    Text(EmailSortKey),
}

enum Node {
    Always(bool),
    In(MailboxPlace),
    InOtherThan(Vec<MailboxPlace>),
    ReceivedBefore(Timestamp),
    ReceivedSince(Timestamp),
    SizeFrom(u64),
    SizeBelow(u64),
    Keyword(KeywordOf, u64),
    Content(u64),
    Not(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
}

/// The known facts of an email without its content.
pub(super) struct Facts<'a> {
    pub(super) received: Timestamp,
    pub(super) size: u64,
    pub(super) mailboxes: &'a [MailboxPlace],
    pub(super) keywords: KeywordBits,
}

/// The bits of the keywords in a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct KeywordBits {
    /// Keywords of the email.
    pub(super) own: u64,
    /// Keywords of all emails in its thread.
    pub(super) all: u64,
    /// Keywords of at least one email in its thread.
    pub(super) some: u64,
}

/// Which conditions on the content of an email are decided, and their results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Verdicts {
    pub(super) decided: u64,
    pub(super) holds: u64,
}

impl Plan {
    /// Prepares a query.
    ///
    /// # Errors
    /// `Limit` for more keywords than [`limits::QUERY_KEYWORDS`], or more conditions on content than
    /// [`limits::QUERY_CONTENTS`].
    pub(crate) fn new(query: &EmailQuery) -> Result<Self> {
        let mut compiler = Compiler::default();
        let root = compiler.node(&query.filter)?;
        let sort = query.sort.iter().map(|one| compiler.comparator(one)).collect::<Result<_>>()?;
        let only = match &query.filter {
            filter if compiler.keywords.is_empty() => only_mailbox(filter),
            _ => None,
        };
        let Compiler { keywords, contents, threads } = compiler;
        Ok(Plan { root, keywords, contents, sort, threads, only, is_lasting: query.is_lasting() })
    }

    /// Whether the email matches; `None` if that depends on undecided content.
    pub(super) fn matches(&self, facts: &Facts<'_>, verdicts: Verdicts) -> Option<bool> {
        self.root.decide(facts, verdicts)
    }

    /// Whether the order needs summaries.
    pub(super) fn sorts_by_text(&self) -> bool {
        self.sort.iter().any(|comparator| matches!(comparator.key, PlannedKey::Text(_)))
    }

    /// The bits of the keywords for which `has` is true.
    pub(super) fn bits(&self, has: impl Fn(&EmailKeyword) -> bool) -> u64 {
        let set = self.keywords.iter().enumerate().filter(|(_, keyword)| has(keyword));
        set.fold(0, |bits, (at, _)| bits | 1 << at)
    }

    /// The bit of `\Seen`, which an email has if all of its placements do; 0 if the query does not use it.
    pub(super) fn seen_bit(&self) -> u64 {
        let seen = EmailKeyword::System(sealpost_account::SystemFlags::SEEN);
        self.bits(|keyword| *keyword == seen)
    }
}

impl PlannedComparator {
    /// The key of an email as a number, ascending; 0 for a field of the summary.
    pub(super) fn number(&self, facts: &Facts<'_>) -> u64 {
        match &self.key {
            PlannedKey::Received => self.directed(facts.received.0),
            PlannedKey::Size => self.directed(i64::try_from(facts.size).unwrap_or(i64::MAX)),
            PlannedKey::Keyword(of, bit) => self.directed(i64::from(facts.keywords.of(*of) & bit != 0)),
            PlannedKey::Text(_) => 0,
        }
    }

    /// Whether emails keep their order by it.
    pub(super) fn is_lasting(&self) -> bool {
        !matches!(self.key, PlannedKey::Keyword(..))
    }

    /// The value as a number, ascending.
    pub(super) fn directed(&self, value: i64) -> u64 {
        let ascending = (value as u64) ^ (1 << 63);
        if self.descending { !ascending } else { ascending }
    }
}

impl KeywordBits {
    fn of(self, of: KeywordOf) -> u64 {
        match of {
            KeywordOf::Email => self.own,
            KeywordOf::AllInThread => self.all,
            KeywordOf::SomeInThread => self.some,
        }
    }
}

impl Node {
    fn decide(&self, facts: &Facts<'_>, verdicts: Verdicts) -> Option<bool> {
        match self {
            Node::Always(value) => Some(*value),
            Node::In(place) => Some(facts.mailboxes.contains(place)),
            Node::InOtherThan(places) => {
                Some(facts.mailboxes.iter().any(|mailbox| !places.contains(mailbox)))
            }
            Node::ReceivedBefore(moment) => Some(facts.received < *moment),
            Node::ReceivedSince(moment) => Some(facts.received >= *moment),
            Node::SizeFrom(size) => Some(facts.size >= *size),
            Node::SizeBelow(size) => Some(facts.size < *size),
            Node::Keyword(of, bit) => Some(facts.keywords.of(*of) & bit != 0),
            Node::Content(bit) => (verdicts.decided & bit != 0).then_some(verdicts.holds & bit != 0),
            Node::Not(node) => node.decide(facts, verdicts).map(|value| !value),
            Node::All(nodes) => combined(nodes, true, facts, verdicts),
            Node::Any(nodes) => combined(nodes, false, facts, verdicts),
        }
    }
}

/// `value` if all are `value`, the opposite if one of them is, and undecided otherwise.
fn combined(nodes: &[Node], value: bool, facts: &Facts<'_>, verdicts: Verdicts) -> Option<bool> {
    let mut decided = true;
    for node in nodes {
        match node.decide(facts, verdicts) {
            Some(found) if found != value => return Some(!value),
            Some(_) => {}
            None => decided = false,
        }
    }
    decided.then_some(value)
}

/// The mailbox that has every match, if the query names no other one.
fn only_mailbox(filter: &EmailFilter) -> Option<MailboxPlace> {
    fn required(filter: &EmailFilter) -> Option<MailboxPlace> {
        match filter {
            EmailFilter::In(place) => Some(*place),
            EmailFilter::All(filters) => filters.iter().find_map(required),
            _ => None,
        }
    }
    fn asks_for_others(filter: &EmailFilter, only: MailboxPlace) -> bool {
        match filter {
            EmailFilter::In(place) => *place != only,
            EmailFilter::InOtherThan(_) => true,
            EmailFilter::Not(filter) => asks_for_others(filter, only),
            EmailFilter::All(filters) | EmailFilter::Any(filters) => {
                filters.iter().any(|filter| asks_for_others(filter, only))
            }
            _ => false,
        }
    }
    required(filter).filter(|only| !asks_for_others(filter, *only))
}

#[derive(Default)]
struct Compiler {
    keywords: Vec<EmailKeyword>,
    contents: Vec<Content>,
    threads: bool,
}

impl Compiler {
    fn node(&mut self, filter: &EmailFilter) -> Result<Node> {
        // A search for several strings reads the texts once.
        if let Some(criterion) = criterion(filter) {
            return self.content(Content::Text(Arc::new(Query::new(&criterion)?)));
        }
        Ok(match filter {
            EmailFilter::Always(value) => Node::Always(*value),
            EmailFilter::In(place) => Node::In(*place),
            EmailFilter::InOtherThan(places) => Node::InOtherThan(places.clone()),
            EmailFilter::ReceivedBefore(moment) => Node::ReceivedBefore(*moment),
            EmailFilter::ReceivedSince(moment) => Node::ReceivedSince(*moment),
            EmailFilter::SizeFrom(size) => Node::SizeFrom(*size),
            EmailFilter::SizeBelow(size) => Node::SizeBelow(*size),
            EmailFilter::Keyword(of, keyword) => Node::Keyword(*of, self.keyword(*of, keyword)?),
            EmailFilter::Attached => {
                match self.contents.iter().position(|c| matches!(c, Content::Attached)) {
                    Some(known) => Node::Content(1 << known),
                    None => self.content(Content::Attached)?,
                }
            }
            // Only strings, which were handled above.
            EmailFilter::Text(..) => Node::Always(false),
            EmailFilter::Not(filter) => Node::Not(Box::new(self.node(filter)?)),
            EmailFilter::All(filters) => Node::All(self.nodes(filters, Criterion::All)?),
            EmailFilter::Any(filters) => Node::Any(self.nodes(filters, Criterion::Any)?),
        })
    }

    /// The nodes of some filters; those on text become one.
    fn nodes(
        &mut self,
        filters: &[EmailFilter],
        combine: impl Fn(Vec<Criterion>) -> Criterion,
    ) -> Result<Vec<Node>> {
        let (mut nodes, mut texts) = (Vec::new(), Vec::new());
        for filter in filters {
            match criterion(filter) {
                Some(criterion) => texts.push(criterion),
                None => nodes.push(self.node(filter)?),
            }
        }
        if !texts.is_empty() {
            nodes.push(self.content(Content::Text(Arc::new(Query::new(&combine(texts))?)))?);
        }
        Ok(nodes)
    }

    fn content(&mut self, content: Content) -> Result<Node> {
        if self.contents.len() == limits::QUERY_CONTENTS {
            return Err(Error::limit(format!(
                "more than {} conditions on texts or attachments between other conditions",
                limits::QUERY_CONTENTS
            )));
        }
        self.contents.push(content);
        Ok(Node::Content(1 << (self.contents.len() - 1)))
    }

    /// The bit of a keyword.
    fn keyword(&mut self, of: KeywordOf, keyword: &EmailKeyword) -> Result<u64> {
        self.threads |= of != KeywordOf::Email;
        let same = |known: &EmailKeyword| match (known, keyword) {
            (EmailKeyword::Named(known), EmailKeyword::Named(name)) => known.eq_ignore_ascii_case(name),
            (known, keyword) => known == keyword,
        };
        let at = self.keywords.iter().position(same).unwrap_or(self.keywords.len());
        if at == limits::QUERY_KEYWORDS {
            return Err(Error::limit(format!("more than {} different keywords", limits::QUERY_KEYWORDS)));
        }
        if at == self.keywords.len() {
            self.keywords.push(keyword.clone());
        }
        Ok(1 << at)
    }

    fn comparator(&mut self, comparator: &EmailComparator) -> Result<PlannedComparator> {
        let key = match &comparator.key {
            EmailSortKey::Received => PlannedKey::Received,
            EmailSortKey::Size => PlannedKey::Size,
            EmailSortKey::Keyword(of, keyword) => PlannedKey::Keyword(*of, self.keyword(*of, keyword)?),
            text => PlannedKey::Text(text.clone()),
        };
        Ok(PlannedComparator { key, descending: comparator.descending })
    }
}

/// The criterion of a filter that is on text only.
fn criterion(filter: &EmailFilter) -> Option<Criterion> {
    Some(match filter {
        EmailFilter::Text(part, string) => Criterion::Text(part.clone(), string.clone()),
        EmailFilter::Not(filter) => Criterion::Not(Box::new(criterion(filter)?)),
        EmailFilter::All(filters) if !filters.is_empty() => {
            Criterion::All(filters.iter().map(criterion).collect::<Option<_>>()?)
        }
        EmailFilter::Any(filters) if !filters.is_empty() => {
            Criterion::Any(filters.iter().map(criterion).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::criterion::TextPart;

    fn text(string: &str) -> EmailFilter {
        EmailFilter::Text(TextPart::Body, string.to_owned())
    }

    fn plan(filter: EmailFilter) -> Result<Plan> {
        Plan::new(&EmailQuery { filter, sort: Vec::new() })
    }

    #[test]
    fn conditions_on_texts_are_searched_for_together() {
        let both = EmailFilter::All(vec![text("a"), EmailFilter::SizeFrom(1), text("b")]);
        assert_eq!(plan(both.clone()).unwrap().contents.len(), 1);
        assert_eq!(plan(EmailFilter::Any(vec![both.clone(), text("c")])).unwrap().contents.len(), 2);
        let many = EmailFilter::Any(vec![both.clone(); limits::QUERY_CONTENTS]);
        assert!(plan(many).is_ok());
        let too_many = EmailFilter::Any(vec![both; limits::QUERY_CONTENTS + 1]);
        assert_eq!(plan(too_many).err().unwrap().kind(), sealpost_base::Kind::Limit);
    }

    #[test]
    fn different_keywords_are_bounded() {
        let keyword = |n: usize| EmailFilter::Keyword(KeywordOf::Email, EmailKeyword::Named(format!("k{n}")));
        let many: Vec<_> = (0..limits::QUERY_KEYWORDS).map(keyword).collect();
        let twice = EmailFilter::Any([many.clone(), many.clone()].concat());
        assert_eq!(plan(twice).unwrap().keywords.len(), limits::QUERY_KEYWORDS);
        let more = EmailFilter::Any((0..=limits::QUERY_KEYWORDS).map(keyword).collect());
        assert_eq!(plan(more).err().unwrap().kind(), sealpost_base::Kind::Limit);
    }

    #[test]
    fn unknown_facts_leave_a_filter_undecided() {
        let facts =
            Facts { received: Timestamp(5), size: 10, mailboxes: &[], keywords: KeywordBits::default() };
        let decide = |filter: EmailFilter| plan(filter).unwrap().matches(&facts, Verdicts::default());
        let size = |size| EmailFilter::SizeFrom(size);
        assert_eq!(decide(EmailFilter::All(vec![text("a"), size(10)])), None);
        assert_eq!(decide(EmailFilter::All(vec![text("a"), size(11)])), Some(false));
        assert_eq!(decide(EmailFilter::Any(vec![text("a"), size(10)])), Some(true));
        assert_eq!(decide(EmailFilter::All(vec![])), Some(true));
        assert_eq!(decide(EmailFilter::Any(vec![])), Some(false));
        assert_eq!(decide(EmailFilter::Not(Box::new(EmailFilter::Any(vec![])))), Some(true));
        assert_eq!(decide(EmailFilter::InOtherThan(vec![])), Some(false));
    }

    #[test]
    fn one_mailbox_is_looked_at_if_no_other_matters() {
        let place = |byte| (sealpost_base::AccountId([byte; 16]), sealpost_base::MailboxId(1));
        let only = |filter| plan(filter).unwrap().only;
        let inside = EmailFilter::In(place(1));
        assert_eq!(only(inside.clone()), Some(place(1)));
        assert_eq!(only(EmailFilter::All(vec![EmailFilter::SizeFrom(1), inside.clone()])), Some(place(1)));
        assert_eq!(only(EmailFilter::Any(vec![EmailFilter::SizeFrom(1), inside.clone()])), None);
        assert_eq!(only(EmailFilter::All(vec![inside.clone(), EmailFilter::In(place(2))])), None);
        let seen = EmailKeyword::System(sealpost_account::SystemFlags::SEEN);
        let seen = EmailFilter::Keyword(KeywordOf::Email, seen);
        assert_eq!(only(EmailFilter::All(vec![inside, seen])), None);
    }
}
