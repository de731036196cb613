//! Search keys, made ready: strings decoded and folded, numbers resolved, and what is cheap put first.

use memchr::memmem::Finder;
use sealpost_account::object_id::ThreadId;
use sealpost_account::state::KeywordId;
use sealpost_account::summary::Summary;
use sealpost_account::{AccountState, SystemFlags};
use sealpost_base::{ObjectId, Timestamp, UidSet};
use sealpost_imap::types::{AString, SearchKey};
use sealpost_mime::decode::charset;

use super::area::Area;
use super::compile::Compiler;
use super::fuzzy::Fuzzy;
use crate::imap::reply::Reply;

/// How the strings of a search are to be read.
pub(in crate::imap) struct Charset(Option<String>);

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
    pub(super) from: i64,
    pub(super) to: i64,
}

/// A string that is looked for, and where.
pub(super) struct Pattern {
    pub(super) scope: Scope,
    /// Folded as texts are stored.
    pub(super) finder: Finder<'static>,
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
        if Charset::is_utf8(name) {
            return Some(Charset(None));
        }
        let name = name?.as_str()?;
        charset::is_known(name).then(|| Charset(Some(name.to_owned())))
    }

    /// Whether what is written in it can be read as UTF-8: that itself, ASCII, which is a part of it, or none at all.
    pub(in crate::imap) fn is_utf8(name: Option<&AString>) -> bool {
        let is = |name: &AString| {
            let known = ["us-ascii", "utf-8"];
            name.as_str().is_some_and(|name| known.iter().any(|known| name.eq_ignore_ascii_case(known)))
        };
        name.is_none_or(is)
    }

    /// Without a charset, octets that are not ASCII are taken for what they most likely are instead of being refused.
    pub(super) fn decode(&self, string: &AString) -> String {
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
        let mut compiler = Compiler { area, state, charset, patterns, fuzzy, ages, fuzzy_strings: 0 };
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

    /// Whether summaries can decide something: they have the Date field and the common header fields. What is in the
    /// header need not be looked for in the text.
    pub(super) fn asks_for_headers(&self) -> bool {
        self.asks_for_fields() || self.patterns.iter().any(|pattern| pattern.scope == Scope::Anywhere)
    }

    /// Whether the Date field or one of the common header fields is asked for.
    pub(super) fn asks_for_fields(&self) -> bool {
        let kept =
            |pattern: &Pattern| matches!(&pattern.scope, Scope::Field(name) if Summary::has_field(name));
        self.asks_for_dates() || self.patterns.iter().any(kept)
    }

    /// Whether texts of messages are asked for, and if so, whether those of headers are: what may be decided by texts
    /// without anything else but the Date field.
    pub(super) fn asks_for_texts(&self) -> Option<bool> {
        let elsewhere = |pattern: &Pattern| match &pattern.scope {
            Scope::Field(name) => !Summary::has_field(name),
            Scope::Body | Scope::Anywhere => true,
        };
        let texts = self.fuzzy.is_empty() && self.patterns.iter().any(elsewhere);
        texts.then(|| self.patterns.iter().any(|pattern| pattern.scope != Scope::Body))
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
}
