//! Translates the keys of an IMAP search to criteria of the engine.
//!
//! Features that only IMAP has are resolved here, once per search instead of once per message: charsets,
//! message numbers, `$`, UID sets of the selected mailbox.

use sealpost_account::SystemFlags;
use sealpost_account::ThreadId;
use sealpost_account::object_id::object_of;
use sealpost_imap::types::{AString, Date, Flag, SearchKey};
use sealpost_mime::fold;
use sealpost_search::{Criterion, Days, MailboxIndex, TextPart};

use super::charset::Charset;
use super::numbered::NumberedScope;
use crate::reply::Reply;

/// Translates the keys of a search in that scope.
pub(super) struct Translator<'a> {
    pub(super) scope: &'a NumberedScope,
    pub(super) charset: &'a Charset,
}

impl Translator<'_> {
    /// Translates keys that must all match.
    ///
    /// # Errors
    /// `BAD` for a stored search that was not substituted.
    pub(super) fn all(&self, keys: &[SearchKey]) -> Result<Criterion, Reply> {
        Ok(Criterion::All(keys.iter().map(|key| self.key(key)).collect::<Result<_, _>>()?))
    }

    fn key(&self, key: &SearchKey) -> Result<Criterion, Reply> {
        Ok(match key {
            SearchKey::All => Criterion::Always(true),
            // Flags have no mod-sequences of their own; that of the message applies (RFC 7162 §3.1.5).
            SearchKey::ModSeq { modseq, .. } => Criterion::ChangedSince(*modseq),
            SearchKey::Flag(name) => flag(name),
            SearchKey::NotFlag(name) => not(flag(name)),
            SearchKey::New => {
                Criterion::All(vec![Criterion::Marked, not(Criterion::Flags(SystemFlags::SEEN))])
            }
            SearchKey::Before(date) => Criterion::Received(Days::before(day(date))),
            SearchKey::On(date) => Criterion::Received(Days::on(day(date))),
            SearchKey::Since(date) => Criterion::Received(Days::since(day(date))),
            SearchKey::SentBefore(date) => Criterion::Sent(Days::before(day(date))),
            SearchKey::SentOn(date) => Criterion::Sent(Days::on(day(date))),
            SearchKey::SentSince(date) => Criterion::Sent(Days::since(day(date))),
            SearchKey::Bcc(string) => self.field("bcc", string),
            SearchKey::Cc(string) => self.field("cc", string),
            SearchKey::From(string) => self.field("from", string),
            SearchKey::Subject(string) => self.field("subject", string),
            SearchKey::To(string) => self.field("to", string),
            SearchKey::Header(name, string) => {
                let name = fold(&String::from_utf8_lossy(name.as_bytes()));
                self.field(name.trim(), string)
            }
            SearchKey::Body(string) => self.text(TextPart::Body, string),
            SearchKey::Text(string) => self.text(TextPart::Anywhere, string),
            SearchKey::Larger(size) => Criterion::Larger(*size),
            SearchKey::Smaller(size) => Criterion::Smaller(*size),
            SearchKey::EmailId(id) => object_of(id.as_str()).map_or(NEVER, Criterion::Email),
            SearchKey::ThreadId(id) => ThreadId::parse(id.as_str()).map_or(NEVER, Criterion::Thread),
            SearchKey::SavedBefore(date) => Criterion::Saved(Days::before(day(date))),
            SearchKey::SavedOn(date) => Criterion::Saved(Days::on(day(date))),
            SearchKey::SavedSince(date) => Criterion::Saved(Days::since(day(date))),
            // RFC 8514 §4.3: every mailbox here has the save date.
            SearchKey::SaveDateSupported => Criterion::Always(true),
            // Only messages of the scope are searched, so ranges may cover gaps.
            SearchKey::Sequence(set) => Criterion::Uids(MailboxIndex::FIRST, self.scope.by_number(set)),
            SearchKey::Uid(set) => Criterion::Uids(MailboxIndex::FIRST, self.scope.by_uid(set)),
            // RFC 5032 §2: exact to the second; both have the full time.
            SearchKey::Older(seconds) => Criterion::OlderThan(seconds.get()),
            SearchKey::Younger(seconds) => Criterion::YoungerThan(seconds.get()),
            SearchKey::Filter(_) => return Err(Reply::bad("a stored search cannot be used here")),
            SearchKey::Fuzzy(key) => Criterion::Fuzzy(Box::new(self.key(key)?)),
            SearchKey::Not(key) => not(self.key(key)?),
            SearchKey::Or(a, b) => Criterion::Any(vec![self.key(a)?, self.key(b)?]),
            SearchKey::And(keys) => self.all(keys)?,
        })
    }

    fn field(&self, name: &str, string: &AString) -> Criterion {
        self.text(TextPart::Field(name.to_owned()), string)
    }

    fn text(&self, part: TextPart, string: &AString) -> Criterion {
        Criterion::Text(part, self.charset.decode(string))
    }
}

/// No message can have that id or flag.
const NEVER: Criterion = Criterion::Always(false);

fn flag(flag: &Flag) -> Criterion {
    match flag {
        Flag::Seen => Criterion::Flags(SystemFlags::SEEN),
        Flag::Answered => Criterion::Flags(SystemFlags::ANSWERED),
        Flag::Flagged => Criterion::Flags(SystemFlags::FLAGGED),
        Flag::Deleted => Criterion::Flags(SystemFlags::DELETED),
        Flag::Draft => Criterion::Flags(SystemFlags::DRAFT),
        Flag::Recent => Criterion::Marked,
        Flag::Keyword(name) => Criterion::Keyword(name.as_str().to_owned()),
        Flag::Extension(_) => NEVER,
    }
}

fn not(criterion: Criterion) -> Criterion {
    Criterion::Not(Box::new(criterion))
}

fn day(date: &Date) -> i64 {
    i64::from(date.days())
}
