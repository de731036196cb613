//! Limits the TLS handshakes in progress, which take more memory than waiting connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

/// The TLS handshakes that have received bytes. A new one is always admitted; if there are too many, the
/// oldest is cancelled.
pub(super) struct Handshakes(Arc<Mutex<Queue>>);

struct Queue {
    most: usize,
    next: u64,
    under_way: BTreeMap<u64, Arc<Notify>>,
}

/// A handshake in progress; dropping it ends that.
pub struct Handshake {
    queue: Arc<Mutex<Queue>>,
    number: u64,
    leave: Arc<Notify>,
}

impl Handshakes {
    pub(super) fn new(most: usize) -> Self {
        Handshakes(Arc::new(Mutex::new(Queue { most, next: 0, under_way: BTreeMap::new() })))
    }

    pub(super) fn enter(&self) -> Handshake {
        let leave = Arc::new(Notify::new());
        let mut queue = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if queue.under_way.len() >= queue.most
            && let Some((_, first)) = queue.under_way.pop_first()
        {
            first.notify_one();
        }
        queue.next += 1;
        let number = queue.next;
        queue.under_way.insert(number, leave.clone());
        Handshake { queue: self.0.clone(), number, leave }
    }
}

impl Handshake {
    /// Waits until it must be cancelled.
    pub async fn given_up(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.queue.lock().unwrap_or_else(|e| e.into_inner()).under_way.remove(&self.number);
    }
}
