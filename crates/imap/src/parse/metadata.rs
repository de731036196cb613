//! GETMETADATA, SETMETADATA and METADATA (RFC 5464 §5).

use sealpost_base::limits;

use super::cursor::{Cursor, Failure, Parsed};
use crate::types::{
    Code, CommandBody, Depth, Entry, GetMetadata, Mailbox, MetadataCode, Response, SetMetadata, is_atom_char,
};

/// `getmetadata = "GETMETADATA" [SP getmetadata-options] SP mailbox SP entries`
///
/// The RFC's examples have the options behind the mailbox, and several entries without brackets:
/// both are taken too.
pub(super) fn get(cursor: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let mut get = GetMetadata { mailbox: None, max_size: None, depth: Depth::Zero, entries: Vec::new() };
    if cursor.peek() == Some(b'(') {
        options(cursor, &mut get)?;
        cursor.space()?;
    }
    get.mailbox = target(cursor)?;
    cursor.space()?;
    // An entry begins with a slash, or as a string.
    if matches!(cursor.rest(), [b'(', b'A'..=b'Z' | b'a'..=b'z', ..]) {
        options(cursor, &mut get)?;
        cursor.space()?;
    }
    get.entries = if cursor.peek() == Some(b'(') { cursor.list1(entry)? } else { vec![entry(cursor)?] };
    while !cursor.at_end() && cursor.eat(b' ') && !cursor.at_end() {
        get.entries.push(entry(cursor)?);
    }
    within_limit(&get.entries)?;
    Ok(CommandBody::GetMetadata(get))
}

/// `getmetadata-options = "(" getmetadata-option *(SP getmetadata-option) ")"`
fn options(cursor: &mut Cursor<'_>, get: &mut GetMetadata) -> Parsed<()> {
    enum Option {
        MaxSize(u64),
        Depth(Depth),
    }
    let options = cursor.list1(|cursor| {
        if cursor.eat_word("MAXSIZE ") {
            return cursor.number().map(Option::MaxSize);
        }
        if cursor.eat_word("DEPTH ") {
            let depth = Depth::from_name(cursor.word(is_atom_char));
            return depth.map(Option::Depth).ok_or(Failure::Bad("DEPTH is 0, 1 or infinity"));
        }
        Err(Cursor::unknown("unknown GETMETADATA option", cursor.word(is_atom_char)))
    })?;
    for option in options {
        match option {
            Option::MaxSize(size) => get.max_size = Some(size),
            Option::Depth(depth) => get.depth = depth,
        }
    }
    Ok(())
}

/// `setmetadata = "SETMETADATA" SP mailbox SP entry-values`
pub(super) fn set(cursor: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let mailbox = target(cursor)?;
    cursor.space()?;
    let entries = cursor.list1(|cursor| {
        let entry = entry(cursor)?;
        if !entry.can_have_value() {
            return Err(Failure::Bad("that entry has too few levels for a value"));
        }
        cursor.space()?;
        Ok((entry, value(cursor)?))
    })?;
    within_limit(&entries)?;
    Ok(CommandBody::SetMetadata(SetMetadata { mailbox, entries }))
}

/// `entries = entry / "(" entry *(SP entry) ")"`
pub(super) fn entries(cursor: &mut Cursor<'_>) -> Parsed<Vec<Entry>> {
    let entries = if cursor.peek() == Some(b'(') { cursor.list1(entry)? } else { vec![entry(cursor)?] };
    within_limit(&entries)?;
    Ok(entries)
}

fn within_limit<T>(entries: &[T]) -> Parsed<()> {
    if entries.len() > limits::IMAP_ITEMS { Err(Failure::Bad("too many entries")) } else { Ok(()) }
}

/// `entry = astring`. A wrong name is a BAD (RFC 5464 §3.2).
fn entry(cursor: &mut Cursor<'_>) -> Parsed<Entry> {
    let bytes = cursor.astring_bytes()?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Failure::Bad("the name of an entry is ASCII"))?;
    Entry::new(text).map_err(|invalid| Failure::Bad(invalid.0))
}

/// `value = nstring / literal8`
fn value(cursor: &mut Cursor<'_>) -> Parsed<Option<Vec<u8>>> {
    match cursor.peek() {
        Some(b'~') => Ok(Some(cursor.literal()?.to_vec())),
        _ => cursor.nstring(),
    }
}

/// A mailbox; the empty name is the server.
fn target(cursor: &mut Cursor<'_>) -> Parsed<Option<Mailbox>> {
    Ok(Some(cursor.mailbox()?).filter(|mailbox| !mailbox.as_str().is_empty()))
}

/// `metadata-resp = "METADATA" SP mailbox SP (entry-values / entry-list)`
pub(super) fn response(cursor: &mut Cursor<'_>) -> Parsed<Response> {
    cursor.space()?;
    let mailbox = target(cursor)?;
    cursor.space()?;
    if cursor.peek() == Some(b'(') {
        let entries = cursor.list(|cursor| {
            let entry = entry(cursor)?;
            cursor.space()?;
            Ok((entry, value(cursor)?))
        })?;
        return Ok(Response::Metadata { mailbox, entries });
    }
    let mut entries = vec![entry(cursor)?];
    while cursor.eat(b' ') && !cursor.at_end() {
        entries.push(entry(cursor)?);
    }
    Ok(Response::MetadataChanged { mailbox, entries })
}

/// `"METADATA" SP (…)`, a response code, after its name and space.
pub(super) fn code(cursor: &mut Cursor<'_>) -> Parsed<Option<Code>> {
    let word = cursor.word(is_atom_char).to_ascii_uppercase();
    let code = match word.as_str() {
        "TOOMANY" => MetadataCode::TooMany,
        "NOPRIVATE" => MetadataCode::NoPrivate,
        "LONGENTRIES" | "MAXSIZE" => {
            cursor.space()?;
            let number = cursor.number()?;
            if word == "MAXSIZE" { MetadataCode::MaxSize(number) } else { MetadataCode::LongEntries(number) }
        }
        _ => return Ok(None),
    };
    Ok(Some(Code::Metadata(code)))
}
