//! Grants: revoked by their client, by the operator and by time, on all nodes.

use std::time::Duration;

use sealpost_auth::grant_token::GrantToken;
use sealpost_auth::{Denied, Scope, Scopes};
use sealpost_base::limits::{GRANT_IDLE, OAUTH_ACCESS_LIFETIME};
use sealpost_vault::TokenKind;

use super::*;

async fn revoke(node: &TestNode, client: &str, token: &str) -> Answer {
    let body = form(&[("client_id", client), ("token", token)]);
    node.ask("POST /oauth/revoke", FORM_TYPE, &body).await
}

#[tokio::test]
async fn a_client_gives_its_grant_up() {
    let node = TestNode::with_account().await;
    for which in 0..2 {
        let (client, access, refresh) = node.granted().await;
        let (other, ..) = node.granted().await;
        let token = [&access, &refresh][which];
        assert_eq!(error(&revoke(&node, "", token).await), "invalid_request");
        let another = node.register(&json!({"redirect_uris": ["com.example:/x"]})).await.json();
        let another = another["client_id"].as_str().unwrap();
        assert_eq!(error(&revoke(&node, another, token).await), "invalid_grant");
        assert_eq!(node.session(&access).await.status, 200);
        let standing = node.ctx.auth.bearer_alone(None, access.as_bytes()).await.unwrap();
        let standing = node.ctx.auth.standing(&standing);
        assert_eq!(revoke(&node, &client, token).await.status, 200);
        // Sessions that are open end, without waiting for the next round.
        tokio::time::timeout(Duration::from_secs(10), standing.lost()).await.unwrap();
        assert_eq!(node.session(&access).await.status, 401);
        assert_eq!(error(&node.refresh(&client, &refresh).await), "invalid_grant");
        // RFC 7009 §2.2: what is revoked already, or no token, is revoked.
        for token in [token.as_str(), "nonsense", "sr_AAAA"] {
            assert_eq!(revoke(&node, &client, token).await.status, 200);
        }
        drop(other);
    }
    assert_eq!(node.record().await.revocable().count(), 2, "the others");
}

#[tokio::test]
async fn an_operator_revokes_a_grant_like_an_app_password() {
    let node = TestNode::with_account().await;
    let (client, access, refresh) = node.granted().await;
    let record = node.record().await;
    let id = record.revocable().next().unwrap().id;
    assert!(node.ctx.directory.login_use(record.id, id).await.unwrap().is_some());
    node.ctx.directory.revoke_app_password(&record.name, id).await.unwrap();
    assert_eq!(node.session(&access).await.status, 401);
    assert_eq!(error(&node.refresh(&client, &refresh).await), "invalid_grant");
    assert_eq!(node.ctx.directory.login_use(record.id, id).await.unwrap(), None, "nothing is left");
}

#[tokio::test]
async fn every_node_opens_and_revokes_a_grant() {
    let node = TestNode::with_account().await;
    let other = node.another(7);
    let client = node.client().await;
    let code = node.code(&client).await;
    // One node wins the code, whichever it is; both together would be a replay.
    let (access, refresh) = tokens(&other.exchange(&client, &code).await);
    assert_eq!(node.session(&access).await.status, 200);
    let (_, refresh) = tokens(&node.refresh(&client, &refresh).await);
    let restarted = node.another(8);
    let (access, refresh) = tokens(&restarted.refresh(&client, &refresh).await);
    assert_eq!(error(&node.exchange(&client, &code).await), "invalid_grant");
    for node in [&node, &other, &restarted] {
        assert_eq!(node.session(&access).await.status, 401);
        assert_eq!(error(&node.refresh(&client, &refresh).await), "invalid_grant");
    }
}

#[tokio::test]
async fn of_two_exchanges_at_once_one_counts() {
    let node = TestNode::with_account().await;
    let other = node.another(7);
    let client = node.client().await;
    let code = node.code(&client).await;
    let (first, second) = tokio::join!(node.exchange(&client, &code), other.exchange(&client, &code));
    let (mut status, access) = ([first.status, second.status], [first, second]);
    status.sort_unstable();
    assert_eq!(status, [200, 400]);
    let (access, _) = tokens(access.iter().find(|answer| answer.status == 200).unwrap());
    assert_eq!(node.session(&access).await.status, 401, "the grant is revoked");
}

