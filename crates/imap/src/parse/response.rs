//! Responses (RFC 3501 §7), for the client: tolerant of additions by servers, strict about returned
//! values.

use super::acl;
use super::command::{attribute, id_fields, tag};
use super::cursor::{Cursor, Failure, Parsed};
use super::esearch::esearch;
use super::fetch::section;
use super::modifier::starless;
use super::value::{Value, value};
use super::{metadata, quota};
use crate::client::{BodyName, Event, FetchData};
use crate::types::{
    Atom, Code, ListExtension, ListItem, Mailbox, NamespaceEntry, Namespaces, ObjectId, PermanentFlag,
    Response, SelectionOption, Status, StatusData, StatusItem, StatusValue, is_atom_char,
};
use crate::utf7;

/// `response = continue-req / response-data / response-tagged`, except FETCH, with its literals and
/// its line end.
///
/// Untagged data of a kind not known here, or not as the RFC has it, is [`Response::Other`]; `Err`
/// is for a line that is neither tagged nor untagged.
pub fn response(input: &[u8], utf8: bool) -> Result<Response, &'static str> {
    let mut cursor = Cursor::new(input, utf8);
    // `continue-req = "+" SP (resp-text / base64) CRLF`; some servers leave out the space.
    if cursor.eat(b'+') {
        cursor.eat(b' ');
        return Ok(Response::Continue(text(&mut cursor)));
    }
    if cursor.eat(b'*') {
        cursor.space().map_err(|_| "no space after `*`")?;
        let line = cursor.rest();
        return Ok(untagged(&mut cursor).unwrap_or_else(|_| {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            Response::Other(line.strip_suffix(b"\r").unwrap_or(line).to_vec())
        }));
    }
    let tag = tag(&mut cursor).ok_or("neither a tag nor `*` nor `+`")?;
    let status = cursor.space().and_then(|()| status(&mut cursor)).map_err(|_| "no status after the tag")?;
    let (code, text) = resp_text(&mut cursor);
    Ok(Response::Status { tag: Some(tag), status, code, text })
}

fn untagged(cursor: &mut Cursor<'_>) -> Parsed<Response> {
    if cursor.peek().is_some_and(|b| b.is_ascii_digit()) {
        return numbered(cursor);
    }
    let mut probe = cursor.clone();
    if let Ok(status) = status(&mut probe) {
        *cursor = probe;
        let (code, text) = resp_text(cursor);
        return Ok(Response::Status { tag: None, status, code, text });
    }
    let word = cursor.word(is_atom_char).to_ascii_uppercase();
    let response = match word.as_str() {
        "CAPABILITY" => Response::Capability(atoms(cursor)?),
        "ENABLED" => Response::Enabled(atoms(cursor)?),
        "SEARCH" => search(cursor)?,
        "VANISHED" => vanished(cursor)?,
        "ESEARCH" => Response::ESearch(esearch(cursor)?),
        "SORT" => Response::Sort(numbers(cursor)?),
        "FLAGS" => {
            cursor.space()?;
            Response::Flags(cursor.flag_list()?)
        }
        "LIST" => list_item(cursor, Response::List)?,
        "LSUB" => list_item(cursor, Response::Lsub)?,
        "STATUS" => mailbox_status(cursor)?,
        "METADATA" => metadata::response(cursor)?,
        "QUOTA" => quota::quota(cursor)?,
        "QUOTAROOT" => quota::quota_root(cursor)?,
        "NAMESPACE" => namespaces(cursor)?,
        "JMAPACCESS" => jmap_access(cursor)?,
        "ACL" => acl::acl(cursor)?,
        "LISTRIGHTS" => acl::list_rights(cursor)?,
        "MYRIGHTS" => acl::my_rights(cursor)?,
        "ID" => {
            cursor.space()?;
            Response::Id(id_fields(cursor)?)
        }
        _ => return Err(Failure::Bad("unknown response")),
    };
    cursor.end()?;
    Ok(response)
}

/// `message-data = nz-number SP ("EXPUNGE" / …)`, `number SP "EXISTS"`, `number SP "RECENT"`
fn numbered(cursor: &mut Cursor<'_>) -> Parsed<Response> {
    let n = cursor.number32()?;
    cursor.space()?;
    let response = match cursor.word(is_atom_char).to_ascii_uppercase().as_str() {
        "EXISTS" => Response::Exists(n),
        "RECENT" => Response::Recent(n),
        "EXPUNGE" => Response::Expunge(n),
        _ => return Err(Failure::Bad("unknown response")),
    };
    cursor.end()?;
    Ok(response)
}

