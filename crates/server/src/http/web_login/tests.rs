//! Web logins as a browser sees them, and as a page of another site would like them.

use sealpost_base::limits::{ACCOUNT_WEB_LOGINS, WEB_LOGIN_NOTED};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::tests::{Answer, TestNode};
use super::*;

const JSON: &str = "Content-Type: application/json\r\n";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";
const OWN: &str = "Origin: http://localhost\r\n";
const RIGHT: &str = "{\"username\":\"me@localhost\",\"password\":\"secret\"}";
const ECHO: &str = "{\"using\":[\"urn:ietf:params:jmap:core\"],\"methodCalls\":[[\"Core/echo\",{},\"0\"]]}";

impl TestNode {
    async fn of_browser() -> Self {
        let node = TestNode::new();
        node.account("me@localhost").await;
        node
    }

    /// Logs in; the cookie.
    async fn log_in(&self) -> String {
        let answer = self.ask("POST /login", &format!("{JSON}{OWN}"), RIGHT).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        cookie(&answer)
    }

    async fn info(&self, cookie: &str) -> Answer {
        self.ask("GET /login", &format!("Cookie: {cookie}\r\n"), "").await
    }

    async fn api(&self, fields: &str) -> Answer {
        self.ask("POST /jmap/api", fields, ECHO).await
    }
}

