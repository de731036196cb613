//! OAuth as a client sees it: the flow, what is refused, and what several nodes make of it.

mod authorizing;
mod grants;
mod registering;
mod tokens;

use std::fmt::Write;

use sealpost_http::form_pairs;
use serde_json::{Value, json};

use super::super::tests::{Answer, TestNode};

const FORM_TYPE: &str = "Content-Type: application/x-www-form-urlencoded\r\n";
const JSON_TYPE: &str = "Content-Type: application/json\r\n";
/// RFC 7636 appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const REDIRECT: &str = "http://127.0.0.1:49152/back";
const MAIL: &str = "urn:ietf:params:oauth:scope:mail";

type Pairs<'a> = Vec<(&'a str, &'a str)>;

fn form(pairs: &[(&str, &str)]) -> String {
    let encoded = |text: &str| {
        text.bytes().fold(String::new(), |mut out, byte| {
            write!(out, "%{byte:02X}").unwrap();
            out
        })
    };
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    pairs.join("&")
}

/// The same with another value, or without it if that is empty.
fn changed<'a>(pairs: &Pairs<'a>, name: &'a str, value: &'a str) -> Pairs<'a> {
    let mut pairs: Pairs<'a> = pairs.iter().filter(|(known, _)| *known != name).copied().collect();
    if !value.is_empty() {
        pairs.push((name, value));
    }
    pairs
}

impl TestNode {
    /// A node with the account `me@localhost`.
    async fn with_account() -> Self {
        let node = TestNode::new();
        node.account("me@localhost").await;
        node
    }

    async fn register(&self, registration: &Value) -> Answer {
        self.ask("POST /oauth/register", JSON_TYPE, &registration.to_string()).await
    }

    /// The id of a new client.
    async fn client(&self) -> String {
        let answer = self.register(&registration()).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()["client_id"].as_str().unwrap().to_owned()
    }

    async fn show(&self, request: &[(&str, &str)]) -> Answer {
        self.ask(&format!("GET /oauth/authorize?{}", form(request)), "", "").await
    }

    /// Sends the form of the page.
    async fn consent(&self, request: &[(&str, &str)], name: &str, password: &str) -> Answer {
        let fields = [("username", name), ("password", password), ("decision", "allow")];
        let body = form(&[request, &fields].concat());
        self.ask("POST /oauth/authorize", &format!("{FORM_TYPE}Origin: http://localhost\r\n"), &body).await
    }

    /// A code for the client.
    async fn code(&self, client: &str) -> String {
        let answer = self.consent(&authorization(client), "me@localhost", "secret").await;
        assert_eq!(answer.status, 303, "{}", answer.body);
        parameter(answer.field("location"), "code").unwrap()
    }

    async fn token(&self, request: &[(&str, &str)]) -> Answer {
        self.ask("POST /oauth/token", FORM_TYPE, &form(request)).await
    }

    async fn exchange(&self, client: &str, code: &str) -> Answer {
        self.token(&exchange(client, code)).await
    }

    async fn refresh(&self, client: &str, token: &str) -> Answer {
        let request = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)];
        self.token(&request).await
    }

    /// A new client with the tokens of a grant: its id, access token and refresh token.
    async fn granted(&self) -> (String, String, String) {
        let client = self.client().await;
        let code = self.code(&client).await;
        let (access, refresh) = tokens(&self.exchange(&client, &code).await);
        (client, access, refresh)
    }

    /// What JMAP says to an access token.
    async fn session(&self, access: &str) -> Answer {
        self.ask("GET /jmap/session", &format!("Authorization: Bearer {access}\r\n"), "").await
    }
}

fn registration() -> Value {
    json!({
        "redirect_uris": ["http://127.0.0.1/back", "com.example.mail:/back"],
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "scope": format!("{MAIL} offline_access"),
        "client_name": "A <b>Mail</b> Program",
        "client_uri": "https://client.example/",
        "software_version": "1",
    })
}

fn authorization(client: &str) -> Pairs<'_> {
    vec![
        ("client_id", client),
        ("redirect_uri", REDIRECT),
        ("response_type", "code"),
        ("scope", MAIL),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("state", "s t&a=t\"e"),
    ]
}

fn exchange<'a>(client: &'a str, code: &'a str) -> Pairs<'a> {
    vec![
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("redirect_uri", REDIRECT),
        ("code", code),
        ("code_verifier", VERIFIER),
    ]
}

