//! SEARCH and its keys (RFC 3501 §6.4.4), its return options (RFC 4466 §2.6.1), and the commands
//! that are made of it: SORT and THREAD (RFC 5256).

use std::num::NonZeroU32;

use sealpost_base::limits;

use super::cursor::{Cursor, Failure, Parsed};
use crate::types::{
    AString, Flag, ModSeqEntry, ModSeqScope, PartialRange, Search, SearchKey, SearchReturn, Sort,
    SortCriterion, SortKey, Thread, ThreadAlgorithm, is_atom_char,
};

/// `search = "SEARCH" [search-return-opts] SP search-program`
pub(super) fn search(cursor: &mut Cursor<'_>, uid: bool) -> Parsed<Search> {
    let returns = returns(cursor)?;
    program(cursor, uid, returns)
}

/// `search-program = ["CHARSET" SP charset SP] search-key *(SP search-key)`
pub(super) fn program(
    cursor: &mut Cursor<'_>,
    uid: bool,
    returns: Option<Vec<SearchReturn>>,
) -> Parsed<Search> {
    let mut charset = None;
    if cursor.eat_word("CHARSET ") {
        charset = Some(cursor.astring()?);
        cursor.space()?;
    }
    Ok(Search { uid, returns, charset, keys: keys(cursor)? })
}

/// `search-key *(SP search-key)`
pub(super) fn keys(cursor: &mut Cursor<'_>) -> Parsed<Vec<SearchKey>> {
    Keys { cursor, count: 0 }.sequence(0)
}

/// The keys of a search that is stored: `search-criteria = search-key *(SP search-key)` (RFC 5466 §4).
///
/// # Errors
/// Why they are invalid.
pub fn search_keys(input: &[u8]) -> Result<Vec<SearchKey>, &'static str> {
    let mut cursor = Cursor::new(input, true);
    let keys = keys(&mut cursor).and_then(|keys| cursor.end().map(|()| keys));
    keys.map_err(|failure| match failure {
        Failure::Bad(reason) | Failure::Unknown(reason, _) => reason,
        Failure::Name(_) => "a mailbox name among search keys",
        Failure::Incomplete => "a literal is cut off",
    })
}

/// `sort = "SORT" [search-return-opts] SP sort-criteria SP search-criteria` (RFC 5256 §5, RFC 5267 §5)
pub(super) fn sort(cursor: &mut Cursor<'_>, uid: bool) -> Parsed<Sort> {
    let returns = returns(cursor)?;
    let criteria = cursor.list1(sort_criterion)?;
    if criteria.len() > limits::IMAP_SORT_CRITERIA {
        return Err(Failure::Bad("too many sort criteria"));
    }
    cursor.space()?;
    Ok(Sort { criteria, search: criteria_of_search(cursor, uid, returns)? })
}

/// `sort-criterion = ["REVERSE" SP] sort-key`
fn sort_criterion(cursor: &mut Cursor<'_>) -> Parsed<SortCriterion> {
    let reverse = cursor.eat_word("REVERSE ");
    let word = cursor.word(is_atom_char);
    let key = SortKey::NAMES.iter().find(|(_, name)| name.eq_ignore_ascii_case(word));
    key.map(|(key, _)| SortCriterion { reverse, key: *key })
        .ok_or_else(|| Cursor::unknown("unknown sort criterion", word))
}

/// `thread = "THREAD" SP thread-alg SP search-criteria` (RFC 5256 §5)
pub(super) fn thread(cursor: &mut Cursor<'_>, uid: bool) -> Parsed<Thread> {
    let word = cursor.word(is_atom_char);
    let algorithm = [ThreadAlgorithm::OrderedSubject, ThreadAlgorithm::References]
        .into_iter()
        .find(|algorithm| algorithm.name().eq_ignore_ascii_case(word))
        .ok_or_else(|| Cursor::unknown("unknown threading algorithm", word))?;
    cursor.space()?;
    Ok(Thread { algorithm, search: criteria_of_search(cursor, uid, None)? })
}

/// `search-criteria = charset 1*(SP search-key)` (RFC 5256 §5)
fn criteria_of_search(
    cursor: &mut Cursor<'_>,
    uid: bool,
    returns: Option<Vec<SearchReturn>>,
) -> Parsed<Search> {
    let charset = Some(cursor.astring()?);
    cursor.space()?;
    Ok(Search { uid, returns, charset, keys: keys(cursor)? })
}

/// `search-return-opts = SP "RETURN" SP "(" [search-return-opt *(SP search-return-opt)] ")"`, and
/// the space after it
pub(super) fn returns(cursor: &mut Cursor<'_>) -> Parsed<Option<Vec<SearchReturn>>> {
    if !cursor.eat_word("RETURN ") {
        return Ok(None);
    }
    let returns = cursor.list(search_return)?;
    cursor.space()?;
    if returns.len() > limits::IMAP_ITEMS {
        return Err(Failure::Bad("too many return options"));
    }
    // RFC 9394 §3.1: "MUST NOT contain more than one PARTIAL or ALL".
    let partials = returns.iter().filter(|r| matches!(r, SearchReturn::Partial(_))).count();
    if partials > 1 || (partials == 1 && returns.contains(&SearchReturn::All)) {
        return Err(Failure::Bad("PARTIAL and ALL exclude each other"));
    }
    Ok(Some(returns))
}

