//! Search keys, made ready: strings decoded and folded, numbers resolved, and what is cheap put first.

use std::num::NonZeroU32;

use memchr::memmem::Finder;
use sealpost_account::object_id::{ThreadId, object_of};
use sealpost_account::state::KeywordId;
use sealpost_account::summary::Summary;
use sealpost_account::{AccountState, SystemFlags};
use sealpost_base::{ObjectId, Timestamp, UidSet};
use sealpost_imap::types::{AString, Flag, SearchKey};
use sealpost_mime::decode::charset;
use sealpost_mime::fold;

use super::area::Area;
use super::fuzzy::{Fuzzy, Words};
use crate::imap::reply::Reply;

/// How the strings of a search are to be read.
pub(super) struct Charset(Option<String>);

/// All keys of a search, which must all match.
pub(in crate::imap) struct Query {
    pub(super) root: Key,
    /// The strings that are looked for, which [`Key::Pattern`] numbers.
    pub(super) patterns: Vec<Pattern>,
    /// What is matched fuzzily, which [`Key::Fuzzy`] numbers.
    pub(super) fuzzy: Vec<Fuzzy>,
    /// The ages among the keys, in seconds.
    ages: Vec<i64>,
    /// From when ages are counted, in seconds since 1970.
    pub(super) now: i64,
}

/// A search key.
#[derive(Debug)]
pub(super) enum Key {
    /// Decided already.
    Always(bool),
    /// Among these messages.
    Uids(UidSet),
    /// All these flags are set.
    System(SystemFlags),
    /// Changed at this mod-sequence or later.
    ModSeq(u64),
    /// The keyword is set.
    Keyword(KeywordId),
    /// A keyword is set that no message of the account ever had.
    Unborn(String),
    /// `\Recent` in this session.
    Recent,
    /// INTERNALDATE is on one of these days since 1970.
    Received(Days),
    /// INTERNALDATE is at least so many seconds ago.
    Older(i64),
    /// INTERNALDATE is at most so many seconds ago.
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
    /// A pattern is found.
    Pattern(usize),
    /// About this.
    Fuzzy(usize),
    /// Not this.
    Not(Box<Key>),
    /// All of these.
    All(Vec<Key>),
    /// One of these.
    Any(Vec<Key>),
}

/// Days from the first to the one before the last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Days {
    from: i64,
    to: i64,
}

/// A string that is looked for, and where.
pub(super) struct Pattern {
    pub(super) scope: Scope,
    /// Folded as header values are stored: runs of white space are one space.
    pub(super) in_header: Finder<'static>,
    /// Folded as bodies are stored.
    pub(super) in_body: Finder<'static>,
}

/// Where a string is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// In the values of the header fields of this name, lower case.
    Field(String),
    /// In the text of the message.
    Body,
    /// In header and text.
    Anywhere,
}

impl Charset {
    /// The charset of that name; `None` if it is not known.
    pub(super) fn named(name: Option<&AString>) -> Option<Self> {
        let Some(name) = name else { return Some(Charset(None)) };
        let name = name.as_str()?;
        // Both are read as UTF-8, which one of them is a part of.
        if ["us-ascii", "utf-8"].iter().any(|known| name.eq_ignore_ascii_case(known)) {
            return Some(Charset(None));
        }
        charset::is_known(name).then(|| Charset(Some(name.to_owned())))
    }

    /// Without a charset, octets that are not ASCII are taken for what they most likely are instead of being refused.
    fn decode(&self, string: &AString) -> String {
        charset::decode(self.0.as_deref(), string.as_bytes())
    }
}

impl Days {
    /// Whether the day is one of them.
    pub(super) fn contain(self, day: i64) -> bool {
        (self.from..self.to).contains(&day)
    }

    /// How many days it is from there to the nearest of them.
    pub(super) fn distance(self, day: i64) -> u64 {
        if day < self.from {
            self.from.abs_diff(day)
        } else {
            day.saturating_add(1).max(self.to).abs_diff(self.to)
        }
    }
}

