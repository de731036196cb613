//! How connections end when the server stops.

use std::sync::atomic::Ordering;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::http2::{Client, get};
use crate::support::{SOON, TestServer, ends, head, until};

const HOST: &str = "HTTP/1.1\r\nHost: localhost\r\n";

#[tokio::test]
async fn requests_end_and_streams_of_events_and_idle_connections_close() {
    let server = TestServer::start(|_| {}).await;
    let mut idle = server.connect().await;
    let mut uploading = server.connect().await;
    let begin = format!("POST /echo {HOST}Content-Length: 4\r\n\r\nab");
    uploading.write_all(begin.as_bytes()).await.unwrap();
    let mut events = server.connect().await;
    events.write_all(format!("GET /events {HOST}\r\n").as_bytes()).await.unwrap();
    let (status, fields) = head(&mut events).await;
    assert!(status == 200 && fields.contains("no"), "{fields}");
    let http2 = Client::connect(&server).await;
    assert_eq!(get(&http2, "/hello").await.unwrap().0, 200);
    until(|| server.ctx.metrics.of(sealpost_session::metrics::Protocol::Http).commands() == 1).await;
    until(|| server.ctx.sessions.count(sealpost_session::metrics::Protocol::Http).all == 4).await;

    server.ctx.shutdown.begin();
    assert!(ends(&mut idle).await);
    let mut rest = String::new();
    tokio::time::timeout(SOON, events.read_to_string(&mut rest)).await.unwrap().unwrap();
    assert!(rest.contains("event: ping\r\n") || rest.contains(":\n\n"), "{rest}");
    assert!(rest.ends_with("0\r\n\r\n"), "an end, not a cut: {rest}");
    uploading.write_all(b"cd").await.unwrap();
    assert_eq!(crate::support::answer(&mut uploading).await.text(), "abcd");
    assert!(ends(&mut uploading).await);
    tokio::time::timeout(SOON, http2.driver).await.unwrap().unwrap();
    until(|| server.ctx.sessions.count(sealpost_session::metrics::Protocol::Http).all == 0).await;
    assert_eq!(server.busy.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_client_of_events_that_goes_is_noticed() {
    let server = TestServer::start(|_| {}).await;
    let mut events = server.connect().await;
    events.write_all(format!("GET /events {HOST}\r\n").as_bytes()).await.unwrap();
    assert_eq!(head(&mut events).await.0, 200);
    assert_eq!(server.ctx.budget.in_use(), 0, "what lasts holds nothing");
    drop(events);
    until(|| server.ctx.sessions.count(sealpost_session::metrics::Protocol::Http).all == 0).await;
}
