//! Whether something is attached to an email.

use sealpost_mime::structure::StoredStructure;

pub(super) fn is_attached(structure: &StoredStructure<'_>) -> bool {
    structure.parts.iter().any(|part| part.disposition.as_ref().is_some_and(|d| d.kind == "attachment"))
}
