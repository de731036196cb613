//! State strings (RFC 8620 §5.1): opaque to clients, compared byte by byte.

use std::fmt;

use sealpost_base::limits::JMAP_STATE_BYTES;
use serde::Serialize;
use serde_json::Value;

use crate::read::{FromJson, Mismatch};

/// The state of all objects of a type, or of a query.
///
/// A string that the server never made is a state of which it cannot calculate changes, not a wrong
/// argument.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct State(Box<str>);

impl State {
    /// A state that the server made.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        State(text.into())
    }

    /// Its characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromJson for State {
    fn expected() -> String {
        format!("a state (a string of at most {JMAP_STATE_BYTES} bytes)")
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::String(text) if text.len() <= JMAP_STATE_BYTES => Ok(State(text.into())),
            other => Err(Mismatch::new(Self::expected(), &other)),
        }
    }
}
