//! SEARCH keys (RFC 3501 §6.4.4).

use sealpost_base::limits;

use super::cursor::{Cursor, Failure, Parsed};
use crate::types::{AString, Flag, ModSeqEntry, ModSeqScope, Search, SearchKey};

/// `search = "SEARCH" [SP "CHARSET" SP astring] 1*(SP search-key)`
pub(super) fn search(cursor: &mut Cursor<'_>, uid: bool) -> Parsed<Search> {
    let mut charset = None;
    if cursor.eat_word("CHARSET ") {
        charset = Some(cursor.astring()?);
        cursor.space()?;
    }
    let mut keys = Keys { cursor, count: 0 };
    let keys = keys.sequence(0)?;
    Ok(Search { uid, charset, keys })
}

struct Keys<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    count: usize,
}

impl Keys<'_, '_> {
    /// `search-key *(SP search-key)`
    fn sequence(&mut self, depth: usize) -> Parsed<Vec<SearchKey>> {
        let mut keys = vec![self.key(depth)?];
        while !self.cursor.at_end() && self.cursor.eat(b' ') && !self.cursor.at_end() {
            keys.push(self.key(depth)?);
        }
        Ok(keys)
    }

    /// `search-key`
    fn key(&mut self, depth: usize) -> Parsed<SearchKey> {
        self.count += 1;
        if self.count > limits::IMAP_SEARCH_KEYS {
            return Err(Failure::Bad("too many search keys"));
        }
        if depth > limits::IMAP_NESTING {
            return Err(Failure::Bad("search keys are nested too deep"));
        }
        match self.cursor.peek() {
            Some(b'(') => {
                self.cursor.advance(1);
                let keys = self.sequence(depth + 1)?;
                self.cursor.expect(b')', "a list of search keys does not end")?;
                Ok(SearchKey::And(keys))
            }
            Some(b'*' | b'0'..=b'9') => Ok(SearchKey::Sequence(self.cursor.sequence_set()?)),
            _ => {
                let word = self.cursor.word(|b| b.is_ascii_alphanumeric()).to_ascii_uppercase();
                match plain(&word) {
                    Some(key) => Ok(key),
                    None => self.with_argument(&word, depth),
                }
            }
        }
    }

    fn with_argument(&mut self, word: &str, depth: usize) -> Parsed<SearchKey> {
        if !WITH_ARGUMENT.contains(&word) {
            return Err(Failure::Bad("unknown search key"));
        }
        self.cursor.space()?;
        let cursor = &mut *self.cursor;
        Ok(match word {
            "BEFORE" => SearchKey::Before(cursor.date()?),
            "ON" => SearchKey::On(cursor.date()?),
            "SINCE" => SearchKey::Since(cursor.date()?),
            "SENTBEFORE" => SearchKey::SentBefore(cursor.date()?),
            "SENTON" => SearchKey::SentOn(cursor.date()?),
            "SENTSINCE" => SearchKey::SentSince(cursor.date()?),
            "BCC" => SearchKey::Bcc(cursor.astring()?),
            "CC" => SearchKey::Cc(cursor.astring()?),
            "FROM" => SearchKey::From(cursor.astring()?),
            "SUBJECT" => SearchKey::Subject(cursor.astring()?),
            "TO" => SearchKey::To(cursor.astring()?),
            "BODY" => SearchKey::Body(cursor.astring()?),
            "TEXT" => SearchKey::Text(cursor.astring()?),
            "HEADER" => {
                let name: AString = cursor.astring()?;
                cursor.space()?;
                SearchKey::Header(name, cursor.astring()?)
            }
            "KEYWORD" => SearchKey::Flag(keyword(cursor)?),
            "UNKEYWORD" => SearchKey::NotFlag(keyword(cursor)?),
            "LARGER" => SearchKey::Larger(cursor.number()?),
            "SMALLER" => SearchKey::Smaller(cursor.number()?),
            "MODSEQ" => modseq(cursor)?,
            "UID" => SearchKey::Uid(cursor.sequence_set()?),
            "NOT" => SearchKey::Not(Box::new(self.key(depth + 1)?)),
            _ => {
                let first = self.key(depth + 1)?;
                self.cursor.space()?;
                SearchKey::Or(Box::new(first), Box::new(self.key(depth + 1)?))
            }
        })
    }
}