impl Query {
    /// Makes the keys ready for a search there, now.
    ///
    /// # Errors
    /// `BAD` for a stored search that was not put in its place.
    pub(super) fn new(
        keys: &[SearchKey],
        area: &Area,
        state: &AccountState,
        charset: &Charset,
        now: Timestamp,
    ) -> Result<Self, Reply> {
        let (patterns, fuzzy, ages) = (Vec::new(), Vec::new(), Vec::new());
        let mut compiler = Compiler { area, state, charset, patterns, fuzzy, ages };
        let root = compiler.all(keys)?;
        let Compiler { patterns, fuzzy, ages, .. } = compiler;
        Ok(Query { root, patterns, fuzzy, ages, now: now.seconds() })
    }

    /// The same search later: keywords may have come into use, and ages are counted from now.
    pub(in crate::imap) fn refresh(&mut self, state: &AccountState, now: i64) {
        self.now = now;
        let mut learn = |key: &mut Key| {
            if let Key::Unborn(name) = key
                && let Some(keyword) = state.keyword(name)
            {
                *key = Key::Keyword(keyword);
            }
        };
        each_mut(&mut self.root, &mut learn);
        self.fuzzy.iter_mut().for_each(|fuzzy| fuzzy.each_key(&mut |key| each_mut(key, &mut learn)));
    }

    /// The ages that are asked for, in seconds.
    pub(in crate::imap) fn ages(&self) -> &[i64] {
        &self.ages
    }

    /// Whether summaries can decide something: they have the Date field and the common header fields.
    pub(super) fn asks_for_headers(&self) -> bool {
        let kept = |pattern: &Pattern| match &pattern.scope {
            Scope::Field(name) => Summary::has_field(name),
            // What is in the header need not be looked for in the text.
            Scope::Anywhere => true,
            Scope::Body => false,
        };
        self.asks_for_dates() || self.patterns.iter().any(kept)
    }

    /// Whether mod-sequences are asked for, so that the highest one found has to be told (RFC 7162 §3.1.5).
    pub(in crate::imap) fn asks_for_modseq(&self) -> bool {
        any(&self.root, &|key| matches!(key, Key::ModSeq(_)))
    }

    /// Whether the Date field is asked for.
    pub(super) fn asks_for_dates(&self) -> bool {
        any(&self.root, &|key| matches!(key, Key::Sent(_)))
            || self.fuzzy.iter().any(|fuzzy| matches!(fuzzy, Fuzzy::Sent(_) | Fuzzy::All(_) | Fuzzy::Any(_)))
    }

    /// Whether something of the structure is asked for.
    pub(super) fn asks_for_structure(&self) -> bool {
        self.asks_for_dates()
            || any(&self.root, &|key| matches!(key, Key::Thread(_)))
            || !self.fuzzy.is_empty()
    }
}

struct Compiler<'a> {
    area: &'a Area,
    state: &'a AccountState,
    charset: &'a Charset,
    patterns: Vec<Pattern>,
    fuzzy: Vec<Fuzzy>,
    ages: Vec<i64>,
}

