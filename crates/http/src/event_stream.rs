//! Server-sent events (`text/event-stream`, HTML §9.2), as JMAP push uses them (RFC 8620 §7.3).
//!
//! The server polls for the next event when the client has taken the previous one, so a slow client makes no
//! queue grow. Without events, the server sends a ping at intervals. Pings detect dead clients, and keep the
//! connection in the tables of routers.

use std::fmt::Write;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt};
use http::{HeaderName, HeaderValue, StatusCode};
use sealpost_base::limits::HTTP_EVENT_BYTES;
use tokio::time::{Instant, Sleep, sleep};

use crate::response::Response;
use crate::response_body::ResponseBody;

/// The media type.
pub const EVENT_STREAM: &str = "text/event-stream";

/// One encoded event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event(Bytes);

/// An invalid event: it is larger than [`HTTP_EVENT_BYTES`], or its name or id contains a line end or NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadEvent;

impl Event {
    /// An event with this name and data. The client sends `id` as `Last-Event-ID` when it reconnects.
    ///
    /// # Errors
    /// [`BadEvent`].
    pub fn new(name: &str, id: Option<&str>, data: &str) -> Result<Self, BadEvent> {
        let is_line = |text: &str| !text.contains(['\r', '\n', '\0']);
        if !is_line(name) || !id.is_none_or(is_line) {
            return Err(BadEvent);
        }
        let mut text = format!("event: {name}\n");
        if let Some(id) = id {
            let _ = writeln!(text, "id: {id}");
        }
        // CR, LF and CRLF all end a line.
        for line in data.replace("\r\n", "\n").split(['\r', '\n']) {
            let _ = writeln!(text, "data: {line}");
        }
        text.push('\n');
        if text.len() > HTTP_EVENT_BYTES { Err(BadEvent) } else { Ok(Event(text.into())) }
    }

    /// A comment. Clients ignore it; routers on the path see that the connection is in use.
    pub fn comment() -> Self {
        Event(Bytes::from_static(b":\n\n"))
    }

    /// The encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A response that sends `events` until they end, the client disconnects, or the server stops. It sends a
/// ping after each period of `ping` without an event.
pub fn event_stream(
    events: impl Stream<Item = Event> + Send + 'static,
    ping: Option<(Duration, Event)>,
) -> Response {
    let sleep = ping.as_ref().map(|(interval, _)| Box::pin(sleep(*interval)));
    let pieces = Pinged { events: events.boxed(), ping, sleep, begun: false };
    let body = ResponseBody::stream(pieces, None).lasting();
    // By default nginx buffers responses and delays events.
    Response::new(StatusCode::OK, EVENT_STREAM, body)
        .with(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"))
}

struct Pinged {
    events: BoxStream<'static, Event>,
    ping: Option<(Duration, Event)>,
    sleep: Option<Pin<Box<Sleep>>>,
    begun: bool,
}

impl Stream for Pinged {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if !std::mem::replace(&mut this.begun, true) {
            // A comment, so that the client learns at once that the stream is open.
            return Poll::Ready(Some(Ok(Bytes::from_static(b":\n\n"))));
        }
        let next = match this.events.poll_next_unpin(cx) {
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(event)) => Some(event),
            Poll::Pending => None,
        };
        let (Some(sleep), Some((interval, ping))) = (&mut this.sleep, &this.ping) else {
            return next.map_or(Poll::Pending, |Event(bytes)| Poll::Ready(Some(Ok(bytes))));
        };
        let next = next.or_else(|| sleep.as_mut().poll(cx).is_ready().then(|| ping.clone()));
        let Some(Event(bytes)) = next else { return Poll::Pending };
        sleep.as_mut().reset(Instant::now() + *interval);
        Poll::Ready(Some(Ok(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response_body::Source;

    fn text(event: Result<Event, BadEvent>) -> String {
        String::from_utf8(event.unwrap().0.to_vec()).unwrap()
    }

    #[test]
    fn events_are_written_line_by_line() {
        assert_eq!(text(Event::new("state", None, "{}")), "event: state\ndata: {}\n\n");
        let event = text(Event::new("state", Some("7"), "a\nb\r\nc\rd"));
        assert_eq!(event, "event: state\nid: 7\ndata: a\ndata: b\ndata: c\ndata: d\n\n");
        for (name, id) in [("a\nb", None), ("a", Some("1\r")), ("a", Some("\0"))] {
            assert_eq!(Event::new(name, id, ""), Err(BadEvent));
        }
        assert_eq!(Event::new("a", None, &"x".repeat(HTTP_EVENT_BYTES)), Err(BadEvent));
    }

    #[tokio::test(start_paused = true)]
    async fn pings_come_when_nothing_else_does() {
        let (sender, events) = futures::channel::mpsc::unbounded();
        let ping = Event::new("ping", None, "{\"interval\":30}").unwrap();
        let second = Duration::from_secs(1);
        let Source::Stream(mut pieces) = event_stream(events, Some((30 * second, ping))).body.source else {
            panic!("a stream")
        };
        let began = Instant::now();
        assert_eq!(pieces.next().await.unwrap().unwrap(), ":\n\n");
        let state = Event::new("state", None, "{}").unwrap();
        tokio::time::advance(20 * second).await;
        sender.unbounded_send(state.clone()).unwrap();
        assert_eq!(pieces.next().await.unwrap().unwrap(), state.0);
        assert!(pieces.next().await.unwrap().unwrap().starts_with(b"event: ping\n"));
        assert_eq!(began.elapsed().as_secs(), 50);
        drop(sender);
        assert!(pieces.next().await.is_none());
    }
}
