//! The shutdown signal of the server.
//!
//! Sessions select on [`Shutdown::wait`] wherever they wait for their client, send a goodbye (`* BYE`, `421`)
//! and return. The server closes sessions that do not return in time.

use std::sync::Arc;

use tokio::sync::watch;

/// Signals that the server is shutting down, which is permanent. Clones share it.
#[derive(Clone)]
pub struct Shutdown(Arc<watch::Sender<bool>>);

impl Shutdown {
    /// A signal of a running server.
    pub fn new() -> Self {
        Shutdown(Arc::new(watch::Sender::new(false)))
    }

    /// Starts the shutdown.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Whether the server is shutting down.
    pub fn is_stopping(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the shutdown. Cancel-safe.
    pub async fn wait(&self) {
        let mut stopping = self.0.subscribe();
        // The sender lives as long as `self`, so this completes only when the value is true.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_waiter_learns_of_the_shutdown_also_later() {
        let shutdown = Shutdown::new();
        let other = shutdown.clone();
        assert!(!other.is_stopping());
        let waiting = tokio::spawn(async move { other.wait().await });
        shutdown.begin();
        waiting.await.unwrap();
        shutdown.wait().await;
        assert!(shutdown.is_stopping());
    }
}
