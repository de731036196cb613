//! Sort orders of /query and /queryChanges (RFC 8620 §5.5).

use sealpost_base::limits::JMAP_COMPARATORS;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use crate::error::{MethodError, MethodErrorType};
use crate::read::{Fields, FromJson, Mismatch, shortened};

/// What a data type can be sorted by.
pub trait SortKey: Sized {
    /// The key of a property; takes what else the comparator needs. `None` if objects cannot be
    /// sorted by the property.
    fn read(property: &str, fields: &mut Fields) -> Result<Option<Self>, Mismatch>;

    /// Writes the property and what else [`Self::read`] takes.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// One step of a sort order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparator<K> {
    /// What is compared.
    pub key: K,
    /// Whether the smaller comes first.
    pub is_ascending: bool,
    /// The algorithm for strings, if the client wants a certain one.
    pub collation: Option<String>,
}

impl<K: SortKey> Comparator<K> {
    /// Takes the argument `sort` out; null is the order of the server, as an empty array is.
    pub fn read(fields: &mut Fields) -> Result<Vec<Self>, MethodError> {
        let values: Vec<Value> = fields.optional("sort")?.unwrap_or_default();
        let unsupported = |why: String| MethodError::from(MethodErrorType::UnsupportedSort).describe(why);
        if values.len() > JMAP_COMPARATORS {
            return Err(unsupported(format!("sort has more than {JMAP_COMPARATORS} comparators")));
        }
        let mut comparators = Vec::new();
        for (index, value) in values.into_iter().enumerate() {
            let within = |wrong: Mismatch| wrong.at(index).within("sort");
            let mut fields = Fields::from_json(value).map_err(within)?;
            let property: String = fields.required("property").map_err(within)?;
            let is_ascending = fields.defaulted("isAscending", true).map_err(within)?;
            let collation = fields.present("collation").map_err(within)?;
            let Some(key) = K::read(&property, &mut fields).map_err(within)? else {
                return Err(unsupported(format!("sort[{index}]: cannot sort by {:?}", shortened(&property))));
            };
            fields.finish().map_err(within)?;
            comparators.push(Comparator { key, is_ascending, collation });
        }
        Ok(comparators)
    }
}

impl<K: SortKey> Serialize for Comparator<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.key.write(&mut map)?;
        if !self.is_ascending {
            map.serialize_entry("isAscending", &false)?;
        }
        if let Some(collation) = &self.collation {
            map.serialize_entry("collation", collation)?;
        }
        map.end()
    }
}
