//! Result references (RFC 8620 §3.7): arguments taken from responses to earlier calls of the same
//! request.

use sealpost_base::limits::JMAP_REFERENCE_VALUES;
use serde_json::{Map, Value};

use crate::error::{MethodError, MethodErrorType};
use crate::pointer::Pointer;
use crate::read::{Fields, FromJson, Mismatch};

/// Where an argument is taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultReference {
    /// The call whose response it is.
    pub result_of: String,
    /// The name that the response must have.
    pub name: String,
    /// A JSON pointer into its arguments, with `*` for all items of an array.
    pub path: String,
}

impl FromJson for ResultReference {
    fn expected() -> String {
        "an object with resultOf, name and path".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let Value::Object(members) = value else { return Err(Mismatch::new(Self::expected(), &value)) };
        let mut fields = Fields::from(members);
        let (result_of, name) = (fields.required("resultOf")?, fields.required("name")?);
        let reference = ResultReference { result_of, name, path: fields.required("path")? };
        fields.finish()?;
        Ok(reference)
    }
}

/// A response that a reference may select: its name, the id of its call, its arguments as JSON.
#[derive(Debug, Clone)]
pub struct KeptResponse {
    /// The name of the response, which is `error` if the method failed.
    pub name: String,
    /// The call that it answers.
    pub call_id: String,
    /// Its arguments; `None` if they are too large to keep.
    pub arguments: Option<Vec<u8>>,
}

/// Puts the values that references name in their place.
pub fn resolve(arguments: &mut Map<String, Value>, responses: &[KeptResponse]) -> Result<(), MethodError> {
    let names: Vec<String> = arguments.keys().filter(|name| name.starts_with('#')).cloned().collect();
    for name in names {
        let Some(value) = arguments.remove(&name) else { continue };
        let argument = &name[1..];
        if arguments.contains_key(argument) {
            let what = Mismatch::because(format!("given both as a value and as the reference {name}"));
            return Err(what.within(argument).into());
        }
        let reference = ResultReference::from_json(value).map_err(|wrong| wrong.within(&name))?;
        let value = select(&reference, responses).map_err(|why| {
            let error = MethodError::from(MethodErrorType::InvalidResultReference);
            error.describe(format!("{}: {why}", crate::read::shortened(&name)))
        })?;
        arguments.insert(argument.to_owned(), value);
    }
    Ok(())
}

/// The ids of calls that references in `arguments` name, whether they are well formed or not.
pub fn referenced(arguments: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let references = arguments.iter().filter(|(name, _)| name.starts_with('#'));
    references.filter_map(|(_, value)| value.get("resultOf")?.as_str())
}

fn select(reference: &ResultReference, responses: &[KeptResponse]) -> Result<Value, String> {
    let response = responses.iter().find(|response| response.call_id == reference.result_of);
    let response = response.ok_or("no earlier call has the id that resultOf names")?;
    if response.name != reference.name {
        return Err(format!("the first response of that call is {}", response.name));
    }
    let bytes = response.arguments.as_deref().ok_or("the response is too large to be referred to")?;
    let arguments: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let path = &reference.path;
    if path.is_empty() {
        return Ok(arguments);
    }
    let path = path.strip_prefix('/').ok_or("path does not begin with /")?;
    let pointer = Pointer::parse(path).map_err(|error| format!("path: {error}"))?;
    let mut left = JMAP_REFERENCE_VALUES;
    follow(&arguments, pointer.parts(), &mut left)
}

/// Evaluates the rest of a pointer; `left` bounds the items that `*` maps through.
fn follow(value: &Value, parts: &[Box<str>], left: &mut usize) -> Result<Value, String> {
    let Some((part, rest)) = parts.split_first() else { return Ok(value.clone()) };
    match value {
        Value::Object(members) => match members.get(&**part) {
            Some(member) => follow(member, rest, left),
            None => Err(format!("nothing is at {part:?} of path")),
        },
        Value::Array(items) if &**part == "*" => {
            let mut mapped = Vec::new();
            for item in items {
                // An array that an item leads to is replaced by its contents.
                let result = follow(item, rest, left)?;
                let before = mapped.len();
                match result {
                    Value::Array(values) => mapped.extend(values),
                    other => mapped.push(other),
                }
                *left = left
                    .checked_sub((mapped.len() - before).max(1))
                    .ok_or_else(|| format!("path selects more than {JMAP_REFERENCE_VALUES} values"))?;
            }
            Ok(Value::Array(mapped))
        }
        Value::Array(items) => {
            // RFC 6901 §4: digits without leading zeros.
            let canonical = part.len() == 1 || !part.starts_with('0');
            let digits = canonical && part.bytes().all(|byte| byte.is_ascii_digit());
            let index = if digits { part.parse::<usize>().ok() } else { None };
            match index.and_then(|index| items.get(index)) {
                Some(item) => follow(item, rest, left),
                None => Err(format!("the array of path has no item {part:?}")),
            }
        }
        _ => Err(format!("path goes on with {part:?} in a value that is no object and no array")),
    }
}
