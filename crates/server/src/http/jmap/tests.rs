//! JMAP over connections of this process.

use sealpost_account::Event;
use sealpost_account::accounts::Delivery;
use sealpost_base::AccountId;
use sealpost_directory::{AccountName, AccountRecord, NewAccount, Secret};
use sealpost_http::{HttpShared, serve};
use sealpost_session::metrics::{Protocol, Verdict};
use sealpost_session::net::Stream;
use sealpost_vault::RootKey;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::*;

/// `me@localhost:secret`.
const BASIC: &str = "Authorization: Basic bWVAbG9jYWxob3N0OnNlY3JldA==\r\n";
const JSON: &str = "Content-Type: application/json; charset=utf-8\r\n";
const CORE: &str = "urn:ietf:params:jmap:core";
const MAIL: &str = "urn:ietf:params:jmap:mail";

/// A server of HTTP with the account `me@localhost`.
struct TestServer {
    ctx: Arc<Context>,
    jmap: Arc<Jmap>,
    http: Arc<HttpShared>,
    record: AccountRecord,
    root: RootKey,
}

/// A response as it came.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl TestServer {
    async fn new() -> Self {
        let ctx = Arc::new(crate::context_for_tests());
        let jmap = Arc::new(Jmap::new(ctx.clone(), None, None));
        let router = super::super::router(ctx.clone(), None, &jmap);
        let http = Arc::new(HttpShared::new(ctx.clone(), router));
        let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
        let name = AccountName::parse("me@localhost").unwrap();
        let (record, root) = ctx.directory.create(&name, new).await.unwrap();
        TestServer { ctx, jmap, http, record, root }
    }

    fn connect(&self) -> Stream {
        let (server, client) = Stream::pair().unwrap();
        tokio::spawn(serve(server, self.http.clone()));
        client
    }

    /// Sends a request without a body, or with this one, on a connection of its own.
    async fn ask(&self, target: &str, fields: &str, body: &str) -> Answer {
        let mut client = self.connect();
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head = format!(
            "{target} HTTP/1.1\r\nHost: mail.example.org\r\nConnection: close\r\n{fields}{length}\r\n"
        );
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
        Answer {
            status: head[9..12].parse().unwrap(),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    async fn post(&self, request: &Value) -> Answer {
        self.ask("POST /jmap/api", &format!("{BASIC}{JSON}"), &request.to_string()).await
    }
}

#[tokio::test]
async fn the_session_object_needs_a_login() {
    let server = TestServer::new().await;
    for target in ["GET /.well-known/jmap", "GET /jmap/session"] {
        let session = server.ask(target, BASIC, "").await;
        assert_eq!(
            (session.status, session.json()["apiUrl"].as_str()),
            (200, Some("http://mail.example.org/jmap/api"))
        );
        assert!(session.head.contains("cache-control: no-cache, no-store"), "{}", session.head);
    }
    let wrong = "Authorization: Basic bWVAbG9jYWxob3N0Ondyb25n\r\n";
    for (fields, told) in [("", "log in"), (wrong, "wrong name"), ("Authorization: Digest x\r\n", "scheme")] {
        let refused = server.ask("GET /jmap/session", fields, "").await;
        assert_eq!(refused.status, 401, "{fields}");
        assert!(
            refused.head.contains("www-authenticate: basic ")
                && refused.head.contains("www-authenticate: bearer ")
        );
        assert!(
            refused.head.contains("application/problem+json") && refused.body.contains(told),
            "{}",
            refused.body
        );
    }
    let added = server.ctx.directory.add_app_password(&server.record.name, &server.root, "a client").await;
    let token = format!("Authorization: Bearer {}\r\n", *added.unwrap().1);
    assert_eq!(server.ask("GET /jmap/session", &token, "").await.json()["username"], "me@localhost");
}

#[tokio::test]
async fn requests_are_answered_and_methods_counted() {
    let server = TestServer::new().await;
    let account = format!("A{}", server.record.id);
    let calls = json!([["Core/echo", {"a": 1}, "0"], ["Mailbox/get", {"accountId": account}, "1"], ["No/way", {}, "2"]]);
    let answer = server.post(&json!({"using": [CORE, MAIL], "methodCalls": calls})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let responses = answer.json()["methodResponses"].clone();
    assert_eq!(responses[0], json!(["Core/echo", {"a": 1}, "0"]));
    assert!(responses[1][1]["list"].as_array().is_some_and(|list| !list.is_empty()), "{responses}");
    assert_eq!(responses[2][1]["type"], "unknownMethod");
    // A short response has a length, so a connection can go on after it.
    assert!(answer.head.contains(&format!("content-length: {}", answer.body.len())), "{}", answer.head);
    let metrics = server.ctx.metrics.of(Protocol::Jmap);
    let counted = |name| metrics.command(Protocol::Jmap.command(name)).unwrap();
    assert_eq!(counted("Mailbox/get").verdict(Verdict::Ok).read(), 1);
    assert_eq!(counted("OTHER").verdict(Verdict::Bad).read(), 1);
}

#[tokio::test]
async fn a_long_response_is_sent_while_it_is_made() {
    let server = TestServer::new().await;
    let text = "x".repeat(100_000);
    let request = json!({"using": [CORE], "methodCalls": [["Core/echo", {"a": text}, "0"], ["Core/echo", {"a": text}, "1"]]});
    let answer = server.post(&request).await;
    assert!(answer.head.contains("transfer-encoding: chunked"), "{}", answer.head);
    assert!(answer.body.len() > 200_000);
}

#[tokio::test]
async fn wrong_requests_get_problems_of_their_type() {
    let server = TestServer::new().await;
    let post = async |fields: &str, body: &str| {
        server.ask("POST /jmap/api", &format!("{BASIC}{fields}"), body).await
    };
    let large = "x".repeat(server.jmap.shared.request_bytes() + 1);
    let many = format!("{{\"using\":[],\"methodCalls\":[{}]}}", "{},".repeat(100_000));
    for (fields, body, kind, limit) in [
        ("Content-Type: text/plain\r\n", "{}", "notJSON", None),
        (JSON, "{", "notJSON", None),
        (JSON, "[]", "notRequest", None),
        (JSON, "{\"using\":[\"urn:x\"],\"methodCalls\":[]}", "unknownCapability", None),
        (JSON, &large, "limit", Some("maxSizeRequest")),
        (JSON, &many, "limit", Some("maxSizeRequest")),
    ] {
        let answer = post(fields, body).await;
        let problem = answer.json();
        assert_eq!(answer.status, 400, "{problem}");
        assert_eq!(problem["type"], format!("urn:ietf:params:jmap:error:{kind}"));
        assert_eq!(problem["limit"].as_str(), limit);
    }
    assert_eq!(server.ask("POST /jmap/api", JSON, "{}").await.status, 401);
    assert_eq!(server.ask("GET /jmap/api", BASIC, "").await.status, 405);
    let session = server.ask("GET /jmap/session", BASIC, "").await.json();
    assert_eq!(session["capabilities"][CORE]["maxSizeRequest"], server.jmap.shared.request_bytes());
}

/// A stream of events.
struct Events(BufReader<Stream>);

impl TestServer {
    async fn deliver(&self, message: &str) {
        let mut ingest = self.ctx.accounts.ingest(self.record.id).await.unwrap();
        ingest.write(message.as_bytes()).await.unwrap();
        let stored = ingest.finish().await.unwrap();
        let delivery = Delivery::to_inbox(self.ctx.clock.now());
        self.ctx.accounts.deliver(self.record.id, &self.record.public, stored, delivery).await.unwrap();
    }

    async fn events(&self, query: &str, fields: &str) -> Events {
        self.events_as(BASIC, query, fields).await
    }

    async fn events_as(&self, login: &str, query: &str, fields: &str) -> Events {
        let mut client = self.connect();
        let head = format!("GET /jmap/eventsource?{query} HTTP/1.1\r\nHost: h\r\n{login}{fields}\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        let mut events = Events(BufReader::new(client));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head.push_str(&events.line().await);
        }
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/event-stream"), "{head}");
        assert!(head.contains("x-accel-buffering: no") && head.contains("connection: close"), "{head}");
        assert_eq!(events.chunk().await, ":\n\n");
        events
    }

    async fn state(&self) -> String {
        let calls = json!([["Mailbox/get", {"accountId": format!("A{}", self.record.id), "ids": []}, "0"]]);
        let answer = self.post(&json!({"using": [CORE, MAIL], "methodCalls": calls})).await;
        answer.json()["methodResponses"][0][1]["state"].as_str().unwrap().to_owned()
    }
}

impl Events {
    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line
    }

    /// The next chunk; empty at the end.
    async fn chunk(&mut self) -> String {
        let length = usize::from_str_radix(self.line().await.trim(), 16).unwrap();
        let mut chunk = vec![0; length + 2];
        self.0.read_exact(&mut chunk).await.unwrap();
        chunk.truncate(length);
        String::from_utf8(chunk).unwrap()
    }

    /// The next state: the id of the event, and what changed in the account.
    async fn change(&mut self, account: AccountId) -> (String, Value) {
        let event = self.chunk().await;
        let rest = event.strip_prefix("event: state\nid: ").unwrap_or_else(|| panic!("{event}"));
        let (id, data) = rest.split_once("\ndata: ").unwrap();
        let change: Value = serde_json::from_str(data.trim()).unwrap();
        assert_eq!(change["@type"], "StateChange");
        (id.to_owned(), change["changed"][format!("A{account}")].clone())
    }

    /// Whether the server has ended it.
    async fn has_ended(&mut self) -> bool {
        self.chunk().await.is_empty() && self.line().await.is_empty()
    }
}

#[tokio::test]
async fn an_event_stream_reports_changed_types() {
    let server = TestServer::new().await;
    let mut events = server.events("types=*&closeafter=no&ping=0", "").await;
    let mut mailboxes = server.events("types=Mailbox,Thread&closeafter=state", "").await;
    server.deliver("Subject: hi\r\n\r\nhello\r\n").await;
    let (id, change) = events.change(server.record.id).await;
    let state = server.state().await;
    let all = json!({"Email": state, "EmailDelivery": state, "Mailbox": state, "Thread": state});
    assert_eq!((position_of(&id), &change), (state.as_str(), &all));
    let (_, change) = mailboxes.change(server.record.id).await;
    assert_eq!(change, json!({"Mailbox": state, "Thread": state}));
    assert!(mailboxes.has_ended().await, "closeafter");

    // What is no email changes no emails.
    let account = server.ctx.accounts.open(server.record.id, &server.root).await.unwrap();
    let event = Event::MailboxCreated { name: "Work".to_owned(), special_use: None };
    account.commit(|_| Ok((vec![event.clone()], ()))).await.unwrap();
    let (newer, change) = events.change(server.record.id).await;
    // A mailbox counts for a quota.
    let quota = change["Quota"].clone();
    assert_eq!(change, json!({"Mailbox": position_of(&newer), "Quota": quota}));

    // A client that comes back hears at once what it missed.
    let known = format!("Last-Event-ID: {id}\r\n");
    let mut back = server.events("types=*", &known).await;
    assert_eq!(back.change(server.record.id).await, (newer.clone(), change));
    let mut stranger = server.events("types=*", "Last-Event-ID: nonsense\r\n").await;
    let (id, change) = stranger.change(server.record.id).await;
    let types: Vec<&str> = change.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!((id, types), (newer, vec!["Email", "EmailDelivery", "Mailbox", "Quota", "Thread"]));
}

/// The position of the account's log in the id of an event.
fn position_of(id: &str) -> &str {
    id.split('.').next().unwrap()
}

#[tokio::test]
async fn an_event_stream_ends_with_its_login_or_server() {
    let server = TestServer::new().await;
    let mut stopped = server.events("types=*", "").await;
    let added = server.ctx.directory.add_app_password(&server.record.name, &server.root, "a client").await;
    let (info, token) = added.unwrap();
    let login = format!("Authorization: Bearer {}\r\n", *token);
    let mut revoked = server.events_as(&login, "types=*", "").await;
    server.ctx.directory.revoke_app_password(&server.record.name, info.id).await.unwrap();
    server.ctx.auth.standings().look(server.record.id);
    assert!(revoked.has_ended().await);
    server.ctx.shutdown.begin();
    assert!(stopped.has_ended().await);
}

#[tokio::test]
async fn a_stream_of_events_is_asked_for_rightly() {
    let server = TestServer::new().await;
    assert_eq!(server.ask("GET /jmap/eventsource?types=*", "", "").await.status, 401);
    assert_eq!(server.ask("GET /jmap/eventsource?ping=often", BASIC, "").await.status, 400);
}

/// A client of WebSockets.
struct Socket(Stream);

impl TestServer {
    /// Asks for a WebSocket; the head of the response.
    async fn upgrade(&self, fields: &str) -> (Socket, String) {
        let mut client = self.connect();
        let head = format!(
            "GET /jmap/ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: jmap\r\n{fields}\r\n"
        );
        client.write_all(head.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        (Socket(client), String::from_utf8(head).unwrap())
    }

    async fn socket(&self) -> Socket {
        let (socket, head) = self.upgrade(BASIC).await;
        assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("sec-websocket-protocol: jmap"), "{head}");
        assert!(head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        socket
    }
}

impl Socket {
    async fn send(&mut self, first: u8, payload: &[u8]) {
        let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
        // A mask of zeros is one.
        let frame = [&[first, 0x80 | 126], &length[..], &[0; 4], payload].concat();
        self.0.write_all(&frame).await.unwrap();
    }

    async fn send_json(&mut self, message: &Value) {
        self.send(0x81, message.to_string().as_bytes()).await;
    }

    /// The next frame: its first byte and its payload.
    async fn frame(&mut self) -> (u8, Vec<u8>) {
        let (first, second) = (self.0.read_u8().await.unwrap(), self.0.read_u8().await.unwrap());
        let length = match second {
            126 => u64::from(self.0.read_u16().await.unwrap()),
            127 => self.0.read_u64().await.unwrap(),
            short => u64::from(short),
        };
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut payload).await.unwrap();
        (first, payload)
    }

    /// The next message.
    async fn json(&mut self) -> Value {
        let (mut first, mut text) = self.frame().await;
        assert_eq!(first & 0x0f, 1);
        while first & 0x80 == 0 {
            let (next, piece) = self.frame().await;
            assert_eq!(next & 0x0f, 0, "fragments follow each other");
            text.extend(piece);
            first = next;
        }
        serde_json::from_slice(&text).unwrap()
    }

    /// The code that the server closes the WebSocket with.
    async fn closed_with(&mut self) -> u16 {
        let (first, payload) = self.frame().await;
        assert_eq!(first, 0x88);
        u16::from_be_bytes(payload.try_into().unwrap())
    }
}

#[tokio::test]
async fn requests_are_answered_over_a_web_socket() {
    let server = TestServer::new().await;
    let mut socket = server.socket().await;
    let echo = json!({"@type": "Request", "id": "R1", "using": [CORE], "methodCalls": [["Core/echo", {"a": 1}, "0"]]});
    socket.send_json(&echo).await;
    let response = socket.json().await;
    assert_eq!((response["@type"].as_str(), response["requestId"].as_str()), (Some("Response"), Some("R1")));
    assert_eq!(response["methodResponses"], json!([["Core/echo", {"a": 1}, "0"]]));
    // A long one comes in fragments, and needs memory before it is read.
    let text = "x".repeat(60_000);
    let long = json!({"@type": "Request", "using": [CORE], "methodCalls": [["Core/echo", {"a": text}, "0"]]});
    socket.send_json(&long).await;
    let response = socket.json().await;
    assert_eq!(response["methodResponses"][0][1]["a"], text);
    assert_eq!(response.get("requestId"), None);

    socket.send_json(&json!({"@type": "Request", "id": "R2", "using": ["urn:x"], "methodCalls": []})).await;
    let error = socket.json().await;
    assert_eq!((error["@type"].as_str(), error["requestId"].as_str()), (Some("RequestError"), Some("R2")));
    assert_eq!(error["type"], "urn:ietf:params:jmap:error:unknownCapability");
    socket.send(0x89, b"are you there").await;
    assert_eq!(socket.frame().await, (0x8a, b"are you there".to_vec()));
    socket.send(0x88, &[3, 232]).await;
    assert_eq!(socket.closed_with().await, 1000);
    assert_eq!(socket.0.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn changes_are_pushed_over_a_web_socket() {
    let server = TestServer::new().await;
    let mut socket = server.socket().await;
    let before = server.state().await;
    socket
        .send_json(&json!({"@type": "WebSocketPushEnable", "dataTypes": ["Email"], "pushState": before}))
        .await;
    server.deliver("Subject: hi\r\n\r\nhello\r\n").await;
    let pushed = socket.json().await;
    let state = server.state().await;
    let changed = json!({format!("A{}", server.record.id): {"Email": state}});
    let push_state = pushed["pushState"].clone();
    assert_eq!(position_of(push_state.as_str().unwrap()), state);
    assert_eq!(pushed, json!({"@type": "StateChange", "changed": changed, "pushState": push_state}));
    // What is missed is pushed at once; what is disabled never.
    let mut back = server.socket().await;
    back.send_json(&json!({"@type": "WebSocketPushEnable", "dataTypes": null, "pushState": before})).await;
    assert_eq!(back.json().await["pushState"], push_state);
    back.send_json(&json!({"@type": "WebSocketPushDisable"})).await;
    let echo = json!({"@type": "Request", "using": [], "methodCalls": []});
    back.send_json(&echo).await;
    assert_eq!(back.json().await["@type"], "Response");
    server.deliver("Subject: ho\r\n\r\nhello\r\n").await;
    assert_eq!(socket.json().await["@type"], "StateChange");
    back.send_json(&echo).await;
    assert_eq!(back.json().await["@type"], "Response");
    server.ctx.shutdown.begin();
    assert_eq!((socket.closed_with().await, back.closed_with().await), (1001, 1001));
}

#[tokio::test]
async fn a_web_socket_is_refused_or_closed_with_a_code() {
    let server = TestServer::new().await;
    for (fields, status) in [
        (String::new(), 401),
        (format!("{BASIC}Origin: https://evil.example\r\n"), 403),
        (format!("{BASIC}Upgrade: h2c\r\n"), 101),
    ] {
        let (_, head) = server.upgrade(&fields).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    }
    assert_eq!(server.ask("GET /jmap/ws", BASIC, "").await.status, 426);
    let large = (server.jmap.shared.request_bytes() as u64 + 1).to_be_bytes();
    let head = [&[0x81, 0xff], &large[..], &[0; 4]].concat();
    for (bytes, code) in [(&head[..], 1009), (&[0x82, 0x80, 0, 0, 0, 0], 1003), (&[0x81, 0], 1002)] {
        let mut socket = server.socket().await;
        socket.0.write_all(bytes).await.unwrap();
        assert_eq!(socket.closed_with().await, code);
    }
    let mut socket = server.socket().await;
    socket.send(0x81, b"\xff").await;
    assert_eq!(socket.closed_with().await, 1007);
}

#[tokio::test]
async fn uploaded_blobs_can_be_downloaded() {
    let server = TestServer::new().await;
    let account = format!("A{}", server.record.id);
    let fields = format!("{BASIC}Content-Type: image/png\r\n");
    let text = "0123456789".repeat(2000);
    let upload = server.ask(&format!("POST /jmap/upload/{account}/"), &fields, &text).await;
    assert_eq!(upload.status, 201, "{}", upload.body);
    let stored = upload.json();
    assert_eq!((stored["type"].as_str(), stored["size"].as_u64()), (Some("image/png"), Some(20_000)));
    let path = format!(
        "GET /jmap/download/{account}/{}/a%20b.png?accept=image%2Fpng",
        stored["blobId"].as_str().unwrap()
    );
    let whole = server.ask(&path, BASIC, "").await;
    assert!(whole.status == 200 && whole.body == text, "{}", whole.status);
    assert!(whole.head.contains("content-type: image/png") && whole.head.contains("filename=\"a b.png\""));
    let part = server.ask(&path, &format!("{BASIC}Range: bytes=5-8\r\n"), "").await;
    assert_eq!((part.status, part.body.as_str()), (206, "5678"));
    let known = format!("{BASIC}If-None-Match: \"{}\"\r\n", stored["blobId"].as_str().unwrap());
    assert_eq!(server.ask(&path, &known, "").await.status, 304);
    // Other accounts have nothing there, and no account has what does not exist.
    let other = account.replace(&account[1..3], "00");
    for path in [path.replace(&account, &other), format!("GET /jmap/download/{account}/nothing/x")] {
        assert_eq!(server.ask(&path, BASIC, "").await.status, 404);
    }
    assert_eq!(server.ask(&path, "", "").await.status, 401);
    assert_eq!(server.ask(&format!("POST /jmap/upload/{other}/"), &fields, "x").await.status, 404);
    let large = format!("{fields}Content-Length: {}\r\n", JMAP_UPLOAD_BYTES + 1);
    let refused = server.ask(&format!("POST /jmap/upload/{account}/"), &large, "").await;
    assert_eq!((refused.status, refused.json()["limit"].as_str()), (413, Some("maxSizeUpload")));
}
