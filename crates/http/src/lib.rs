//! HTTP for clients: connections of HTTP/1.1 (RFC 9112) and HTTP/2 (RFC 9113), and the requests, responses
//! and routes that handlers use. The routes come from the caller that creates [`HttpShared`].
//!
//! Memory is bounded whatever a client does. A connection uses what admission granted it. A request uses what
//! it acquired before its handler ran. Requests acquire from a share of the budget, so handlers may acquire
//! from the rest. [`hyper`] appears in this crate only.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod authorization;
mod client;
mod compression;
mod connection;
mod cookie;
mod cors;
mod download;
mod event_stream;
mod forwarded;
pub mod fuzz;
mod gate;
mod held_bodies;
mod io;
mod pace;
mod range;
mod request;
mod request_body;
mod response;
mod response_body;
mod router;
mod sender;
mod sent_body;
mod serve;
mod service;
mod shared;
mod streams;
mod takeover;
mod transport;
mod websocket;
mod work;

pub use authorization::{Authorization, NoAuthorization};
pub use download::{Download, download};
pub use event_stream::{BadEvent, EVENT_STREAM, Event, event_stream};
pub use forwarded::{BadForwarded, ForwardedClient};
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
pub use request::{AccountPlace, Request, RequestHead, TooMany, form_pairs};
pub use request_body::{BodyError, HeldBody, RequestBody};
pub use response::{PROBLEM_JSON, Response};
pub use response_body::{BodyWriter, ResponseBody};
pub use router::{Body, Handler, Route, Router};
pub use sender::Sender;
pub use serve::{APPLICATION_PROTOCOLS, serve};
pub use shared::HttpShared;
pub use websocket::{CloseCode, TextMessage, WebSocket, WebSocketEnd, websocket};
