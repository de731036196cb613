//! JSON values to typed ones, strictly: [`FromJson`], [`Fields`] of an object, and the [`Mismatch`]
//! that names the argument and what was expected of it.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

/// Largest number of [`read_int`] and [`read_unsigned`]: 2^53-1 (RFC 8620 §1.3).
pub const MAX_INT: u64 = (1 << 53) - 1;

/// A value that is not what an argument has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The outermost part of the path, which may have dots in it.
    argument: String,
    path: String,
    reason: String,
}

impl Mismatch {
    /// `expected` is a noun: "a date".
    pub fn new(expected: impl fmt::Display, found: &Value) -> Self {
        Mismatch {
            argument: String::new(),
            path: String::new(),
            reason: format!("expected {expected}, found {}", name_of(found)),
        }
    }

    /// Another reason than a wrong type: "unknown property".
    pub fn because(reason: impl Into<String>) -> Self {
        Mismatch { argument: String::new(), path: String::new(), reason: reason.into() }
    }

    /// A required argument that is not there.
    pub fn missing(expected: impl fmt::Display) -> Self {
        Mismatch {
            argument: String::new(),
            path: String::new(),
            reason: format!("missing; expected {expected}"),
        }
    }

    /// The same, in the member `name` of an object.
    #[must_use]
    pub fn within(mut self, name: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.argument = shortened(name);
        self.path = format!("{}{dot}{}", self.argument, self.path);
        self
    }

    /// The same, in an array.
    #[must_use]
    pub fn at(mut self, index: usize) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.argument = String::new();
        self.path = format!("[{index}]{dot}{}", self.path);
        self
    }

    /// The outermost argument or property that is wrong.
    pub fn argument(&self) -> &str {
        &self.argument
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.reason),
            path => write!(f, "{path}: {}", self.reason),
        }
    }
}

/// Of text that a client sent, what an error repeats.
pub(crate) fn shortened(text: &str) -> String {
    const CHARS: usize = 80;
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn name_of(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "a boolean".into(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {:?}", shortened(text)),
        Value::Array(_) => "an array".into(),
        Value::Object(_) => "an object".into(),
    }
}

/// A type that is read from a JSON value.
pub trait FromJson: Sized {
    /// What an error says was expected, as a noun: "a date".
    fn expected() -> String;
    /// The value, or what is wrong with it.
    fn from_json(value: Value) -> Result<Self, Mismatch>;
}

impl FromJson for Value {
    fn expected() -> String {
        "a value".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        Ok(value)
    }
}

impl FromJson for bool {
    fn expected() -> String {
        "true or false".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        value.as_bool().ok_or_else(|| Mismatch::new(Self::expected(), &value))
    }
}

impl FromJson for String {
    fn expected() -> String {
        "a string".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(Mismatch::new(Self::expected(), &other)),
        }
    }
}

/// UnsignedInt (RFC 8620 §1.3).
impl FromJson for u64 {
    fn expected() -> String {
        "an integer from 0 to 2^53-1".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let number = value.as_u64().filter(|&number| number <= MAX_INT);
        number.ok_or_else(|| Mismatch::new(Self::expected(), &value))
    }
}

/// Int (RFC 8620 §1.3).
impl FromJson for i64 {
    fn expected() -> String {
        "an integer from -2^53+1 to 2^53-1".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let number = value.as_i64().filter(|number| number.unsigned_abs() <= MAX_INT);
        number.ok_or_else(|| Mismatch::new(Self::expected(), &value))
    }
}

/// `T|null`.
impl<T: FromJson> FromJson for Option<T> {
    fn expected() -> String {
        format!("{} or null", T::expected())
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        if value.is_null() { Ok(None) } else { T::from_json(value).map(Some) }
    }
}

/// `T[]`.
impl<T: FromJson> FromJson for Vec<T> {
    fn expected() -> String {
        format!("an array, each {}", T::expected())
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let Value::Array(values) = value else { return Err(Mismatch::new(Self::expected(), &value)) };
        let read = |(index, value)| T::from_json(value).map_err(|wrong| wrong.at(index));
        values.into_iter().enumerate().map(read).collect()
    }
}

