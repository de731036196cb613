//! Bounds concurrent loads when thousands of clients connect at once. With more at a time none would complete
//! sooner, and all would be half loaded until the last one completes.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Concurrent loads.
const AT_ONCE: usize = 16;

/// Bounds concurrent loads of accounts; they wait in order of arrival.
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
    async fn loads_are_bounded_and_served_in_order() {
        let load_limiter = LoadLimiter::default();
        let mut held: Vec<_> = (0..AT_ONCE).map(|_| load_limiter.next().now_or_never().unwrap()).collect();
        let mut waits = Box::pin(load_limiter.next());
        assert!(waits.as_mut().now_or_never().is_none());
        held.pop();
        assert!(waits.now_or_never().is_some_and(|turn| turn.is_some()));
    }
}
