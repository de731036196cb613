//! What one request has acquired from the budget: for itself, and for its body if that is held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealpost_base::budget::Permit;
use sealpost_base::limits::HTTP_REQUEST_BYTES;

/// Memory of a request, acquired in one piece so that nothing is waited for while some is held.
/// Cloning shares it; the last one gives it back.
#[derive(Clone)]
pub(crate) struct RequestMemory(Arc<Mutex<Permit>>);

impl RequestMemory {
    pub(crate) fn new(permit: Permit) -> Self {
        RequestMemory(Arc::new(Mutex::new(permit)))
    }

    /// The body takes so many bytes and no more.
    pub(crate) fn keep_for_body(&self, bytes: usize) {
        self.lock().shrink(HTTP_REQUEST_BYTES.saturating_add(bytes));
    }

    /// The response lasts, and never has more than a little at once.
    pub(crate) fn give_back(&self) {
        self.lock().shrink(0);
    }

    fn lock(&self) -> MutexGuard<'_, Permit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
