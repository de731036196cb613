//! One HTTP/1.1 connection of a JMAP client, with Basic authentication (RFC 7617).
//!
//! The bench connects only to the address that it was given: of URLs that the server names it uses
//! path and query. So a password reaches no other host, and a server behind a proxy can be measured
//! without it.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use sealpost_base::limits::BENCH_RESPONSE_BYTES;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::{AbortHandle, spawn_local};

use crate::load::client::Fail;
use crate::load::target::{Endpoint, TargetAddr};
use crate::load::wire::Io;

/// Buffers of a connection that receives events: ten thousand of them must fit.
const SMALL_BUFFER_BYTES: usize = 8 * 1024;
/// Buffers of others.
const BUFFER_BYTES: usize = 64 * 1024;

/// A connection.
pub struct Http {
    sender: SendRequest<Full<Bytes>>,
    /// Moves the bytes.
    task: AbortHandle,
    traffic: Rc<Traffic>,
    host: HeaderValue,
    authorization: HeaderValue,
}

/// What is sent.
pub struct Outgoing<'a> {
    /// GET or POST.
    pub method: Method,
    /// Path and query.
    pub path: &'a str,
    /// What the client accepts.
    pub accept: &'static str,
    /// The body and its type.
    pub body: Option<(&'static str, Bytes)>,
}

impl Http {
    /// Connects. `authorization` is the field's value; `small` keeps the buffers small.
    ///
    /// # Errors
    /// If there is no server.
    pub async fn connect(endpoint: &Endpoint, authorization: &str, small: bool) -> Result<Self, Fail> {
        let traffic = Rc::new(Traffic::default());
        let stream = Counted { stream: endpoint.connect().await?, traffic: traffic.clone() };
        let mut builder = Builder::new();
        builder.max_buf_size(if small { SMALL_BUFFER_BYTES } else { BUFFER_BYTES });
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(closed)?;
        // Its error reaches the client with the response that it waits for.
        let task = spawn_local(async move { drop(connection.await) }).abort_handle();
        let host = match &endpoint.addr {
            TargetAddr::Tcp(name, _) => name.as_str(),
            TargetAddr::Unix(_) | TargetAddr::Inside(_) => "localhost",
        };
        let value = |text: &str| {
            HeaderValue::from_str(text).map_err(|_| Fail::Denied("a name that HTTP cannot carry".into()))
        };
        let mut authorization = value(authorization)?;
        authorization.set_sensitive(true);
        Ok(Http { sender, task, traffic, host: value(host)?, authorization })
    }

    /// Whether the server has closed it.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Bytes sent and received since the last call.
    pub fn traffic(&self) -> (u64, u64) {
        (self.traffic.sent.take(), self.traffic.received.take())
    }

    /// Sends a request; returns when the head of its response came.
    ///
    /// # Errors
    /// If the connection is lost, or the response is not HTTP.
    pub async fn send(&mut self, outgoing: Outgoing<'_>) -> Result<Response<Incoming>, Fail> {
        let mut request = Request::builder()
            .method(outgoing.method)
            .uri(outgoing.path)
            .header(HOST, &self.host)
            .header(AUTHORIZATION, &self.authorization)
            .header(ACCEPT, outgoing.accept);
        if let Some((content_type, _)) = &outgoing.body {
            request = request.header(CONTENT_TYPE, *content_type);
        }
        let body = outgoing.body.map(|(_, body)| body).unwrap_or_default();
        let request =
            request.body(Full::new(body)).map_err(|e| Fail::Protocol(format!("{}: {e}", outgoing.path)))?;
        self.sender.ready().await.map_err(closed)?;
        self.sender.send_request(request).await.map_err(closed)
    }

    /// Sends a request; returns the status and the whole body.
    ///
    /// # Errors
    /// As [`Http::send`]; if the body is too large.
    pub async fn exchange(&mut self, outgoing: Outgoing<'_>) -> Result<Received, Fail> {
        let response = self.send(outgoing).await?;
        let location = response.headers().get(hyper::header::LOCATION);
        let location = location.and_then(|to| to.to_str().ok()).map(str::to_owned);
        let status = response.status().as_u16();
        Ok(Received { status, location, body: body(response.into_body()).await? })
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A response.
pub struct Received {
    /// Its status.
    pub status: u16,
    /// Where it redirects to.
    pub location: Option<String>,
    /// Its body.
    pub body: Vec<u8>,
}

async fn body(mut incoming: Incoming) -> Result<Vec<u8>, Fail> {
    let mut bytes = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(closed)?;
        let data = frame.data_ref().map_or(&[][..], |data| data);
        if bytes.len() + data.len() > BENCH_RESPONSE_BYTES {
            return Err(Fail::Protocol(format!("a response of more than {BENCH_RESPONSE_BYTES} bytes")));
        }
        bytes.extend_from_slice(data);
    }
    Ok(bytes)
}

/// Why an exchange ended.
pub fn closed(error: hyper::Error) -> Fail {
    if error.is_parse() {
        return Fail::Protocol(format!("this is no HTTP server: {error}"));
    }
    if error.is_canceled() || error.is_incomplete_message() || error.is_closed() {
        return Fail::Closed("the server closed the connection".into());
    }
    Fail::Closed(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string))
}

/// Path and query of a URL of the server.
///
/// # Errors
/// If it is no URL.
pub fn path_of(url: &str) -> Result<String, Fail> {
    let uri: Uri = url.parse().map_err(|e| Fail::Protocol(format!("{url} is no URL: {e}")))?;
    Ok(uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string))
}

/// A URI template of the Session object (RFC 8620 §2: level 1 of RFC 6570) with its variables.
pub fn expanded(template: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(template.to_owned(), |url, (name, value)| {
        url.replace(&format!("{{{name}}}"), &percent_encoded(value))
    })
}

fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let byte = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(byte).collect()
}

#[derive(Default)]
struct Traffic {
    sent: Cell<u64>,
    received: Cell<u64>,
}

/// Counts bytes.
struct Counted {
    stream: Box<dyn Io>,
    traffic: Rc<Traffic>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let more = (buf.filled().len() - before) as u64;
        self.traffic.received.set(self.traffic.received.get() + more);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.traffic.sent.set(self.traffic.sent.get() + count as u64);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_urls_only_path_and_query_are_used() {
        assert_eq!(path_of("https://other.example/jmap/api?x=1").unwrap(), "/jmap/api?x=1");
        assert_eq!(path_of("/jmap").unwrap(), "/jmap");
        assert_eq!(path_of("https://other.example").unwrap(), "/");
        assert!(path_of("no url").is_err());
        let url = expanded("/up/{accountId}/?t={types}", &[("accountId", "a b/ü"), ("types", "Email")]);
        assert_eq!(url, "/up/a%20b%2F%C3%BC/?t=Email");
    }
}
