//! Errors of files.

use std::path::PathBuf;

use sealpost_base::{Error, Kind};

use crate::owner;

/// An I/O error with the file it happened to.
pub fn io_error(path: impl Into<PathBuf>, error: std::io::Error) -> Error {
    let path = path.into();
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => Kind::NotFound,
        std::io::ErrorKind::PermissionDenied => Kind::Denied,
        // About this one path: neither a retry nor other files matter.
        std::io::ErrorKind::InvalidFilename
        | std::io::ErrorKind::InvalidInput
        | std::io::ErrorKind::NotADirectory
        | std::io::ErrorKind::IsADirectory => Kind::Invalid,
        _ => Kind::Retry,
    };
    let error = owner::explained(&path, error);
    Error::new(kind, path.display().to_string()).with_source(error)
}
