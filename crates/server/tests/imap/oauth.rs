//! Access tokens of OAuth: they open IMAP until they expire or their grant is revoked.

use sealpost_auth::standing::PERIOD;
use sealpost_auth::{Scope, Scopes};
use sealpost_base::limits::OAUTH_ACCESS_LIFETIME;
use sealpost_session::Settings;

use crate::imap_world::{Client, TestServer, base64};

const BYE: &str = "* BYE this login is no longer valid\r\n";

async fn over_tls(world: &mut TestServer) -> Client {
    let mut client = world.connect();
    client.line().await;
    client.ok("STARTTLS").await;
    client.start_tls(world).await
}

/// Logs in with a token; the answer to the command.
async fn bearer(client: &mut Client, name: &str, token: &str) -> String {
    let message = format!("n,{name},\x01auth=Bearer {token}\x01\x01");
    let message = String::from_utf8(base64(message.as_bytes())).unwrap();
    client.send(format!("b AUTHENTICATE OAUTHBEARER {message}\r\n").as_bytes()).await;
    let mut line = client.line().await;
    while !line.starts_with("b ") {
        if line.starts_with("+ ") {
            client.send(b"AQ==\r\n").await;
        }
        line = client.line().await;
    }
    line
}

#[tokio::test]
async fn an_access_token_opens_imap_until_revoked() {
    let mut world = TestServer::new(Settings::default()).await;
    let (slot, token) = world.access_token(Scopes::NONE.with(Scope::Mail)).await;
    let mut sessions = Vec::new();
    for name in ["", "a=me@localhost"] {
        let mut client = over_tls(&mut world).await;
        let answer = bearer(&mut client, name, &token).await;
        assert!(answer.starts_with("b OK "), "{answer}");
        client.ok("SELECT INBOX").await;
        sessions.push(client);
    }
    world.add_account("you", None).await;
    let contacts = world.access_token(Scopes::NONE.with(Scope::Contacts)).await.1;
    let changed = format!("{}A", &token[..token.len() - 1]);
    for (name, token, code) in [
        ("a=you@localhost", token.as_str(), "AUTHENTICATIONFAILED"),
        ("", &changed, "AUTHENTICATIONFAILED"),
        ("", &contacts, "AUTHORIZATIONFAILED"),
    ] {
        let mut client = over_tls(&mut world).await;
        let answer = bearer(&mut client, name, token).await;
        assert!(answer.starts_with(&format!("b NO [{code}]")), "{answer}");
    }
    world.ctx.directory.revoke_app_password(world.name(), slot).await.unwrap();
    tokio::time::pause();
    tokio::time::sleep(PERIOD * 2).await;
    for client in &mut sessions {
        assert!(client.rest_or_reset().await.ends_with(BYE));
    }
}

#[tokio::test]
async fn an_access_token_that_expires_ends_no_session() {
    let mut world = TestServer::new(Settings::default()).await;
    let (_, token) = world.access_token(Scopes::NONE.with(Scope::Mail)).await;
    let mut client = over_tls(&mut world).await;
    assert!(bearer(&mut client, "", &token).await.starts_with("b OK "));
    world.clock.advance(OAUTH_ACCESS_LIFETIME);
    client.ok("NOOP").await;
    let mut late = over_tls(&mut world).await;
    // It is no guess, however often it comes.
    for _ in 0..5 {
        assert!(bearer(&mut late, "", &token).await.starts_with("b NO [AUTHENTICATIONFAILED]"));
    }
}
