//! Bytes to JSON values, as I-JSON (RFC 7493) wants them: UTF-8, no name twice in an object, no
//! number beyond what a double holds; and bounded, before memory is spent on it.

use std::fmt;

use sealpost_base::limits::{JMAP_JSON_DEPTH, JMAP_JSON_VALUE_BYTES};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Memory that one value takes in an array that grows by doubling.
const VALUE_BYTES: usize = 2 * size_of::<Value>();
/// Memory that one member takes in an object whose nodes are half full.
const MEMBER_BYTES: usize = 2 * (size_of::<String>() + size_of::<Value>());
/// Memory of the smallest object that is not empty: a whole node.
const OBJECT_BYTES: usize = 6 * MEMBER_BYTES;

/// Why bytes are not a JSON value that is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonError {
    /// Not I-JSON: what is wrong and where.
    Syntax(String),
    /// Arrays and objects are nested deeper than [`JMAP_JSON_DEPTH`].
    TooDeep,
    /// The values take more memory than [`JMAP_JSON_VALUE_BYTES`].
    TooManyValues,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonError::Syntax(what) => f.write_str(what),
            JsonError::TooDeep => write!(f, "arrays and objects are nested more than {JMAP_JSON_DEPTH} deep"),
            JsonError::TooManyValues => f.write_str("the document has too many values"),
        }
    }
}

/// The most memory that the values of a document take, in bytes, beside its text: counted without
/// making them, so that it can be acquired before. What is no JSON is counted somehow.
pub fn memory_bound(bytes: &[u8]) -> usize {
    let (mut memory, mut is_string, mut is_escaped) = (bytes.len(), false, false);
    for byte in bytes {
        if is_string {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_string = false,
                _ => {}
            }
            continue;
        }
        memory += match byte {
            b'"' => {
                is_string = true;
                0
            }
            b'[' | b',' => VALUE_BYTES,
            b':' => MEMBER_BYTES,
            b'{' => OBJECT_BYTES,
            _ => 0,
        };
    }
    memory
}

/// The one JSON value that `bytes` are.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    let mut budget = Budget { left: JMAP_JSON_VALUE_BYTES, refused: None };
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let node = Node { budget: &mut budget, depth: 0 };
    let parsed = node.deserialize(&mut deserializer);
    let parsed = parsed.and_then(|value| deserializer.end().map(|()| value));
    parsed.map_err(|error| budget.refused.unwrap_or_else(|| JsonError::Syntax(error.to_string())))
}

/// What may still be spent, and why it was refused.
struct Budget {
    left: usize,
    refused: Option<JsonError>,
}

impl Budget {
    fn spend<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => return Err(self.refuse(JsonError::TooManyValues)),
        }
        Ok(())
    }

    fn refuse<E: serde::de::Error>(&mut self, error: JsonError) -> E {
        let text = E::custom(&error);
        self.refused = Some(error);
        text
    }
}

/// Reads one value at a depth.
struct Node<'a> {
    budget: &'a mut Budget,
    depth: usize,
}

impl Node<'_> {
    fn enter<E: serde::de::Error>(&mut self) -> Result<usize, E> {
        if self.depth == JMAP_JSON_DEPTH {
            return Err(self.budget.refuse(JsonError::TooDeep));
        }
        Ok(self.depth + 1)
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut array: A) -> Result<Value, A::Error> {
        let depth = self.enter()?;
        let mut values = Vec::new();
        while let Some(value) = array.next_element_seed(Node { budget: self.budget, depth })? {
            self.budget.spend(VALUE_BYTES)?;
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut object: A) -> Result<Value, A::Error> {
        let depth = self.enter()?;
        let mut members = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the name {name:?} is twice in one object")));
            }
            self.budget.spend(if members.is_empty() { OBJECT_BYTES } else { MEMBER_BYTES })?;
            let value = object.next_value_seed(Node { budget: self.budget, depth })?;
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}
