//! HTTP/1.1 with correct clients.

use std::io::Read;

use tokio::io::AsyncWriteExt;

use crate::support::{TestServer, answer, ask, ends, head, until};

const HOST: &str = "HTTP/1.1\r\nHost: localhost\r\n";

#[tokio::test]
async fn a_connection_carries_many_requests_and_pipelined_ones() {
    let server = TestServer::start(|_| {}).await;
    let mut client = server.connect().await;
    let one = format!("GET /hello {HOST}\r\n");
    let first = ask(&mut client, &one).await;
    assert_eq!((first.status, first.text().as_str()), (200, "hello\n"));
    assert_eq!(first.field("cache-control"), Some("no-store"));
    assert_eq!(first.field("x-content-type-options"), Some("nosniff"));
    client.write_all(one.repeat(3).as_bytes()).await.unwrap();
    for _ in 0..3 {
        assert_eq!(answer(&mut client).await.text(), "hello\n");
    }
    // In the middle of a head, and of a chunk.
    let chunked = format!("POST /echo {HOST}Transfer-Encoding: chunked\r\n\r\n3\r\nab");
    let (begin, rest) = chunked.split_at(9);
    client.write_all(begin.as_bytes()).await.unwrap();
    client.flush().await.unwrap();
    tokio::task::yield_now().await;
    client.write_all(rest.as_bytes()).await.unwrap();
    assert_eq!(ask(&mut client, "c\r\n4\r\ndefg\r\n0\r\n\r\n").await.text(), "abcdefg");
    until(|| server.ctx.metrics.of(sealpost_session::metrics::Protocol::Http).commands() == 5).await;
}

#[tokio::test]
async fn heads_methods_and_paths_that_are_not_there() {
    let server = TestServer::start(|_| {}).await;
    let mut client = server.connect().await;
    client.write_all(format!("HEAD /hello {HOST}\r\n").as_bytes()).await.unwrap();
    let (status, fields) = head(&mut client).await;
    assert!(status == 200 && fields.to_ascii_lowercase().contains("content-length: 6"), "{fields}");
    let nothing = ask(&mut client, &format!("GET /nothing {HOST}\r\n")).await;
    assert_eq!((nothing.status, nothing.field("content-type")), (404, Some("application/problem+json")));
    assert!(nothing.text().contains("\"status\":404"), "{}", nothing.text());
    let method = ask(&mut client, &format!("DELETE /hello {HOST}\r\n")).await;
    assert_eq!((method.status, method.field("allow")), (405, Some("GET, HEAD, OPTIONS")));
    client.write_all(format!("OPTIONS /echo {HOST}\r\n").as_bytes()).await.unwrap();
    let (status, fields) = head(&mut client).await;
    assert!(status == 204 && fields.to_ascii_lowercase().contains("allow: post, options"), "{fields}");
    let panicked = ask(&mut client, &format!("GET /panic {HOST}\r\n")).await;
    assert_eq!((panicked.status, server.ctx.metrics.panics.read()), (500, 1));
    let range = ask(&mut client, &format!("GET /file {HOST}Range: bytes=-3\r\n\r\n")).await;
    assert_eq!((range.status, range.text().as_str()), (206, "789"));
    assert_eq!(ask(&mut client, &format!("GET /hello {HOST}\r\n")).await.status, 200, "it goes on");
}

#[tokio::test]
async fn a_body_is_expected_only_if_it_is_wanted() {
    let server = TestServer::start(|_| {}).await;
    let mut client = server.connect().await;
    let expect = |bytes| format!("POST /echo {HOST}Expect: 100-continue\r\nContent-Length: {bytes}\r\n\r\n");
    client.write_all(expect(3).as_bytes()).await.unwrap();
    assert_eq!(head(&mut client).await.0, 100);
    assert_eq!(ask(&mut client, "abc").await.text(), "abc");
    assert_eq!(ask(&mut client, &expect(100_001)).await.status, 413, "without 100 before");
    assert!(ends(&mut client).await);
}

#[tokio::test]
async fn a_client_that_has_said_all_is_answered() {
    let server = TestServer::start(|_| {}).await;
    let mut client = server.connect().await;
    client.write_all(format!("GET /hello {HOST}\r\n").as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(answer(&mut client).await.text(), "hello\n");
    assert!(ends(&mut client).await);
}

#[tokio::test]
async fn responses_are_compressed_and_open_to_pages_that_are_allowed() {
    let page = "https://mail.example.org";
    let server = TestServer::start(|s| s.http.allowed_origins = vec![page.parse().unwrap()]).await;
    let mut client = server.connect().await;
    let text = "a mail ".repeat(1000);
    let post = |origin: &str| {
        let length = text.len();
        format!(
            "POST /echo {HOST}Origin: {origin}\r\nAccept-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n{text}"
        )
    };
    let packed = ask(&mut client, &post(page)).await;
    assert_eq!(packed.field("content-encoding"), Some("gzip"));
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_string(&mut unpacked).unwrap();
    assert!(unpacked == text && packed.body.len() < 1000);
    assert_eq!(packed.field("access-control-allow-origin"), Some(page));
    let other = ask(&mut client, &post("https://evil.example")).await;
    assert_eq!((other.status, other.field("access-control-allow-origin")), (200, None));
    let preflight =
        format!("OPTIONS /echo {HOST}Origin: {page}\r\nAccess-Control-Request-Method: POST\r\n\r\n");
    client.write_all(preflight.as_bytes()).await.unwrap();
    let (status, fields) = head(&mut client).await;
    assert!(status == 204 && fields.contains("Authorization, Content-Type"), "{fields}");
}

#[tokio::test]
async fn plaintext_is_for_this_machine_and_trusted_proxies() {
    let change = |s: &mut sealpost_session::Settings| {
        s.http.trusted_proxies = vec!["192.0.2.1".parse().unwrap()];
    };
    let server = TestServer::start(change).await;
    let get = |fields: &str| format!("GET /whoami {HOST}{fields}\r\n");
    for (peer, fields, status, told) in [
        ("127.0.0.1", "", 200, "127.0.0.1 http://localhost"),
        ("127.0.0.1", "X-Forwarded-For: 203.0.113.9\r\n", 200, "127.0.0.1 http://localhost"),
        ("203.0.113.9", "", 403, "https://"),
        ("203.0.113.9", "X-Forwarded-Proto: https\r\n", 403, "https://"),
        ("192.0.2.1", "", 200, "192.0.2.1 https://localhost"),
        (
            "192.0.2.1",
            "X-Forwarded-For: 127.0.0.1, 203.0.113.9\r\nX-Forwarded-Proto: https\r\n",
            200,
            "203.0.113.9 https://localhost",
        ),
        ("192.0.2.1", "Forwarded: for=203.0.113.9;proto=http\r\n", 403, "https://"),
        ("192.0.2.1", "Forwarded: nonsense\r\n", 400, "malformed"),
    ] {
        let said = ask(&mut server.connect_from(peer), &get(fields)).await;
        assert!(said.status == status && said.text().contains(told), "{peer} {fields} {said:?}");
    }
}
