//! The token by which the whole server learns that it has to stop.
//!
//! Sessions select on [`Shutdown::wait`] wherever they wait for their client, send a goodbye (`*
//! BYE`, `421`) and return. The server closes sessions that do not return in time.

use std::sync::Arc;

use tokio::sync::watch;

/// Signals its watchers that the server stops. Cloning shares it; once stopping, it stays so.
#[derive(Clone)]
pub struct Shutdown(Arc<watch::Sender<bool>>);

impl Shutdown {
    /// A token of a server that runs.
    pub fn new() -> Self {
        Shutdown(Arc::new(watch::Sender::new(false)))
    }

    /// From now on the server is stopping.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Whether the server is stopping.
    pub fn is_stopping(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the server is stopping. Cancel-safe.
    pub async fn wait(&self) {
        let mut stopping = self.0.subscribe();
        // The sender lives as long as `self`, so this ends only when the value is true.
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
    async fn everyone_who_waits_learns_of_it_also_afterwards() {
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
