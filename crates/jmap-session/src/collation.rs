//! The collations that sorts may name: those in the Session object (RFC 8620 §5.5).

use sealpost_jmap::MethodError;
use sealpost_jmap::error::MethodErrorType;
use sealpost_search::emails::Collation;

/// The collation that a comparator names, or the default.
///
/// # Errors
/// `unsupportedSort` if the Session object does not list it.
pub(crate) fn collation(name: Option<&str>) -> Result<Collation, MethodError> {
    let Some(name) = name else { return Ok(Collation::default()) };
    Collation::named(name).ok_or_else(|| {
        let known: Vec<&str> = Collation::NAMES.iter().map(|(_, name)| *name).collect();
        let text = format!("a collation must be one of {}", known.join(", "));
        MethodError::from(MethodErrorType::UnsupportedSort).describe(text)
    })
}