const WITH_ARGUMENT: [&str; 22] = [
    "BEFORE",
    "ON",
    "SINCE",
    "SENTBEFORE",
    "SENTON",
    "SENTSINCE",
    "BCC",
    "CC",
    "FROM",
    "SUBJECT",
    "TO",
    "BODY",
    "TEXT",
    "HEADER",
    "KEYWORD",
    "UNKEYWORD",
    "LARGER",
    "SMALLER",
    "MODSEQ",
    "UID",
    "NOT",
    "OR",
];

/// Keys that stand alone.
fn plain(word: &str) -> Option<SearchKey> {
    Some(match word {
        "ALL" => SearchKey::All,
        "NEW" => SearchKey::New,
        "OLD" => SearchKey::NotFlag(Flag::Recent),
        "RECENT" => SearchKey::Flag(Flag::Recent),
        "SEEN" => SearchKey::Flag(Flag::Seen),
        "ANSWERED" => SearchKey::Flag(Flag::Answered),
        "FLAGGED" => SearchKey::Flag(Flag::Flagged),
        "DELETED" => SearchKey::Flag(Flag::Deleted),
        "DRAFT" => SearchKey::Flag(Flag::Draft),
        "UNSEEN" => SearchKey::NotFlag(Flag::Seen),
        "UNANSWERED" => SearchKey::NotFlag(Flag::Answered),
        "UNFLAGGED" => SearchKey::NotFlag(Flag::Flagged),
        "UNDELETED" => SearchKey::NotFlag(Flag::Deleted),
        "UNDRAFT" => SearchKey::NotFlag(Flag::Draft),
        _ => return None,
    })
}

/// `flag-keyword = atom`
fn keyword(cursor: &mut Cursor<'_>) -> Parsed<Flag> {
    match cursor.flag()? {
        flag @ Flag::Keyword(_) => Ok(flag),
        _ => Err(Failure::Bad("a keyword is missing")),
    }
}

/// `search-modsequence = "MODSEQ" [SP entry-name SP entry-type-req] SP mod-sequence-valzer` (RFC 7162 §7)
fn modseq(cursor: &mut Cursor<'_>) -> Parsed<SearchKey> {
    let mut entry = None;
    if cursor.peek() == Some(b'"') {
        let flag = entry_flag(&cursor.quoted()?)?;
        cursor.space()?;
        let scope = match cursor.word(|b| b.is_ascii_alphabetic()).to_ascii_lowercase().as_str() {
            "priv" => ModSeqScope::Private,
            "shared" => ModSeqScope::Shared,
            "all" => ModSeqScope::All,
            _ => return Err(Failure::Bad("an entry is priv, shared or all")),
        };
        cursor.space()?;
        entry = Some(ModSeqEntry { flag, scope });
    }
    Ok(SearchKey::ModSeq { entry, modseq: cursor.number()? })
}

/// `entry-flag-name = DQUOTE "/flags/" attr-flag DQUOTE`, without its quotes; not `\Recent`.
fn entry_flag(name: &[u8]) -> Parsed<Flag> {
    const WRONG: Failure = Failure::Bad("an entry must be /flags/ and a flag");
    let name = std::str::from_utf8(name).map_err(|_| WRONG)?;
    let (prefix, flag) = name.split_at_checked("/flags/".len()).ok_or(WRONG)?;
    match Flag::new(flag) {
        Ok(flag) if prefix.eq_ignore_ascii_case("/flags/") && flag != Flag::Recent => Ok(flag),
        _ => Err(WRONG),
    }
}
