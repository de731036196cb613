//! Connections to a bucket, with a bound on read-ahead and on the size of a reply.
//!
//! By default `object_store` makes requests by reqwest, and that leaves hyper's read buffers as
//! they are: up to 400 KiB for each connection, beside the requested bytes. This is hyper's own
//! client with [`STORE_READ_BYTES`]. A reply longer than the request permits is an error, whatever
//! length it declares: `object_store` would allocate memory for it.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::OnceLock;

use async_trait::async_trait;
use http::header::{HeaderValue, RANGE, USER_AGENT};
use http::uri::Scheme;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector as Connector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use sealpost_base::limits::{STORE_ANSWER_BYTES, STORE_READ_BYTES, STORE_REFUSAL_BYTES};

use super::RetryPolicy;
use super::client::{CONNECT_TIMEOUT, IDLE_TIMEOUT};
use crate::store::TooLarge;

/// What is in all that stores say of an object that is not there, and not in what proxies say.
const ERROR_CODE: &[u8] = b"<Code>";

const AGENT: HeaderValue = HeaderValue::from_static(concat!("sealpost/", env!("CARGO_PKG_VERSION")));

/// Connects as [`RetryPolicy`] says, and ignores the settings of `object_store`. It uses no proxy
/// and follows no redirection: a request is signed for its host.
#[derive(Debug)]
pub(super) struct Bounded(pub RetryPolicy);

impl Connector for Bounded {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let retry_policy = self.0;
        Ok(HttpClient::new(Http {
            retry_policy,
            plain: client(retry_policy, connector(retry_policy)),
            tls: OnceLock::new(),
        }))
    }
}

struct Http {
    retry_policy: RetryPolicy,
    plain: Client<HttpConnector, HttpRequestBody>,
    /// The system's certificates take memory, and are read when needed.
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
        let connector = builder.https_only().enable_http1().wrap_connector(connector(self.retry_policy));
        Ok(self.tls.get_or_init(|| client(self.retry_policy, connector)))
    }
}

#[async_trait]
impl HttpService for Http {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        request.headers_mut().entry(USER_AGENT).or_insert(AGENT);
        let (most, is_read) = (response_limit(&request), request.method() == Method::GET);
        let answer = if request.uri().scheme() == Some(&Scheme::HTTPS) {
            self.tls()?.request(request).await
        } else {
            self.plain.request(request).await
        };
        let (head, body) = answer.map_err(failed)?.into_parts();
        let most = if head.status.is_success() { most } else { STORE_REFUSAL_BYTES };
        if body.size_hint().lower() > most as u64 {
            let why = TooLarge { size: body.size_hint().lower(), most: most as u64 };
            return Err(HttpError::new(HttpErrorKind::Interrupted, why));
        }
        let body = limited(body, most);
        if is_read && head.status == StatusCode::NOT_FOUND {
            let said = body.bytes().await?;
            if !said.is_empty() && !said.windows(ERROR_CODE.len()).any(|part| part == ERROR_CODE) {
                return Err(wrong("404 from something that is no store".to_owned()));
            }
            return Ok(HttpResponse::from_parts(head, HttpResponseBody::from(said)));
        }
        Ok(HttpResponse::from_parts(head, body))
    }
}

/// The most bytes of an answer to that request.
fn response_limit(request: &HttpRequest) -> usize {
    let range = request
        .headers()
        .get(RANGE)
        .and_then(|range| range.to_str().ok()?.strip_prefix("bytes=")?.split_once('-'));
    let ends =
        range.and_then(|(first, last)| Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?)));
    // The caller checks the status, and refuses a reply with more than the range.
    ends.map_or(STORE_ANSWER_BYTES, |(first, last)| {
        last.saturating_sub(first).saturating_add(1).max(STORE_REFUSAL_BYTES)
    })
}

/// The body of an answer, of which so many bytes are the most.
fn limited(body: Incoming, most: usize) -> HttpResponseBody {
    let ended = |why| {
        HttpError::new(HttpErrorKind::Interrupted, io::Error::other::<Box<dyn StdError + Send + Sync>>(why))
    };
    HttpResponseBody::new(Limited::new(body, most).map_err(ended))
}

fn wrong(why: String) -> HttpError {
    HttpError::new(HttpErrorKind::Interrupted, io::Error::other(why))
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("retry_policy", &self.retry_policy).finish_non_exhaustive()
    }
}

fn connector(retry_policy: RetryPolicy) -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT.min(retry_policy.timeout)));
    connector
}

