//! [`Value`]: any data of the response grammar, as nested lists, for data that a client need not
//! understand.

use sealpost_base::limits;

use super::cursor::{Cursor, Failure, Parsed};

/// An atom, string, NIL or list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// NIL
    Nil,
    /// An atom, flag or number, as written.
    Atom(String),
    /// A quoted string or literal.
    String(Vec<u8>),
    /// `(…)`, with or without spaces between the items.
    List(Vec<Value>),
}

impl Value {
    /// The bytes of a string, or of an atom.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::String(bytes) => Some(bytes),
            Value::Atom(atom) => Some(atom.as_bytes()),
            Value::Nil | Value::List(_) => None,
        }
    }

    /// The items of a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) => Some(items),
            _ => None,
        }
    }
}

/// Any value, nested at most `limits::IMAP_VALUE_NESTING` deep.
pub(super) fn value(cursor: &mut Cursor<'_>) -> Parsed<Value> {
    nested(cursor, 0)
}

fn nested(cursor: &mut Cursor<'_>, depth: usize) -> Parsed<Value> {
    if depth > limits::IMAP_VALUE_NESTING {
        return Err(Failure::Bad("nested too deep"));
    }
    match cursor.peek() {
        Some(b'(') => {
            cursor.advance(1);
            let mut items = Vec::new();
            while !cursor.eat(b')') {
                items.push(nested(cursor, depth + 1)?);
                while cursor.eat(b' ') {}
            }
            Ok(Value::List(items))
        }
        Some(b'"') => cursor.quoted().map(Value::String),
        Some(b'{') => Ok(Value::String(cursor.literal()?.to_vec())),
        Some(b'~') if cursor.rest().starts_with(b"~{") => Ok(Value::String(cursor.literal()?.to_vec())),
        _ => {
            if cursor.nil() {
                return Ok(Value::Nil);
            }
            // Sections such as BODY[HEADER.FIELDS (A B)] are not values; flags, `\*` and numbers are.
            let atom = cursor.word(|b| matches!(b, 0x21..=0x7e) && !matches!(b, b'(' | b')' | b'"' | b'{'));
            if atom.is_empty() {
                Err(Failure::Bad("a value is missing"))
            } else {
                Ok(Value::Atom(atom.to_owned()))
            }
        }
    }
}
