//! Registration: what a client may ask for, and how much.

use sealpost_base::limits::{
    OAUTH_BODY_BYTES, OAUTH_CLIENT_NAME_BYTES, OAUTH_REDIRECT_URI_BYTES, OAUTH_REDIRECT_URIS,
};
use sealpost_session::settings::Settings;

use super::*;

fn with(name: &str, value: Value) -> Value {
    let mut registration = registration();
    registration[name] = value;
    registration
}

#[tokio::test]
async fn a_registration_returns_the_values_in_force() {
    let node = TestNode::new();
    let answer = node.register(&registration()).await;
    let registered = answer.json();
    assert_eq!((answer.status, registered["scope"].as_str()), (201, Some(MAIL)));
    for (name, value) in [
        ("token_endpoint_auth_method", json!("none")),
        ("client_uri", json!("https://client.example/")),
        ("software_version", json!("1")),
        ("redirect_uris", registration()["redirect_uris"].clone()),
        ("client_id_issued_at", json!(1_700_000_000)),
    ] {
        assert_eq!(registered[name], value, "{name}");
    }
    // Nothing is stored, so strangers fill nothing.
    assert!(node.store.names_below("").await.unwrap().is_empty());
    let long = node.register(&with("client_name", json!("n".repeat(1000)))).await.json();
    assert_eq!(long["client_name"].as_str().unwrap().len(), OAUTH_CLIENT_NAME_BYTES);
    let all = format!("{MAIL} urn:ietf:params:oauth:scope:contacts");
    let bare = node.register(&json!({"redirect_uris": ["com.example:/"]})).await;
    assert_eq!((bare.status, bare.json()["scope"].as_str()), (201, Some(&*all)));
}

#[tokio::test]
async fn impossible_registrations_are_refused() {
    let node = TestNode::new();
    let uris = |count: usize| -> Vec<String> { (0..count).map(|n| format!("com.example:/{n}")).collect() };
    assert_eq!(node.register(&with("redirect_uris", json!(uris(OAUTH_REDIRECT_URIS)))).await.status, 201);
    let long = format!("com.example:/{}", "x".repeat(OAUTH_REDIRECT_URI_BYTES));
    for (registration, expected) in [
        (with("redirect_uris", json!([])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(["https://evil.example/"])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(["com.example:/", "http://evil.example/"])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(["javascript:alert(1)"])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(uris(OAUTH_REDIRECT_URIS + 1))), "invalid_redirect_uri"),
        (with("redirect_uris", json!([long])), "invalid_redirect_uri"),
        (with("redirect_uris", json!("com.example:/")), "invalid_client_metadata"),
        (with("token_endpoint_auth_method", json!("client_secret_basic")), "invalid_client_metadata"),
        (with("grant_types", json!(["implicit"])), "invalid_client_metadata"),
        (with("response_types", json!(["token"])), "invalid_client_metadata"),
        (with("scope", json!("openid")), "invalid_client_metadata"),
        (json!([]), "invalid_client_metadata"),
        (json!({}), "invalid_client_metadata"),
    ] {
        assert_eq!(error(&node.register(&registration).await), expected, "{registration}");
    }
    assert_eq!(error(&node.ask("POST /oauth/register", JSON_TYPE, "{").await), "invalid_client_metadata");
    assert_eq!(error(&node.ask("POST /oauth/register", FORM_TYPE, "{}").await), "invalid_request");
    let large = " ".repeat(OAUTH_BODY_BYTES + 1);
    assert_eq!(node.ask("POST /oauth/register", JSON_TYPE, &large).await.status, 413);
    let nested = format!("{}{}", "[".repeat(8000), "]".repeat(8000));
    assert_eq!(error(&node.ask("POST /oauth/register", JSON_TYPE, &nested).await), "invalid_client_metadata");
}

#[tokio::test]
async fn web_applications_need_the_operators_word() {
    let mut settings = Settings::default();
    settings.http.oauth_redirect_origins = vec!["https://webmail.example".parse().unwrap()];
    let node = TestNode::with(settings);
    let back = "https://webmail.example/back";
    let answer = node.register(&with("redirect_uris", json!([back]))).await;
    let client = answer.json()["client_id"].as_str().unwrap().to_owned();
    let page = node.show(&changed(&authorization(&client), "redirect_uri", back)).await;
    assert!(page.body.contains("the web site https://webmail.example"), "{}", page.body);
    assert!(page.field("content-security-policy").contains("form-action 'self' https://webmail.example;"));
    // A client that has registered is none any more if the operator withdraws that.
    let other = TestNode::new();
    assert_eq!(other.show(&changed(&authorization(&client), "redirect_uri", back)).await.status, 400);
}