fn cookie(answer: &Answer) -> String {
    answer.field("set-cookie").split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_browser_logs_in_and_out() {
    let node = TestNode::of_browser().await;
    let answer = node.ask("POST /login", &format!("{JSON}{OWN}"), RIGHT).await;
    let field = answer.field("set-cookie").to_owned();
    assert!(field.starts_with("sealpost-plain=sw_") && !field.contains("Secure"), "plain loopback");
    assert!(field.ends_with("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict"), "{field}");
    let record = node.record().await;
    assert_eq!(answer.json()["username"], "me@localhost");
    assert_eq!(answer.json()["accountId"], format!("A{}", record.id));
    let cookie = cookie(&answer);
    assert_eq!(node.info(&cookie).await.field("set-cookie"), field, "it is kept for as long again");
    let fields = format!("Cookie: a=b; {cookie}\r\n{JSON}{OWN}");
    assert_eq!(node.api(&fields).await.json()["methodResponses"][0][0], "Core/echo");
    assert_eq!(node.ask("GET /jmap/session", &format!("Cookie: {cookie}\r\n"), "").await.status, 200);
    let listed: Vec<_> = record.revocable().map(|login| login.kind).collect();
    assert_eq!(listed, [sealpost_vault::slot::SlotKind::WebLogin]);

    let out = node.ask("POST /logout", &format!("Cookie: {cookie}\r\n{OWN}"), "").await;
    assert_eq!((out.status, out.field("set-cookie").contains("Max-Age=0")), (204, true));
    assert_eq!(node.record().await.revocable().count(), 0);
    let refused = node.api(&fields).await;
    assert!(refused.status == 401 && refused.field("set-cookie").contains("sealpost-plain=; "));
    assert!(refused.field("www-authenticate").starts_with("Bearer "), "no browser asks beside the page");
    assert_eq!(node.info(&cookie).await.status, 401);
    assert_eq!(node.ask("POST /logout", &format!("Cookie: {cookie}\r\n{OWN}"), "").await.status, 204);
}

#[tokio::test]
async fn a_browser_of_a_suspended_account_logs_out() {
    let node = TestNode::of_browser().await;
    let (cookie, name) = (node.log_in().await, node.record().await.name);
    node.ctx.directory.suspend(&name).await.unwrap();
    assert_eq!(node.info(&cookie).await.status, 403);
    let out = node.ask("POST /logout", &format!("Cookie: {cookie}\r\n{OWN}"), "").await;
    assert_eq!((out.status, out.field("set-cookie").contains("Max-Age=0")), (204, true));
    assert_eq!(node.record().await.revocable().count(), 0);
    node.ctx.directory.resume(&name).await.unwrap();
    assert_eq!(node.info(&cookie).await.status, 401);
}

#[tokio::test]
async fn a_browser_of_a_removed_account_logs_out() {
    let node = TestNode::of_browser().await;
    let (cookie, name) = (node.log_in().await, node.record().await.name);
    node.ctx.directory.remove(&name).await.unwrap();
    assert_eq!(node.info(&cookie).await.status, 401);
    let out = node.ask("POST /logout", &format!("Cookie: {cookie}\r\n{OWN}"), "").await;
    assert_eq!((out.status, out.field("set-cookie").contains("Max-Age=0")), (204, true));
    node.ctx.directory.undelete(&name).await.unwrap();
    assert_eq!(node.record().await.revocable().count(), 0);
    assert_eq!(node.info(&cookie).await.status, 401);
}

#[tokio::test]
async fn forms_and_programs_log_in_too() {
    let node = TestNode::of_browser().await;
    let form = "username=me%40localhost&password=secret";
    assert_eq!(node.ask("POST /login", FORM, form).await.status, 200);
    for (fields, body) in [
        (JSON, "{}"),
        (JSON, "{"),
        (FORM, "username=me%40localhost"),
        (FORM, "username=a&username=b&password=c"),
        ("Content-Type: text/plain\r\n", RIGHT),
        ("", RIGHT),
    ] {
        assert_eq!(node.ask("POST /login", fields, body).await.status, 400, "{fields}{body}");
    }
    let large = "x".repeat(OAUTH_BODY_BYTES + 1);
    assert_eq!(node.ask("POST /login", JSON, &large).await.status, 413);
    let wrong = RIGHT.replace("secret", "wrong");
    let refused = node.ask("POST /login", JSON, &wrong).await;
    assert_eq!((refused.status, refused.field("set-cookie")), (401, ""));
}

#[tokio::test]
async fn an_app_password_is_no_web_login() {
    let node = TestNode::new();
    let (record, root) = node.account("me@localhost").await;
    let token = node.ctx.directory.add_app_password(&record.name, &root, "phone").await.unwrap().1;
    let body = serde_json::json!({"username": "me@localhost", "password": token.as_str()}).to_string();
    assert_eq!(node.ask("POST /login", JSON, &body).await.status, 401);
    // Nor is a cookie a password or a token of another protocol.
    let cookie = node.log_in().await;
    let value = cookie.split_once('=').unwrap().1;
    assert!(node.ctx.auth.login(None, "me@localhost", value.as_bytes()).await.is_err());
    let bearer = format!("Authorization: Bearer {value}\r\n");
    assert_eq!(node.ask("GET /jmap/session", &bearer, "").await.status, 401);
}

#[tokio::test]
async fn pages_of_other_sites_get_nothing() {
    let node = TestNode::of_browser().await;
    let cookie = node.log_in().await;
    let with = |fields: &str| format!("Cookie: {cookie}\r\n{fields}");
    for foreign in [
        "Origin: https://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: http://sub.localhost\r\n",
        "Origin: http://localhost:81\r\n",
        "Origin: http://localhost\r\nSec-Fetch-Site: same-site\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
    ] {
        assert_eq!(node.api(&with(&format!("{JSON}{foreign}"))).await.status, 403, "{foreign}");
        assert_eq!(node.ask("GET /jmap/session", &with(foreign), "").await.status, 403, "{foreign}");
        assert_eq!(node.ask("GET /login", &with(foreign), "").await.status, 403, "{foreign}");
        assert_eq!(node.ask("POST /logout", &with(foreign), "").await.status, 403, "{foreign}");
        let login = node.ask("POST /login", &format!("{JSON}{foreign}"), RIGHT).await;
        assert_eq!((login.status, login.field("set-cookie")), (403, ""), "{foreign}");
    }
    // What changes something needs a page that says who it is.
    assert_eq!(node.api(&with(JSON)).await.status, 403);
    assert_eq!(node.ask("POST /logout", &with(""), "").await.status, 403);
    let upgrade = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: jmap\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    assert_eq!(node.ask("GET /jmap/ws", &with(upgrade), "").await.status, 403);
    // A form of another site could send this type without asking first.
    let plain = node.api(&with(&format!("Content-Type: text/plain\r\n{OWN}"))).await;
    assert_eq!(plain.json()["type"], "urn:ietf:params:jmap:error:notJSON");
    assert_eq!(node.info(&cookie).await.status, 200, "the login goes on");
}

#[tokio::test]
async fn wrong_cookies_are_refused_and_removed() {
    let node = TestNode::of_browser().await;
    node.account("you@localhost").await;
    let cookie = node.log_in().await;
    let last = if cookie.ends_with('0') { '1' } else { '0' };
    let changed = format!("{}{last}", &cookie[..cookie.len() - 1]);
    let twice = format!("{cookie}; {cookie}");
    let other_name = cookie.replace("sealpost-plain", "__Host-sealpost");
    for wrong in [changed.as_str(), "sealpost-plain=sw_x", "sealpost-plain=", &twice, &other_name] {
        assert_eq!(node.info(wrong).await.status, 401, "{wrong}");
    }
    assert_eq!(node.info(&cookie).await.status, 200);
}

#[tokio::test]
async fn every_node_knows_a_login_until_it_ends() {
    let node = TestNode::of_browser().await;
    let cookie = node.log_in().await;
    let other = node.another(5);
    assert_eq!(other.info(&cookie).await.status, 200);
    // A stream of events ends with its login.
    let mut events = other.connect();
    let head =
        format!("GET /jmap/eventsource?types=* HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n");
    events.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 15];
    events.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    let out = other.ask("POST /logout", &format!("Cookie: {cookie}\r\n{OWN}"), "").await;
    assert_eq!(out.status, 204);
    let rest = tokio::time::timeout(Duration::from_secs(10), events.read_to_end(&mut Vec::new())).await;
    assert!(rest.is_ok(), "it ends");
    assert_eq!(node.info(&cookie).await.status, 401);
}

