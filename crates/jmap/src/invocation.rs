//! A method call or response: name, arguments, and the id of the call (RFC 8620 §3.2).

use serde::Serialize;
use serde::ser::{SerializeTuple, Serializer};
use serde_json::{Map, Value};

use crate::read::{FromJson, Mismatch};

/// One call of a method, or one response to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// The method, or the name of the response: `Email/get`.
    pub name: String,
    /// Arguments by name; those that begin with `#` are result references
    /// ([`crate::reference`]).
    pub arguments: Map<String, Value>,
    /// What the client calls the call; responses repeat it.
    pub call_id: String,
}

impl FromJson for Invocation {
    fn expected() -> String {
        "an array of a method name, an object of arguments and a call id".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let array = match value {
            Value::Array(array) => array,
            other => return Err(Mismatch::new(Self::expected(), &other)),
        };
        let count = array.len();
        let Ok([name, arguments, call_id]) = <[Value; 3]>::try_from(array) else {
            return Err(Mismatch::because(format!("expected {}, found {count} elements", Self::expected())));
        };
        Ok(Invocation {
            name: String::from_json(name).map_err(|wrong| wrong.at(0))?,
            arguments: Map::from_json(arguments).map_err(|wrong| wrong.at(1))?,
            call_id: String::from_json(call_id).map_err(|wrong| wrong.at(2))?,
        })
    }
}

impl Serialize for Invocation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(3)?;
        tuple.serialize_element(&self.name)?;
        tuple.serialize_element(&self.arguments)?;
        tuple.serialize_element(&self.call_id)?;
        tuple.end()
    }
}
