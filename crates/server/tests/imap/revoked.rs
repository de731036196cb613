//! Sessions whose account, token or password was removed end soon, in any state.

use std::time::Duration;

use sealpost_auth::standing::PERIOD;
use sealpost_directory::Secret;
use sealpost_session::Settings;

use crate::imap_world::TestServer;

const BYE: &str = "* BYE this login is no longer valid\r\n";

#[tokio::test]
async fn sessions_of_a_revoked_token_end_and_others_continue() {
    let mut world = TestServer::new(Settings::default()).await;
    let (id, token) = world.token().await;
    let mut by_password = world.login().await;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let mut client = world.connect();
        client.line().await;
        client.ok(&format!("LOGIN me@localhost {token}")).await;
        sessions.push(client);
    }
    sessions[0].ok("SELECT INBOX").await;
    sessions[0].send(b"i IDLE\r\n").await;
    assert_eq!(sessions[0].line().await, "+ idling");
    sessions[1].ok("SELECT INBOX").await;
    tokio::time::pause();
    tokio::time::sleep(PERIOD * 3).await;
    sessions[1].ok("NOOP").await;
    world.ctx.directory.revoke_app_password(world.name(), id).await.unwrap();
    tokio::time::sleep(PERIOD * 2).await;
    for client in &mut sessions {
        // A client in IDLE may have got the sign of life of the server.
        assert!(client.rest().await.ends_with(BYE));
    }
    by_password.ok("NOOP").await;
}

#[tokio::test]
async fn sessions_end_with_their_password_or_account() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut old = world.login().await;
    let new = Secret::new(b"new").unwrap();
    world.ctx.directory.set_password(world.name(), world.root(), new).await.unwrap();
    tokio::time::pause();
    tokio::time::sleep(PERIOD * 2).await;
    assert_eq!(old.rest().await, BYE);
    tokio::time::resume();
    let mut client = world.connect();
    client.line().await;
    client.ok("LOGIN me@localhost new").await;
    world.ctx.directory.remove(world.name()).await.unwrap();
    tokio::time::pause();
    tokio::time::sleep(PERIOD * 2).await;
    // What was sent before the server looked may still be answered; the goodbye comes in any case.
    client.try_send(b"1 NOOP\r\n").await;
    assert!(client.rest_or_reset().await.ends_with(BYE));
}

#[tokio::test]
async fn a_session_that_sends_without_pause_ends_too() {
    let mut world = TestServer::new(Settings::default()).await;
    let (id, token) = world.token().await;
    let mut client = world.connect();
    client.line().await;
    client.ok(&format!("LOGIN me@localhost {token}")).await;
    world.ctx.directory.revoke_app_password(world.name(), id).await.unwrap();
    tokio::time::pause();
    let busy = async {
        // Until it hangs up.
        loop {
            client.try_send(b"1 NOOP\r\n").await;
            let line = client.line_or_end().await;
            if line.as_deref() != Some("1 OK NOOP completed") {
                return line;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let last = tokio::time::timeout(PERIOD * 2, busy).await.expect("the session ends");
    assert_eq!(last.as_deref(), Some("* BYE this login is no longer valid"));
}
