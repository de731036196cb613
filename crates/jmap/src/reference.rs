//! Result references (RFC 8620 §3.7): arguments taken from responses to earlier calls of the same
//! request.

use sealpost_base::limits::JMAP_REFERENCE_VALUES;
use serde_json::{Map, Value};

use crate::error::{MethodError, MethodErrorType};
use crate::json;
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

/// Puts the values that references name in their place. All references of a call together select
/// at most [`JMAP_REFERENCE_VALUES`], and each response is read once, so that many references to a
/// large response cost no more than one.
pub fn resolve(arguments: &mut Map<String, Value>, responses: &[KeptResponse]) -> Result<(), MethodError> {
    let names: Vec<String> = arguments.keys().filter(|name| name.starts_with('#')).cloned().collect();
    let mut references = Vec::new();
    for name in names {
        let Some(value) = arguments.remove(&name) else { continue };
        if arguments.contains_key(&name[1..]) {
            let what = Mismatch::because(format!("given both as a value and as the reference {name}"));
            return Err(what.within(&name[1..]).into());
        }
        references.push((ResultReference::from_json(value).map_err(|wrong| wrong.within(&name))?, name));
    }
    references.sort_by(|(first, _), (second, _)| first.result_of.cmp(&second.result_of));
    let mut left = JMAP_REFERENCE_VALUES;
    let mut parsed: Option<(&str, Value)> = None;
    for (reference, name) in &references {
        let failed = |why: String| {
            let error = MethodError::from(MethodErrorType::InvalidResultReference);
            error.describe(format!("{}: {why}", crate::read::shortened(name)))
        };
        let is_parsed = parsed.as_ref().is_some_and(|(call_id, _)| *call_id == reference.result_of);
        if !is_parsed {
            // Only one at a time is in memory.
            drop(parsed.take());
        }
        let response = find(reference, responses).map_err(&failed)?;
        let (_, value) = match parsed.take() {
            Some(parsed) => parsed,
            None => (&*response.call_id, parse(response).map_err(&failed)?),
        };
        let selected = select(&reference.path, &value, &mut left).map_err(&failed)?;
        arguments.insert(name[1..].to_owned(), selected);
        parsed = Some((&response.call_id, value));
    }
    Ok(())
}

/// The ids of calls that references in `arguments` name, whether they are well formed or not.
pub fn referenced(arguments: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let references = arguments.iter().filter(|(name, _)| name.starts_with('#'));
    references.filter_map(|(_, value)| value.get("resultOf")?.as_str())
}

/// The first response of the call, which must have the name.
fn find<'a>(reference: &ResultReference, responses: &'a [KeptResponse]) -> Result<&'a KeptResponse, String> {
    let response = responses.iter().find(|response| response.call_id == reference.result_of);
    let response = response.ok_or("no earlier call has the id that resultOf names")?;
    if response.name != reference.name {
        return Err(format!("the first response of that call is {}", crate::read::shortened(&response.name)));
    }
    Ok(response)
}

/// The arguments of a response, with the bounds that those of a request have.
fn parse(response: &KeptResponse) -> Result<Value, String> {
    let bytes = response.arguments.as_deref().ok_or("the response is too large to be referred to")?;
    json::parse(bytes).map_err(|error| format!("the response is too large to be referred to: {error}"))
}

fn select(path: &str, arguments: &Value, left: &mut usize) -> Result<Value, String> {
    if path.is_empty() {
        spend(left, cost(arguments))?;
        return Ok(arguments.clone());
    }
    let path = path.strip_prefix('/').ok_or("path does not begin with /")?;
    let pointer = Pointer::parse(path).map_err(|error| format!("path: {error}"))?;
    follow(arguments, pointer.parts(), left)
}

/// How many values a copy of this one has; long text counts as several.
fn cost(value: &Value) -> usize {
    const TEXT_BYTES: usize = 64;
    1 + match value {
        Value::String(text) => text.len() / TEXT_BYTES,
        Value::Array(items) => items.iter().map(cost).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() / TEXT_BYTES + cost(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn spend(left: &mut usize, values: usize) -> Result<(), String> {
    let rest = left.checked_sub(values);
    *left = rest.ok_or_else(|| format!("references select more than {JMAP_REFERENCE_VALUES} values"))?;
    Ok(())
}

/// Evaluates the rest of a pointer; `left` bounds what is copied and what `*` maps through.
fn follow(value: &Value, parts: &[Box<str>], left: &mut usize) -> Result<Value, String> {
    let Some((part, rest)) = parts.split_first() else {
        spend(left, cost(value))?;
        return Ok(value.clone());
    };
    match value {
        Value::Object(members) => match members.get(&**part) {
            Some(member) => follow(member, rest, left),
            None => Err(format!("nothing is at {part:?} of path")),
        },
        Value::Array(items) if &**part == "*" => {
            spend(left, items.len())?;
            let mut mapped = Vec::new();
            for item in items {
                // An array that an item leads to is replaced by its contents.
                match follow(item, rest, left)? {
                    Value::Array(values) => mapped.extend(values),
                    other => mapped.push(other),
                }
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
        _ => Err(format!("path has {part:?} below a value that is no object and no array")),
    }
}
