//! APPEND up to its message (RFC 3501 §6.3.11).

use super::command::{Refused, name, refused, tag};
use super::cursor::{Cursor, LiteralHeader, Parsed};
use crate::types::{AppendHead, DateTime, Flag, Mailbox};

/// The head of an APPEND whose message literal is announced at the very end of `input`. `None`: this is not an APPEND,
/// or the literal is the mailbox's name.
pub(crate) fn append_head(input: &[u8], utf8: bool) -> Option<Result<AppendHead, Refused>> {
    let mut cursor = Cursor::new(input, utf8);
    let tag = tag(&mut cursor)?;
    if !name(&mut cursor).ok()?.eq_ignore_ascii_case("APPEND") || !cursor.eat(b' ') {
        return None;
    }
    match arguments(&mut cursor) {
        Ok((mailbox, flags, date, literal)) => Some(Ok(AppendHead {
            tag,
            mailbox,
            flags,
            date,
            size: literal.size,
            sync: literal.sync,
            binary: literal.binary,
        })),
        Err(failure) => match refused(tag, failure) {
            Refused::Incomplete => None,
            refused => Some(Err(refused)),
        },
    }
}

type Arguments = (Mailbox, Vec<Flag>, Option<DateTime>, LiteralHeader);

/// `append = "APPEND" SP mailbox [SP flag-list] [SP date-time] SP literal`
pub(super) fn arguments(cursor: &mut Cursor<'_>) -> Parsed<Arguments> {
    let mailbox = cursor.mailbox()?;
    cursor.space()?;
    let mut flags = Vec::new();
    if cursor.peek() == Some(b'(') {
        flags = cursor.flag_list()?;
        cursor.space()?;
    }
    let mut date = None;
    if cursor.peek() == Some(b'"') {
        date = Some(cursor.date_time()?);
        cursor.space()?;
    }
    Ok((mailbox, flags, date, cursor.literal_header()?))
}
