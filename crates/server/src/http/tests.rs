//! The routes, over connections of this process.

use std::time::Duration;

use sealpost_base::{FakeClock, SeededRandom, Timestamp};
use sealpost_directory::{AccountName, AccountRecord, NewAccount, Secret};
use sealpost_http::{HttpShared, serve};
use sealpost_session::net::Stream;
use sealpost_session::settings::Settings;
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{RootKey, Store};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// A node that serves HTTP at `http://localhost`, on a clock of its own.
pub(crate) struct TestNode {
    pub(crate) ctx: Arc<Context>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) store: Store,
    keys: ServerKeys,
    http: Arc<HttpShared>,
}

/// A response as it came.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The value of a field, empty if there is none.
    pub(crate) fn field(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut values = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        values.next().map_or("", |(_, value)| value)
    }
}

impl TestNode {
    /// A node of a new store. Its clock stands, so no failed login may cost time.
    pub(crate) fn new() -> Self {
        let mut settings = Settings::default();
        settings.login.free_failures = 1000;
        Self::with(settings)
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let keys = ServerKeys::generate(&SeededRandom::new(1));
        let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
        Self::over(Store::memory(), keys, clock, settings, 2)
    }

    /// Another node of the same store, or the same one after a restart.
    pub(crate) fn another(&self, seed: u64) -> Self {
        Self::over(self.store.clone(), self.keys.clone(), self.clock.clone(), Settings::default(), seed)
    }

    fn over(store: Store, keys: ServerKeys, clock: Arc<FakeClock>, settings: Settings, seed: u64) -> Self {
        let settings = Settings { domain: Some("localhost".to_owned()), ..settings };
        let random = Arc::new(SeededRandom::new(seed));
        let ctx = Context::new(settings, store.clone(), keys.clone(), None, clock.clone(), random).unwrap();
        let ctx = Arc::new(ctx);
        let router = router(ctx.clone(), None, &Arc::new(Jmap::new(ctx.clone(), None, None)));
        let http = Arc::new(HttpShared::new(ctx.clone(), router));
        TestNode { ctx, clock, store, keys, http }
    }

    /// Makes an account; its password is `secret`.
    pub(crate) async fn account(&self, name: &str) -> (AccountRecord, RootKey) {
        let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
        self.ctx.directory.create(&AccountName::parse(name).unwrap(), new).await.unwrap()
    }

    pub(crate) async fn record(&self) -> AccountRecord {
        self.ctx.directory.get(&AccountName::parse("me@localhost").unwrap()).await.unwrap()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub(crate) fn connect(&self) -> Stream {
        let (server, client) = Stream::pair().unwrap();
        tokio::spawn(serve(server, self.http.clone()));
        client
    }

    /// Sends a request on a connection of its own.
    pub(crate) async fn ask(&self, target: &str, fields: &str, body: &str) -> Answer {
        let mut client = self.connect();
        let length = if target.starts_with("POST") {
            format!("Content-Length: {}\r\n", body.len())
        } else {
            String::new()
        };
        let head =
            format!("{target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}{length}\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        let mut text = String::new();
        let (mut input, mut output) = tokio::io::split(client);
        // A body that is refused may not be taken.
        let send = async {
            let _ = output.write_all(body.as_bytes()).await;
        };
        let ((), received) = tokio::join!(send, input.read_to_string(&mut text));
        received.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        Answer { status: head[9..12].parse().unwrap(), head: head.to_owned(), body: body.to_owned() }
    }
}

/// What the routes answer to a request without a body.
pub(crate) async fn get(router: Router, ctx: &Arc<Context>, target: &str) -> String {
    let shared = Arc::new(HttpShared::new(ctx.clone(), router));
    let (server, mut client) = Stream::pair().unwrap();
    tokio::spawn(serve(server, shared));
    let request = format!("{target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn the_health_of_the_server_needs_no_login() {
    let node = TestNode::new();
    assert!(node.ask("GET /healthz", "", "").await.body.ends_with("ok\n"));
    assert_eq!(node.ask("GET /nothing", "", "").await.status, 404);
}
