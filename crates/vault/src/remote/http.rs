//! Connections to a bucket, with a bound on what is read ahead of who wants it.
//!
//! `object_store` makes requests by reqwest unless it is told otherwise, and that leaves hyper's read buffers as they are: up to
//! 400 KiB for each connection, beside what was asked for. Here it is hyper's own client with [`STORE_READ_BYTES`].

use std::fmt;
use std::sync::OnceLock;

use async_trait::async_trait;
use http::header::{HeaderValue, USER_AGENT};
use http::uri::Scheme;
use http_body_util::BodyExt;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector as Connector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use sealpost_base::limits::STORE_READ_BYTES;

use super::Patience;
use super::client::{CONNECT_TIMEOUT, IDLE_TIMEOUT};

const AGENT: HeaderValue = HeaderValue::from_static(concat!("sealpost/", env!("CARGO_PKG_VERSION")));

/// Connects as [`Patience`] says; what `object_store` says of it is not asked. No proxy is asked either, and no redirection followed:
/// a request is signed for the host that it goes to.
#[derive(Debug)]
pub(super) struct Bounded(pub Patience);

impl Connector for Bounded {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let patience = self.0;
        Ok(HttpClient::new(Http {
            patience,
            plain: client(patience, connector(patience)),
            tls: OnceLock::new(),
        }))
    }
}

struct Http {
    patience: Patience,
    plain: Client<HttpConnector, HttpRequestBody>,
    /// Whom the system trusts takes room, and is read once it is needed.
    tls: OnceLock<Client<HttpsConnector<HttpConnector>, HttpRequestBody>>,
}

impl Http {
    fn tls(&self) -> Result<&Client<HttpsConnector<HttpConnector>, HttpRequestBody>, HttpError> {
        if let Some(client) = self.tls.get() {
            return Ok(client);
        }
        let builder = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            .map_err(|e| HttpError::new(HttpErrorKind::Connect, e))?;
        let connector = builder.https_only().enable_http1().wrap_connector(connector(self.patience));
        Ok(self.tls.get_or_init(|| client(self.patience, connector)))
    }
}

#[async_trait]
impl HttpService for Http {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        request.headers_mut().entry(USER_AGENT).or_insert(AGENT);
        let answer = if request.uri().scheme() == Some(&Scheme::HTTPS) {
            self.tls()?.request(request).await
        } else {
            self.plain.request(request).await
        };
        let (head, body) = answer.map_err(failed)?.into_parts();
        let body = body.map_err(|e| HttpError::new(HttpErrorKind::Interrupted, e));
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("patience", &self.patience).finish_non_exhaustive()
    }
}

fn connector(patience: Patience) -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT.min(patience.timeout)));
    connector
}

fn client<C>(patience: Patience, connector: C) -> Client<C, HttpRequestBody>
where
    C: hyper_util::client::legacy::connect::Connect + Clone,
{
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(patience.requests)
        .http1_max_buf_size(STORE_READ_BYTES)
        .build(connector)
}

fn failed(e: hyper_util::client::legacy::Error) -> HttpError {
    HttpError::new(if e.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Request }, e)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use object_store::client::HttpRequestBody;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const BODY_BYTES: usize = 8 * 1024 * 1024;

    /// Answers two requests on one connection, each with a body as fast as it is read; what was asked.
    async fn answer_two(listener: TcpListener) -> String {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        for n in 1..=2 {
            while asked.windows(4).filter(|end| end == b"\r\n\r\n").count() < n {
                assert_ne!(connection.read_buf(&mut asked).await.unwrap(), 0);
            }
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
            connection.write_all(head.as_bytes()).await.unwrap();
            connection.write_all(&vec![b'x'; BODY_BYTES]).await.unwrap();
        }
        String::from_utf8(asked).unwrap()
    }

    #[tokio::test]
    async fn what_is_read_at_once_is_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/bucket/x", listener.local_addr().unwrap());
        let server = tokio::spawn(answer_two(listener));
        let client = Bounded(Patience::default()).connect(&ClientOptions::new()).unwrap();
        for _ in 0..2 {
            let request = ::http::Request::get(&url).body(HttpRequestBody::empty()).unwrap();
            let mut body = client.execute(request).await.unwrap().into_body();
            let mut bytes = 0;
            while let Some(frame) = body.frame().await {
                let data = frame.unwrap().into_data().unwrap();
                // A buffer that is used again may have some more room.
                assert!(data.len() < 2 * STORE_READ_BYTES, "{} bytes at once", data.len());
                bytes += data.len();
            }
            assert_eq!(bytes, BODY_BYTES);
        }
        let asked = server.await.unwrap();
        assert_eq!(asked.matches("GET /bucket/x HTTP/1.1\r\n").count(), 2);
        assert_eq!(asked.matches(concat!("user-agent: sealpost/", env!("CARGO_PKG_VERSION"))).count(), 2);
    }

    #[tokio::test]
    async fn nobody_there_is_a_failure_to_connect() {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let patience = Patience { timeout: Duration::from_secs(5), ..Patience::default() };
        let client = Bounded(patience).connect(&ClientOptions::new()).unwrap();
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://127.0.0.1:{port}/");
            let request = ::http::Request::get(url).body(HttpRequestBody::empty()).unwrap();
            assert_eq!(client.execute(request).await.unwrap_err().kind(), HttpErrorKind::Connect);
        }
    }
}
