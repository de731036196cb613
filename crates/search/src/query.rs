//! A prepared search: strings are folded, and cheap keys come first. It is bound to each mailbox in which it
//! runs.

use std::sync::Arc;

use memchr::memmem::Finder;
use sealpost_account::ThreadId;
use sealpost_account::state::KeywordId;
use sealpost_account::{AccountState, SystemFlags};
use sealpost_base::{Error, ObjectId, Result, Timestamp, UidSet, limits};
use sealpost_index::summary::Summary;
use sealpost_mime::fold;

use crate::criterion::{Criterion, Days, TextPart};
use crate::fuzzy::{Fuzzy, Words};
use crate::scope::MailboxIndex;

/// A prepared search, which can run any number of times.
pub struct Query {
    pub(crate) root: Key,
    /// The strings to find, numbered by [`Key::Pattern`].
    pub(crate) patterns: Vec<Pattern>,
    /// The fuzzy criteria, numbered by [`Key::Fuzzy`].
    pub(crate) fuzzy: Vec<Fuzzy>,
    /// The keywords to find, numbered by [`Key::Keyword`].
    keywords: Vec<String>,
    /// The ages among the criteria, in seconds.
    ages: Vec<i64>,
}

/// A query in one mailbox, at one moment.
pub(crate) struct Bound {
    pub(crate) query: Arc<Query>,
    pub(crate) mailbox: MailboxIndex,
    /// The keywords' ids in the mailbox's account; `None` for a keyword that no message there has had.
    pub(crate) keywords: Vec<Option<KeywordId>>,
    /// The time from which ages are counted, in seconds since 1970.
    pub(crate) now: i64,
}

/// A prepared criterion.
#[derive(Debug)]
pub(crate) enum Key {
    /// Already decided.
    Always(bool),
    /// Among these messages of one mailbox.
    Uids(MailboxIndex, UidSet),
    /// All these flags are set.
    Flags(SystemFlags),
    /// Changed at this mod-sequence or later.
    ChangedSince(u64),
    /// A keyword is set.
    Keyword(usize),
    /// Marked by the caller.
    Marked,
    /// INTERNALDATE is on one of these days since 1970.
    Received(Days),
    /// INTERNALDATE is at least this many seconds ago.
    Older(i64),
    /// INTERNALDATE is at most this many seconds ago.
    Younger(i64),
    /// The size is above this.
    Larger(u64),
    /// The size is below this.
    Smaller(u64),
    /// The Date field is on one of these days since 1970.
    Sent(Days),
    /// The message was saved on one of these days since 1970.
    Saved(Days),
    /// It is this message, wherever it is.
    Email(ObjectId),
    /// The message belongs to this thread.
    Thread(ThreadId),
    /// A pattern occurs.
    Pattern(usize),
    /// An approximate match.
    Fuzzy(usize),
    /// The key does not match.
    Not(Box<Key>),
    /// All of the keys match.
    All(Vec<Key>),
    /// At least one of the keys matches.
    Any(Vec<Key>),
}

/// A string to find, and where.
pub(crate) struct Pattern {
    /// The name of a field is folded.
    pub(crate) part: TextPart,
    /// Folded as texts are stored.
    pub(crate) finder: Finder<'static>,
}

impl Query {
    /// Prepares a search.
    ///
    /// # Errors
    /// `Limit` for more than `limits::FUZZY_STRINGS` fuzzy strings.
    pub fn new(criterion: &Criterion) -> Result<Self> {
        let mut compiler = Compiler::default();
        let root = compiler.key(criterion)?;
        let Compiler { patterns, fuzzy, keywords, ages, .. } = compiler;
        Ok(Query { root, patterns, fuzzy, keywords, ages })
    }

    /// The query in a mailbox whose account has that state.
    pub(crate) fn bind(
        self: &Arc<Self>,
        mailbox: MailboxIndex,
        state: &AccountState,
        now: Timestamp,
    ) -> Bound {
        let keywords = self.keywords.iter().map(|name| state.keyword(name)).collect();
        Bound { query: self.clone(), mailbox, keywords, now: now.seconds() }
    }

    /// The ages in the query, in seconds.
    pub fn ages(&self) -> &[i64] {
        &self.ages
    }

    /// Whether it uses mod-sequences, so that the highest one found must be reported (RFC 7162 §3.1.5).
    pub fn asks_for_modseq(&self) -> bool {
        any(&self.root, &|key| matches!(key, Key::ChangedSince(_)))
    }