/// `search-return-opt`
fn search_return(cursor: &mut Cursor<'_>) -> Parsed<SearchReturn> {
    let word = cursor.word(is_atom_char);
    Ok(match word.to_ascii_uppercase().as_str() {
        "MIN" => SearchReturn::Min,
        "MAX" => SearchReturn::Max,
        "ALL" => SearchReturn::All,
        "COUNT" => SearchReturn::Count,
        "SAVE" => SearchReturn::Save,
        "RELEVANCY" => SearchReturn::Relevancy,
        "UPDATE" => SearchReturn::Update,
        "CONTEXT" => SearchReturn::Context,
        "PARTIAL" => {
            cursor.space()?;
            SearchReturn::Partial(partial_range(cursor)?)
        }
        _ => return Err(Cursor::unknown("unknown return option", word)),
    })
}

/// `partial-range = nz-number ":" nz-number / "-" nz-number ":" "-" nz-number` (RFC 9394 §4)
pub(super) fn partial_range(cursor: &mut Cursor<'_>) -> Parsed<PartialRange> {
    let from_end = cursor.eat(b'-');
    let first = nz_number(cursor)?;
    cursor.expect(b':', "a partial range must be like 1:100")?;
    if from_end {
        cursor.expect(b'-', "both bounds of a partial range count from the same end")?;
    }
    Ok(PartialRange { first, last: nz_number(cursor)?, from_end })
}

fn nz_number(cursor: &mut Cursor<'_>) -> Parsed<NonZeroU32> {
    NonZeroU32::new(cursor.number32()?).ok_or(Failure::Bad("a number that is not 0 is missing"))
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
            Some(b'*' | b'$' | b'0'..=b'9') => Ok(SearchKey::Sequence(self.cursor.sequence_set()?)),
            _ => {
                let word = self.cursor.word(|b| b.is_ascii_alphanumeric()).to_ascii_uppercase();
                match plain(&word) {
                    _ if word.is_empty() => Err(Failure::Bad("a search key is missing")),
                    Some(key) => Ok(key),
                    None => self.with_argument(&word, depth),
                }
            }
        }
    }

    fn with_argument(&mut self, word: &str, depth: usize) -> Parsed<SearchKey> {
        if !WITH_ARGUMENT.contains(&word) {
            return Err(Cursor::unknown("unknown search key", word));
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
            "OLDER" => SearchKey::Older(nz_number(cursor)?),
            "YOUNGER" => SearchKey::Younger(nz_number(cursor)?),
            "FILTER" => SearchKey::Filter(filter_name(cursor)?),
            "FUZZY" => SearchKey::Fuzzy(Box::new(self.key(depth + 1)?)),
            "UID" => SearchKey::Uid(cursor.sequence_set()?),
            "EMAILID" => SearchKey::EmailId(cursor.object_id()?),
            "THREADID" => SearchKey::ThreadId(cursor.object_id()?),
            "SAVEDBEFORE" => SearchKey::SavedBefore(cursor.date()?),
            "SAVEDON" => SearchKey::SavedOn(cursor.date()?),
            "SAVEDSINCE" => SearchKey::SavedSince(cursor.date()?),
            "NOT" => SearchKey::Not(Box::new(self.key(depth + 1)?)),
            _ => {
                let first = self.key(depth + 1)?;
                self.cursor.space()?;
                SearchKey::Or(Box::new(first), Box::new(self.key(depth + 1)?))
            }
        })
    }
}

const WITH_ARGUMENT: [&str; 31] = [
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
    "OLDER",
    "YOUNGER",
    "FILTER",
    "FUZZY",
    "UID",
    "EMAILID",
    "THREADID",
    "SAVEDBEFORE",
    "SAVEDON",
    "SAVEDSINCE",
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
        "SAVEDATESUPPORTED" => SearchKey::SaveDateSupported,
        _ => return None,
    })
}

/// `filter-name = 1*<any ATOM-CHAR except "/">` (RFC 5466 §4)
fn filter_name(cursor: &mut Cursor<'_>) -> Parsed<crate::types::Atom> {
    let name = cursor.atom()?;
    if name.as_str().contains('/') { Err(Failure::Bad("a filter's name has no slash")) } else { Ok(name) }
}

/// `flag-keyword = atom`
fn keyword(cursor: &mut Cursor<'_>) -> Parsed<Flag> {
    match cursor.flag()? {
        flag @ Flag::Keyword(_) => Ok(flag),
        flag => Err(Cursor::unknown("a system flag is no keyword:", &flag.to_string())),
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
