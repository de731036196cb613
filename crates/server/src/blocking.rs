//! Work that waits for this machine's files, outside the runtime's workers.

use sealpost_base::{Error, Result};

/// Runs `work` on a thread for blocking work and waits for its result.
///
/// # Errors
/// Those of `work`; `Internal` if it panics.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(Error::internal("a file was not read or written to its end").with_source(e)))
}
