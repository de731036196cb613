//! Filters of /query and /queryChanges (RFC 8620 §5.5).

use sealpost_base::limits::{JMAP_FILTER_CONDITIONS, JMAP_FILTER_DEPTH};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use crate::error::{MethodError, MethodErrorType};
use crate::read::{Fields, FromJson, Mismatch, string_enum};

string_enum! {
    /// How the conditions of an operator combine.
    pub enum Operator {
        /// All of them match.
        And = "AND",
        /// At least one matches.
        Or = "OR",
        /// None matches.
        Not = "NOT",
    }
}

/// Which objects a query finds.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter<C> {
    /// Conditions combined.
    Operator {
        /// How.
        operator: Operator,
        /// What.
        conditions: Vec<Filter<C>>,
    },
    /// One condition: all its properties must match.
    Condition(C),
}

/// A FilterCondition of a data type.
pub trait Condition: Sized {
    /// Takes the properties that the type has; what is left is not supported.
    fn read(fields: &mut Fields) -> Result<Self, Mismatch>;
}

impl<C: Condition> Filter<C> {
    /// Takes the argument `filter` out.
    pub fn read(fields: &mut Fields) -> Result<Option<Self>, MethodError> {
        let value: Option<Value> = fields.optional("filter")?;
        let mut left = JMAP_FILTER_CONDITIONS;
        value.map(|value| Filter::at_depth(value, 0, &mut left, "filter")).transpose()
    }

    fn at_depth(value: Value, depth: usize, left: &mut usize, path: &str) -> Result<Self, MethodError> {
        let unsupported = |why: String| MethodError::from(MethodErrorType::UnsupportedFilter).describe(why);
        if depth == JMAP_FILTER_DEPTH {
            return Err(unsupported(format!("filter is nested more than {JMAP_FILTER_DEPTH} deep")));
        }
        *left = left.checked_sub(1).ok_or_else(|| {
            unsupported(format!("filter has more than {JMAP_FILTER_CONDITIONS} conditions"))
        })?;
        let within = |wrong: Mismatch| wrong.within(path);
        let mut fields = Fields::from_json(value).map_err(within)?;
        if !fields.has("operator") {
            let condition = C::read(&mut fields).map_err(within)?;
            let rest = fields.into_rest();
            return match rest.keys().next() {
                Some(name) => {
                    Err(unsupported(format!("{path}: unknown condition {}", crate::read::shortened(name))))
                }
                None => Ok(Filter::Condition(condition)),
            };
        }
        let operator = fields.required("operator").map_err(within)?;
        let values: Vec<Value> = fields.required("conditions").map_err(within)?;
        fields.finish().map_err(within)?;
        let mut conditions = Vec::new();
        for (index, value) in values.into_iter().enumerate() {
            let path = format!("{path}.conditions[{index}]");
            conditions.push(Filter::at_depth(value, depth + 1, left, &path)?);
        }
        Ok(Filter::Operator { operator, conditions })
    }
}

impl<C: Serialize> Serialize for Filter<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Filter::Condition(condition) => condition.serialize(serializer),
            Filter::Operator { operator, conditions } => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("operator", operator)?;
                map.serialize_entry("conditions", conditions)?;
                map.end()
            }
        }
    }
}
