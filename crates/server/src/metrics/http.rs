//! `/metrics` and `/healthz` over HTTP/1.1 (RFC 9112), for monitoring.
//!
//! One request a connection; all but GET and HEAD of the two paths is refused. A page is sent in
//! pieces of a few KiB as it is made, so its memory does not grow with the number of series, and
//! needs no reservation: monitoring must work when the budget is used up. The end of the connection
//! ends the page (RFC 9112 §6.3 (8)); its last line, `# EOF`, shows that it is complete.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::limits::{HTTP_HEAD_BYTES, HTTP_HEADERS};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::families;
use super::family::View;
use super::openmetrics;
use crate::sending::Sending;
use sealpost_push::Pusher;
use sealpost_session::Context;
use sealpost_session::net::Stream;

/// The timeout of a request: connections are few, and an idle one must not keep others out for
/// long.
const ASKING: Duration = Duration::from_secs(2);
/// How long a client may take for all of it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long an accept loop may take to say that it is alive.
const LOOP_TIMEOUT: Duration = Duration::from_secs(2);
/// What is sent at once, in bytes; one more piece may be added to it.
const PAGE_BYTES: usize = 8 * 1024;

/// A client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    /// `/metrics`; whether it requests more than the head.
    Metrics { body: bool },
    /// `/healthz`, likewise.
    Health { body: bool },
    /// Something else, and why it is refused.
    Refused(&'static str),
}

/// Answers one request.
pub(crate) async fn serve(
    mut stream: Stream,
    ctx: Arc<Context>,
    (sending, push): (Option<Sending>, Option<Pusher>),
) {
    let running = (sending.as_ref(), push.as_ref());
    let answered = tokio::select! {
        () = ctx.shutdown.wait() => Ok(Ok(())),
        answered = tokio::time::timeout(TIMEOUT, answer(&mut stream, &ctx, running)) => answered,
    };
    match answered {
        Ok(Ok(())) => stream.close().await,
        Ok(Err(e)) => tracing::debug!(error = %e, "a request for metrics was not answered"),
        Err(_) => tracing::debug!("a client took too long to ask for metrics"),
    }
}

/// The request; `None` if the client hangs up.
async fn request(stream: &mut Stream) -> std::io::Result<Option<Request>> {
    let mut head = Vec::new();
    loop {
        if let Some(request) = parse(&head) {
            return Ok(Some(request));
        }
        let mut piece = [0; 1024];
        match stream.read(&mut piece).await? {
            0 => return Ok(None),
            bytes => head.extend_from_slice(&piece[..bytes]),
        }
    }
}

async fn answer(
    stream: &mut Stream,
    ctx: &Context,
    (sending, push): (Option<&Sending>, Option<&Pusher>),
) -> std::io::Result<()> {
    let Some(request) = tokio::time::timeout(ASKING, request(stream)).await?? else { return Ok(()) };
    match request {
        Request::Refused(status) => {
            let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
            let text = format!("{status}\n");
            stream.write_all(begin(status, "text/plain", allow).as_bytes()).await?;
            stream.write_all(text.as_bytes()).await?;
        }
        Request::Health { body } => {
            let (status, text) = match health(ctx, sending).await {
                Ok(()) => ("200 OK", "ok\n".to_owned()),
                Err(why) => ("503 Service Unavailable", format!("{why}\n")),
            };
            stream.write_all(begin(status, "text/plain", "").as_bytes()).await?;
            stream.write_all(if body { text.as_bytes() } else { b"" }).await?;
        }
        Request::Metrics { body } => {
            let mut out = begin("200 OK", openmetrics::MEDIA_TYPE, "");
            if body {
                let view = View::of(ctx, sending, push);
                for piece in families::pieces(&view) {
                    out.push_str(&piece);
                    if out.len() >= PAGE_BYTES {
                        stream.write_all(out.as_bytes()).await?;
                        out.clear();
                    }
                }
                out.push_str(openmetrics::END);
            }
            stream.write_all(out.as_bytes()).await?;
        }
    }
    stream.flush().await
}

/// Why a load balancer should send no client here, if so.
pub(crate) async fn health(ctx: &Context, sending: Option<&Sending>) -> Result<(), String> {
    if ctx.shutdown.is_stopping() {
        return Err("stopping".to_owned());
    }
    ctx.health.check(LOOP_TIMEOUT).await.map_err(|e| e.to_string())?;
    sending.and_then(Sending::problem).map_or(Ok(()), Err)
}

fn begin(status: &str, media_type: &str, more: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nCache-Control: no-store\r\n{more}Connection: close\r\n\r\n"
    )
}

/// The request that `head` begins with; `None` if more has to come first.
fn parse(head: &[u8]) -> Option<Request> {
    let mut headers = [httparse::EMPTY_HEADER; HTTP_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if head.len() < HTTP_HEAD_BYTES => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Some(Request::Refused("431 Request Header Fields Too Large"));
        }
        Err(_) => return Some(Request::Refused("400 Bad Request")),
    }
    let body = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return Some(Request::Refused("405 Method Not Allowed")),
    };
    let target = request.path.unwrap_or_default();
    // RFC 9112 §3.2.2: the absolute form, as sent to a proxy.
    let path = match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    Some(match path.split('?').next() {
        Some("/metrics") => Request::Metrics { body },
        Some("/healthz") => Request::Health { body },
        _ => Request::Refused("404 Not Found"),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_requests() {
        for (head, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Some(Request::Metrics { body: true })),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", Some(Request::Metrics { body: false })),
            ("GET /metrics?a=b HTTP/1.0\r\n\r\n", Some(Request::Metrics { body: true })),
            ("GET http://x:9100/metrics HTTP/1.1\r\n\r\n", Some(Request::Metrics { body: true })),
            ("GET http://x HTTP/1.1\r\n\r\n", Some(Request::Refused("404 Not Found"))),
            ("GET /healthz HTTP/1.1\r\n\r\n", Some(Request::Health { body: true })),
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n", None),
            ("GET / HTTP/1.1\r\n\r\n", Some(Request::Refused("404 Not Found"))),
            ("POST /metrics HTTP/1.1\r\n\r\n", Some(Request::Refused("405 Method Not Allowed"))),
            ("EHLO there\r\n", Some(Request::Refused("400 Bad Request"))),
        ] {
            assert_eq!(parse(head.as_bytes()), expected, "{head:?}");
        }
    }

    #[test]
    fn a_head_is_bounded_in_bytes_and_in_fields() {
        let refused = Some(Request::Refused("431 Request Header Fields Too Large"));
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(HTTP_HEAD_BYTES));
        assert_eq!(parse(long.as_bytes()), refused);
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(HTTP_HEADERS + 1));
        assert_eq!(parse(many.as_bytes()), refused);
    }

    proptest! {
        /// For any input there is a reply once the head has its maximum length, and later bytes do
        /// not change it.
        #[test]
        fn there_is_always_an_answer(
            start in prop_oneof![Just(""), Just("GET /metrics HTTP/1.1\r\n"), Just("GET "), Just("HEAD /healthz HTTP/1.1\r\nA: ")],
            rest in proptest::collection::vec(any::<u8>(), 0..256),
            padding in prop_oneof![Just(b' '), Just(b'\n'), Just(b'x'), any::<u8>()],
        ) {
            let mut head = start.as_bytes().to_vec();
            head.extend_from_slice(&rest);
            let early = parse(&head);
            head.resize(HTTP_HEAD_BYTES, padding);
            let late = parse(&head);
            prop_assert!(late.is_some());
            if early.is_some() {
                prop_assert_eq!(early, late);
            }
        }
    }
}
