//! The body of a request. A handler reads it in pieces or as a whole.
//!
//! The server reads nothing before the handler does, and sends no `100 Continue` before that (RFC 9110
//! §10.1.1). So a handler can reject a body before the client sends it.

use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;
use sealpost_base::limits::HTTP2_BODY_WAIT;
use tokio::time::timeout;

use crate::HttpShared;
use crate::connection::Connection;
use crate::held_bodies::BodyPermit;
use crate::pace::Watch;
use crate::request::AccountPlace;
use crate::router::Body;

/// The body of a request.
pub struct RequestBody {
    incoming: Incoming,
    limit: u64,
    is_held: bool,
    length: Option<u64>,
    read: u64,
    shared: Arc<HttpShared>,
    /// How long it waits for the turn of its account.
    longest_wait: Duration,
    watch: Watch,
    /// The memory of a body that is read as a whole.
    permit: Option<BodyPermit>,
}

/// A body that was read as a whole. It holds a permit for its memory until it is dropped.
pub struct HeldBody {
    bytes: Vec<u8>,
    _permit: Option<BodyPermit>,
}

/// Why the body cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// It has more bytes than this limit of the route.
    TooLarge(u64),
    /// Other bodies of the account take too long.
    TooMany,
    /// The client sends it too slowly.
    TimedOut,
    /// The client has disconnected, or violates the protocol.
    Disconnected,
}

impl RequestBody {
    pub(crate) fn new(incoming: Incoming, wanted: Body, connection: &Connection) -> Self {
        let shared = connection.shared.clone();
        let length = incoming.size_hint().exact();
        let (limit, is_held) = match wanted {
            Body::None => (0, false),
            Body::Held(most) => (most.min(shared.held_body_bytes()) as u64, true),
            Body::Streamed(most) => (most, false),
        };
        // In HTTP/2, what waits fills the window of the connection, perhaps that of the body in progress.
        let is_multiplexed = !connection.can_be_taken_over();
        let longest_wait = if is_multiplexed { HTTP2_BODY_WAIT } else { shared.timeouts.request };
        let watch = Watch::new(&shared.timeouts);
        let (read, permit) = (0, None);
        RequestBody { incoming, limit, is_held, length, read, shared, longest_wait, watch, permit }
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
            let Some(frame) = self.frame().await? else { return Ok(None) };
            // Trailers are ignored.
            let Ok(piece) = frame.into_data() else { continue };
            self.read = self.read.saturating_add(piece.len() as u64);
            if self.read > self.limit {
                return Err(BodyError::TooLarge(self.limit));
            }
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
    }

    /// Reads the whole body for the account that sends it, if the route holds bodies ([`Body::Held`]). It waits
    /// for the account's turn and for the memory first. So a handler must hold nothing else of the budget.
    ///
    /// # Errors
    /// As [`RequestBody::next`].
    pub async fn read_all(mut self, place: &AccountPlace) -> Result<HeldBody, BodyError> {
        let most = self.length.unwrap_or(self.limit);
        if most > self.limit || !self.is_held {
            return Err(BodyError::TooLarge(if self.is_held { self.limit } else { 0 }));
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let turn = timeout(self.longest_wait, self.shared.bodies.turn(place.account(), most)).await;
        let turn = turn.map_err(|_| BodyError::TooMany)?;
        self.permit = Some(BodyPermit::new(turn, self.shared.bodies.memory(most).await));
        if self.shared.bodies.is_large(most) {
            self.watch = Watch::large(&self.shared.timeouts, most);
        }
        let mut bytes = Vec::new();
        while let Some(piece) = self.next().await? {
            // Exactly the acquired memory, since growth by doubling would take more.
            bytes.reserve_exact(most.saturating_sub(bytes.len()));
            bytes.extend_from_slice(&piece);
        }
        bytes.shrink_to_fit();
        if let Some(permit) = &mut self.permit {
            permit.shrink(bytes.len());
        }
        Ok(HeldBody { bytes, _permit: self.permit })
    }

    async fn frame(&mut self) -> Result<Option<http_body::Frame<Bytes>>, BodyError> {
        let (incoming, shared, permit) = (&mut self.incoming, &self.shared, &self.permit);
        let next = poll_fn(|cx| Pin::new(&mut *incoming).poll_frame(cx));
        let length = |frame: &Option<Result<http_body::Frame<Bytes>, _>>| {
            let frame = frame.as_ref()?.as_ref().ok()?;
            Some(frame.data_ref().map_or(0, Bytes::len))
        };
        let others_wait = || shared.others_wait() || permit.as_ref().is_some_and(BodyPermit::is_wanted);
        let frame = self.watch.next(next, length, others_wait).await.ok_or(BodyError::TimedOut)?;
        frame.transpose().map_err(|_| BodyError::Disconnected)
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
            BodyError::TooMany => f.write_str("the account sends too many bodies at once"),
            BodyError::TimedOut => f.write_str("the body took too long to come"),
            BodyError::Disconnected => f.write_str("the body ended early"),
        }
    }
}

impl std::error::Error for BodyError {}
