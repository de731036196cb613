//! What the local store says when something fails, in the crate's words.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use sealpost_base::Error;
use tokio::task::spawn_blocking;

const STORE: &str = "local";

/// An object whose bytes are not there although its row is, or a row that SQLite cannot read:
/// damage, not absence.
#[derive(Debug, Clone)]
pub(crate) struct Damaged(pub String);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Damaged {}

/// A failure shared by all requests that waited for one operation.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    what: &'static str,
    why: Arc<dyn StdError + Send + Sync>,
}

impl Failure {
    pub fn new(what: &'static str, why: Box<dyn StdError + Send + Sync>) -> Self {
        Failure { what, why: why.into() }
    }
}

impl From<Failure> for object_store::Error {
    fn from(failure: Failure) -> Self {
        match failure.why.downcast_ref::<Damaged>() {
            Some(damaged) => generic(damaged.clone()),
            None => generic(failure),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.why)
    }
}

pub(super) fn cannot_open(dir: &Path, e: io::Error) -> Error {
    Error::retry(format!("opening the store in {}", dir.display())).with_source(e)
}

pub(super) fn generic(source: impl Into<Box<dyn StdError + Send + Sync>>) -> object_store::Error {
    object_store::Error::Generic { store: STORE, source: source.into() }
}

pub(super) fn unsupported(what: &str) -> object_store::Error {
    object_store::Error::NotSupported { source: what.into() }
}

pub(super) fn not_found(path: &str) -> object_store::Error {
    object_store::Error::NotFound { path: path.to_owned(), source: "no such object".into() }
}

/// Runs file work on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> object_store::Result<T> {
    spawn_blocking(work).await?.map_err(generic)
}
