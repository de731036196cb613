//! Paths and mailboxes (RFC 5321 §4.1.2).

use sealpost_base::limits;

use super::cursor::Cursor;
use crate::types::{ForwardPath, Host, LocalPart, Mailbox};

/// `Path = "<" [ A-d-l ":" ] Mailbox ">"`
pub(super) fn path(cursor: &mut Cursor) -> Option<Mailbox> {
    cursor.tag("<")?;
    source_route(cursor)?;
    let mailbox = mailbox(cursor)?;
    cursor.tag(">")?;
    Some(mailbox)
}

/// `"<Postmaster>" / Forward-path`; the name in any case of letters (RFC 5321 §4.1.1.3).
pub(super) fn forward_path(cursor: &mut Cursor) -> Option<ForwardPath> {
    if cursor.keyword("<Postmaster>").is_some() {
        return Some(ForwardPath::Postmaster);
    }
    path(cursor).map(ForwardPath::Mailbox)
}

/// `A-d-l = "@" Domain *( "," "@" Domain )`: "MUST BE accepted, … SHOULD be ignored".
fn source_route(cursor: &mut Cursor) -> Option<()> {
    if cursor.peek() != Some('@') {
        return Some(());
    }
    loop {
        cursor.tag("@")?;
        host(cursor)?;
        if cursor.tag(",").is_none() {
            return cursor.tag(":");
        }
    }
}

/// `Mailbox = Local-part "@" ( Domain / address-literal )`
fn mailbox(cursor: &mut Cursor) -> Option<Mailbox> {
    let local = match cursor.peek()? {
        '"' => quoted_string(cursor)?,
        _ => dot_string(cursor)?,
    };
    cursor.tag("@")?;
    let mailbox = Mailbox { local, host: host(cursor)? };
    (mailbox.to_string().len() <= limits::SMTP_PATH_BYTES).then_some(mailbox)
}

/// `Dot-string = Atom *("." Atom)`, dots allowed anywhere, but not alone.
fn dot_string(cursor: &mut Cursor) -> Option<LocalPart> {
    let text = cursor.take_while(|c| c == '.' || crate::types::is_atext(c));
    if text.bytes().all(|b| b == b'.') {
        return None;
    }
    LocalPart::new(text)
}

/// `Quoted-string = DQUOTE *( qtextSMTP / "\" %d32-126 ) DQUOTE`
fn quoted_string(cursor: &mut Cursor) -> Option<LocalPart> {
    cursor.tag("\"")?;
    let mut text = String::new();
    loop {
        match cursor.next()? {
            '"' => return LocalPart::new(text),
            '\\' => text.push(cursor.next().filter(|c| matches!(c, ' '..='~'))?),
            c => text.push(c),
        }
    }
}

/// `Domain / address-literal`
fn host(cursor: &mut Cursor) -> Option<Host> {
    if cursor.tag("[").is_some() {
        let text = cursor.take_while(|c| c != ']');
        cursor.tag("]")?;
        return Host::literal(text);
    }
    Host::domain(cursor.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-') || !c.is_ascii()))
}