/// `"OK" / "NO" / "BAD" / "PREAUTH" / "BYE"`
fn status(cursor: &mut Cursor<'_>) -> Parsed<Status> {
    let word = cursor.word(is_atom_char);
    [Status::Ok, Status::No, Status::Bad, Status::PreAuth, Status::Bye]
        .into_iter()
        .find(|status| status.name().eq_ignore_ascii_case(word))
        .ok_or(Failure::Bad("not a status"))
}

/// `SP resp-text = ["[" resp-text-code "]" SP] text`; a code that cannot be read is part of the text.
fn resp_text(cursor: &mut Cursor<'_>) -> (Option<Code>, String) {
    cursor.eat(b' ');
    let mut probe = cursor.clone();
    if probe.eat(b'[')
        && let Ok(code) = code(&mut probe)
        && probe.eat(b']')
    {
        probe.eat(b' ');
        return (Some(code), text(&mut probe));
    }
    (None, text(cursor))
}

fn text(cursor: &mut Cursor<'_>) -> String {
    String::from_utf8_lossy(cursor.take_while(|b| !matches!(b, b'\r' | b'\n'))).into_owned()
}

/// `resp-text-code`
fn code(cursor: &mut Cursor<'_>) -> Parsed<Code> {
    let name = cursor.atom()?;
    let start = cursor.clone();
    let known = known_code(cursor, &name);
    if cursor.peek() == Some(b']')
        && let Ok(Some(code)) = known
    {
        return Ok(code);
    }
    *cursor = start;
    if cursor.eat(b' ') {
        let text = cursor.take_while(|b| !matches!(b, b']' | b'\r' | b'\n'));
        return Ok(Code::Other(name, Some(String::from_utf8_lossy(text).into_owned())));
    }
    Ok(Code::Other(name, None))
}

fn known_code(cursor: &mut Cursor<'_>, name: &Atom) -> Parsed<Option<Code>> {
    if cursor.peek() == Some(b']') {
        let simple = Code::SIMPLE.into_iter().find(|(_, simple)| *name == **simple);
        return Ok(simple.map(|(code, _)| code));
    }
    let upper = name.as_str().to_ascii_uppercase();
    if upper == "CAPABILITY" {
        return Ok(Some(Code::Capability(atoms(cursor)?)));
    }
    cursor.space()?;
    Ok(Some(match upper.as_str() {
        "BADCHARSET" => Code::BadCharset(cursor.list(Cursor::astring)?),
        "PERMANENTFLAGS" => Code::PermanentFlags(cursor.list(permanent_flag)?),
        "METADATA" => return metadata::code(cursor),
        "UIDNEXT" => Code::UidNext(cursor.number32()?),
        "UIDVALIDITY" => Code::UidValidity(cursor.number32()?),
        "UNSEEN" => Code::Unseen(cursor.number32()?),
        "HIGHESTMODSEQ" => Code::HighestModSeq(cursor.number()?),
        "MODIFIED" => Code::Modified(cursor.sequence_set()?),
        "UNDEFINED-FILTER" => Code::UndefinedFilter(cursor.atom()?),
        "NOUPDATE" => Code::NoUpdate(cursor.astring()?),
        "APPENDUID" => {
            let uid_validity = cursor.number32()?;
            cursor.space()?;
            Code::AppendUid { uid_validity, uids: cursor.sequence_set()? }
        }
        "COPYUID" => {
            let uid_validity = cursor.number32()?;
            cursor.space()?;
            let from = cursor.sequence_set()?;
            cursor.space()?;
            Code::CopyUid { uid_validity, from, to: cursor.sequence_set()? }
        }
        "MAILBOXID" => Code::MailboxId(bracketed_id(cursor)?),
        _ => return Ok(None),
    }))
}

/// `flag-perm = flag / "\*"`
fn permanent_flag(cursor: &mut Cursor<'_>) -> Parsed<PermanentFlag> {
    if cursor.eat_word("\\*") { Ok(PermanentFlag::Any) } else { cursor.flag().map(PermanentFlag::Flag) }
}

