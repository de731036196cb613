//! WebSockets (RFC 6455) over HTTP/1.1: text messages, each bounded like the body of a request.
//!
//! A WebSocket that waits for its client holds no buffers. While it waits for the client to take a message,
//! it reads nothing.

pub(crate) mod frames;
mod handshake;

use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use sealpost_base::limits::{HTTP_PIECE_BYTES, HTTP_REQUEST_BYTES, RESTING_BYTES};
use sealpost_base::{AccountId, Permit};
use sealpost_session::account_turns::AccountTurn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use self::frames::{Decoded, Decoder, Outgoing, write};
use self::handshake::Refused;
use crate::connection::Connection;
use crate::held_bodies::BodyPermit;
use crate::io::Watched;
use crate::pace::Watch;
use crate::request::RequestHead;
use crate::response::Response;
use crate::response_body::{ResponseBody, Source, Upgrade};

pub use self::frames::CloseCode;

/// How long a client has to respond to a close.
const GOODBYE: Duration = Duration::from_secs(2);

/// A WebSocket.
pub struct WebSocket {
    stream: Watched,
    connection: Arc<Connection>,
    account: AccountId,
    decoder: Decoder,
    /// Received bytes not yet decoded.
    input: Bytes,
    /// Bytes to send before anything else.
    out: Vec<u8>,
    /// The memory of the message in progress.
    permit: Option<BodyPermit>,
    /// The account's turn to receive the message.
    turn: Option<AccountTurn>,
    /// Memory that the message still needs, in bytes.
    wanted: Option<usize>,
    /// Memory for handling the message. It is acquired before that of a large message, as requests acquire
    /// theirs before their bodies. The reverse order could deadlock.
    working: Option<Permit>,
    /// A complete message that waits for `working`.
    complete: Option<Vec<u8>>,
    watch: Watch,
}

/// A text message in UTF-8. It holds a permit for its memory until it is dropped.
pub struct TextMessage {
    text: Vec<u8>,
    _permit: Option<BodyPermit>,
}

impl Deref for TextMessage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.text
    }
}

/// Why there are no more messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebSocketEnd {
    /// Close the connection with this code.
    Close(CloseCode),
    /// The client has disconnected or is too slow.
    Gone,
}

/// The response to a request of an account for a WebSocket with this subprotocol. `talk` runs over the WebSocket until it
/// ends, and returns the reason for the log. Only HTTP/1.1 clients can open one; others get a refusal that
/// explains it.
pub fn websocket<F>(
    head: &RequestHead,
    account: AccountId,
    protocol: &'static str,
    talk: impl FnOnce(WebSocket) -> F + Send + 'static,
) -> Response
where
    F: Future<Output = &'static str> + Send + 'static,
{
    if !head.connection.can_be_taken_over() {
        return Response::problem(StatusCode::BAD_REQUEST, "WebSockets are for HTTP/1.1 here");
    }
    if head.method != http::Method::GET {
        return Response::problem(StatusCode::BAD_REQUEST, "a WebSocket is opened with GET");
    }
    let allowed = &head.connection.shared.ctx.settings.http.allowed_origins;
    match handshake::accept(&head.headers, protocol, head.base_url(), allowed) {
        Ok(headers) => {
            let connection = head.connection.clone();
            let upgrade: Upgrade = Box::new(move |stream, input| {
                Box::pin(talk(WebSocket::new(stream, connection, account, input)))
            });
            let body = ResponseBody { source: Source::Upgrade(upgrade), length: None, is_lasting: true };
            Response { status: StatusCode::SWITCHING_PROTOCOLS, headers, body }
        }
        Err(why) => refusal(why),
    }
}

