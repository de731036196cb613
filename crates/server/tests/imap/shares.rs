//! Mailboxes that become shares, and what clients that knew them before may rely on.

use std::time::Duration;

use sealpost_session::Settings;

use crate::imap_world::{Client, TestServer};

async fn uid_validity(client: &mut Client, name: &str) -> u32 {
    let lines = client.ok(&format!("STATUS {name} (UIDVALIDITY)")).await;
    let (_, number) = lines[0].trim_end_matches(')').rsplit_once(' ').unwrap();
    number.parse().unwrap()
}

#[tokio::test]
async fn a_name_never_gets_a_lower_uidvalidity() {
    let mut world = TestServer::new(Settings::default()).await;
    world.add_account("you", None).await;
    let mut client = world.login().await;
    // The ids of shares are random, and a UIDVALIDITY begins with one.
    for n in 0..8 {
        let name = format!("Work{n}");
        let mut last = 0;
        for _ in 0..3 {
            client.ok(&format!("CREATE {name}")).await;
            let made = uid_validity(&mut client, &name).await;
            assert!(made > last, "{name} is made with {made} after {last}");
            client.ok(&format!("SETACL {name} you@localhost lrk")).await;
            last = uid_validity(&mut client, &name).await;
            assert!(last > made, "{name} is shared with {last} after {made}");
            client.ok(&format!("DELETE {name}")).await;
        }
    }
    // Nor does one that another account makes below.
    client.ok("CREATE Team").await;
    client.ok("SETACL Team you@localhost lrkx").await;
    let mut you = world.connect();
    you.login_as("you").await;
    let (name, mut last) = ("\"Other Users/me@localhost/Team/a\"", 0);
    for _ in 0..4 {
        you.ok(&format!("CREATE {name}")).await;
        let made = uid_validity(&mut you, name).await;
        assert!(made > last, "made with {made} after {last}");
        assert_eq!(uid_validity(&mut client, "Team/a").await, made);
        last = made;
        you.ok(&format!("DELETE {name}")).await;
        // The owner's name for it is removed when the owner's session reads the log.
        client.ok("LIST \"\" *").await;
    }
}

/// A mailbox of which a reader's last right is taken away gets another key: who may still read it
/// notices nothing, and the other one is disconnected, awake, waiting or hibernating.
#[tokio::test]
async fn a_new_key_disconnects_the_former_reader_alone() {
    for hibernate in [Duration::from_secs(60), Duration::ZERO] {
        let mut settings = Settings::default();
        settings.timeouts.imap_hibernate = hibernate;
        let mut world = TestServer::new(settings).await;
        world.add_account("you", None).await;
        world.add_account("they", None).await;
        let mut me = world.login().await;
        me.ok("CREATE Work").await;
        me.ok("SETACL Work they@localhost lrswite").await;
        let theirs = "\"Other Users/me@localhost/Work\"";
        let mut sessions = Vec::new();
        for round in 0..3 {
            me.ok("SETACL Work you@localhost lr").await;
            me.ok("SELECT Work").await;
            for name in ["you", "you", "they", "they"] {
                let mut client = world.connect();
                client.login_as(name).await;
                client.ok(&format!("SELECT {theirs}")).await;
                sessions.push((name, client));
            }
            for (name, client) in &mut sessions[4 * round..] {
                client.send(b"x IDLE\r\n").await;
                assert_eq!(client.line().await, "+ idling", "{name}");
            }
            me.ok("SETACL Work you@localhost \"\"").await;
            if hibernate.is_zero() {
                world.ctx.accounts.evict_all();
            }
            me.ok("APPEND Work {18+}\r\nSubject: x\r\n\r\nxy\r\n").await;
            for (name, client) in &mut sessions[4 * round..] {
                if *name == "you" {
                    assert!(client.rest().await.starts_with("* BYE"), "hibernate {hibernate:?}");
                    continue;
                }
                while !client.line().await.ends_with("EXISTS") {}
                client.send(b"DONE\r\n").await;
                client.answer().await;
                client.ok("UID FETCH * BODY[]").await;
                client.ok("UID STORE * +FLAGS (\\Flagged)").await;
            }
            let lines = me.ok("UID FETCH * FLAGS").await;
            assert!(lines.iter().any(|line| line.contains("\\Flagged")), "{lines:?}");
        }
        let mut you = world.connect();
        you.login_as("you").await;
        assert!(!you.ok("LIST \"\" *").await.concat().contains("Work"));
    }
}