/// `*(SP atom)`
fn atoms(cursor: &mut Cursor<'_>) -> Parsed<Vec<Atom>> {
    let mut atoms = Vec::new();
    while cursor.eat(b' ') {
        if cursor.at_end() {
            break;
        }
        atoms.push(cursor.atom()?);
    }
    Ok(atoms)
}

/// `"SORT" *(SP nz-number)` (RFC 5256 §5)
fn numbers(cursor: &mut Cursor<'_>) -> Parsed<Vec<u32>> {
    let mut numbers = Vec::new();
    while cursor.eat(b' ') && !cursor.at_end() {
        numbers.push(cursor.number32()?);
    }
    Ok(numbers)
}

/// `"SEARCH" *(SP nz-number) [SP "(" "MODSEQ" SP mod-sequence-value ")"]` (RFC 7162 §7)
fn search(cursor: &mut Cursor<'_>) -> Parsed<Response> {
    let (mut numbers, mut modseq) = (Vec::new(), None);
    while cursor.eat(b' ') {
        if cursor.at_end() {
            break;
        }
        if cursor.eat_word("(MODSEQ ") {
            modseq = Some(cursor.number()?);
            cursor.expect(b')', "a mod-sequence does not end")?;
            break;
        }
        numbers.push(cursor.number32()?);
    }
    Ok(Response::Search { numbers, modseq })
}

/// `"VANISHED" [SP "(EARLIER)"] SP known-uids` (RFC 7162 §7)
fn vanished(cursor: &mut Cursor<'_>) -> Parsed<Response> {
    cursor.space()?;
    let earlier = cursor.eat_word("(EARLIER) ");
    Ok(Response::Vanished { earlier, uids: starless(cursor)? })
}

/// `SP mailbox-list = "(" [mbx-list-flags] ")" SP (DQUOTE QUOTED-CHAR DQUOTE / nil) SP mailbox`.
/// The extended data of RFC 5258 §6 follows.
fn list_item(cursor: &mut Cursor<'_>, response: fn(ListItem) -> Response) -> Parsed<Response> {
    cursor.space()?;
    let attributes = cursor.list(attribute)?;
    cursor.space()?;
    let delimiter = delimiter(cursor)?;
    cursor.space()?;
    let wire = cursor.astring()?;
    let extended = if cursor.eat(b' ') { list_extensions(&value(cursor)?, cursor.utf8) } else { Vec::new() };
    // RFC 3501 §5.1: names of 8-bit bytes are undefined and in use. Their meaning does not matter:
    // commands send them back.
    let is_convention = cursor.utf8 || wire.as_bytes().is_ascii();
    Ok(match utf7::name(wire.as_bytes(), cursor.utf8) {
        Ok(mailbox) if is_convention => response(ListItem { attributes, delimiter, mailbox, extended }),
        _ => Response::ListUndecodable { attributes, delimiter, wire },
    })
}

/// `mbox-list-extended` (RFC 5258 §6): those known here; tags and options may be in quotes or not.
fn list_extensions(value: &Value, utf8: bool) -> Vec<ListExtension> {
    let text = |value: &Value| value.as_bytes().map(|b| String::from_utf8_lossy(b).to_ascii_uppercase());
    let pairs = value.as_list().unwrap_or_default().chunks_exact(2);
    let known = pairs.filter_map(|pair| match text(&pair[0])?.as_str() {
        "CHILDINFO" => {
            let options = pair[1].as_list()?.iter();
            let options = options.filter_map(|option| SelectionOption::from_name(&text(option)?));
            Some(ListExtension::ChildInfo(options.collect()))
        }
        "OLDNAME" => {
            let [old] = pair[1].as_list()? else { return None };
            utf7::name(old.as_bytes()?, utf8).ok().map(ListExtension::OldName)
        }
        _ => None,
    });
    known.collect()
}

fn delimiter(cursor: &mut Cursor<'_>) -> Parsed<Option<char>> {
    let Some(delimiter) = cursor.nstring()? else { return Ok(None) };
    match *delimiter {
        [one] => Ok(Some(char::from(one))),
        _ => Err(Failure::Bad("a hierarchy delimiter is one character")),
    }
}

