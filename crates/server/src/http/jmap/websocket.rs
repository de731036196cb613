//! JMAP over a WebSocket (RFC 8887): requests one after another, and changes in between if the
//! client wants to hear of them.
//!
//! A request is answered before the next message is read, so a client that sends many waits, and
//! what it sends is in its own buffers.

use std::sync::Arc;

use sealpost_base::limits::JMAP_PING_MOST;
use sealpost_http::{CloseCode, Request, Response, TextMessage, WebSocket, WebSocketEnd, websocket};
use sealpost_jmap::Problem;
use sealpost_jmap::websocket::{ClientMessage, PushedChange, RequestError, response_prefix};
use sealpost_jmap_session::{ApiError, Caller, ClientGone, ReadRequest, ResponseSink, StateChanges};
use sealpost_session::Shutdown;
use serde::Serialize;
use tokio::time::sleep;

use super::{Jmap, login};

/// The subprotocol (§3).
const PROTOCOL: &str = "jmap";

/// Answers GET.
pub(super) async fn get(jmap: Arc<Jmap>, request: Request) -> Response {
    let caller = match login::caller_for_long(&jmap, &request.head).await {
        Ok(caller) => caller,
        Err(refusal) => return refusal,
    };
    let shutdown = jmap.shutdown.clone();
    websocket(&request.head, caller.account(), PROTOCOL, move |socket| {
        Box::pin(async move {
            let mut session = Session { socket, caller, pushed: None };
            let (why, code) = session.run(&shutdown).await;
            if let Some(code) = code {
                session.socket.close(code).await;
            }
            why
        })
    })
}

/// An open WebSocket.
struct Session {
    socket: WebSocket,
    caller: Caller,
    pushed: Option<Pushed>,
}

/// What the client wants to hear of.
struct Pushed {
    changes: StateChanges,
    types: Option<Vec<String>>,
}

/// Why a session ends, for the log, and with which code the WebSocket is closed; `None`: it is
/// gone.
type End = (&'static str, Option<CloseCode>);

impl Session {
    async fn run(&mut self, shutdown: &Shutdown) -> End {
        loop {
            let pushed = &mut self.pushed;
            let change = async {
                match pushed {
                    Some(pushed) => pushed.next().await,
                    None => std::future::pending().await,
                }
            };
            let done = tokio::select! {
                biased;
                () = shutdown.wait() => return ("shutdown", Some(CloseCode::GoingAway)),
                () = self.caller.lost() => return ("login revoked", Some(CloseCode::Policy)),
                message = self.socket.next() => match message {
                    Ok((message, _working)) => Box::pin(self.answer(message)).await,
                    Err(WebSocketEnd::Close(CloseCode::Normal)) => {
                        return ("closed", Some(CloseCode::Normal));
                    }
                    Err(WebSocketEnd::Close(code)) => return ("protocol error", Some(code)),
                    Err(WebSocketEnd::Gone) => return ("connection lost", None),
                },
                Some(change) = change => self.send(&change).await,
                // Finds out clients that are gone, and keeps the connection in the tables of routers.
                () = sleep(JMAP_PING_MOST) => self.socket.ping().await.map_err(|_| None),
            };
            match done {
                Ok(()) => {}
                Err(Some(code)) => return ("interrupted", Some(code)),
                Err(None) => return ("connection lost", None),
            }
        }
    }

    async fn send(&mut self, message: &(impl Serialize + Sync)) -> Result<(), Option<CloseCode>> {
        // Types that JSON can write.
        let text = serde_json::to_vec(message).unwrap_or_default();
        self.socket.send(&text, true, true).await.map_err(|_| None)
    }

    async fn answer(&mut self, message: TextMessage) -> Result<(), Option<CloseCode>> {
        let (parsed, permit) = self.caller.read_message(&message).await;
        drop(message);
        match parsed {
            Ok(ClientMessage::Request { id, request }) => {
                let mut sink = Sink {
                    socket: &mut self.socket,
                    prefix: Some(response_prefix(id.as_deref())),
                    held: None,
                    is_first: true,
                };
                match self.caller.api(ReadRequest { request, permit }, &mut sink).await {
                    Ok(()) => sink.finish().await.map_err(|ClientGone| None),
                    Err(ApiError::Problem(problem)) => self.send(&RequestError { id, problem }).await,
                    // Half a response may be there.
                    Err(ApiError::Ended) => Err(Some(CloseCode::Internal)),
                }
            }
            Ok(ClientMessage::PushEnable { types, push_state }) => {
                match self.caller.follow(push_state.as_ref()).await {
                    Ok(changes) => {
                        self.pushed = Some(Pushed { changes, types });
                        Ok(())
                    }
                    Err(error) => {
                        tracing::warn!(%error, "changes cannot be pushed over a WebSocket");
                        let problem = Problem::new(
                            sealpost_jmap::error::ProblemType::About,
                            503,
                            "the account cannot be read now",
                        );
                        self.send(&RequestError { id: None, problem }).await
                    }
                }
            }
            Ok(ClientMessage::PushDisable) => {
                self.pushed = None;
                Ok(())
            }
            Err(error) => self.send(&error).await,
        }
    }
}

impl Pushed {
    /// The next change of a type that the client wants; `None` if the login is not valid any more.
    /// Cancel-safe.
    async fn next(&mut self) -> Option<PushedChange> {
        loop {
            let mut change = self.changes.next().await?;
            if let Some(types) = &self.types {
                change.retain_types(types);
            }
            if !change.changed.is_empty() {
                return Some(PushedChange { change, push_state: self.changes.state() });
            }
        }
    }
}

/// Sends a response as one message, the last piece of which says that it is the last.
struct Sink<'a> {
    socket: &'a mut WebSocket,
    /// What the response begins with instead of its brace.
    prefix: Option<String>,
    held: Option<Vec<u8>>,
    is_first: bool,
}

impl Sink<'_> {
    async fn send_held(&mut self, is_last: bool) -> Result<(), ClientGone> {
        let Some(piece) = self.held.take() else { return Ok(()) };
        let is_first = std::mem::replace(&mut self.is_first, false);
        self.socket.send(&piece, is_first, is_last).await.map_err(|_| ClientGone)
    }

    async fn finish(mut self) -> Result<(), ClientGone> {
        self.send_held(true).await
    }
}

#[async_trait::async_trait]
impl ResponseSink for Sink<'_> {
    async fn send(&mut self, mut bytes: Vec<u8>) -> Result<(), ClientGone> {
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(prefix) = self.prefix.take() {
            bytes.splice(..1, prefix.into_bytes());
        }
        self.send_held(false).await?;
        self.held = Some(bytes);
        Ok(())
    }
}