impl Compiler<'_> {
    fn key(&mut self, key: &SearchKey) -> Result<Key, Reply> {
        let day = |date: &sealpost_imap::types::Date| i64::from(date.days());
        Ok(match key {
            SearchKey::All => Key::Always(true),
            // Flags have no mod-sequences of their own: the message's stands for them (RFC 7162 §3.1.5).
            SearchKey::ModSeq { modseq, .. } => Key::ModSeq(*modseq),
            SearchKey::Flag(flag) => self.flag(flag),
            SearchKey::NotFlag(flag) => not(self.flag(flag)),
            SearchKey::New => Key::All(vec![Key::Recent, not(Key::System(SystemFlags::SEEN))]),
            SearchKey::Before(date) => Key::Received(Days { from: i64::MIN, to: day(date) }),
            SearchKey::On(date) => Key::Received(Days { from: day(date), to: day(date) + 1 }),
            SearchKey::Since(date) => Key::Received(Days { from: day(date), to: i64::MAX }),
            SearchKey::SentBefore(date) => Key::Sent(Days { from: i64::MIN, to: day(date) }),
            SearchKey::SentOn(date) => Key::Sent(Days { from: day(date), to: day(date) + 1 }),
            SearchKey::SentSince(date) => Key::Sent(Days { from: day(date), to: i64::MAX }),
            SearchKey::Bcc(string) => self.field("bcc", string),
            SearchKey::Cc(string) => self.field("cc", string),
            SearchKey::From(string) => self.field("from", string),
            SearchKey::Subject(string) => self.field("subject", string),
            SearchKey::To(string) => self.field("to", string),
            SearchKey::Header(name, string) => {
                let name = fold(&String::from_utf8_lossy(name.as_bytes()));
                self.field(name.trim(), string)
            }
            SearchKey::Body(string) => self.pattern(Scope::Body, string),
            SearchKey::Text(string) => self.pattern(Scope::Anywhere, string),
            SearchKey::Larger(size) => Key::Larger(*size),
            SearchKey::Smaller(size) => Key::Smaller(*size),
            SearchKey::EmailId(id) => object_of(id.as_str()).map_or(Key::Always(false), Key::Email),
            SearchKey::ThreadId(id) => ThreadId::parse(id.as_str()).map_or(Key::Always(false), Key::Thread),
            SearchKey::SavedBefore(date) => Key::Saved(Days { from: i64::MIN, to: day(date) }),
            SearchKey::SavedOn(date) => Key::Saved(Days { from: day(date), to: day(date) + 1 }),
            SearchKey::SavedSince(date) => Key::Saved(Days { from: day(date), to: i64::MAX }),
            // RFC 8514 §4.3: every mailbox here keeps the date.
            SearchKey::SaveDateSupported => Key::Always(true),
            // Only messages of the area are searched, so ranges over its gaps do no harm.
            SearchKey::Sequence(set) => Key::Uids(self.area.by_number(set)),
            SearchKey::Uid(set) => Key::Uids(self.area.by_uid(set)),
            // RFC 5032 §2: exact to the second, and both have the moment itself.
            SearchKey::Older(seconds) => Key::Older(self.age(*seconds)),
            SearchKey::Younger(seconds) => Key::Younger(self.age(*seconds)),
            SearchKey::Filter(_) => return Err(Reply::bad("a stored search cannot be used here")),
            SearchKey::Fuzzy(key) => {
                let fuzzy = self.fuzzy(key)?;
                self.fuzzy.push(fuzzy);
                Key::Fuzzy(self.fuzzy.len() - 1)
            }
            SearchKey::Not(key) => not(self.key(key)?),
            SearchKey::Or(a, b) => Key::Any(by_cost(vec![self.key(a)?, self.key(b)?])),
            SearchKey::And(keys) => self.all(keys)?,
        })
    }

    fn all(&mut self, keys: &[SearchKey]) -> Result<Key, Reply> {
        let keys = keys.iter().map(|key| self.key(key)).collect::<Result<_, _>>()?;
        Ok(Key::All(by_cost(keys)))
    }

    fn flag(&self, flag: &Flag) -> Key {
        match flag {
            Flag::Seen => Key::System(SystemFlags::SEEN),
            Flag::Answered => Key::System(SystemFlags::ANSWERED),
            Flag::Flagged => Key::System(SystemFlags::FLAGGED),
            Flag::Deleted => Key::System(SystemFlags::DELETED),
            Flag::Draft => Key::System(SystemFlags::DRAFT),
            Flag::Recent => Key::Recent,
            Flag::Keyword(name) => match self.state.keyword(name.as_str()) {
                Some(keyword) => Key::Keyword(keyword),
                None => Key::Unborn(name.as_str().to_owned()),
            },
            Flag::Extension(_) => Key::Always(false),
        }
    }

    fn age(&mut self, seconds: NonZeroU32) -> i64 {
        self.ages.push(i64::from(seconds.get()));
        i64::from(seconds.get())
    }

    /// A key below FUZZY.
    fn fuzzy(&mut self, key: &SearchKey) -> Result<Fuzzy, Reply> {
        Ok(match key {
            SearchKey::And(keys) => {
                Fuzzy::All(keys.iter().map(|key| self.fuzzy(key)).collect::<Result<_, _>>()?)
            }
            SearchKey::Or(a, b) => Fuzzy::Any(vec![self.fuzzy(a)?, self.fuzzy(b)?]),
            SearchKey::Fuzzy(key) => self.fuzzy(key)?,
            _ => match self.key(key)? {
                Key::Received(days) => Fuzzy::Received(days),
                Key::Sent(days) => Fuzzy::Sent(days),
                Key::Larger(size) => Fuzzy::Larger(size),
                Key::Smaller(size) => Fuzzy::Smaller(size),
                Key::Pattern(number) => self.words(number),
                key => Fuzzy::Exact(key),
            },
        })
    }

    /// The words of a pattern; itself if it has none.
    fn words(&self, number: usize) -> Fuzzy {
        let pattern = &self.patterns[number];
        let string = String::from_utf8_lossy(pattern.in_body.needle());
        match Words::new(pattern.scope.clone(), &string, number) {
            Some(words) => Fuzzy::Words(words),
            None => Fuzzy::Exact(Key::Pattern(number)),
        }
    }

    fn field(&mut self, name: &str, string: &AString) -> Key {
        self.pattern(Scope::Field(name.to_owned()), string)
    }

    fn pattern(&mut self, scope: Scope, string: &AString) -> Key {
        let folded = fold(&self.charset.decode(string));
        // Every text holds the empty string; a field must at least be there (RFC 3501 §6.4.4, HEADER).
        if folded.is_empty() && !matches!(scope, Scope::Field(_)) {
            return Key::Always(true);
        }
        let in_header = Finder::new(&one_spaced(&folded)).into_owned();
        let in_body = Finder::new(&folded).into_owned();
        self.patterns.push(Pattern { scope, in_header, in_body });
        Key::Pattern(self.patterns.len() - 1)
    }
}

