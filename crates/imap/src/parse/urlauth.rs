//! Authorized URLs (RFC 4467 §9).

use sealpost_base::limits;

use super::cursor::{Cursor, Failure, Parsed};
use crate::types::{AString, CommandBody, UrlCommand};

/// `genurlauth = "GENURLAUTH" 1*(SP url-rump SP mechanism)`
pub(super) fn generate(cursor: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let urls = several(cursor, |cursor| {
        let url = cursor.astring()?;
        cursor.space()?;
        Ok((url, cursor.atom()?))
    })?;
    Ok(CommandBody::Url(UrlCommand::Generate(urls)))
}

/// `urlfetch = "URLFETCH" 1*(SP url-full)`
pub(super) fn fetch(cursor: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let urls: Vec<AString> = several(cursor, Cursor::astring)?;
    Ok(CommandBody::Url(UrlCommand::Fetch(urls)))
}

/// `resetkey = "RESETKEY" [SP mailbox *(SP mechanism)]`; the space before the mailbox was read, if
/// there is one.
pub(super) fn reset_key(cursor: &mut Cursor<'_>) -> Parsed<CommandBody> {
    if cursor.at_end() {
        return Ok(CommandBody::Url(UrlCommand::ResetKey(None)));
    }
    let mailbox = cursor.mailbox()?;
    let mut mechanisms = Vec::new();
    while !cursor.at_end() && cursor.eat(b' ') && !cursor.at_end() {
        if mechanisms.len() == limits::IMAP_URLS {
            return Err(Failure::Bad("too many mechanisms"));
        }
        mechanisms.push(cursor.atom()?);
    }
    Ok(CommandBody::Url(UrlCommand::ResetKey(Some((mailbox, mechanisms)))))
}

/// `item *(SP item)`
fn several<'a, T>(cursor: &mut Cursor<'a>, item: impl Fn(&mut Cursor<'a>) -> Parsed<T>) -> Parsed<Vec<T>> {
    let mut items = vec![item(cursor)?];
    while !cursor.at_end() && cursor.eat(b' ') && !cursor.at_end() {
        if items.len() == limits::IMAP_URLS {
            return Err(Failure::Bad("too many URLs"));
        }
        items.push(item(cursor)?);
    }
    Ok(items)
}
