//! From the keys of a command to keys that are ready: each is resolved against the area and the account's state once, and not
//! for every message.

use std::num::NonZeroU32;

use memchr::memmem::Finder;
use sealpost_account::object_id::{ThreadId, object_of};
use sealpost_account::{AccountState, SystemFlags};
use sealpost_base::limits;
use sealpost_imap::types::{AString, Code, Flag, SearchKey};
use sealpost_mime::fold;

use super::area::Area;
use super::fuzzy::{Fuzzy, Words};
use super::key::{Charset, Days, Key, Pattern, Scope};
use crate::imap::reply::Reply;

/// The keys of a search on their way to being ready.
pub(super) struct Compiler<'a> {
    pub(super) area: &'a Area,
    pub(super) state: &'a AccountState,
    pub(super) charset: &'a Charset,
    pub(super) patterns: Vec<Pattern>,
    pub(super) fuzzy: Vec<Fuzzy>,
    pub(super) ages: Vec<i64>,
    /// Strings that are matched fuzzily so far.
    pub(super) fuzzy_strings: usize,
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

    /// All of these keys.
    pub(super) fn all(&mut self, keys: &[SearchKey]) -> Result<Key, Reply> {
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
                Key::Pattern(number) => self.words(number)?,
                key => Fuzzy::Exact(key),
            },
        })
    }

    /// The words of a pattern; itself if it has none.
    ///
    /// # Errors
    /// `NO [LIMIT]` if there are too many such strings.
    fn words(&mut self, number: usize) -> Result<Fuzzy, Reply> {
        self.fuzzy_strings += 1;
        if self.fuzzy_strings > limits::FUZZY_STRINGS {
            return Err(Reply::no(Code::Limit, "too many strings to be matched fuzzily"));
        }
        let pattern = &self.patterns[number];
        let string = String::from_utf8_lossy(pattern.finder.needle());
        Ok(match Words::new(pattern.scope.clone(), &string, number) {
            Some(words) => Fuzzy::Words(words),
            None => Fuzzy::Exact(Key::Pattern(number)),
        })
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
        self.patterns.push(Pattern { scope, finder: Finder::new(&folded).into_owned() });
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