#[tokio::test]
async fn a_grant_ends_with_its_account_or_when_unused() {
    let node = TestNode::with_account().await;
    let (client, access, refresh) = node.granted().await;
    let name = node.record().await.name;
    node.ctx.directory.suspend(&name).await.unwrap();
    assert_eq!(node.session(&access).await.status, 403);
    assert_eq!(error(&node.refresh(&client, &refresh).await), "invalid_grant");
    node.ctx.directory.resume(&name).await.unwrap();
    let (_, refresh) = tokens(&node.refresh(&client, &refresh).await);
    node.advance(GRANT_IDLE);
    let (_, refresh) = tokens(&node.refresh(&client, &refresh).await);
    node.advance(GRANT_IDLE + Duration::from_secs(1));
    assert_eq!(error(&node.refresh(&client, &refresh).await), "invalid_grant");
    assert_eq!(node.record().await.revocable().count(), 0);
    // What no client asks for any more, the server removes by itself.
    node.granted().await;
    node.advance(GRANT_IDLE + Duration::from_secs(1));
    assert_eq!(node.ctx.directory.maintain_records(None).await.unwrap().expired, 1);
    assert_eq!(node.record().await.revocable().count(), 0);
}

#[tokio::test]
async fn a_grant_of_a_suspended_account_is_revoked_permanently() {
    let node = TestNode::with_account().await;
    let name = node.record().await.name;
    for which in 0..2 {
        let (client, access, refresh) = node.granted().await;
        node.ctx.directory.suspend(&name).await.unwrap();
        let token = [&access, &refresh][which];
        assert_eq!(error(&revoke(&node, "another", token).await), "invalid_grant");
        assert_eq!(node.record().await.revocable().count(), 1);
        assert_eq!(revoke(&node, &client, token).await.status, 200);
        assert_eq!(node.record().await.revocable().count(), 0);
        node.ctx.directory.resume(&name).await.unwrap();
        assert_eq!(node.session(&access).await.status, 401);
        assert_eq!(error(&node.refresh(&client, &refresh).await), "invalid_grant");
    }
}

#[tokio::test]
async fn a_grant_of_a_removed_account_is_revoked_permanently() {
    let node = TestNode::with_account().await;
    let name = node.record().await.name;
    for which in 0..3 {
        let (client, access, refresh) = node.granted().await;
        let id = node.record().await.revocable().next().unwrap().id;
        node.ctx.directory.remove(&name).await.unwrap();
        assert_eq!(node.session(&access).await.status, 401);
        assert_eq!(error(&node.refresh(&client, &refresh).await), "invalid_grant");
        match which {
            0 => assert_eq!(revoke(&node, &client, &access).await.status, 200),
            1 => assert_eq!(revoke(&node, &client, &refresh).await.status, 200),
            // As the operator's command does.
            _ => node.ctx.directory.revoke_app_password(&name, id).await.unwrap(),
        }
        node.ctx.directory.undelete(&name).await.unwrap();
        assert_eq!(node.record().await.revocable().count(), 0);
        assert_eq!(node.session(&access).await.status, 401);
        assert_eq!(error(&node.refresh(&client, &refresh).await), "invalid_grant");
    }
}

#[tokio::test]
async fn no_token_of_a_revoked_grant_has_a_grace_time() {
    let node = TestNode::with_account().await;
    let other = node.another(7);
    for which in 0..3 {
        let (client, _, first) = node.granted().await;
        let (access, second) = tokens(&node.refresh(&client, &first).await);
        // A moment ago the first one was the newest: the answer may be lost.
        tokens(&other.refresh(&client, &first).await);
        let token = [&access, &first, &second][which];
        assert_eq!(revoke(&node, &client, token).await.status, 200);
        for node in [&node, &other] {
            for refresh in [&first, &second] {
                assert_eq!(error(&node.refresh(&client, refresh).await), "invalid_grant");
            }
            assert_eq!(node.session(&access).await.status, 401);
        }
    }
    assert_eq!(node.record().await.revocable().count(), 0);
}

