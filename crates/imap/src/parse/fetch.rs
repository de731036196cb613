//! FETCH items and sections (RFC 3501 §6.4.5).

use std::num::NonZeroU32;

use sealpost_base::limits;

use super::cursor::{Cursor, Failure, Parsed};
use crate::types::{FetchItem, Partial, Section, SectionText};

/// `… ("ALL" / "FULL" / "FAST" / fetch-att / "(" fetch-att *(SP fetch-att) ")")`
pub(super) fn items(cursor: &mut Cursor<'_>) -> Parsed<Vec<FetchItem>> {
    if cursor.peek() == Some(b'(') {
        return list(cursor);
    }
    let macros: [(&str, &[FetchItem]); 3] =
        [("ALL", &FetchItem::ALL), ("FULL", &FetchItem::FULL), ("FAST", &FetchItem::FAST)];
    for (name, items) in macros {
        if cursor.eat_word(name) {
            return Ok(items.to_vec());
        }
    }
    Ok(vec![item(cursor)?])
}

/// `"(" fetch-att *(SP fetch-att) ")"`
pub(super) fn list(cursor: &mut Cursor<'_>) -> Parsed<Vec<FetchItem>> {
    let items = cursor.list1(item)?;
    if items.len() > limits::IMAP_ITEMS {
        return Err(Failure::Bad("too many FETCH items"));
    }
    Ok(items)
}

/// `fetch-att`
fn item(cursor: &mut Cursor<'_>) -> Parsed<FetchItem> {
    let word = cursor.word(|b| b.is_ascii_alphanumeric() || b == b'.').to_ascii_uppercase();
    let has_section = cursor.peek() == Some(b'[');
    Ok(match word.as_str() {
        "BODY" | "BODY.PEEK" if has_section => {
            let section = section(cursor)?;
            FetchItem::BodySection { section, partial: partial(cursor, false)?, peek: word == "BODY.PEEK" }
        }
        "BINARY" | "BINARY.PEEK" if has_section => {
            let section = section(cursor)?;
            FetchItem::Binary { section, partial: partial(cursor, true)?, peek: word == "BINARY.PEEK" }
        }
        "BINARY.SIZE" if has_section => FetchItem::BinarySize(section(cursor)?),
        word if has_section => return Err(Cursor::unknown("unknown FETCH item with a section", word)),
        "UID" => FetchItem::Uid,
        "FLAGS" => FetchItem::Flags,
        "INTERNALDATE" => FetchItem::InternalDate,
        "RFC822.SIZE" => FetchItem::Rfc822Size,
        "MODSEQ" => FetchItem::ModSeq,
        "ENVELOPE" => FetchItem::Envelope,
        "BODY" => FetchItem::Body,
        "BODYSTRUCTURE" => FetchItem::BodyStructure,
        "RFC822" => FetchItem::Rfc822,
        "RFC822.HEADER" => FetchItem::Rfc822Header,
        "RFC822.TEXT" => FetchItem::Rfc822Text,
        "EMAILID" => FetchItem::EmailId,
        "THREADID" => FetchItem::ThreadId,
        "SAVEDATE" => FetchItem::SaveDate,
        "PREVIEW" => FetchItem::Preview { lazy: preview_modifiers(cursor)? },
        "" => return Err(Failure::Bad("a FETCH item is missing")),
        word => return Err(Cursor::unknown("unknown FETCH item", word)),
    })
}

/// `"PREVIEW" [SP "(" preview-mod *(SP preview-mod) ")"]`, with the one modifier there is (RFC 8970 §6).
fn preview_modifiers(cursor: &mut Cursor<'_>) -> Parsed<bool> {
    let mut list = cursor.clone();
    if !(list.eat(b' ') && list.peek() == Some(b'(')) {
        return Ok(false);
    }
    *cursor = list;
    let modifiers = cursor.list1(|cursor| match cursor.atom()? {
        name if name == *"LAZY" => Ok(()),
        name => Err(Cursor::unknown("unknown PREVIEW modifier", name.as_str())),
    })?;
    if modifiers.len() > limits::IMAP_ITEMS {
        return Err(Failure::Bad("too many PREVIEW modifiers"));
    }
    Ok(true)
}

/// `section = "[" [section-msgtext / (section-part ["." section-text])] "]"`
pub(crate) fn section(cursor: &mut Cursor<'_>) -> Parsed<Section> {
    cursor.expect(b'[', "a section is missing")?;
    let mut path = Vec::new();
    while cursor.peek().is_some_and(|b| b.is_ascii_digit()) {
        if path.len() == limits::IMAP_NESTING {
            return Err(Failure::Bad("a part number is too deep"));
        }
        path.push(NonZeroU32::new(cursor.number32()?).ok_or(Failure::Bad("0 is no part number"))?);
        if cursor.eat(b']') {
            return Ok(Section { path, text: SectionText::Everything });
        }
        cursor.expect(b'.', "a section does not end")?;
    }
    if path.is_empty() && cursor.eat(b']') {
        return Ok(Section::default());
    }
    let text = section_text(cursor, !path.is_empty())?;
    cursor.expect(b']', "a section does not end")?;
    Ok(Section { path, text })
}

/// `section-text = section-msgtext / "MIME"`
fn section_text(cursor: &mut Cursor<'_>, of_part: bool) -> Parsed<SectionText> {
    let word = cursor.word(|b| b.is_ascii_alphabetic() || b == b'.').to_ascii_uppercase();
    Ok(match word.as_str() {
        "HEADER" => SectionText::Header,
        "TEXT" => SectionText::Text,
        "MIME" if of_part => SectionText::Mime,
        "MIME" => {
            return Err(Failure::Bad("MIME in a section needs a part number before it, like BODY[1.MIME]"));
        }
        "HEADER.FIELDS" => SectionText::HeaderFields(header_list(cursor)?),
        "HEADER.FIELDS.NOT" => SectionText::HeaderFieldsNot(header_list(cursor)?),
        "" => return Err(Failure::Bad("a section is a part number, HEADER, TEXT, MIME or both")),
        word => return Err(Cursor::unknown("unknown section", word)),
    })
}

/// `SP header-list = "(" header-fld-name *(SP header-fld-name) ")"`
fn header_list(cursor: &mut Cursor<'_>) -> Parsed<Vec<crate::types::AString>> {
    const WRONG: &str = "a section's header fields are a list, like HEADER.FIELDS (From Subject)";
    cursor.expect(b' ', WRONG)?;
    if cursor.peek() != Some(b'(') {
        return Err(Failure::Bad(WRONG));
    }
    let names = cursor.list1(Cursor::astring)?;
    if names.len() > limits::IMAP_ITEMS {
        return Err(Failure::Bad("too many header fields"));
    }
    Ok(names)
}

/// `["<" number "." nz-number ">"]`; where it may be `open`, the second number may be missing.
fn partial(cursor: &mut Cursor<'_>, open: bool) -> Parsed<Option<Partial>> {
    if !cursor.eat(b'<') {
        return Ok(None);
    }
    let start = cursor.number()?;
    if open && cursor.eat(b'>') {
        return Ok(Some(Partial { start, count: u64::MAX }));
    }
    cursor.expect(b'.', "a partial must be like <0.1000>")?;
    let count = cursor.number()?;
    cursor.expect(b'>', "a partial does not end")?;
    if count == 0 {
        return Err(Failure::Bad("a partial of zero bytes"));
    }
    Ok(Some(Partial { start, count }))
}
