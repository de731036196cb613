//! How large an object can be, as far as its path tells.
//!
//! An attacker with write access to the store can put anything at any path. Every node reads
//! records, log entries and manifests, and reads them whole: an object larger than any of them can
//! be counts as corrupt, and is not read.

use std::error::Error as StdError;
use std::{fmt, iter};

use sealpost_base::{Error, limits};

use super::ListedObject;

/// Where records are.
const RECORDS: [&str; 9] =
    ["server", "accounts", "aliases", "shares", "usage", "vacations", "logins", "domains", "push"];

/// The most bytes of an object to read; part of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtMost(pub u64);

/// An object has more bytes than what belongs at its path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TooLarge {
    /// Its size.
    pub size: u64,
    /// The most bytes that it could have.
    pub most: u64,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, where {} are the most", self.size, self.most)
    }
}

impl StdError for TooLarge {}

/// The most bytes that an object at `path` can have; `None` where the path does not tell.
pub(super) fn most_bytes(path: &str) -> Option<u64> {
    let mut parts = path.split('/');
    let root = parts.next()?;
    let most = if RECORDS.contains(&root) {
        limits::RECORD_BYTES
    } else if matches!(root, "acct" | "queue") {
        match (parts.nth(1)?, parts.next()?) {
            ("log", _) => limits::ENTRY_BYTES + limits::SEALING_BYTES,
            ("manifest", name) if name.starts_with(['s', 'm']) => limits::MARK_BYTES,
            ("manifest", _) => limits::MANIFEST_BYTES,
            ("vacation", _) => limits::MAIL_NOTE_BYTES,
            _ => return None,
        }
    } else {
        return None;
    };
    Some(most as u64)
}

impl ListedObject {
    /// Whether it is larger than anything that belongs at its path: then it was planted, and
    /// reading it gives `Corrupt`.
    pub fn is_too_large(&self) -> bool {
        most_bytes(&self.path).is_some_and(|most| self.size > most)
    }
}

/// Whether an object could not be read because it is larger than anything that belongs at its path.
pub fn is_too_large(e: &Error) -> bool {
    too_large_in(e).is_some()
}

/// The cause in an error that marks it as too large.
pub(crate) fn too_large_in(e: &(dyn StdError + 'static)) -> Option<TooLarge> {
    iter::successors(Some(e), |&e| e.source()).find_map(|e| e.downcast_ref().copied())
}

/// The error for the object `path`.
pub(super) fn check(path: &str, size: u64, most: Option<u64>) -> Result<(), Error> {
    match most {
        Some(most) if size > most => Err(too_large(path, TooLarge { size, most })),
        _ => Ok(()),
    }
}

pub(super) fn too_large(path: &str, why: TooLarge) -> Error {
    Error::corrupt(format!("{path} is larger than anything written there")).with_source(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_bound_the_size_of_an_object() {
        for (path, most) in [
            ("server/key/0000000000000001", Some(limits::RECORD_BYTES)),
            ("accounts/me@x/ffffffffffffffff", Some(limits::RECORD_BYTES)),
            ("domains/example.org/dkim/rsa-1", Some(limits::RECORD_BYTES)),
            ("push/accounts/1/0000000000000001", Some(limits::RECORD_BYTES)),
            ("acct/1/log/0000000000000001", Some(limits::ENTRY_BYTES + limits::SEALING_BYTES)),
            ("queue/1/log/0000000000000001", Some(limits::ENTRY_BYTES + limits::SEALING_BYTES)),
            ("acct/1/manifest/0000000000000001", Some(limits::MANIFEST_BYTES)),
            ("acct/1/manifest/k0000000000000001", Some(limits::MANIFEST_BYTES)),
            ("acct/1/manifest/s0000000000000001-0000000000000001", Some(limits::MARK_BYTES)),
            ("acct/1/vacation/x", Some(limits::MAIL_NOTE_BYTES)),
            ("acct/1/msg/x", None),
            ("acct/1/snap/0000000000000001/head", None),
            ("acct/1", None),
            ("x", None),
        ] {
            assert_eq!(most_bytes(path), most.map(|most| most as u64), "{path}");
        }
    }
}