fn client<C>(retry_policy: RetryPolicy, connector: C) -> Client<C, HttpRequestBody>
where
    C: hyper_util::client::legacy::connect::Connect + Clone,
{
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(retry_policy.requests)
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

    /// Answers two requests on one connection, each with a body as fast as it is read; returns the
    /// requests.
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
    async fn one_read_of_a_response_is_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/bucket/x", listener.local_addr().unwrap());
        let server = tokio::spawn(answer_two(listener));
        let client = Bounded(RetryPolicy::default()).connect(&ClientOptions::new()).unwrap();
        for _ in 0..2 {
            let request = ::http::Request::get(&url).body(HttpRequestBody::empty()).unwrap();
            let mut body = client.execute(request).await.unwrap().into_body();
            let mut bytes = 0;
            while let Some(frame) = body.frame().await {
                let data = frame.unwrap().into_data().unwrap();
                // A reused buffer may have some more capacity.
                assert!(data.len() < 2 * STORE_READ_BYTES, "{} bytes at once", data.len());
                bytes += data.len();
            }
            assert_eq!(bytes, BODY_BYTES);
        }
        let asked = server.await.unwrap();
        assert_eq!(asked.matches("GET /bucket/x HTTP/1.1\r\n").count(), 2);
        assert_eq!(asked.matches(concat!("user-agent: sealpost/", env!("CARGO_PKG_VERSION"))).count(), 2);
    }

    /// The answer to a GET, of that range if there is one, as it was sent; read to its end.
    async fn answered(answer: Vec<u8>, range: Option<&str>) -> Result<(StatusCode, usize), HttpErrorKind> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/bucket/x", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                assert_ne!(connection.read_buf(&mut asked).await.unwrap(), 0);
            }
            // A reader that needs no more closes the connection.
            let _ = connection.write_all(&answer).await;
        });
        let mut request = ::http::Request::get(&url);
        if let Some(range) = range {
            request = request.header(RANGE, range);
        }
        let client = Bounded(RetryPolicy::default()).connect(&ClientOptions::new()).unwrap();
        let answer = client.execute(request.body(HttpRequestBody::empty()).unwrap()).await;
        let read = async {
            let answer = answer?;
            Ok::<_, HttpError>((answer.status(), answer.into_body().bytes().await?.len()))
        };
        let read = read.await.map_err(|e| e.kind());
        server.await.unwrap();
        read
    }

    fn with_length(status: &str, length: u64, body: &[u8]) -> Vec<u8> {
        [format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n").as_bytes(), body].concat()
    }

    /// A body in chunks, longer than that.
    fn without_length(status: &str, longer_than: usize) -> Vec<u8> {
        let mut answer = format!("HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
        for _ in 0..=longer_than / BODY_BYTES {
            answer.extend(format!("{BODY_BYTES:x}\r\n").as_bytes());
            answer.resize(answer.len() + BODY_BYTES, b'x');
            answer.extend(b"\r\n");
        }
        answer
    }

    #[tokio::test]
    async fn a_reply_longer_than_the_request_is_rejected() {
        let failed = Err(HttpErrorKind::Interrupted);
        for length in [STORE_ANSWER_BYTES as u64 + 1, 1_000_000_000_000, u64::MAX - 15] {
            assert_eq!(answered(with_length("200 OK", length, b"x"), None).await, failed);
        }
        assert_eq!(answered(without_length("200 OK", STORE_ANSWER_BYTES), None).await, failed);
        assert_eq!(answered(without_length("403 Forbidden", STORE_REFUSAL_BYTES), None).await, failed);
        let body = vec![b'x'; 100_001];
        let whole = with_length("206 Partial Content", 100_001, &body);
        assert_eq!(answered(whole.clone(), Some("bytes=0-99999")).await, failed);
        assert_eq!(answered(whole, Some("bytes=0-100000")).await, Ok((StatusCode::PARTIAL_CONTENT, 100_001)));
    }

    #[tokio::test]
    async fn a_404_of_a_foreign_server_is_not_absence() {
        let page = b"<html>Not Found</html>";
        let answer = with_length("404 Not Found", page.len() as u64, page);
        assert_eq!(answered(answer, None).await, Err(HttpErrorKind::Interrupted));
        for said in ["<Error><Code>NoSuchKey</Code></Error>", ""] {
            let answer = with_length("404 Not Found", said.len() as u64, said.as_bytes());
            assert_eq!(answered(answer, None).await, Ok((StatusCode::NOT_FOUND, said.len())));
        }
    }

    #[tokio::test]
    async fn an_absent_server_is_a_failure_to_connect() {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let retry_policy = RetryPolicy { timeout: Duration::from_secs(5), ..RetryPolicy::default() };
        let client = Bounded(retry_policy).connect(&ClientOptions::new()).unwrap();
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://127.0.0.1:{port}/");
            let request = ::http::Request::get(url).body(HttpRequestBody::empty()).unwrap();
            assert_eq!(client.execute(request).await.unwrap_err().kind(), HttpErrorKind::Connect);
        }
    }
}
