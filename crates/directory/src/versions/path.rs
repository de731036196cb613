//! The paths of versions: `{record}/{version}`, and which versions of a record stay.

use sealpost_base::Position;
use sealpost_journal::EntryName;

/// Versions of a record that are kept: the one in force, and the one before, which a reader may be
/// about to read.
pub(super) const KEPT_VERSIONS: u64 = 2;

pub(super) fn path(directory: &str, version: u64) -> String {
    format!("{directory}/{version:016x}")
}

pub(super) fn split(path: &str) -> Option<(&str, u64)> {
    let (directory, name) = path.rsplit_once('/')?;
    Some((directory, EntryName::parse(name)?.position.0))
}

/// Whether a version is removed, or was already, once `newest` exists.
pub(super) fn is_old(version: u64, newest: u64) -> bool {
    version.saturating_add(KEPT_VERSIONS) <= newest
}

pub(super) fn place(version: u64) -> EntryName {
    EntryName::plain(Position(version))
}
