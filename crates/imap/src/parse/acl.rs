//! Access control lists (RFC 4314 §7).

use super::cursor::{Cursor, Parsed};
use crate::types::{AString, AclCommand, AclData, CommandBody, Response};

/// The arguments of the command of that name, which is one of these:
///
/// - `setacl = "SETACL" SP mailbox SP identifier SP mod-rights`
/// - `deleteacl = "DELETEACL" SP mailbox SP identifier`
/// - `getacl = "GETACL" SP mailbox`
/// - `listrights = "LISTRIGHTS" SP mailbox SP identifier`
/// - `myrights = "MYRIGHTS" SP mailbox`
pub(super) fn command(cursor: &mut Cursor<'_>, name: &str) -> Parsed<CommandBody> {
    let mailbox = cursor.mailbox()?;
    Ok(CommandBody::Acl(match name {
        "GETACL" => AclCommand::Get(mailbox),
        "MYRIGHTS" => AclCommand::MyRights(mailbox),
        "DELETEACL" => AclCommand::Delete { mailbox, identifier: next(cursor)? },
        "LISTRIGHTS" => AclCommand::ListRights { mailbox, identifier: next(cursor)? },
        _ => AclCommand::Set { mailbox, identifier: next(cursor)?, rights: next(cursor)? },
    }))
}

/// `acl-data = "ACL" SP mailbox *(SP identifier SP rights)`
pub(super) fn acl(cursor: &mut Cursor<'_>) -> Parsed<Response> {
    cursor.space()?;
    let mailbox = cursor.mailbox()?;
    let mut entries = Vec::new();
    while cursor.peek() == Some(b' ') {
        entries.push((next(cursor)?, next(cursor)?));
    }
    Ok(Response::Acl(AclData::Acl { mailbox, entries }))
}

/// `listrights-data = "LISTRIGHTS" SP mailbox SP identifier SP rights *(SP rights)`
pub(super) fn list_rights(cursor: &mut Cursor<'_>) -> Parsed<Response> {
    cursor.space()?;
    let mailbox = cursor.mailbox()?;
    let (identifier, required) = (next(cursor)?, next(cursor)?);
    let mut optional = Vec::new();
    while cursor.peek() == Some(b' ') {
        optional.push(next(cursor)?);
    }
    Ok(Response::Acl(AclData::ListRights { mailbox, identifier, required, optional }))
}

/// `myrights-data = "MYRIGHTS" SP mailbox SP rights`
pub(super) fn my_rights(cursor: &mut Cursor<'_>) -> Parsed<Response> {
    cursor.space()?;
    let mailbox = cursor.mailbox()?;
    Ok(Response::Acl(AclData::MyRights { mailbox, rights: next(cursor)? }))
}

/// `SP astring`
fn next(cursor: &mut Cursor<'_>) -> Parsed<AString> {
    cursor.space()?;
    cursor.astring()
}
