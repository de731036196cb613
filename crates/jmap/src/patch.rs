//! PatchObject (RFC 8620 §5.3): changes of one object by path.
//!
//! A patch is read with the paths checked against each other, and then either taken apart property
//! by property ([`PatchObject::properties`]) or applied to the object as JSON
//! ([`PatchObject::apply`]). Parts of a path are names of members, also when they are digits.

use std::collections::BTreeMap;

use sealpost_base::limits::JMAP_PATCH_PATHS;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::error::{SetError, SetErrorType};
use crate::pointer::Pointer;
use crate::read::shortened;

/// The changes of one object, checked: no path begins another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PatchObject {
    /// Ordered by path, so paths of one property are neighbours.
    entries: BTreeMap<Pointer, Value>,
}

/// What a patch does to one property.
#[derive(Debug, Clone, PartialEq)]
pub enum PropertyPatch {
    /// A new value; null sets the default, or removes the property if it has none.
    Replace(Value),
    /// Members of the property, by what follows it in the path; null removes one.
    Members(Vec<(Pointer, Value)>),
}

fn invalid(why: String) -> SetError {
    SetError::from(SetErrorType::InvalidPatch).describe(why)
}

impl PatchObject {
    /// Checks the paths of a patch; the error is `invalidPatch`.
    pub fn new(members: Map<String, Value>) -> Result<Self, SetError> {
        if members.len() > JMAP_PATCH_PATHS {
            return Err(invalid(format!("a patch has at most {JMAP_PATCH_PATHS} paths")));
        }
        let mut entries = BTreeMap::new();
        for (path, value) in members {
            let pointer = Pointer::parse(&path);
            let pointer = pointer.map_err(|error| invalid(format!("{}: {error}", shortened(&path))))?;
            entries.insert(pointer, value);
        }
        // A path that begins others comes right before the first of them.
        for (first, second) in entries.keys().zip(entries.keys().skip(1)) {
            if first.is_prefix_of(second) {
                let (first, second) = (first.to_string(), second.to_string());
                return Err(invalid(format!("{} is within {}", shortened(&second), shortened(&first))));
            }
        }
        Ok(PatchObject { entries })
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The paths and values, by path.
    pub fn entries(&self) -> impl Iterator<Item = (&Pointer, &Value)> {
        self.entries.iter()
    }

    /// What is done to each property, for objects that know which of their properties have members.
    pub fn properties(self) -> BTreeMap<String, PropertyPatch> {
        let mut properties = BTreeMap::new();
        for (pointer, value) in self.entries {
            let name = pointer.property().to_owned();
            let Some(within) = pointer.below() else {
                properties.insert(name, PropertyPatch::Replace(value));
                continue;
            };
            let patch = properties.entry(name).or_insert_with(|| PropertyPatch::Members(Vec::new()));
            if let PropertyPatch::Members(members) = patch {
                members.push((within, value));
            }
        }
        properties
    }

    /// Applies all of it to an object or nothing. `defaults` has what null sets a property to; a
    /// property without a default is removed.
    pub fn apply(
        &self,
        object: &mut Map<String, Value>,
        defaults: &Map<String, Value>,
    ) -> Result<(), SetError> {
        for pointer in self.entries.keys() {
            check_parents(object, pointer)?;
        }
        for (pointer, value) in &self.entries {
            let Some((last, parents)) = pointer.parts().split_last() else { continue };
            let mut parent = &mut *object;
            for part in parents {
                match parent.get_mut(&**part) {
                    Some(Value::Object(members)) => parent = members,
                    _ => return Err(invalid(format!("{pointer}: {part:?} is no object"))),
                }
            }
            let default = if parents.is_empty() { defaults.get(&**last) } else { None };
            let value = if value.is_null() { default } else { Some(value) };
            match value {
                Some(value) => drop(parent.insert(last.to_string(), value.clone())),
                None => drop(parent.remove(&**last)),
            }
        }
        Ok(())
    }
}

/// All parts before the last must exist and be objects: a pointer into an array is refused.
fn check_parents(object: &Map<String, Value>, pointer: &Pointer) -> Result<(), SetError> {
    let parts = pointer.parts();
    let mut parent = object;
    for part in &parts[..parts.len().saturating_sub(1)] {
        match parent.get(&**part) {
            Some(Value::Object(members)) => parent = members,
            Some(Value::Array(_)) => return Err(invalid(format!("{pointer} points into an array"))),
            Some(_) => return Err(invalid(format!("{pointer}: {part:?} is no object"))),
            None => return Err(invalid(format!("{pointer}: {part:?} does not exist"))),
        }
    }
    Ok(())
}

impl Serialize for PatchObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.entries.iter().map(|(pointer, value)| (pointer.to_string(), value)))
    }
}