#[tokio::test]
async fn earlier_refresh_tokens_are_refused_when_the_store_went_back() {
    let node = TestNode::with_account().await;
    let (client, _, first) = node.granted().await;
    let (_, second) = tokens(&node.refresh(&client, &first).await);
    let (access, third) = tokens(&node.refresh(&client, &second).await);
    node.advance(sealpost_base::limits::OAUTH_REFRESH_GRACE + Duration::from_secs(1));
    // An attacker with write access to the store removes the record of the last use.
    let record = node.record().await;
    let slot = record.revocable().next().unwrap().id;
    let folder = format!("logins/{}/{slot}", record.id);
    let store = node.ctx.directory.store();
    for name in store.names_below(&folder).await.unwrap() {
        store.delete(&format!("{folder}/{name}")).await.unwrap();
    }
    for refresh in [&first, &second, &third] {
        let refused = node.refresh(&client, refresh).await;
        assert_eq!((refused.status, &refused.json()["error"]), (503, &json!("temporarily_unavailable")));
    }
    assert_eq!(node.ctx.directory.watermarks().back(), 1);
    assert_eq!(node.session(&access).await.status, 200, "the grant is there");
    assert_eq!(revoke(&node, &client, &third).await.status, 200);
    assert_eq!(error(&node.refresh(&client, &third).await), "invalid_grant");
}

#[tokio::test]
async fn a_new_password_ends_grants_and_open_sessions() {
    let node = TestNode::new();
    let (record, root) = node.account("me@localhost").await;
    let (client, access, refresh) = node.granted().await;
    let standing = node.ctx.auth.bearer_alone(None, access.as_bytes()).await.unwrap();
    let standing = node.ctx.auth.standing(&standing);
    let new = sealpost_directory::Secret::new(b"another").unwrap();
    assert_eq!(node.ctx.directory.set_password(&record.name, &root, new).await.unwrap(), 1);
    node.ctx.auth.standings().look(record.id);
    tokio::time::timeout(Duration::from_secs(10), standing.lost()).await.unwrap();
    assert_eq!(node.another(7).session(&access).await.status, 401);
    assert_eq!(error(&node.refresh(&client, &refresh).await), "invalid_grant");
}

#[tokio::test]
async fn a_scope_opens_only_its_own_services() {
    let node = TestNode::new();
    let (record, root) = node.account("me@localhost").await;
    let (_, slot, secret) = node.ctx.directory.add_grant(&record, &root, "x").await.unwrap();
    let token = |scopes: Scopes| {
        let at = sealpost_base::Clock::now(&*node.clock).after(OAUTH_ACCESS_LIFETIME);
        let (account, client, binding) = (record.name.to_string(), [0; 32], [0; 32]);
        let secret = secret.clone();
        let token = GrantToken { account, slot, secret, scopes, at, generation: 1, client, binding };
        token.seal(TokenKind::Access, node.ctx.directory.token_keys(), &*node.ctx.random).to_string()
    };
    let (mail, contacts) = (token(Scopes::NONE.with(Scope::Mail)), token(Scopes::NONE.with(Scope::Contacts)));
    let capabilities = async |token: &str| node.session(token).await.json()["capabilities"].clone();
    assert!(capabilities(&mail).await.get("urn:ietf:params:jmap:mail").is_some());
    let of_contacts = capabilities(&contacts).await;
    assert!(of_contacts.get("urn:ietf:params:jmap:mail").is_none(), "{of_contacts}");
    assert!(of_contacts.get("urn:ietf:params:jmap:core").is_some());
    let fields = format!("Authorization: Bearer {contacts}\r\n{JSON_TYPE}");
    let request = json!({"using": ["urn:ietf:params:jmap:mail"], "methodCalls": []}).to_string();
    let refused = node.ask("POST /jmap/api", &fields, &request).await;
    assert_eq!(refused.json()["type"], "urn:ietf:params:jmap:error:unknownCapability");
    let bearer = async |token: &str| node.ctx.auth.bearer(None, "", token.as_bytes()).await;
    assert!(bearer(&mail).await.is_ok() && matches!(bearer(&contacts).await, Err(Denied::Scope)));
}
