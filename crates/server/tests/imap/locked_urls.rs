//! Authorized URLs of mailboxes that are locked, and of mailboxes that are shared
//! (docs/decisions/0017-urlauth.md).

use std::time::Duration;

use sealpost_session::Settings;

use crate::imap_world::{Client, TestServer};

/// The URL that GENURLAUTH makes of this one.
async fn authorized(client: &mut Client, url: &str) -> String {
    let lines = client.ok(&format!("GENURLAUTH \"{url}\" INTERNAL")).await;
    lines[0].strip_prefix("* GENURLAUTH \"").unwrap().trim_end_matches('"').to_owned()
}

#[tokio::test]
async fn a_url_works_while_its_owner_is_logged_in() {
    let mut world = TestServer::new(Settings::default()).await;
    world.add_account("fred", None).await;
    world.deliver(None, b"Subject: x\r\n\r\nbody\r\n").await;
    let mut owner = world.login().await;
    let url = "imap://me@localhost/INBOX/;uid=1/;section=text;urlauth=user+fred";
    let url = authorized(&mut owner, url).await;
    let mut fred = world.connect();
    fred.login_as("fred").await;
    let fetch = format!("URLFETCH {url}");
    let shown = format!("* URLFETCH \"{url}\" {{6}}\r\nbody\r\n");
    assert_eq!(fred.ok(&fetch).await[0], shown);
    owner.ok("LOGOUT").await;
    assert_eq!(owner.rest().await, "");
    drop(owner);
    // Kept for a client that reconnects at once.
    assert_eq!(fred.ok(&fetch).await[0], shown);
    world.clock.advance(Duration::from_secs(120));
    world.ctx.accounts.evict_idle();
    let wrong = format!("{}{}", &url[..url.len() - 1], if url.ends_with('0') { '1' } else { '0' });
    let locked = "x NO [UNAVAILABLE] the owner's mailbox is locked, try again while the owner uses it";
    assert_eq!(fred.command(&fetch).await, [locked]);
    // The reply distinguishes valid URLs from invalid ones, and reveals nothing else: not even
    // whether the account exists.
    for other in [
        "imap://me@localhost/INBOX/;uid=1;urlauth=user+fred:internal:91354a473744909de610943775f92038",
        "imap://you@localhost/INBOX/;uid=1;urlauth=user+fred:internal:91354a473744909de610943775f92038",
        &url.replace("uid=1", "uid=2"),
        &url.replace("user+fred", "anonymous"),
    ] {
        assert_eq!(fred.ok(&format!("URLFETCH {other}")).await[0], format!("* URLFETCH \"{other}\" NIL"));
    }
    // The others of a command are answered.
    let lines = fred.command(&format!("URLFETCH x {url}")).await;
    assert_eq!(lines, ["* URLFETCH \"x\" NIL", locked]);
    let owner = world.login().await;
    assert_eq!(fred.ok(&fetch).await[0], shown);
    assert_eq!(fred.ok(&format!("URLFETCH {wrong}")).await[0], format!("* URLFETCH \"{wrong}\" NIL"));
    drop(owner);
}

#[tokio::test]
async fn a_url_shows_only_messages_its_owner_may_read() {
    let mut world = TestServer::new(Settings::default()).await;
    for name in ["fred", "anna"] {
        world.add_account(name, None).await;
    }
    let mut owner = world.login().await;
    owner.ok("APPEND Archive {3+}\r\na\r\n").await;
    owner.ok("SETACL Archive fred@localhost lr").await;
    let mut fred = world.connect();
    fred.login_as("fred").await;
    let mailbox = "Other%20Users/me@localhost/Archive";
    let url = format!("imap://fred@localhost/{mailbox}/;uid=1;urlauth=authuser");
    let url = authorized(&mut fred, &url).await;
    let mut anna = world.connect();
    anna.login_as("anna").await;
    let fetch = format!("URLFETCH \"{url}\"");
    assert_eq!(anna.ok(&fetch).await[0], format!("* URLFETCH \"{url}\" {{3}}\r\na\r\n"));
    owner.ok("SETACL Archive fred@localhost l").await;
    assert_eq!(anna.ok(&fetch).await[0], format!("* URLFETCH \"{url}\" NIL"));
    owner.ok("SETACL Archive fred@localhost lr").await;
    fred.ok("RESETKEY").await;
    assert_eq!(anna.ok(&fetch).await[0], format!("* URLFETCH \"{url}\" NIL"));
}
