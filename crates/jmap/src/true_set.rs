//! A set as an object whose values are all true: `keywords` and `mailboxIds` of emails (RFC 8621
//! §4.1.1), and how a patch changes it.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::error::{SetError, SetErrorType};
use crate::patch::PropertyPatch;
use crate::read::{FromJson, Mismatch};

/// A set of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrueSet<T>(pub BTreeSet<T>);

impl<T> Default for TrueSet<T> {
    fn default() -> Self {
        TrueSet(BTreeSet::new())
    }
}

impl<T: Ord> FromIterator<T> for TrueSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        TrueSet(items.into_iter().collect())
    }
}

impl<T: Serialize> Serialize for TrueSet<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|name| (name, true)))
    }
}

impl<T: FromJson + Ord> FromJson for TrueSet<T> {
    fn expected() -> String {
        format!("an object, each name {}, each value true", T::expected())
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let Value::Object(members) = value else { return Err(Mismatch::new(Self::expected(), &value)) };
        let read = |(name, value): (String, Value)| {
            if value != Value::Bool(true) {
                return Err(Mismatch::new("true", &value).within(&name));
            }
            T::from_json(Value::String(name.clone())).map_err(|wrong| wrong.within(&name))
        };
        members.into_iter().map(read).collect::<Result<_, _>>().map(TrueSet)
    }
}

/// A change of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetChange<T> {
    /// Another set.
    Replace(BTreeSet<T>),
    /// Some more, some less.
    Change {
        /// Names that become members.
        add: BTreeSet<T>,
        /// Names that are members no more.
        remove: BTreeSet<T>,
    },
}

impl<T: FromJson + Ord + Clone> SetChange<T> {
    /// What a patch does to the set. Null for the whole set empties it: that is its default, if it
    /// has one.
    pub fn from_patch(name: &str, patch: PropertyPatch) -> Result<Self, SetError> {
        let members = match patch {
            PropertyPatch::Replace(Value::Null) => return Ok(SetChange::Replace(BTreeSet::new())),
            PropertyPatch::Replace(value) => {
                let set = TrueSet::from_json(value).map_err(|wrong| wrong.within(name))?;
                return Ok(SetChange::Replace(set.0));
            }
            PropertyPatch::Members(members) => members,
        };
        let (mut add, mut remove) = (BTreeSet::new(), BTreeSet::new());
        for (path, value) in members {
            let [member] = path.parts() else {
                let error = SetError::from(SetErrorType::InvalidPatch);
                return Err(error.describe(format!("{name}/{path}: nothing is below a member of a set")));
            };
            let within = |wrong: Mismatch| wrong.within(member).within(name);
            let item = T::from_json(Value::String(member.to_string())).map_err(within)?;
            // Two spellings of a keyword may ask for both; one of them wins, the set stays one.
            match value {
                Value::Null => drop(remove.insert(item)),
                Value::Bool(true) => drop(add.insert(item)),
                other => return Err(within(Mismatch::new("true or null", &other)).into()),
            }
        }
        remove.retain(|item| !add.contains(item));
        Ok(SetChange::Change { add, remove })
    }

    /// The set after the change.
    pub fn apply(&self, set: &BTreeSet<T>) -> BTreeSet<T> {
        match self {
            SetChange::Replace(set) => set.clone(),
            SetChange::Change { add, remove } => {
                set.iter().filter(|item| !remove.contains(*item)).chain(add).cloned().collect()
            }
        }
    }
}
