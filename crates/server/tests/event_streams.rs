//! What idle streams of events take: ten thousand of them have to fit into the default memory.
//!
//! One test in a process of its own, which looks at the most memory that the process ever had.

#[path = "support/peak.rs"]
mod peak;

use std::net::SocketAddr;
use std::sync::Arc;

use sealpost_base::limits::RESTING_BYTES;
use sealpost_base::{SeededRandom, SystemClock};
use sealpost_directory::{AccountName, NewAccount, Secret};
use sealpost_server::settings::{Connections, Listen};
use sealpost_server::{Server, Settings};
use sealpost_vault::Store;
use sealpost_vault::server_key::ServerKeys;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use peak::{forget_peak, peak};

/// Streams that are there before anything is measured: what all of them share is made then.
const FIRST: usize = 20;
/// Streams that are measured.
const MEASURED: usize = 400;

/// `me@localhost:secret`.
const REQUEST: &[u8] = b"GET /jmap/eventsource?types=*&closeafter=no&ping=0 HTTP/1.1\r\nHost: localhost\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/event-stream\r\nAuthorization: Basic bWVAbG9jYWxob3N0OnNlY3JldA==\r\n\r\n";

async fn streams(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        let mut text = Vec::new();
        // The comment at the beginning.
        while !text.ends_with(b":\n\n\r\n") {
            text.push(stream.read_u8().await.unwrap());
        }
        assert!(text.starts_with(b"HTTP/1.1 200 "));
        streams.push(stream);
    }
    streams
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_idle_stream_of_events_takes_little() {
    let any = "127.0.0.1:0".parse().unwrap();
    let settings = Settings {
        domain: Some("localhost".to_owned()),
        listen: Listen { http: vec![any], ..Listen::default() },
        connections: Connections { total: 10_000, per_address: 10_000 },
        ..Settings::default()
    };
    let random = Arc::new(SeededRandom::new(1));
    let key = ServerKeys::generate(&*random);
    let clock = Arc::new(SystemClock::new());
    let server = Server::start(settings, Store::memory(), key, clock, random).await.unwrap();
    let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
    server.context().directory.create(&AccountName::parse("me@localhost").unwrap(), new).await.unwrap();

    let address = server.addresses().http[0];
    let _first = streams(address, FIRST).await;
    forget_peak();
    let before = peak();
    let _measured = streams(address, MEASURED).await;
    let each = (peak() - before) / MEASURED;
    // Without optimization, tasks are larger than in a release.
    let most = RESTING_BYTES * 5 / 4;
    assert!(each <= most, "{each} bytes for each, of {most}");
}