fn refusal(why: Refused) -> Response {
    let (status, detail) = match why {
        Refused::NotAsked => (StatusCode::UPGRADE_REQUIRED, "this is for WebSockets"),
        Refused::Version => (StatusCode::BAD_REQUEST, "the version of WebSockets is 13"),
        Refused::Malformed(detail) => (StatusCode::BAD_REQUEST, detail),
        Refused::Origin => {
            (StatusCode::FORBIDDEN, "pages of this origin may not use the server: see http.allowed_origins")
        }
    };
    let response = Response::problem(status, detail);
    match why {
        Refused::NotAsked => response.with(header::UPGRADE, HeaderValue::from_static("websocket")),
        Refused::Version => response.with(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
        Refused::Malformed(_) | Refused::Origin => response,
    }
}

impl WebSocket {
    /// A WebSocket on a connection after the handshake; `input` holds the bytes received after the request.
    fn new(stream: Watched, connection: Arc<Connection>, account: AccountId, input: Bytes) -> Self {
        let decoder = Decoder::new(connection.shared.held_body_bytes());
        let watch = Watch::new(&connection.shared.timeouts);
        let (out, permit, turn, wanted, working, complete) = Default::default();
        WebSocket {
            stream,
            connection,
            account,
            decoder,
            input,
            out,
            permit,
            turn,
            wanted,
            working,
            complete,
            watch,
        }
    }

    /// The next message, with memory for handling it in pieces of a few KiB. Responds to pings meanwhile.
    /// Cancel-safe.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn next(&mut self) -> Result<(TextMessage, Permit), WebSocketEnd> {
        loop {
            self.flush().await.map_err(|_| WebSocketEnd::Gone)?;
            if let Some(bytes) = self.wanted {
                self.prepare(bytes).await;
            }
            if self.working.is_none() && self.complete.is_some() {
                self.working = Some(self.connection.shared.budget.acquire(HTTP_REQUEST_BYTES).await);
            }
            if let Some(text) = self.complete.take()
                && let Some(working) = self.working.take()
            {
                return Ok((TextMessage { text, _permit: self.permit.take() }, working));
            }
            match self.decode().map_err(WebSocketEnd::Close)? {
                Some(Decoded::Text(text)) => self.complete = Some(text),
                Some(Decoded::Large(bytes)) => self.wanted = Some(bytes),
                Some(Decoded::Ping(payload)) => write(&mut self.out, Outgoing::Pong, true, &payload),
                Some(Decoded::Close) => return Err(WebSocketEnd::Close(CloseCode::Normal)),
                None => self.read().await.map_err(|_| WebSocketEnd::Gone)?,
            }
        }
    }

    /// Waits until a message of at most `bytes` may come. Cancel-safe.
    async fn prepare(&mut self, bytes: usize) {
        let shared = self.connection.shared.clone();
        // A WebSocket waits for the turn without memory, and for memory without the turn: many WebSockets of an
        // account may wait, and requests with memory may wait for the turn.
        while self.turn.is_none() {
            drop(shared.bodies.turn(self.account, bytes).await);
            let working = shared.budget.acquire(HTTP_REQUEST_BYTES).await;
            self.turn = shared.bodies.try_turn(self.account, bytes);
            self.working = self.turn.is_some().then_some(working);
        }
        let memory = shared.bodies.memory(bytes).await;
        self.permit = self.turn.take().map(|turn| BodyPermit::new(turn, memory));
        self.decoder.reserve(bytes);
        self.wanted = None;
        let (timeouts, is_large) = (&shared.timeouts, shared.bodies.is_large(bytes));
        self.watch = if is_large { Watch::large(timeouts, bytes) } else { Watch::new(timeouts) };
    }

    fn decode(&mut self) -> Result<Option<Decoded>, CloseCode> {
        let mut input = &self.input[..];
        let before = input.len();
        let decoded = self.decoder.decode(&mut input);
        let read = before - input.len();
        drop(self.input.split_to(read));
        decoded
    }

    /// Reads more input. Rests unless a message has begun.
    async fn read(&mut self) -> io::Result<()> {
        let is_idle = self.decoder.is_idle();
        if is_idle {
            self.input = Bytes::new();
            self.stream.rest(RESTING_BYTES);
            self.stream.stir_for_input().await?;
        }
        let mut bytes = vec![0; HTTP_PIECE_BYTES];
        let read = if is_idle {
            self.stream.read(&mut bytes).await?
        } else {
            let (shared, permit) = (&self.connection.shared, &self.permit);
            let others_wait =
                || permit.as_ref().is_some_and(|permit| permit.is_wanted() || shared.others_wait());
            let length = |read: &io::Result<usize>| read.as_ref().ok().copied();
            let read = self.watch.next(self.stream.read(&mut bytes), length, others_wait).await;
            read.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))?
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(read);
        self.input = bytes.into();
        Ok(())
    }

    /// Sends a message or a fragment; `is_first` and `is_last` mark the ends of the message. Waits until the
    /// client has taken it.
    ///
    /// # Errors
    /// If the client has disconnected or is too slow.
    pub async fn send(&mut self, text: &[u8], is_first: bool, is_last: bool) -> io::Result<()> {
        let kind = if is_first { Outgoing::Text } else { Outgoing::Continuation };
        self.flush().await?;
        write(&mut self.out, kind, is_last, text);
        self.flush().await
    }

    /// Sends a ping, which fails if the client has disconnected.
    ///
    /// # Errors
    /// As [`WebSocket::send`].
    pub async fn ping(&mut self) -> io::Result<()> {
        write(&mut self.out, Outgoing::Ping, true, &[]);
        self.flush().await
    }

    /// Closes the connection (§7.1.2); waits briefly for the client's close.
    pub async fn close(mut self, code: CloseCode) {
        write(&mut self.out, Outgoing::Close, true, &(code as u16).to_be_bytes());
        let sent = timeout(GOODBYE, self.flush()).await;
        if matches!(sent, Ok(Ok(()))) {
            self.stream.into_stream().close().await;
        }
    }

    /// Sends pending output. Cancel-safe.
    async fn flush(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.stream.stir().await?;
        while !self.out.is_empty() {
            let written = self.stream.write(&self.out).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.out.drain(..written);
        }
        self.out = Vec::new();
        self.stream.flush().await
    }
}
