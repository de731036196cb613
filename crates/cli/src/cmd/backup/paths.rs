//! Paths of objects in a store: which kind of object each is.

use sealpost_vault::ListedObject;

/// Digits of a position in the name of a log entry or a manifest.
pub(super) const POSITION_DIGITS: usize = 16;

/// The last object of a listing.
pub(super) fn end(listed: &[ListedObject]) -> Option<&str> {
    listed.last().map(|object| object.path.as_str())
}

/// The path of an object without its last part.
pub(super) fn directory(object: &ListedObject) -> Option<&str> {
    object.path.rsplit_once('/').map(|(directory, _)| directory)
}

pub(super) fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The kind of an object of an account: the third part of its path.
pub(super) fn kind(path: &str) -> Option<&str> {
    path.strip_prefix("acct/")?.split('/').nth(1)
}

/// Whether a manifest is a checkpoint's: marks of ballots have no position.
pub(super) fn is_checkpoint(manifest: &ListedObject) -> bool {
    name(&manifest.path).len() == POSITION_DIGITS
}

/// The manifests of checkpoints, the oldest one first.
pub(super) fn checkpoints(manifests: &[ListedObject]) -> impl Iterator<Item = &ListedObject> {
    manifests.iter().filter(|manifest| is_checkpoint(manifest))
}

/// Whether the server can rebuild the object from messages: packs, and segments of the index.
pub(super) fn is_derived(path: &str) -> bool {
    matches!(kind(path), Some("pack" | "idx"))
}

pub(super) fn is_beside(one: &ListedObject, other: &ListedObject) -> bool {
    directory(one) == directory(other)
}
