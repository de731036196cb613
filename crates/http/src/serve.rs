//! Serves a connection: HTTP/2 if TLS has negotiated it, else HTTP/1.1.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sealpost_base::limits::{
    HTTP_DISCARDED_BYTES, HTTP_PIECE_BYTES, HTTP_REQUEST_HEAD_BYTES, HTTP_REQUEST_HEADERS,
    HTTP_RESET_STREAMS, HTTP_STREAMS, HTTP_WINDOW_BYTES, HTTP2_BYTES,
};
use sealpost_session::metrics::Protocol;
use sealpost_session::net::Stream;
use sealpost_session::session_log::SessionLog;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep_until};

use crate::HttpShared;
use crate::connection::{Connection, Overdue};
use crate::io::Watched;
use crate::service::answer;
use crate::streams::{AbortOnDrop, Streams};
use crate::takeover::Takeover;
use crate::transport::Transport;

/// The protocols that TLS offers (RFC 7301), in order of the server's preference.
pub const APPLICATION_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// How long an HTTP/2 client has to take the remaining bytes when the connection ends.
const GOODBYE: Duration = Duration::from_secs(2);
/// The response to a client that does not complete its request (RFC 9110 §15.5.9).
const TIMED_OUT: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Serves a connection until the client disconnects or times out, or the server stops.
pub async fn serve(mut stream: Stream, shared: Arc<HttpShared>) {
    let is_http2 = stream.application_protocol() == Some(b"h2");
    let mut log = SessionLog::begin(Protocol::Http, &mut stream, &shared.ctx);
    if is_http2 && !stream.holds_more(HTTP2_BYTES) {
        log.end("not enough memory");
        return;
    }
    let transport = Transport { peer: stream.peer(), is_tls: stream.is_tls() };
    let admitted = stream.admitted_handle();
    let connection = Arc::new(Connection::new(shared, transport, is_http2, admitted, log));
    let _observed = Observed(connection.clone());
    let watched = Watched::new(stream, connection.clone());
    if is_http2 {
        Box::pin(serve_http2(watched, connection)).await;
    } else {
        Box::pin(serve_http1(watched, connection)).await;
    }
}

/// Records byte counts for the log when the connection ends in any way.
struct Observed(Arc<Connection>);

impl Drop for Observed {
    fn drop(&mut self) {
        self.0.log().observe_counted();
    }
}

async fn serve_http1(stream: Watched, connection: Arc<Connection>) {
    let service = {
        let connection = connection.clone();
        service_fn(move |request| {
            let connection = connection.clone();
            Box::pin(async move { Ok::<_, Infallible>(answer(connection, request).await) })
        })
    };
    let hyper = http1::Builder::new()
        // A client may close its sending side after the last request (RFC 9112 §9.6).
        .half_close(true)
        .header_read_timeout(None)
        .max_headers(HTTP_REQUEST_HEADERS)
        .max_buf_size(HTTP_REQUEST_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    // Boxed, so that the memory is freed when a response takes over the connection.
    let mut hyper = Box::new(hyper);
    let shutdown = connection.shared.ctx.shutdown.clone();
    let mut is_stopping = false;
    let ended = loop {
        tokio::select! {
            biased;
            result = poll_fn(|cx| hyper.poll_without_shutdown(cx)) => break Ended::Hyper(result),
            takeover = connection.taken_over() => break Ended::Takeover(takeover),
            overdue = connection.overdue() => break Ended::Overdue(overdue),
            () = shutdown.wait(), if !is_stopping => {
                is_stopping = true;
                std::pin::Pin::new(&mut *hyper).graceful_shutdown();
            }
        }
    };
    let hyper::server::conn::http1::Parts { io, read_buf, .. } = hyper.into_parts();
    let stream = io.into_inner();
    let is_late = matches!(ended, Ended::Overdue(Overdue::Head));
    let (end, stream) = match ended {
        Ended::Hyper(Ok(())) if is_stopping => ("shutdown", Some(stream)),
        Ended::Hyper(Ok(())) => ("closed", Some(stream)),
        Ended::Hyper(Err(error)) => (error_name(&error), Some(stream)),
        Ended::Overdue(overdue) => (overdue_name(overdue), Some(stream)),
        Ended::Takeover(takeover) => Box::pin(takeover.run(stream, read_buf, &connection)).await,
    };
    connection.log().end(end);
    let Some(mut stream) = stream.map(Watched::into_stream) else { return };
    if is_late {
        // The client may not read it.
        let _ = tokio::time::timeout(GOODBYE, stream.write_all(TIMED_OUT)).await;
    }
    stream.close_discarding(HTTP_DISCARDED_BYTES).await;
}

/// How hyper's part of a connection ends.
enum Ended {
    Hyper(hyper::Result<()>),
    Takeover(Takeover),
    Overdue(Overdue),
}

async fn serve_http2(stream: Watched, connection: Arc<Connection>) {
    let service = {
        let connection = connection.clone();
        service_fn(move |request| {
            let connection = connection.clone();
            async move { Ok::<_, Infallible>(answer(connection, request).await) }
        })
    };
    let streams = Streams::new(connection.shared.clone());
    let _tasks = AbortOnDrop(streams.clone());
    let header_list = u32::try_from(HTTP_REQUEST_HEAD_BYTES).unwrap_or(u32::MAX);
    let mut hyper = pin!(
        http2::Builder::new(streams)
            .max_concurrent_streams(HTTP_STREAMS)
            .max_header_list_size(header_list)
            .initial_stream_window_size(HTTP_WINDOW_BYTES)
            .initial_connection_window_size(HTTP_WINDOW_BYTES)
            .max_send_buf_size(HTTP_PIECE_BYTES)
            .max_pending_accept_reset_streams(HTTP_RESET_STREAMS)
            .max_local_error_reset_streams(HTTP_RESET_STREAMS)
            .serve_connection(TokioIo::new(stream), service)
    );
    let shutdown = connection.shared.ctx.shutdown.clone();
    let (mut is_stopping, mut goodbye) = (false, None);
    let end = loop {
        tokio::select! {
            result = hyper.as_mut() => break match (result, goodbye) {
                (_, Some((_, why))) => why,
                (Ok(()), None) if is_stopping => "shutdown",
                (Ok(()), None) => "closed",
                (Err(error), None) => error_name(&error),
            },
            overdue = connection.overdue(), if goodbye.is_none() => {
                let why = overdue_name(overdue);
                if overdue == Overdue::Abandoned {
                    break why;
                }
                goodbye = Some((Instant::now() + GOODBYE, why));
                hyper.as_mut().graceful_shutdown();
            }
            () = sleep_until(goodbye.map_or_else(Instant::now, |(end, _)| end)), if goodbye.is_some() => {
                break goodbye.map_or("timeout", |(_, why)| why);
            }
            () = shutdown.wait(), if !is_stopping => {
                is_stopping = true;
                hyper.as_mut().graceful_shutdown();
            }
        }
    };
    connection.log().end(end);
}

fn error_name(error: &hyper::Error) -> &'static str {
    tracing::debug!(%error, "an HTTP connection ended");
    match error {
        error if error.is_parse() => "bad request",
        error if error.is_timeout() => "timeout",
        _ => "connection lost",
    }
}

fn overdue_name(overdue: Overdue) -> &'static str {
    match overdue {
        Overdue::Idle | Overdue::Head => "timeout",
        Overdue::Abandoned => "too many abandoned requests",
    }
}
