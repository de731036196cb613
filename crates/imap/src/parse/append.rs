//! APPEND and REPLACE, piece by piece (RFC 3501 §6.3.11, RFC 4466 §2.7, RFC 4469 §5, RFC 6855 §4,
//! RFC 8508 §5).
//!
//! The command never stands in one buffer: [`append_begin`] reads up to the mailbox, and
//! [`Syntax::step`] then reads one piece at a time from whatever comes up to the next literal or
//! the end of the line.

use super::command::{Refused, name, refused, tag};
use super::cursor::{Cursor, Failure, Parsed};
use crate::types::{AString, AppendHead, AppendLiteral, AppendMessage, Mailbox, Replaces};

/// The beginning of an APPEND or REPLACE, the syntax of the rest, and how many bytes it took.
/// `None`: this is another command, or the literal that `input` ends with is the mailbox's name.
pub(crate) fn append_begin(input: &[u8], utf8: bool) -> Option<Result<(AppendHead, Syntax, usize), Refused>> {
    let mut cursor = Cursor::of_command(input, utf8);
    let tag = tag(&mut cursor)?;
    let word = name(&mut cursor).ok()?;
    let replace = if word.eq_ignore_ascii_case("APPEND") && cursor.eat(b' ') {
        None
    } else if word.eq_ignore_ascii_case("REPLACE") && cursor.eat(b' ') {
        Some(false)
    } else if word.eq_ignore_ascii_case("UID") && cursor.eat_word(" REPLACE ") {
        Some(true)
    } else {
        return None;
    };
    match arguments(&mut cursor, replace) {
        Ok((replaces, mailbox)) => {
            let syntax = Syntax { single: replaces.is_some(), messages: 0, at: At::Message };
            Some(Ok((AppendHead { tag, replaces, mailbox }, syntax, cursor.position())))
        }
        Err(failure) => match refused(tag, failure) {
            Refused::Incomplete => None,
            refused => Some(Err(refused)),
        },
    }
}

/// `append = "APPEND" SP mailbox …`, `replace = "REPLACE" SP seq-number SP mailbox …`: the part
/// before the message.
pub(super) fn arguments(
    cursor: &mut Cursor<'_>,
    replace: Option<bool>,
) -> Parsed<(Option<Replaces>, Mailbox)> {
    let mut replaces = None;
    if let Some(uid) = replace {
        replaces = Some(Replaces { uid, number: cursor.seq_number()? });
        cursor.space()?;
    }
    Ok((replaces, cursor.mailbox()?))
}

/// One piece of the command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A message begins.
    Message(AppendMessage),
    /// A part of it that is to be found under this URL.
    Url(AString),
    /// Bytes follow: the part read ends here.
    Literal(AppendLiteral),
    /// The end of the command.
    End,
}

/// How far the grammar of one command has come.
#[derive(Debug)]
pub(crate) struct Syntax {
    /// REPLACE: one message only (RFC 8508 §4.7).
    single: bool,
    messages: usize,
    at: At,
}

#[derive(Debug, Clone, Copy)]
enum At {
    /// Before a message, or at the end.
    Message,
    /// Before a message's bytes.
    Data,
    /// Between the parts of CATENATE.
    Parts { first: bool },
    /// Behind the bytes of `UTF8 (`.
    Utf8 { part: bool },
}

const NO_MESSAGE: Failure = Failure::Bad("a message is missing");

impl Syntax {
    /// Reads the next piece. If it cannot, nothing is changed: with `Incomplete` it can be read
    /// again when the bytes of the string at the buffer's end are there.
    pub(crate) fn step(&mut self, cursor: &mut Cursor<'_>) -> Parsed<Piece> {
        let mut at = self.at;
        let (piece, next) = loop {
            match at {
                At::Message => break self.message(cursor)?,
                At::Data => break data(cursor)?,
                At::Parts { first: false } if cursor.eat(b')') => at = At::Message,
                At::Parts { first } => break part(cursor, first)?,
                At::Utf8 { part } => {
                    cursor.expect(b')', "UTF8 does not end")?;
                    at = if part { At::Parts { first: false } } else { At::Message };
                }
            }
        };
        self.messages += usize::from(matches!(piece, Piece::Message(_)));
        self.at = next;
        Ok(piece)
    }

    /// `append-message = append-opts SP append-data`, `append-opts = [SP flag-list] [SP date-time]`
    fn message(&self, cursor: &mut Cursor<'_>) -> Parsed<(Piece, At)> {
        let mut end = cursor.clone();
        if self.messages > 0 && end.end().is_ok() {
            *cursor = end;
            return Ok((Piece::End, At::Message));
        }
        match (self.messages, cursor.eat(b' ')) {
            (0, false) => return Err(NO_MESSAGE),
            (_, false) => return Err(Failure::Bad("unexpected text after the message")),
            (1.., true) if self.single => return Err(Failure::Bad("only one message can replace another")),
            _ => {}
        }
        let mut message = AppendMessage::default();
        if cursor.peek() == Some(b'(') {
            message.flags = cursor.flag_list()?;
            cursor.space()?;
        }
        if cursor.peek() == Some(b'"') {
            message.date = Some(cursor.date_time()?);
            cursor.space()?;
        }
        // `append-data =/ "CATENATE" SP "(" cat-part *(SP cat-part) ")"`
        message.catenate = cursor.eat_word("CATENATE (");
        let next = if message.catenate { At::Parts { first: true } } else { At::Data };
        Ok((Piece::Message(message), next))
    }
}

/// `append-data = literal / literal8 / utf8-literal`
fn data(cursor: &mut Cursor<'_>) -> Parsed<(Piece, At)> {
    match cursor.peek() {
        Some(b'{' | b'~') => Ok((literal(cursor, false)?, At::Message)),
        _ if cursor.eat_word("UTF8 (") => Ok((literal(cursor, true)?, At::Utf8 { part: false })),
        _ => Err(NO_MESSAGE),
    }
}

/// `cat-part = text-literal / url / utf8-literal`
fn part(cursor: &mut Cursor<'_>, first: bool) -> Parsed<(Piece, At)> {
    if !first {
        cursor.space()?;
    }
    let next = At::Parts { first: false };
    if cursor.eat_word("TEXT ") {
        Ok((literal(cursor, false)?, next))
    } else if cursor.eat_word("URL ") {
        Ok((Piece::Url(cursor.astring()?), next))
    } else if cursor.eat_word("UTF8 (") {
        Ok((literal(cursor, true)?, At::Utf8 { part: true }))
    } else {
        Err(Failure::Bad("CATENATE has parts of TEXT and URL"))
    }
}

/// `literal`, `literal8`, or the literal8 of `utf8-literal = "UTF8" SP "(" literal8 ")"`
fn literal(cursor: &mut Cursor<'_>, utf8: bool) -> Parsed<Piece> {
    let header = cursor.literal_header()?;
    if utf8 && !header.binary {
        return Err(Failure::Bad("UTF8 takes a literal8"));
    }
    Ok(Piece::Literal(AppendLiteral { size: header.size, sync: header.sync, binary: header.binary, utf8 }))
}