fn not(key: Key) -> Key {
    match key {
        Key::Always(value) => Key::Always(!value),
        key => Key::Not(Box::new(key)),
    }
}

/// Cheap keys first: with luck the others are not needed.
fn by_cost(mut keys: Vec<Key>) -> Vec<Key> {
    keys.sort_by_key(cost);
    keys
}

fn cost(key: &Key) -> u8 {
    match key {
        Key::Sent(_) | Key::Thread(_) => 1,
        Key::Pattern(_) | Key::Fuzzy(_) => 2,
        Key::Not(key) => cost(key),
        Key::All(keys) | Key::Any(keys) => keys.iter().map(cost).max().unwrap_or(0),
        _ => 0,
    }
}

/// Calls `f` with this key if nothing is inside it, else with those inside it.
fn each_mut(key: &mut Key, f: &mut impl FnMut(&mut Key)) {
    match key {
        Key::Not(key) => each_mut(key, f),
        Key::All(keys) | Key::Any(keys) => keys.iter_mut().for_each(|key| each_mut(key, f)),
        key => f(key),
    }
}

/// Whether this key or one inside it is such a one.
fn any(key: &Key, such: &impl Fn(&Key) -> bool) -> bool {
    match key {
        Key::Not(key) => any(key, such),
        Key::All(keys) | Key::Any(keys) => keys.iter().any(|key| any(key, such)),
        key => such(key),
    }
}

/// Runs of white space as one space, as in stored header values.
fn one_spaced(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let space = c.is_whitespace();
        if !(space && out.ends_with(' ')) {
            out.push(if space { ' ' } else { c });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charsets_are_those_that_are_known() {
        let named = |name: &str| Charset::named(Some(&AString::from(name)));
        assert!(named("utf-8").is_some() && named("US-ASCII").is_some() && named("koi8-r").is_some());
        assert!(named("klingon").is_none() && named("").is_none());
        let koi8 = named("KOI8-R").unwrap();
        assert_eq!(koi8.decode(&AString::new([0xd0, 0xd2]).unwrap()), "пр");
    }

    #[test]
    fn days_are_this_far_away() {
        let days = Days { from: 10, to: 12 };
        let distances: Vec<u64> = (8..15).map(|day| days.distance(day)).collect();
        assert_eq!(distances, [2, 1, 0, 0, 1, 2, 3]);
        assert_eq!(Days { from: i64::MIN, to: 12 }.distance(-5), 0);
        assert_eq!(Days { from: 10, to: i64::MAX }.distance(11), 0);
    }

    #[test]
    fn white_space_in_header_patterns_is_one_space() {
        assert_eq!(one_spaced("a \t\r\n b "), "a b ");
    }
}