/// The value of a parameter of a URL.
fn parameter(url: &str, name: &str) -> Option<String> {
    let pairs = form_pairs(url.split_once('?')?.1)?;
    pairs.into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

/// Access token and refresh token of a response.
fn tokens(answer: &Answer) -> (String, String) {
    assert_eq!(answer.status, 200, "{}", answer.body);
    let tokens = answer.json();
    assert_eq!(tokens["token_type"], "Bearer");
    let text = |name: &str| tokens[name].as_str().unwrap().to_owned();
    (text("access_token"), text("refresh_token"))
}

fn error(answer: &Answer) -> String {
    assert_eq!(answer.status, 400, "{}", answer.body);
    answer.json()["error"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_client_finds_registers_and_gets_access() {
    let node = TestNode::with_account().await;
    let refused = node.ask("GET /jmap/session", "", "").await;
    let challenges: Vec<_> =
        refused.head.lines().filter(|line| line.starts_with("www-authenticate")).collect();
    let metadata = "http://localhost/.well-known/oauth-protected-resource/jmap/session";
    assert!(refused.status == 401 && challenges.len() == 2, "{challenges:?}");
    assert!(challenges[1].contains(&format!("resource_metadata=\"{metadata}\"")), "{challenges:?}");
    let path = metadata.strip_prefix("http://localhost").unwrap();
    let resource = node.ask(&format!("GET {path}"), "", "").await.json();
    // RFC 9728 §3.3: what the client asked for.
    assert_eq!(resource["resource"], "http://localhost/jmap/session");
    assert_eq!(resource["authorization_servers"], json!(["http://localhost"]));
    let server = node.ask("GET /.well-known/oauth-authorization-server", "", "").await.json();
    assert_eq!(server["issuer"], "http://localhost");
    for (name, path) in [
        ("registration_endpoint", "/oauth/register"),
        ("authorization_endpoint", "/oauth/authorize"),
        ("token_endpoint", "/oauth/token"),
        ("revocation_endpoint", "/oauth/revoke"),
    ] {
        assert_eq!(server[name], format!("http://localhost{path}"));
    }
    assert_eq!(server["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(server["authorization_response_iss_parameter_supported"], true);

    let client = node.client().await;
    let request = authorization(&client);
    let page = node.show(&request).await;
    assert_eq!((page.status, page.field("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.body.contains("A &lt;b&gt;Mail&lt;/b&gt; Program") && !page.body.contains("<b>"));
    assert!(page.body.contains("a program on this device") && page.body.contains("s t&amp;a=t&quot;e"));
    let policy = page.field("content-security-policy");
    for part in ["default-src 'none'", "frame-ancestors 'none'", "form-action 'self' http://127.0.0.1:*;"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert_eq!((page.field("x-frame-options"), page.field("cache-control")), ("DENY", "no-store"));

    let answer = node.consent(&request, "me@localhost", "secret").await;
    let location = answer.field("location");
    assert!(answer.status == 303 && location.starts_with(&format!("{REDIRECT}?code=sc_")), "{location}");
    assert_eq!(parameter(location, "state").as_deref(), Some("s t&a=t\"e"));
    assert_eq!(parameter(location, "iss").as_deref(), Some("http://localhost"));
    let answer = node.exchange(&client, &parameter(location, "code").unwrap()).await;
    assert_eq!((&answer.json()["scope"], &answer.json()["expires_in"]), (&json!(MAIL), &json!(3600)));
    assert_eq!(answer.field("cache-control"), "no-store");
    let (access, _) = tokens(&answer);
    assert_eq!(node.session(&access).await.json()["username"], "me@localhost");
    let listed: Vec<_> = node.record().await.revocable().collect();
    assert_eq!((listed.len(), listed[0].label.as_str()), (1, "A <b>Mail</b> Program"));
}

#[tokio::test]
async fn metadata_exists_for_protected_resources_alone() {
    let node = TestNode::new();
    let base = "GET /.well-known/oauth-protected-resource";
    assert_eq!(node.ask(base, "", "").await.json()["resource"], "http://localhost");
    assert_eq!(node.ask(&format!("{base}/no/thing"), "", "").await.status, 404);
    assert_eq!(
        node.ask("GET /oauth/style.css", "", "").await.field("content-type"),
        "text/css; charset=utf-8"
    );
}
