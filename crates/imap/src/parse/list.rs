//! LIST and LSUB (RFC 3501 §6.3.8, RFC 5258 §6, and the options of RFC 6154, RFC 5819 and RFC 9590).

use sealpost_base::limits;

use super::command::status_items;
use super::cursor::{Cursor, Failure, Parsed};
use super::metadata;
use crate::types::{CommandBody, List, ListPattern, ReturnOption, SelectionOption, is_astring_char};
use crate::utf7;

/// `list = "LIST" [SP list-select-opts] SP mailbox SP mbox-or-pat [SP "RETURN" SP "(" … ")"]`
pub(super) fn list(cursor: &mut Cursor<'_>) -> Parsed<List> {
    let mut selection = None;
    if cursor.peek() == Some(b'(') {
        let options = options(cursor, selection_option)?;
        // RFC 5258 §3.1: RECURSIVEMATCH means something only with an option that selects.
        if options.contains(&SelectionOption::RecursiveMatch)
            && !options.contains(&SelectionOption::Subscribed)
        {
            return Err(Failure::Bad("RECURSIVEMATCH needs another selection option"));
        }
        selection = Some(options);
        cursor.space()?;
    }
    let reference = cursor.mailbox()?;
    cursor.space()?;
    let patterns = match cursor.peek() {
        Some(b'(') => cursor.list1(pattern)?,
        _ => vec![pattern(cursor)?],
    };
    if patterns.len() > limits::IMAP_LIST_PATTERNS {
        return Err(Failure::Bad("too many patterns"));
    }
    let mut returns = Vec::new();
    if !cursor.at_end() && cursor.eat(b' ') && !cursor.at_end() {
        if !cursor.eat_word("RETURN ") {
            return Err(Failure::Bad("only RETURN may follow the pattern"));
        }
        returns = options(cursor, return_option)?;
    }
    Ok(List { selection, reference, patterns, returns })
}

/// `lsub = "LSUB" SP mailbox SP list-mailbox`
pub(super) fn lsub(cursor: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let reference = cursor.mailbox()?;
    cursor.space()?;
    Ok(CommandBody::Lsub { reference, pattern: pattern(cursor)? })
}

fn options<T>(cursor: &mut Cursor<'_>, option: fn(&mut Cursor<'_>) -> Parsed<T>) -> Parsed<Vec<T>> {
    let options = cursor.list(option)?;
    if options.len() > limits::IMAP_ITEMS {
        return Err(Failure::Bad("too many LIST options"));
    }
    Ok(options)
}

/// `list-select-opt` (RFC 5258 §6, RFC 6154 §6)
fn selection_option(cursor: &mut Cursor<'_>) -> Parsed<SelectionOption> {
    let name = cursor.atom()?;
    SelectionOption::from_name(name.as_str())
        .ok_or_else(|| Cursor::unknown("unknown LIST selection option", name.as_str()))
}

/// `return-option` (RFC 5258 §6, RFC 6154 §6, RFC 5819 §4, RFC 9590 §5, RFC 8440 §5)
fn return_option(cursor: &mut Cursor<'_>) -> Parsed<ReturnOption> {
    let name = cursor.atom()?;
    match name.as_str().to_ascii_uppercase().as_str() {
        "SUBSCRIBED" => Ok(ReturnOption::Subscribed),
        "SPECIAL-USE" => Ok(ReturnOption::SpecialUse),
        "CHILDREN" => Ok(ReturnOption::Children),
        "MYRIGHTS" => Ok(ReturnOption::MyRights),
        "STATUS" => {
            cursor.space()?;
            status_items(cursor).map(ReturnOption::Status)
        }
        "METADATA" => {
            cursor.space()?;
            metadata::entries(cursor).map(ReturnOption::Metadata)
        }
        _ => Err(Cursor::unknown("unknown LIST return option", name.as_str())),
    }
}

/// `list-mailbox = 1*list-char / string`
fn pattern(cursor: &mut Cursor<'_>) -> Parsed<ListPattern> {
    let word = cursor.take_while(|b| is_astring_char(b) || matches!(b, b'%' | b'*'));
    let wire = if word.is_empty() {
        cursor.string()?
    } else {
        cursor.ends_atom()?;
        word.to_vec()
    };
    // A pattern that is no modified UTF-7 is not wrong, it only matches nothing that could have
    // been sent: it is taken literally.
    let text = utf7::text(&wire, cursor.utf8).or_else(|error| String::from_utf8(wire).map_err(|_| error));
    Ok(ListPattern::new(&text?)?)
}