/// `K[T]`: an object whose names are of a type as well.
impl<K: FromJson + Ord, T: FromJson> FromJson for BTreeMap<K, T> {
    fn expected() -> String {
        format!("an object, each name {}, each value {}", K::expected(), T::expected())
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let Value::Object(members) = value else { return Err(Mismatch::new(Self::expected(), &value)) };
        let read = |(name, value): (String, Value)| {
            let key = K::from_json(Value::String(name.clone())).map_err(|wrong| wrong.within(&name))?;
            let value = T::from_json(value).map_err(|wrong| wrong.within(&name))?;
            Ok((key, value))
        };
        members.into_iter().map(read).collect()
    }
}

impl FromJson for Map<String, Value> {
    fn expected() -> String {
        "an object".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::Object(members) => Ok(members),
            other => Err(Mismatch::new(Self::expected(), &other)),
        }
    }
}

/// The members of an object, taken out one by one: arguments of a method, properties of an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fields {
    members: Map<String, Value>,
}

impl From<Map<String, Value>> for Fields {
    fn from(members: Map<String, Value>) -> Self {
        Fields { members }
    }
}

impl FromJson for Fields {
    fn expected() -> String {
        "an object".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        Map::from_json(value).map(Fields::from)
    }
}

impl Fields {
    /// A member that must be there.
    pub fn required<T: FromJson>(&mut self, name: &str) -> Result<T, Mismatch> {
        match self.members.remove(name) {
            Some(value) => T::from_json(value).map_err(|wrong| wrong.within(name)),
            None => Err(Mismatch::missing(T::expected()).within(name)),
        }
    }

    /// A member of type `T|null`: `None` if it is absent or null (RFC 8620 §3.5).
    pub fn optional<T: FromJson>(&mut self, name: &str) -> Result<Option<T>, Mismatch> {
        match self.members.remove(name) {
            Some(value) => Option::from_json(value).map_err(|wrong| wrong.within(name)),
            None => Ok(None),
        }
    }

    /// A member with a default, which may be absent but not null (RFC 8620 §3.5).
    pub fn defaulted<T: FromJson>(&mut self, name: &str, default: T) -> Result<T, Mismatch> {
        match self.members.remove(name) {
            Some(value) => T::from_json(value).map_err(|wrong| wrong.within(name)),
            None => Ok(default),
        }
    }

    /// A member that may be absent, distinguished from one that is null.
    pub fn present<T: FromJson>(&mut self, name: &str) -> Result<Option<T>, Mismatch> {
        let value = self.members.remove(name);
        value.map(|value| T::from_json(value).map_err(|wrong| wrong.within(name))).transpose()
    }

    /// Whether a member is there and was not taken yet.
    pub fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Names of members that were not taken yet and begin with `prefix`.
    pub fn names_beginning(&self, prefix: &str) -> Vec<String> {
        self.members.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
    }

    /// The next member that was not taken yet.
    pub fn pop(&mut self) -> Option<(String, Value)> {
        let name = self.members.keys().next()?.clone();
        self.members.remove_entry(&name)
    }

    /// What was not taken.
    pub fn into_rest(self) -> Map<String, Value> {
        self.members
    }

    /// Refuses members that nothing has taken: an argument that is not understood may be a filter
    /// that would have been needed.
    pub fn finish(self) -> Result<(), Mismatch> {
        match self.members.keys().next() {
            Some(name) => Err(Mismatch::because("unknown name").within(name)),
            None => Ok(()),
        }
    }
}

/// One of the names of an enum, for errors: `"a", "b" or "c"`.
pub(crate) fn one_of(names: &[&str]) -> String {
    let mut text = String::from("one of");
    for (index, name) in names.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma} {name:?}");
    }
    text
}

/// An enum whose values are strings: reads, writes and lists them.
macro_rules! string_enum {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $($(#[$doc])* $variant,)* }

        impl $type {
            /// All of them, in the order of the RFC.
            pub const ALL: &[$type] = &[$($type::$variant,)*];

            /// The name on the wire.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name,)* }
            }

            /// The value with that name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some($type::$variant),)* _ => None }
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl $crate::read::FromJson for $type {
            fn expected() -> String {
                $crate::read::one_of(&[$($name,)*])
            }

            fn from_json(value: serde_json::Value) -> Result<Self, $crate::read::Mismatch> {
                let found = value.as_str().and_then(Self::from_name);
                found.ok_or_else(|| $crate::read::Mismatch::new(Self::expected(), &value))
            }
        }
    };
}
pub(crate) use string_enum;
