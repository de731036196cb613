//! Logins by tokens, and sessions whose login is gone.

use sealpost_auth::grant_token::GrantToken;
use sealpost_auth::standing::PERIOD;
use sealpost_auth::{Scope, Scopes};
use sealpost_base::limits;
use sealpost_directory::AccountName;
use sealpost_session::Settings;
use sealpost_smtp_session::Service;
use sealpost_submission::outbox::SendingLimits;
use sealpost_vault::TokenKind;

use crate::submission_world::{Dialog, TestServer};

const LOGIN: (&str, &str) = ("AUTH PLAIN AG1lQGxvY2FsaG9zdABzZWNyZXQ=", "235 2.7.0");
const HELLO: (&str, &str) = ("EHLO client.example", "250 ");
/// `{"status":"invalid_token","schemes":"bearer"}`
const INVALID_TOKEN: &str = "334 eyJzdGF0dXMiOiJpbnZhbGlkX3Rva2VuIiwic2NoZW1lcyI6ImJlYXJlciJ9";

async fn world() -> TestServer {
    TestServer::new(Settings::default(), SendingLimits::default()).await
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |group: &[u8]| {
        let bits = group.iter().chain([&0, &0]).take(3).fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        (0..4usize)
            .map(|n| match n <= group.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * n)) as usize & 63]),
                false => '=',
            })
            .collect::<String>()
    };
    text.as_bytes().chunks(3).map(digits).collect()
}

#[tokio::test]
async fn a_token_logs_in_over_tls_until_revoked() {
    let mut world = world().await;
    let me = AccountName::parse("me@localhost").unwrap();
    let root = &world.owner("me@localhost").1;
    let (info, token) = world.ctx.directory.add_app_password(&me, root, "phone").await.unwrap();
    let bearer = |name: &str, token: &str| base64(&format!("n,a={name},\x01auth=Bearer {token}\x01\x01"));
    let mut stream = world.connect_over_tls().await;
    let mut client = Dialog::new(&mut stream);
    client
        .go_on(&[
            HELLO,
            // RFC 7628 §3.2.3: the error is a challenge, and the answer to that gets the reply.
            (&format!("AUTH OAUTHBEARER {}", bearer("me@localhost", "sp_wrong")), INVALID_TOKEN),
            ("AQ==", "535 5.7.8"),
            (&format!("AUTH OAUTHBEARER {}", bearer("you@localhost", &token)), INVALID_TOKEN),
            ("*", "535 5.7.8"),
            ("AUTH OAUTHBEARER", "334 "),
            (&base64("nothing"), "501 5.5.2 Not a message"),
            ("AUTH OAUTHBEARER", "334 "),
            (&bearer("me@localhost", &token), "235 2.7.0"),
            ("MAIL FROM:<me@localhost>", "250 "),
        ])
        .await;
    let mut other = world.connect_over_tls().await;
    let xoauth2 = base64(&format!("user=me@localhost\x01auth=Bearer {}\x01\x01", *token));
    let mut second = Dialog::new(&mut other);
    second.go_on(&[HELLO, (&format!("AUTH XOAUTH2 {xoauth2}"), "235 2.7.0")]).await;

    world.ctx.directory.revoke_app_password(&me, info.id).await.unwrap();
    tokio::time::pause();
    tokio::time::sleep(PERIOD * 3).await;
    // Whether or not it says something.
    assert!(second.reply().await.starts_with("421 4.7.0 The login is no longer valid"));
    assert!(client.reply().await.starts_with("421 4.7.0 The login is no longer valid"));
    world.all_ended().await;
}

