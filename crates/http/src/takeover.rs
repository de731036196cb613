//! HTTP/1.1: takes a connection over from hyper for a long-lived response.
//!
//! hyper keeps buffers of 16 KiB for the life of a connection. An event stream needs none between events, so
//! it takes over the socket and frees its buffers until there is something to send. Ten thousand event
//! streams fit into the default memory.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use http::{HeaderMap, Version, header};
use sealpost_base::limits::{HTTP_PIECE_BYTES, HTTP_STRAY_BYTES, RESTING_BYTES};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::connection::Connection;
use crate::io::Watched;
use crate::response::Response;
use crate::response_body::{Source, Upgrade};
use crate::work::Work;

/// A response that takes over its connection.
pub(crate) struct Takeover {
    head: Vec<u8>,
    sent: Sent,
    work: Work,
}

/// The content after the head.
enum Sent {
    Pieces { pieces: BoxStream<'static, io::Result<Bytes>>, is_chunked: bool },
    Upgrade(Upgrade),
}

impl Takeover {
    /// The response to a request of that version.
    pub(crate) fn new(response: Response, version: Version, work: Work, connection: &Connection) -> Self {
        let is_chunked = version >= Version::HTTP_11;
        let mut head = String::new();
        let reason = response.status.canonical_reason().unwrap_or_default();
        let _ = write!(head, "HTTP/1.1 {} {reason}\r\n", response.status.as_u16());
        let mut head = head.into_bytes();
        fields(&mut head, &response.headers, connection);
        let sent = match response.body.source {
            Source::Upgrade(upgrade) => {
                head.extend_from_slice(b"connection: upgrade\r\n");
                Sent::Upgrade(upgrade)
            }
            Source::Bytes(_) | Source::Stream(_) => {
                // No request can follow this one.
                head.extend_from_slice(b"connection: close\r\n");
                if is_chunked {
                    head.extend_from_slice(b"transfer-encoding: chunked\r\n");
                }
                Sent::Pieces { pieces: response.body.into_pieces(), is_chunked }
            }
        };
        head.extend_from_slice(b"\r\n");
        Takeover { head, sent, work }
    }

    /// Sends the response until it ends, the client disconnects, or the server stops. Returns the reason for
    /// the log; `None` if the connection is already closed. `input` holds the bytes received after the
    /// request.
    pub(crate) async fn run(
        self,
        mut stream: Watched,
        input: Bytes,
        connection: &Arc<Connection>,
    ) -> (&'static str, Option<Watched>) {
        let Takeover { head, sent, work } = self;
        // Copy the few bytes: they keep hyper's whole buffer alive.
        let came = Bytes::copy_from_slice(&input);
        drop(input);
        if send(&mut stream, &head).await.is_err() {
            return ("connection lost", Some(stream));
        }
        drop(head);
        match sent {
            Sent::Pieces { mut pieces, is_chunked } => {
                let end = run_pieces(&mut stream, &mut pieces, is_chunked, connection, &work).await;
                (end, Some(stream))
            }
            Sent::Upgrade(upgrade) => {
                let end = upgrade(stream, came).await;
                work.complete();
                (end, None)
            }
        }
    }
}

async fn run_pieces(
    stream: &mut Watched,
    pieces: &mut BoxStream<'static, io::Result<Bytes>>,
    is_chunked: bool,
    connection: &Connection,
    work: &Work,
) -> &'static str {
    match send_pieces(stream, pieces, is_chunked, connection).await {
        Ok(end) => {
            work.complete();
            end
        }
        // A disconnect is the normal end of such a response.
        Err(error) if is_gone(&error) => {
            work.complete();
            "closed"
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => "timeout",
        Err(_) => "connection lost",
    }
}

fn fields(head: &mut Vec<u8>, headers: &HeaderMap, connection: &Connection) {
    // RFC 9110 §6.6.1.
    let now = u64::try_from(connection.shared.ctx.clock.now().0).unwrap_or(0);
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(now));
    head.extend_from_slice(format!("date: {date}\r\n").as_bytes());
    for (name, value) in headers {
        if *name != header::CONNECTION && *name != header::CONTENT_LENGTH {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
    }
}

async fn send_pieces(
    stream: &mut Watched,
    pieces: &mut BoxStream<'static, io::Result<Bytes>>,
    is_chunked: bool,
    connection: &Connection,
) -> io::Result<&'static str> {
    let mut shutdown = std::pin::pin!(connection.shared.ctx.shutdown.wait());
    let mut stray = 0;
    loop {
        stream.rest(RESTING_BYTES);
        let piece = tokio::select! {
            biased;
            () = &mut shutdown => {
                end(stream, is_chunked).await?;
                return Ok("shutdown");
            }
            piece = pieces.next() => piece.transpose()?,
            ended = until_gone(stream, &mut stray) => match ended? {},
        };
        stream.stir().await?;
        let Some(mut piece) = piece else {
            end(stream, is_chunked).await?;
            return Ok("closed");
        };
        while !piece.is_empty() {
            let next = piece.split_to(piece.len().min(HTTP_PIECE_BYTES));
            if is_chunked {
                send_chunk(stream, &next).await?;
            } else {
                send(stream, &next).await?;
            }
        }
    }
}

/// Reads until the client disconnects and discards the input: an extra line end, or a pipelined request,
/// which the client will repeat on another connection.
async fn until_gone(stream: &mut Watched, stray: &mut usize) -> io::Result<Infallible> {
    let mut bytes = [0; 64];
    loop {
        stream.stir_for_input().await?;
        let read = stream.read(&mut bytes).await?;
        *stray += read;
        if read == 0 || *stray > HTTP_STRAY_BYTES {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        stream.rest(RESTING_BYTES);
    }
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

async fn send_chunk(stream: &mut Watched, piece: &[u8]) -> io::Result<()> {
    // A single write, so that a small event is a single packet.
    let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
    chunk.extend_from_slice(piece);
    chunk.extend_from_slice(b"\r\n");
    send(stream, &chunk).await
}

async fn end(stream: &mut Watched, is_chunked: bool) -> io::Result<()> {
    stream.stir().await?;
    if is_chunked { send(stream, b"0\r\n\r\n").await } else { Ok(()) }
}

async fn send(stream: &mut Watched, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}
