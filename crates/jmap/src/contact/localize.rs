//! A card in another of its languages: patches whose paths may lead into arrays (RFC 9553 §1.4.3,
//! §2.7.1).

use serde_json::{Map, Value};

use crate::patch::PatchObject;
use crate::pointer::Pointer;
use crate::read::Mismatch;

/// The card without its localizations, patched.
pub(super) fn localized(
    card: &Map<String, Value>,
    patches: &Map<String, Value>,
) -> Result<Map<String, Value>, Mismatch> {
    let invalid = |error: crate::SetError| Mismatch::because(error.description.unwrap_or_default());
    let patches = PatchObject::new(patches.clone()).map_err(invalid)?;
    let without = card.iter().filter(|(name, _)| *name != "localizations");
    let mut localized = Value::Object(without.map(|(name, value)| (name.clone(), value.clone())).collect());
    for (path, value) in patches.entries() {
        if path.property() == "localizations" {
            return Err(Mismatch::because("localizations have none themselves"));
        }
        apply(&mut localized, path, value).map_err(|wrong| wrong.within(&path.to_string()))?;
    }
    match localized {
        Value::Object(card) => Ok(card),
        _ => Err(Mismatch::because("not a card")),
    }
}

fn apply(card: &mut Value, path: &Pointer, value: &Value) -> Result<(), Mismatch> {
    let Some((last, parents)) = path.parts().split_last() else { return Ok(()) };
    let mut parent = card;
    for part in parents {
        let next = match parent {
            Value::Object(members) => members.get_mut(&**part),
            Value::Array(items) => index(part).and_then(|at| items.get_mut(at)),
            _ => None,
        };
        parent = next.ok_or_else(|| Mismatch::because("there is nothing to patch"))?;
    }
    match parent {
        Value::Object(members) if value.is_null() => drop(members.remove(&**last)),
        Value::Object(members) => drop(members.insert(last.to_string(), value.clone())),
        // Nothing is added to an array or removed from it.
        Value::Array(items) if !value.is_null() => {
            let item = index(last).and_then(|at| items.get_mut(at));
            *item.ok_or_else(|| Mismatch::because("the array has no such item"))? = value.clone();
        }
        _ => return Err(Mismatch::because("there is nothing to patch")),
    }
    Ok(())
}

/// An index as RFC 6901 §4 writes it.
fn index(part: &str) -> Option<usize> {
    let at: usize = part.parse().ok()?;
    (at.to_string() == part).then_some(at)
}
