//! Codes and tokens: used once, bound to their client, and worthless once the grant is gone.

use std::time::Duration;

use sealpost_base::limits::{OAUTH_ACCESS_LIFETIME, OAUTH_CODE_LIFETIME, OAUTH_REFRESH_GRACE};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_code_is_for_its_own_client_alone() {
    let node = TestNode::with_account().await;
    let client = node.client().await;
    let other = node.register(&json!({"redirect_uris": ["http://127.0.0.1/back"]})).await;
    let other = other.json()["client_id"].as_str().unwrap().to_owned();
    let code = node.code(&client).await;
    let right = exchange(&client, &code);
    let forged = format!("{}A", &code[..code.len() - 1]);
    let wrong_verifier = "a".repeat(43);
    for (request, expected) in [
        (changed(&right, "code_verifier", &wrong_verifier), "invalid_grant"),
        (changed(&right, "code_verifier", CHALLENGE), "invalid_grant"),
        (changed(&right, "code_verifier", "short"), "invalid_request"),
        (changed(&right, "code_verifier", ""), "invalid_request"),
        (changed(&right, "client_id", &other), "invalid_grant"),
        (changed(&right, "client_id", ""), "invalid_request"),
        (changed(&right, "redirect_uri", "http://127.0.0.1:49153/back"), "invalid_grant"),
        (changed(&right, "redirect_uri", ""), "invalid_request"),
        (changed(&right, "code", &forged), "invalid_grant"),
        (changed(&right, "code", "sc_"), "invalid_grant"),
        (changed(&right, "grant_type", "password"), "unsupported_grant_type"),
        (changed(&right, "grant_type", ""), "invalid_request"),
        ([&right[..], &[("code", code.as_str())]].concat(), "invalid_request"),
    ] {
        assert_eq!(error(&node.token(&request).await), expected, "{request:?}");
    }
    let as_json = node.ask("POST /oauth/token", JSON_TYPE, &form(&right)).await;
    assert_eq!(error(&as_json), "invalid_request");
    // None of that has used the code up.
    let (access, refresh) = tokens(&node.token(&right).await);
    assert_eq!(node.session(&access).await.status, 200);
    assert_eq!(error(&node.refresh(&other, &refresh).await), "invalid_grant");
    // The code comes again: two have it.
    assert_eq!(error(&node.token(&right).await), "invalid_grant");
    assert_eq!(node.session(&access).await.status, 401);
    assert_eq!(error(&node.refresh(&client, &refresh).await), "invalid_grant");
    assert_eq!(node.record().await.revocable().count(), 0);
}

#[tokio::test]
async fn codes_and_access_tokens_expire() {
    let node = TestNode::with_account().await;
    let client = node.client().await;
    let (late, code) = (node.code(&client).await, node.code(&client).await);
    node.advance(OAUTH_CODE_LIFETIME - SECOND);
    let (access, refresh) = tokens(&node.exchange(&client, &code).await);
    node.advance(SECOND);
    assert_eq!(error(&node.exchange(&client, &late).await), "invalid_grant");
    node.advance(OAUTH_ACCESS_LIFETIME - SECOND * 2);
    assert_eq!(node.session(&access).await.status, 200);
    node.advance(SECOND);
    let expired = node.session(&access).await;
    assert_eq!(expired.status, 401);
    assert!(expired.head.contains("error=\"invalid_token\""), "RFC 6750 §3.1: {}", expired.head);
    assert_eq!(node.ctx.auth.metrics().denied[4].read(), 1, "it is no guess");
    let (access, _) = tokens(&node.refresh(&client, &refresh).await);
    assert_eq!(node.session(&access).await.status, 200);
}

#[tokio::test]
async fn a_refresh_token_that_comes_back_ends_its_grant() {
    let node = TestNode::with_account().await;
    let (client, first_access, first) = node.granted().await;
    let version = node.record().await.version;
    let (_, second) = tokens(&node.refresh(&client, &first).await);
    // The answer may be lost: the same one again, and both lead on to one.
    let (_, again) = tokens(&node.refresh(&client, &first).await);
    let (access, third) = tokens(&node.refresh(&client, &again).await);
    tokens(&node.refresh(&client, &second).await);
    assert_eq!(node.record().await.version, version, "rotation does not write the record");
    assert_eq!(node.session(&first_access).await.status, 200, "access tokens go on");
    // The first one is two behind, however soon it comes.
    assert_eq!(error(&node.refresh(&client, &first).await), "invalid_grant");
    for token in [&first_access, &access] {
        assert_eq!(node.session(token).await.status, 401);
    }
    assert_eq!(error(&node.refresh(&client, &third).await), "invalid_grant");

    let (client, access, first) = node.granted().await;
    tokens(&node.refresh(&client, &first).await);
    node.advance(OAUTH_REFRESH_GRACE + SECOND);
    assert_eq!(error(&node.refresh(&client, &first).await), "invalid_grant");
    assert_eq!(node.session(&access).await.status, 401);
}

#[tokio::test]
async fn no_token_is_taken_for_another_kind() {
    let node = TestNode::with_account().await;
    let (client, access, refresh) = node.granted().await;
    let code = node.code(&client).await;
    for token in [&refresh, &code, &refresh.replace("sr_", "sa_"), &client] {
        assert_eq!(node.session(token).await.status, 401, "{token}");
    }
    for token in [&access, &access.replace("sa_", "sr_"), &code.replace("sc_", "sr_")] {
        assert_eq!(error(&node.refresh(&client, token).await), "invalid_grant", "{token}");
    }
    assert_eq!(error(&node.exchange(&client, &refresh.replace("sr_", "sc_")).await), "invalid_grant");
    // An access token is no password.
    let basic = node.ctx.auth.login(None, "me@localhost", access.as_bytes()).await;
    assert!(basic.is_err());
    let named = node.ctx.auth.bearer(None, "me@localhost", access.as_bytes()).await;
    assert!(named.is_ok());
    node.account("you@localhost").await;
    let foreign = node.ctx.auth.bearer(None, "you@localhost", access.as_bytes()).await;
    assert!(matches!(foreign, Err(sealpost_auth::Denied::Credentials)));
}

#[tokio::test]
async fn a_client_can_ask_for_less_and_not_for_more() {
    let node = TestNode::with_account().await;
    let (client, _, refresh) = node.granted().await;
    let request = [
        ("grant_type", "refresh_token"),
        ("client_id", &client),
        ("refresh_token", &refresh),
        ("scope", "urn:ietf:params:oauth:scope:contacts"),
    ];
    assert_eq!(error(&node.token(&request).await), "invalid_scope");
    tokens(&node.refresh(&client, &refresh).await);
}
