//! When thousands of clients come at once, their accounts are loaded some at a time: with more,
//! none would be there sooner, and all of them be half loaded for as long as the last one takes.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Accounts that are read at once.
const AT_ONCE: usize = 16;

/// Bounds how many accounts are loaded at once; they wait in the order in which they came.
pub(crate) struct LoadLimiter(Semaphore);

/// The right to load one account, released when dropped.
pub(crate) type LoadPermit<'a> = SemaphorePermit<'a>;

impl Default for LoadLimiter {
    fn default() -> Self {
        LoadLimiter(Semaphore::new(AT_ONCE))
    }
}

impl LoadLimiter {
    /// Waits for earlier loads.
    pub(crate) async fn next(&self) -> Option<LoadPermit<'_>> {
        // The semaphore is never closed.
        self.0.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn so_many_at_once_and_then_who_came_first() {
        let load_limiter = LoadLimiter::default();
        let mut held: Vec<_> = (0..AT_ONCE).map(|_| load_limiter.next().now_or_never().unwrap()).collect();
        let mut waits = Box::pin(load_limiter.next());
        assert!(waits.as_mut().now_or_never().is_none());
        held.pop();
        assert!(waits.now_or_never().is_some_and(|turn| turn.is_some()));
    }
}
