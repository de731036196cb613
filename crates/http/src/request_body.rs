//! The body of a request, as a handler reads it: in pieces, or as a whole.
//!
//! Nothing is read before a handler wants it, and no client that expects `100 Continue` (RFC 9110
//! §10.1.1) is told to go on: so a handler can refuse a body before it comes.

use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;
use sealpost_base::Permit;
use sealpost_base::limits::{HTTP_HELD_BODY_PERIODS, HTTP_STALLED_BYTES};
use tokio::time::{Instant, sleep_until};

use crate::HttpShared;
use crate::pace::Pace;
use crate::router::Body;

/// The body of a request.
pub struct RequestBody {
    incoming: Incoming,
    limit: u64,
    is_held: bool,
    length: Option<u64>,
    read: u64,
    /// Bytes that have to come in each period while others wait.
    least: usize,
    shared: Arc<HttpShared>,
    pace: Pace,
}

/// A body that was read as a whole. Its memory is drawn from the budget until it is dropped.
pub struct HeldBody {
    bytes: Vec<u8>,
    _permit: Permit,
}

/// Why a body cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// It has more bytes than the route allows, which are these.
    TooLarge(u64),
    /// The client takes too long to send it.
    TimedOut,
    /// The client has gone, or what it sends is no HTTP.
    Disconnected,
}

impl RequestBody {
    pub(crate) fn new(incoming: Incoming, wanted: Body, shared: Arc<HttpShared>) -> Self {
        let length = incoming.size_hint().exact();
        let (limit, is_held) = match wanted {
            Body::None => (0, false),
            Body::Held(most) => (most.min(shared.held_body_bytes()) as u64, true),
            Body::Streamed(most) => (most, false),
        };
        let (read, least, pace) = (0, HTTP_STALLED_BYTES, Pace::default());
        RequestBody { incoming, limit, is_held, length, read, least, shared, pace }
    }

    /// How many bytes it has, if the client says so (`Content-Length`).
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// How many it may have.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// [`BodyError::TooLarge`] before anything is read if the client says so, else with the piece
    /// that is too much.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.length.is_some_and(|length| length > self.limit) {
            return Err(BodyError::TooLarge(self.limit));
        }
        loop {
            let began = Instant::now();
            let deadline = began + self.shared.timeouts.request;
            let Some(frame) = self.frame(began, deadline).await? else { return Ok(None) };
            // Trailers say nothing that is wanted.
            let Ok(piece) = frame.into_data() else { continue };
            self.read = self.read.saturating_add(piece.len() as u64);
            if self.read > self.limit {
                return Err(BodyError::TooLarge(self.limit));
            }
            self.pace.add(began.elapsed(), piece.len());
            if self.is_too_slow() {
                return Err(BodyError::TimedOut);
            }
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
    }

    /// All of it, if the route holds bodies ([`Body::Held`]). Waits for its memory first: a handler
    /// finds out before whose request it is, and holds nothing else of the budget.
    ///
    /// # Errors
    /// As [`RequestBody::next`].
    pub async fn read_all(mut self) -> Result<HeldBody, BodyError> {
        let most = self.length.unwrap_or(self.limit);
        if most > self.limit || !self.is_held {
            return Err(BodyError::TooLarge(if self.is_held { self.limit } else { 0 }));
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut permit = self.shared.bodies.acquire_large(most).await;
        self.least = self.least.max(most / HTTP_HELD_BODY_PERIODS);
        let mut bytes = Vec::new();
        while let Some(piece) = self.next().await? {
            // Never more than was acquired, as growing by doubling would take.
            bytes.reserve_exact(most.saturating_sub(bytes.len()));
            bytes.extend_from_slice(&piece);
        }
        bytes.shrink_to_fit();
        permit.shrink(bytes.len());
        Ok(HeldBody { bytes, _permit: permit })
    }

    async fn frame(
        &mut self,
        began: Instant,
        deadline: Instant,
    ) -> Result<Option<http_body::Frame<Bytes>>, BodyError> {
        let mut look = began;
        loop {
            look += self.shared.timeouts.stalled;
            let incoming = &mut self.incoming;
            let next = poll_fn(|cx| Pin::new(&mut *incoming).poll_frame(cx));
            tokio::select! {
                biased;
                frame = next => return frame.transpose().map_err(|_| BodyError::Disconnected),
                () = sleep_until(look.min(deadline)) => {}
            }
            if Instant::now() >= deadline {
                return Err(BodyError::TimedOut);
            }
            self.pace.add(self.shared.timeouts.stalled, 0);
            if self.is_too_slow() {
                return Err(BodyError::TimedOut);
            }
        }
    }

    fn is_too_slow(&mut self) -> bool {
        self.pace.is_slower_than(self.least, self.shared.timeouts.stalled, self.shared.others_wait())
    }
}

impl Deref for HeldBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodyError::TooLarge(limit) => write!(f, "the body may have {limit} bytes"),
            BodyError::TimedOut => f.write_str("the body took too long to come"),
            BodyError::Disconnected => f.write_str("the body ended early"),
        }
    }
}

impl std::error::Error for BodyError {}