    /// Whether summaries can decide keys: they have the Date field and the common header fields. A pattern
    /// found there need not be searched for in the text.
    pub(crate) fn asks_for_headers(&self) -> bool {
        self.asks_for_fields() || self.patterns.iter().any(|pattern| pattern.part == TextPart::Anywhere)
    }

    /// Whether the query needs the Date field or one of the common header fields.
    pub(crate) fn asks_for_fields(&self) -> bool {
        let kept =
            |pattern: &Pattern| matches!(&pattern.part, TextPart::Field(name) if Summary::has_field(name));
        self.asks_for_dates() || self.patterns.iter().any(kept)
    }

    /// Whether it searches texts of messages, and if so, whether those of headers too: keys that texts and
    /// the Date field alone may decide.
    pub(crate) fn asks_for_texts(&self) -> Option<bool> {
        let elsewhere = |pattern: &Pattern| match &pattern.part {
            TextPart::Field(name) => !Summary::has_field(name),
            TextPart::Body | TextPart::Anywhere => true,
        };
        let texts = self.fuzzy.is_empty() && self.patterns.iter().any(elsewhere);
        texts.then(|| self.patterns.iter().any(|pattern| pattern.part != TextPart::Body))
    }

    /// Whether the query needs the Date field.
    pub(crate) fn asks_for_dates(&self) -> bool {
        any(&self.root, &|key| matches!(key, Key::Sent(_)))
            || self.fuzzy.iter().any(|fuzzy| matches!(fuzzy, Fuzzy::Sent(_) | Fuzzy::All(_) | Fuzzy::Any(_)))
    }

    /// Whether it needs a part of the structure.
    pub(crate) fn asks_for_structure(&self) -> bool {
        self.asks_for_dates() || !self.fuzzy.is_empty()
    }
}

/// Whether `such` holds for this key or one inside it.
fn any(key: &Key, such: &impl Fn(&Key) -> bool) -> bool {
    match key {
        Key::Not(key) => any(key, such),
        Key::All(keys) | Key::Any(keys) => keys.iter().any(|key| any(key, such)),
        key => such(key),
    }
}

/// Criteria in preparation.
#[derive(Default)]
struct Compiler {
    patterns: Vec<Pattern>,
    fuzzy: Vec<Fuzzy>,
    keywords: Vec<String>,
    ages: Vec<i64>,
    /// The number of fuzzy strings so far.
    fuzzy_strings: usize,
}

impl Compiler {
    fn key(&mut self, criterion: &Criterion) -> Result<Key> {
        Ok(match criterion {
            Criterion::Always(value) => Key::Always(*value),
            Criterion::Uids(mailbox, uids) => Key::Uids(*mailbox, uids.clone()),
            Criterion::Marked => Key::Marked,
            Criterion::Flags(flags) => Key::Flags(*flags),
            Criterion::Keyword(name) => {
                self.keywords.push(name.clone());
                Key::Keyword(self.keywords.len() - 1)
            }
            Criterion::ChangedSince(modseq) => Key::ChangedSince(*modseq),
            Criterion::Received(days) => Key::Received(*days),
            Criterion::OlderThan(seconds) => Key::Older(self.age(*seconds)),
            Criterion::YoungerThan(seconds) => Key::Younger(self.age(*seconds)),
            Criterion::Saved(days) => Key::Saved(*days),
            Criterion::Sent(days) => Key::Sent(*days),
            Criterion::Larger(size) => Key::Larger(*size),
            Criterion::Smaller(size) => Key::Smaller(*size),
            Criterion::Email(object) => Key::Email(*object),
            Criterion::Thread(thread) => Key::Thread(*thread),
            Criterion::Text(part, string) => self.pattern(part, string),
            Criterion::Fuzzy(criterion) => {
                let fuzzy = self.fuzzy(criterion)?;
                self.fuzzy.push(fuzzy);
                Key::Fuzzy(self.fuzzy.len() - 1)
            }
            Criterion::Not(criterion) => match self.key(criterion)? {
                Key::Always(value) => Key::Always(!value),
                key => Key::Not(Box::new(key)),
            },
            Criterion::All(criteria) => Key::All(self.by_cost(criteria)?),
            Criterion::Any(criteria) => Key::Any(self.by_cost(criteria)?),
        })
    }

    /// Cheap keys first: they may make the others unnecessary.
    fn by_cost(&mut self, criteria: &[Criterion]) -> Result<Vec<Key>> {
        let mut keys: Vec<Key> =
            criteria.iter().map(|criterion| self.key(criterion)).collect::<Result<_>>()?;
        keys.sort_by_key(cost);
        Ok(keys)
    }