/// `"STATUS" SP mailbox SP "(" [status-att-list] ")"`
fn mailbox_status(cursor: &mut Cursor<'_>) -> Parsed<Response> {
    cursor.space()?;
    let mailbox: Mailbox = cursor.mailbox()?;
    cursor.space()?;
    let values = cursor.list(|cursor| {
        let item = StatusItem::from_name(cursor.atom()?.as_str());
        cursor.space()?;
        match item {
            Some(item) => Ok(status_data(cursor)?.map(|value| StatusValue { item, value })),
            None => value(cursor).map(|_| None),
        }
    })?;
    Ok(Response::MailboxStatus { mailbox, values: values.into_iter().flatten().collect() })
}

/// The value of an item: a number, `(objectid)` (RFC 8474 §7) or `NIL` (RFC 7889 §5). `None`:
/// brackets with something else in them. Cyrus 3.6 says bytes of its memory for a MAILBOXID that it
/// is asked for with other items, which stay good.
fn status_data(cursor: &mut Cursor<'_>) -> Parsed<Option<StatusData>> {
    match cursor.peek() {
        Some(b'(') => {
            let mut probe = cursor.clone();
            if let Ok(id) = bracketed_id(&mut probe) {
                *cursor = probe;
                return Ok(Some(StatusData::Id(id)));
            }
            cursor.take_while(|b| b != b')');
            cursor.expect(b')', "an object id is in brackets").map(|()| None)
        }
        Some(b'0'..=b'9') => cursor.number().map(|number| Some(StatusData::Number(number))),
        _ if cursor.nil() => Ok(Some(StatusData::Nil)),
        _ => Err(Failure::Bad("not the value of a STATUS item")),
    }
}

/// `"(" objectid ")"` (RFC 8474 §7)
fn bracketed_id(cursor: &mut Cursor<'_>) -> Parsed<ObjectId> {
    cursor.expect(b'(', "an object id is in brackets")?;
    let id = cursor.object_id()?;
    cursor.expect(b')', "an object id is in brackets")?;
    Ok(id)
}

/// `"NAMESPACE" SP namespace SP namespace SP namespace` (RFC 2342 §6)
fn namespaces(cursor: &mut Cursor<'_>) -> Parsed<Response> {
    let mut next = || {
        cursor.space()?;
        let Some(items) = value(cursor)?.as_list().map(<[Value]>::to_vec) else { return Ok(Vec::new()) };
        items.iter().map(|item| namespace(item, cursor.utf8)).collect::<Parsed<Vec<_>>>()
    };
    let (personal, other, shared) = (next()?, next()?, next()?);
    Ok(Response::Namespace(Namespaces { personal, other, shared }))
}

/// `"JMAPACCESS" SP quoted` (RFC 9698 §4)
fn jmap_access(cursor: &mut Cursor<'_>) -> Parsed<Response> {
    cursor.space()?;
    let url = String::from_utf8(cursor.string()?);
    Ok(Response::JmapAccess(url.map_err(|_| Failure::Bad("not a URL"))?))
}

fn namespace(item: &Value, utf8: bool) -> Parsed<NamespaceEntry> {
    const WRONG: Failure = Failure::Bad("not a namespace");
    let [prefix, delimiter, ..] = item.as_list().ok_or(WRONG)? else { return Err(WRONG) };
    let prefix = utf7::name(prefix.as_bytes().ok_or(WRONG)?, utf8)?;
    let delimiter = match (delimiter, delimiter.as_bytes()) {
        (Value::Nil, _) => None,
        (_, Some([one])) => Some(char::from(*one)),
        _ => return Err(WRONG),
    };
    Ok(NamespaceEntry { prefix, delimiter })
}

/// `"*" SP nz-number SP ("FETCH" / "UIDFETCH") SP "("`: how it begins, and how many bytes that is.
pub(crate) fn fetch_begin(input: &[u8]) -> Option<(Event, usize)> {
    let mut cursor = Cursor::new(input, false);
    if !cursor.eat(b'*') || !cursor.eat(b' ') || !cursor.peek()?.is_ascii_digit() {
        return None;
    }
    let n = cursor.number32().ok()?;
    // RFC 9586 §3.3
    let event = if cursor.eat_word(" UIDFETCH ") {
        Event::UidFetchBegin(n)
    } else if cursor.eat_word(" FETCH ") {
        Event::FetchBegin(n)
    } else {
        return None;
    };
    cursor.eat(b'(').then(|| (event, cursor.position()))
}

