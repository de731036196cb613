//! Mailboxes that become shares, and what clients that knew them before may rely on.

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