#[tokio::test]
async fn a_login_ends_when_it_is_not_used() {
    let node = TestNode::of_browser().await;
    let (used, unused) = (node.log_in().await, node.log_in().await);
    for _ in 0..3 {
        node.advance(WEB_LOGIN_IDLE - WEB_LOGIN_NOTED);
        assert_eq!(node.info(&used).await.status, 200);
    }
    assert_eq!(node.info(&unused).await.status, 401);
    assert_eq!(node.another(5).info(&used).await.status, 200);
    assert_eq!(node.ctx.directory.maintain_records(None).await.unwrap().expired, 1);
    assert_eq!(node.record().await.revocable().count(), 1);
    // The use is written down once a day.
    let record = node.record().await;
    let id = record.revocable().next().unwrap().id;
    let written = async || node.ctx.directory.login_use(record.id, id).await.unwrap();
    let before = written().await;
    node.advance(WEB_LOGIN_NOTED / 2);
    node.info(&used).await;
    assert_eq!(written().await, before);
}

#[tokio::test]
async fn one_login_more_ends_the_least_used() {
    let node = TestNode::new();
    let (record, root) = node.account("me@localhost").await;
    let first = node.log_in().await;
    node.advance(Duration::from_secs(1));
    for _ in 1..ACCOUNT_WEB_LOGINS {
        node.ctx.directory.add_web_login(&record, &root, "x").await.unwrap();
    }
    assert_eq!(node.info(&first).await.status, 200);
    let last = node.log_in().await;
    assert_eq!((node.info(&first).await.status, node.info(&last).await.status), (401, 200));
    assert_eq!(node.record().await.revocable().count(), ACCOUNT_WEB_LOGINS);
}
