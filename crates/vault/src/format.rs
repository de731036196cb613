//! The format of a store as a whole: raised whenever a program that knows the one before would
//! misread what this one writes, or the other way round. A small store of each format from 5 on is
//! kept below `tests/formats/`, and is read, changed and checked by every test run. Formats are
//! described in `docs/format/`.

use sealpost_base::Error;

/// The format that this program reads and writes.
pub const FORMAT: u32 = 5;

/// Why a store of another format cannot be used, and what to do.
pub(crate) fn other(store: &str, found: Option<u32>) -> Error {
    if let Some(later) = found.filter(|found| *found > FORMAT) {
        return Error::invalid(format!(
            "{store} has format {later}, and this version of Sealpost knows format {FORMAT}: use the version that made it, or a later one"
        ));
    }
    let found = found.map_or_else(|| "an older format".to_owned(), |found| format!("format {found}"));
    Error::invalid(format!(
        "{store} has {found}, made by an earlier version of Sealpost; this one reads and writes format {FORMAT}. Export the mail \
         with the version that made it (sealpost export), make a new store with this one, and import it there (sealpost import)"
    ))
}