    fn age(&mut self, seconds: u32) -> i64 {
        self.ages.push(i64::from(seconds));
        i64::from(seconds)
    }

    /// A fuzzy criterion.
    fn fuzzy(&mut self, criterion: &Criterion) -> Result<Fuzzy> {
        Ok(match criterion {
            Criterion::All(criteria) => Fuzzy::All(self.all_fuzzy(criteria)?),
            Criterion::Any(criteria) => Fuzzy::Any(self.all_fuzzy(criteria)?),
            Criterion::Fuzzy(criterion) => self.fuzzy(criterion)?,
            _ => match self.key(criterion)? {
                Key::Received(days) => Fuzzy::Received(days),
                Key::Sent(days) => Fuzzy::Sent(days),
                Key::Larger(size) => Fuzzy::Larger(size),
                Key::Smaller(size) => Fuzzy::Smaller(size),
                Key::Pattern(number) => self.words(number)?,
                key => Fuzzy::Exact(key),
            },
        })
    }

    fn all_fuzzy(&mut self, criteria: &[Criterion]) -> Result<Vec<Fuzzy>> {
        criteria.iter().map(|criterion| self.fuzzy(criterion)).collect()
    }

    /// The words of a pattern; the pattern itself if it has none.
    ///
    /// # Errors
    /// `Limit` for too many fuzzy strings.
    fn words(&mut self, number: usize) -> Result<Fuzzy> {
        self.fuzzy_strings += 1;
        if self.fuzzy_strings > limits::FUZZY_STRINGS {
            return Err(Error::limit("too many strings to be matched fuzzily"));
        }
        let pattern = &self.patterns[number];
        let string = String::from_utf8_lossy(pattern.finder.needle());
        Ok(match Words::new(pattern.part.clone(), &string, number) {
            Some(words) => Fuzzy::Words(words),
            None => Fuzzy::Exact(Key::Pattern(number)),
        })
    }

    fn pattern(&mut self, part: &TextPart, string: &str) -> Key {
        let folded = fold(string);
        // Every text contains the empty string; a field must at least exist (RFC 3501 §6.4.4, HEADER).
        let part = match part {
            TextPart::Field(name) => TextPart::Field(fold(name)),
            _ if folded.is_empty() => return Key::Always(true),
            part => part.clone(),
        };
        self.patterns.push(Pattern { part, finder: Finder::new(&folded).into_owned() });
        Key::Pattern(self.patterns.len() - 1)
    }
}

fn cost(key: &Key) -> u8 {
    match key {
        Key::Sent(_) => 1,
        Key::Pattern(_) | Key::Fuzzy(_) => 2,
        Key::Not(key) => cost(key),
        Key::All(keys) | Key::Any(keys) => keys.iter().map(cost).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(string: &str) -> Criterion {
        Criterion::Text(TextPart::Anywhere, string.to_owned())
    }

    #[test]
    fn cheap_keys_come_first() {
        let sent = Criterion::Sent(Days::on(1));
        let query = Query::new(&Criterion::All(vec![text("x"), sent, Criterion::Marked])).unwrap();
        let Key::All(keys) = &query.root else { panic!("{:?}", query.root) };
        assert!(matches!(keys[..], [Key::Marked, Key::Sent(_), Key::Pattern(0)]), "{keys:?}");
    }

    #[test]
    fn the_empty_string_matches_all_texts_and_existing_fields() {
        assert!(matches!(Query::new(&text("")).unwrap().root, Key::Always(true)));
        let none = Criterion::Not(Box::new(text("")));
        assert!(matches!(Query::new(&none).unwrap().root, Key::Always(false)));
        let field = Criterion::Text(TextPart::Field("X-Y".to_owned()), String::new());
        let query = Query::new(&field).unwrap();
        assert_eq!(query.patterns[0].part, TextPart::Field("x-y".to_owned()));
    }

    #[test]
    fn fuzzy_strings_are_bounded() {
        let fuzzy = |n: usize| Criterion::Fuzzy(Box::new(Criterion::Any(vec![text("word"); n])));
        assert!(Query::new(&fuzzy(limits::FUZZY_STRINGS)).is_ok());
        let error = Query::new(&fuzzy(limits::FUZZY_STRINGS + 1)).err().unwrap();
        assert_eq!(error.kind(), sealpost_base::Kind::Limit);
    }
}
