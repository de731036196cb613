//! FILTERS (RFC 5466): searches stored under a name, as metadata of the server.
//!
//! `FILTER name` stands for the keys in `/private/filters/values/name`. If there is no such private entry, it
//! is `/shared/filters/values/name`, which the operator has configured. Stored searches may refer to others,
//! up to a depth and a number of keys; beyond that, and in circles, a filter is undefined.

use sealpost_account::metadata::{self, Holder};
use sealpost_base::limits;
use sealpost_imap::parse;
use sealpost_imap::types::{Atom, Code, Entry, Search, SearchKey};

use super::reply::Reply;
use super::responses::Responses;
use super::search::charset::Charset;
use super::uid_only;
use super::user::User;
use sealpost_session::Settings;
use sealpost_session::settings::StoredSearch;

/// The folders of values (RFC 5466 §3.1): those of the user, which take precedence, and the operator's for
/// all users.
const PRIVATE: &str = "/private/filters/values/";
pub(super) const SHARED: &str = "/shared/filters/values/";
/// Nesting of filters in filters (RFC 5466 §3.1 requires at least three).
const SUBSTITUTIONS: usize = 8;

/// Parses a search that the operator stores for all users: `NAME KEYS`, with keys as in SEARCH.
///
/// # Errors
/// The reason, for the operator.
pub fn parse_stored_search(text: &str) -> Result<StoredSearch, String> {
    let (name, keys) = text.split_once(' ').ok_or("write a name and search criteria")?;
    let entry =
        Entry::new(&format!("{SHARED}{name}")).map_err(|_| format!("{name:?} is not a name for it"))?;
    check(&entry, Some(keys.as_bytes())).map_err(|reply| reply.text)?;
    Ok(StoredSearch { name: entry.as_str()[SHARED.len()..].to_owned(), keys: keys.to_owned() })
}

/// The value of a shared entry of the server, if it is a stored search.
pub(super) fn shared<'a>(settings: &'a Settings, entry: &str) -> Option<&'a [u8]> {
    let name = entry.strip_prefix(SHARED)?;
    let found = settings.filters.iter().find(|search| search.name == name);
    found.map(|search| search.keys.as_bytes())
}

/// The entries of all stored searches of the operator.
pub(super) fn shared_entries(settings: &Settings) -> impl Iterator<Item = String> {
    settings.filters.iter().map(|search| format!("{SHARED}{}", search.name))
}

/// The search with FILTER keys replaced by the stored keys.
///
/// # Errors
/// `NO [UNDEFINED-FILTER]`; `BAD [BADCHARSET]` if the strings of the command are not UTF-8, as those of
/// filters are (RFC 5466 §3.1).
pub(super) fn with_filters(user: &User, responses: &Responses, search: Search) -> Result<Search, Reply> {
    if !search.keys.iter().any(|key| key.any(&|key| matches!(key, SearchKey::Filter(_)))) {
        return Ok(search);
    }
    if !Charset::is_utf8(search.charset.as_ref()) {
        let code = Code::BadCharset(Vec::new());
        return Err(Reply { code: Some(code), ..Reply::bad("stored searches are UTF-8; search in that") });
    }
    let mut keys = Vec::with_capacity(search.keys.len());
    let mut substitution = Substitution { user, keys: 0, path: Vec::new() };
    for key in search.keys {
        keys.push(substitution.key(key, 0)?);
    }
    if responses.dialect.uid_only() && uid_only::searches_numbers(&keys) {
        return Err(uid_only::uid_required());
    }
    Ok(Search { keys, ..search })
}

/// The keys stored under that name, if they form a valid search.
fn stored(user: &User, name: &Atom) -> Option<Vec<SearchKey>> {
    let account = user.account();
    let entry = |top| Entry::new(&format!("{top}{}", name.as_str())).ok();
    let state = account.state();
    let value = metadata::value(&state, Holder::Server, entry(PRIVATE)?.as_str())
        .or_else(|| shared(&user.shared.ctx.settings, entry(SHARED)?.as_str()))?;
    parse::search_keys(value).ok()
}

/// Checks whether the value of an entry of the server may be stored: a stored search must be valid (RFC 5466
/// §3.2).
///
/// # Errors
/// `NO [CANNOT]` with the reason.
pub(super) fn check(entry: &Entry, value: Option<&[u8]>) -> Result<(), Reply> {
    let named = [PRIVATE, SHARED].iter().find_map(|top| entry.as_str().strip_prefix(top));
    let (Some(name), Some(value)) = (named, value) else {
        return Ok(());
    };
    if Atom::new(name).is_err() || name.contains('/') {
        return Err(Reply::no(Code::Cannot, "not a name for a filter"));
    }
    match parse::search_keys(value) {
        Ok(_) => Ok(()),
        Err(reason) => Err(Reply::no(Code::Cannot, reason)),
    }
}

/// Replaces FILTER keys by stored searches.
struct Substitution<'a> {
    user: &'a User,
    /// The number of keys so far.
    keys: usize,
    /// The nested filters around the current key.
    path: Vec<Atom>,
}

impl Substitution<'_> {
    fn key(&mut self, key: SearchKey, depth: usize) -> Result<SearchKey, Reply> {
        self.keys += 1;
        // Filters make a search deeper, within a limit.
        if self.keys > limits::IMAP_SEARCH_KEYS || depth > 2 * limits::IMAP_NESTING {
            return Err(self.undefined());
        }
        Ok(match key {
            SearchKey::Filter(name) => self.filter(name, depth)?,
            SearchKey::Not(key) => SearchKey::Not(Box::new(self.key(*key, depth + 1)?)),
            SearchKey::Fuzzy(key) => SearchKey::Fuzzy(Box::new(self.key(*key, depth + 1)?)),
            SearchKey::Or(a, b) => {
                SearchKey::Or(Box::new(self.key(*a, depth + 1)?), Box::new(self.key(*b, depth + 1)?))
            }
            SearchKey::And(keys) => SearchKey::And(self.all(keys, depth + 1)?),
            key => key,
        })
    }

    fn all(&mut self, keys: Vec<SearchKey>, depth: usize) -> Result<Vec<SearchKey>, Reply> {
        keys.into_iter().map(|key| self.key(key, depth)).collect()
    }

    fn filter(&mut self, name: Atom, depth: usize) -> Result<SearchKey, Reply> {
        let circle = self.path.contains(&name) || self.path.len() == SUBSTITUTIONS;
        self.path.push(name);
        let stored = if circle { None } else { self.path.last().and_then(|name| stored(self.user, name)) };
        let Some(stored) = stored else { return Err(self.undefined()) };
        let keys = self.all(stored, depth + 1)?;
        self.path.pop();
        Ok(SearchKey::And(keys))
    }

    /// The reply for the current filter (RFC 5466 §3.1): it does not exist, or cannot be used.
    fn undefined(&self) -> Reply {
        match self.path.last() {
            Some(name) if stored(self.user, name).is_some() => {
                let text = "this stored search leads back to itself, or through too many others";
                Reply::no(Code::UndefinedFilter(name.clone()), text)
            }
            Some(name) => Reply::no(Code::UndefinedFilter(name.clone()), "no such stored search"),
            None => Reply::no(Code::Limit, "too many search keys"),
        }
    }
}
