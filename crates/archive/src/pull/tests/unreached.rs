//! A server that never answered fails soon, in every command; one that did is waited for.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Kind, SeededRandom, limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::super::pull;
use super::memory::Memory;
use super::pulled::{options, tools};
use super::server::{Box_, Script};
use crate::client::{Backoff, Connection, Security, Server, ServerSeen, Timeouts};
use crate::push::tests::{Nobody, options as put};
use crate::push::{migrate, mirror, restore};
use crate::verify::{self, verify};

/// Timeouts with which eight attempts would take 12 seconds at least.
fn patient(server: Server) -> Server {
    let timeouts = Timeouts { retry: Duration::from_millis(100), ..server.timeouts };
    Server { timeouts, reached: ServerSeen::default(), ..server }
}

/// An address without a listener.
async fn nowhere() -> Server {
    let script = Script::start(Box_::with(0), "", &[]).await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    patient(Server { port: free, ..script.server() })
}

#[tokio::test]
async fn an_unreachable_server_fails_soon_with_a_hint() {
    let script = Script::start(Box_::with(3), "", &[]).await;
    let backup = Arc::new(Memory::default());
    let (_stop, tools) = tools();
    let random = SeededRandom::new(1);
    let options_of_verify = verify::Options::all();
    let (puts, nobody) = (put(&tools.stop), Arc::new(Nobody));
    // A message to append.
    pull(&script.server(), backup.clone(), &options(), &tools).await.unwrap();
    for what in ["pull", "verify", "restore", "from", "to", "mirror", "open"] {
        let (there, nowhere) = (script.server(), nowhere().await);
        let attempt = async {
            match what {
                "pull" => pull(&nowhere, backup.clone(), &options(), &tools).await.map(drop),
                "verify" => verify(&nowhere, backup.clone(), &options_of_verify, &random).await.map(drop),
                "restore" => restore(backup.clone(), &nowhere, &puts, nobody.clone()).await.map(drop),
                "from" => migrate(&nowhere, &there, &puts, nobody.clone()).await.map(drop),
                "to" => migrate(&there, &nowhere, &puts, nobody.clone()).await.map(drop),
                "mirror" => {
                    mirror(&there, &nowhere, &puts, Default::default(), nobody.clone()).await.map(drop)
                }
                _ => Connection::open(&nowhere).await.map(drop),
            }
        };
        let error = timeout(Duration::from_secs(8), attempt).await.expect(what).expect_err(what);
        assert_eq!(error.kind(), Kind::Retry, "{what}: {error}");
        let told = error.to_string();
        assert!(
            told.contains("check the name, the port, --tls") && told.contains("refused"),
            "{what}: {told}"
        );
    }
}

#[tokio::test]
async fn a_silent_port_is_tried_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let script = Script::start(Box_::with(0), "", &[]).await;
    let server = patient(Server { port: listener.local_addr().unwrap().port(), ..script.server() });
    let timeouts = Timeouts { first: Duration::from_millis(100), ..server.timeouts };
    let silent = Server { timeouts, ..server };
    let (_stop, tools) = tools();
    let backup = Arc::new(Memory::default());
    let options = options();
    let pulled = pull(&silent, backup, &options, &tools);
    let error = timeout(Duration::from_secs(8), pulled).await.expect("soon").unwrap_err();
    let told = error.to_string();
    assert!(told.contains("is this its IMAP port, and not the one for --tls implicit?"), "{told}");
    listener.accept().await.unwrap();
    assert!(timeout(Duration::from_millis(300), listener.accept()).await.is_err(), "only one attempt");
}

#[tokio::test]
async fn a_peer_without_imap_is_reported_as_such() {
    let long = format!("* OK {}\r\n", "x".repeat(2 * limits::ARCHIVE_RESPONSE_BYTES));
    for greeting in ["220 mail.example.org ESMTP\r\n", "* 3 EXISTS\r\n", &long] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let script = Script::start(Box_::with(0), "", &[]).await;
        let server = patient(Server { port: listener.local_addr().unwrap().port(), ..script.server() });
        let answers = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            // The client may have stopped reading the greeting.
            let _ = socket.write_all(greeting.as_bytes()).await;
            let _ = socket.read(&mut [0]).await;
        };
        let (opened, ()) = tokio::join!(Connection::open(&server), answers);
        let told = opened.err().unwrap().to_string();
        assert!(told.contains("does not speak IMAP"), "{greeting:.40}: {told}");
    }
}

#[tokio::test]
async fn a_port_without_implicit_tls_is_reported_as_such() {
    let script = Script::start(Box_::with(0), "", &[]).await;
    let server = patient(Server { security: Security::Implicit, ..script.server() });
    let told = Connection::open(&server).await.err().unwrap().to_string();
    assert!(told.contains("try --tls starttls, or another port"), "{told}");
}

#[tokio::test]
async fn a_server_that_answered_once_is_waited_for() {
    let script = Script::start(Box_::with(3), "", &[]).await;
    let was_there = script.server();
    Connection::open(&was_there).await.unwrap();
    let gone = Server { port: nowhere().await.port, ..was_there.clone() };
    let (mut backoff, random) = (Backoff::new(Duration::from_secs(1)), SeededRandom::new(1));
    for _ in 1..Backoff::ATTEMPTS {
        let error = Connection::open(&gone).await.err().unwrap();
        assert!(!error.to_string().contains("check the name"), "{error}");
        assert!(backoff.next(&error, &random).is_some());
    }
    let never = Connection::open(&nowhere().await).await.err().unwrap();
    assert_eq!(Backoff::new(Duration::from_secs(1)).next(&never, &random), None);
}