#[tokio::test]
async fn an_access_token_submits_until_its_grant_is_revoked() {
    let mut world = world().await;
    let me = AccountName::parse("me@localhost").unwrap();
    let root = &world.owner("me@localhost").1;
    let record = world.ctx.directory.get(&me).await.unwrap();
    let (_, slot, secret) = world.ctx.directory.add_grant(&record, root, "client").await.unwrap();
    let token = |scope| {
        let at = world.ctx.clock.now().after(limits::OAUTH_ACCESS_LIFETIME);
        let (account, secret, scopes) = (me.to_string(), secret.clone(), Scopes::NONE.with(scope));
        let (client, binding) = ([0; 32], [0; 32]);
        let token = GrantToken { account, slot, secret, scopes, at, generation: 1, client, binding };
        let text = token.seal(TokenKind::Access, world.ctx.directory.token_keys(), &*world.ctx.random);
        base64(&format!("n,,\x01auth=Bearer {}\x01\x01", *text))
    };
    let (mail, contacts) = (token(Scope::Mail), token(Scope::Contacts));
    let mut stream = world.connect_over_tls().await;
    let mut client = Dialog::new(&mut stream);
    client
        .go_on(&[
            HELLO,
            // `{"status":"insufficient_scope",…}`
            (&format!("AUTH OAUTHBEARER {contacts}"), "334 eyJzdGF0dXMiOiJpbnN1ZmZpY2llbnRfc2NvcGUi"),
            ("AQ==", "535 5.7.8"),
            (&format!("AUTH OAUTHBEARER {mail}"), "235 2.7.0"),
            ("MAIL FROM:<me@localhost>", "250 "),
        ])
        .await;
    world.ctx.directory.revoke_app_password(&me, slot).await.unwrap();
    tokio::time::pause();
    tokio::time::sleep(PERIOD * 3).await;
    assert!(client.reply().await.starts_with("421 4.7.0 The login is no longer valid"));
    tokio::time::resume();
    let mut stream = world.connect_over_tls().await;
    let mut client = Dialog::new(&mut stream);
    client.go_on(&[HELLO, (&format!("AUTH OAUTHBEARER {mail}"), INVALID_TOKEN), ("AQ==", "535 5.7.8")]).await;
}

#[tokio::test]
async fn a_suspended_account_submits_no_more() {
    let mut world = world().await;
    let mut stream = world.connect_to(Service::Submission);
    let mut client = Dialog::new(&mut stream);
    client.expect(&[HELLO, LOGIN, ("MAIL FROM:<me@localhost>", "250 "), ("RSET", "250 ")]).await;
    world.ctx.directory.suspend(&AccountName::parse("me@localhost").unwrap()).await.unwrap();
    // The record is read for each message, before the session as a whole notices.
    assert!(client.ask("MAIL FROM:<me@localhost>").await.starts_with("421 4.7.0"));
    let mut stream = world.connect_to(Service::Submission);
    Dialog::new(&mut stream).expect(&[HELLO, (LOGIN.0, "535 5.7.13")]).await;
}

#[tokio::test]
async fn an_answer_beyond_the_limit_ends_the_exchange() {
    let mut world = world().await;
    let mut stream = world.connect_to(Service::Submission);
    let long = "YWFh".repeat(limits::SMTP_AUTH_LINE_BYTES / 4);
    let fits = "YWFh".repeat(limits::SMTP_AUTH_LINE_BYTES / 4 - 1);
    Dialog::new(&mut stream)
        .expect(&[
            HELLO,
            ("AUTH PLAIN", "334 "),
            (&long, "500 5.5.6 Authentication exchange line is too long"),
            ("AUTH PLAIN", "334 "),
            (&fits, "501 5.5.2 Not a message"),
            ("NOOP", "250 "),
        ])
        .await;
}

#[tokio::test]
async fn failures_are_counted_and_end_the_session() {
    let mut world = world().await;
    let mut stream = world.connect_to(Service::Submission);
    let mut client = Dialog::new(&mut stream);
    client.expect(&[HELLO]).await;
    for _ in 0..=limits::SMTP_ERRORS {
        assert!(client.ask("AUTH PLAIN !").await.starts_with("501 "));
    }
    assert!(client.reply().await.starts_with("421 4.7.0 Too many errors"));
    let wrong = base64("\0me@localhost\0wrong");
    let mut stream = world.connect_to(Service::Submission);
    Dialog::new(&mut stream).expect(&[HELLO, (&format!("AUTH PLAIN {wrong}"), "535 5.7.8")]).await;
    assert_eq!(world.ctx.auth.metrics().failures(), 1);
}
