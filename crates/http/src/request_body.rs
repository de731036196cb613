//! The body of a request. A handler reads it in pieces or as a whole.
//!
//! The server reads nothing before the handler does, and sends no `100 Continue` before that (RFC 9110
//! §10.1.1). So a handler can reject a body before the client sends it.

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
    /// Bytes that the client must send in each period while others wait for memory.
    least: usize,
    shared: Arc<HttpShared>,
    pace: Pace,
}

/// A body that was read as a whole. It holds a permit for its memory until it is dropped.
pub struct HeldBody {
    bytes: Vec<u8>,
    _permit: Permit,
}

/// Why the body cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// It has more bytes than this limit of the route.
    TooLarge(u64),
    /// The client sends it too slowly.
    TimedOut,
    /// The client has disconnected, or violates the protocol.
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

    /// The length in bytes, if the client declares it (`Content-Length`).
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The most bytes that the route allows.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// [`BodyError::TooLarge`]: before reading if the client declares the length, else at the piece that
    /// exceeds the limit.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.length.is_some_and(|length| length > self.limit) {
            return Err(BodyError::TooLarge(self.limit));
        }
        loop {
            let began = Instant::now();
            let deadline = began + self.shared.timeouts.request;
            let Some(frame) = self.frame(began, deadline).await? else { return Ok(None) };
            // Trailers are ignored.
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

    /// Reads the whole body, if the route holds bodies ([`Body::Held`]). It waits for the memory first. So a
    /// handler must first determine the account, and hold nothing else of the budget.
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
            // Exactly the acquired memory, since growth by doubling would take more.
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