/// The next thing in a FETCH response.
#[derive(Debug, PartialEq)]
pub(crate) enum FetchStep {
    /// An item, and how many bytes it took.
    Item(FetchData, usize),
    /// A literal of that size follows after as many bytes.
    Literal(BodyName, u64, usize),
    /// `)` and the end of the line.
    End(usize),
}

/// One step of `msg-att = "(" … *(SP …) ")"`. With `large`, a literal of more bytes that is an
/// item's whole value is left to the caller.
pub(crate) fn fetch_step(input: &[u8], large: u64, utf8: bool) -> Result<FetchStep, &'static str> {
    step(input, large, utf8).map_err(|failure| match failure {
        Failure::Bad(reason) | Failure::Unknown(reason, _) => reason,
        Failure::Name(_) => "a mailbox name in FETCH",
        Failure::Incomplete => "a literal in an unexpected place",
    })
}

fn step(input: &[u8], large: u64, utf8: bool) -> Parsed<FetchStep> {
    let mut cursor = Cursor::new(input, utf8);
    while cursor.eat(b' ') {}
    if cursor.eat(b')') {
        cursor.end()?;
        return Ok(FetchStep::End(cursor.position()));
    }
    let word = cursor.word(|b| is_atom_char(b) && b != b'[' && b != b'<').to_ascii_uppercase();
    let body = match word.as_str() {
        "BODY" | "BINARY" | "BODY.PEEK" if cursor.peek() == Some(b'[') => {
            let section = section(&mut cursor)?;
            let mut start = None;
            if cursor.eat(b'<') {
                start = Some(cursor.number()?);
                cursor.expect(b'>', "a partial does not end")?;
            }
            Some(BodyName::Section { section, start })
        }
        "BINARY.SIZE" if cursor.peek() == Some(b'[') => {
            let section = section(&mut cursor)?;
            cursor.space()?;
            let data = FetchData::BinarySize(section, cursor.number()?);
            return Ok(FetchStep::Item(data, cursor.position()));
        }
        "RFC822" => Some(BodyName::Rfc822),
        "RFC822.HEADER" => Some(BodyName::Rfc822Header),
        "RFC822.TEXT" => Some(BodyName::Rfc822Text),
        _ => None,
    };
    cursor.space()?;
    if let Some(name) = body {
        if matches!(cursor.peek(), Some(b'{' | b'~')) {
            let header = cursor.clone().literal_header()?;
            if header.size > large {
                cursor.literal_header()?;
                return Ok(FetchStep::Literal(name, header.size, cursor.position()));
            }
            let bytes = literal_any(&mut cursor)?;
            return Ok(FetchStep::Item(FetchData::Body(name, Some(bytes)), cursor.position()));
        }
        let bytes = cursor.nstring()?;
        return Ok(FetchStep::Item(FetchData::Body(name, bytes), cursor.position()));
    }
    let data = match word.as_str() {
        "UID" => FetchData::Uid(cursor.number32()?),
        "FLAGS" => cursor.fetched_flags()?,
        "INTERNALDATE" => cursor.fetched_date()?,
        "RFC822.SIZE" => FetchData::Rfc822Size(cursor.number()?),
        "MODSEQ" => {
            cursor.expect(b'(', "a mod-sequence is in parentheses")?;
            let modseq = cursor.number()?;
            cursor.expect(b')', "a mod-sequence does not end")?;
            FetchData::ModSeq(modseq)
        }
        "ENVELOPE" => FetchData::Envelope(value(&mut cursor)?),
        "BODY" => FetchData::BodyStructure(value(&mut cursor)?),
        "BODYSTRUCTURE" => FetchData::BodyStructure(value(&mut cursor)?),
        "" => return Err(Failure::Bad("a FETCH item is missing")),
        _ => FetchData::Other(word.into(), value(&mut cursor)?),
    };
    Ok(FetchStep::Item(data, cursor.position()))
}

/// A message's literal: servers send NUL in it, and it is better had than lost.
fn literal_any(cursor: &mut Cursor<'_>) -> Parsed<Vec<u8>> {
    let header = cursor.literal_header()?;
    let size = usize::try_from(header.size).map_err(|_| Failure::Incomplete)?;
    let bytes = cursor.rest().get(..size).ok_or(Failure::Incomplete)?.to_vec();
    cursor.advance(size);
    Ok(bytes)
}
