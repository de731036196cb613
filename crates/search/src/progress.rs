//! How a caller follows long work, and ends it.

use std::convert::Infallible;

use sealpost_base::Error;

/// The caller's side of a long search: it informs its client, and can end the work.
///
/// The engine uses this trait for every wait, so that a caller can report progress meanwhile. The engine
/// itself never writes to a client.
pub trait Progress: Send {
    /// Why the caller ended the work: its client has disconnected, or the server stops.
    type Interruption: Send;

    /// Waits for `work`.
    fn await_with_progress<T: Send>(
        &mut self,
        work: impl Future<Output = T> + Send,
    ) -> impl Future<Output = Result<T, Self::Interruption>> + Send;

    /// As [`Progress::await_with_progress`], for a permit that other sessions wait for, or while one is held:
    /// a caller with a stalled client releases it soon.
    fn acquire_with_progress<T: Send>(
        &mut self,
        work: impl Future<Output = T> + Send,
    ) -> impl Future<Output = Result<T, Self::Interruption>> + Send;

    /// Reports that `done` of `goal` messages are complete.
    fn report_progress(
        &mut self,
        done: usize,
        goal: usize,
    ) -> impl Future<Output = Result<(), Self::Interruption>> + Send;

    /// Lets other tasks run; ends with the server.
    fn yield_or_shutdown(&mut self) -> impl Future<Output = Result<(), Self::Interruption>> + Send;
}

/// Why work has no result.
///
/// Error messages name no object of a store, so callers may repeat them to clients.
#[derive(Debug)]
pub enum Failure<I> {
    /// The caller's [`Progress`] ended it.
    Interrupted(I),
    /// It failed, permanently or temporarily; the kind tells which.
    Error(Error),
}

/// Reports nothing and never ends the work.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    type Interruption = Infallible;

    async fn await_with_progress<T: Send>(
        &mut self,
        work: impl Future<Output = T> + Send,
    ) -> Result<T, Infallible> {
        Ok(work.await)
    }

    async fn acquire_with_progress<T: Send>(
        &mut self,
        work: impl Future<Output = T> + Send,
    ) -> Result<T, Infallible> {
        Ok(work.await)
    }

    async fn report_progress(&mut self, _: usize, _: usize) -> Result<(), Infallible> {
        Ok(())
    }

    async fn yield_or_shutdown(&mut self) -> Result<(), Infallible> {
        tokio::task::yield_now().await;
        Ok(())
    }
}
