//! One request in progress, counted from its head to the end of its response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use sealpost_auth::throttle::Network;
use sealpost_base::Permit;
use sealpost_session::metrics::{Command, Verdict};

use crate::connection::Connection;
use crate::gate::Place;

/// A request in progress. When dropped, it counts as completed or as cancelled by the client.
pub(crate) struct Work {
    connection: Arc<Connection>,
    command: Command,
    began: Duration,
    verdict: AtomicU8,
    is_complete: AtomicBool,
    is_lasting: bool,
    /// Held until the end of the response.
    memory: Option<Permit>,
    place: Option<Place<Network>>,
}

impl Work {
    /// Starts a request for the route of that name.
    pub(crate) fn begin(connection: &Arc<Connection>, route: &str) -> Self {
        Work {
            command: connection.log().begin_request(route),
            began: connection.shared.ctx.clock.monotonic(),
            connection: connection.clone(),
            verdict: AtomicU8::new(Verdict::No as u8),
            is_complete: AtomicBool::new(false),
            is_lasting: false,
            memory: None,
            place: None,
        }
    }

    pub(crate) fn hold(&mut self, place: Option<Place<Network>>, memory: Permit) {
        (self.place, self.memory) = (place, Some(memory));
    }

    /// Marks the response as long-lived: it no longer counts as in progress and releases its memory.
    pub(crate) fn lasts(&mut self) {
        (self.memory, self.place, self.is_lasting) = (None, None, true);
    }

    /// Notes the status of the response.
    pub(crate) fn answered(&self, status: http::StatusCode) {
        let verdict = match status.as_u16() {
            ..=399 => Verdict::Ok,
            429 | 500.. => Verdict::No,
            _ => Verdict::Bad,
        };
        self.verdict.store(verdict as u8, Ordering::Relaxed);
    }

    /// Notes that the whole response was handed over.
    pub(crate) fn complete(&self) {
        self.is_complete.store(true, Ordering::Relaxed);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let is_complete = self.is_complete.load(Ordering::Relaxed);
        let took = self.connection.shared.ctx.clock.monotonic().saturating_sub(self.began);
        let took = (!self.is_lasting && is_complete).then_some(took);
        let is_last = self.connection.finish_request(is_complete);
        let verdict = Verdict::ALL[usize::from(self.verdict.load(Ordering::Relaxed)).min(2)];
        self.connection.log().end_request(self.command, verdict, took, is_last);
    }
}
