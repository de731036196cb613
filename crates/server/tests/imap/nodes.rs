//! Two nodes on one store: whoever logs in or opens a mailbox on one sees what the other has acknowledged, though nobody
//! has told this one (decision 29).

use std::sync::Arc;

use sealpost_base::{FakeClock, SeededRandom};
use sealpost_server::{Context, Settings};
use sealpost_vault::Store;
use sealpost_vault::record::ServerKey;

use crate::imap_world::{NOW, World, dial};

#[tokio::test]
async fn a_login_and_a_select_see_what_another_node_acknowledged() {
    let store = Store::memory();
    let mut world = World::over(store.clone(), Settings::default(), None).await;
    let key = ServerKey::generate(&SeededRandom::new(1));
    let (clock, random) = (Arc::new(FakeClock::new(NOW)), Arc::new(SeededRandom::new(2)));
    let other = Arc::new(Context::new(Settings::default(), store, key, None, clock, random).unwrap());

    let (mut there, _) = dial(&other);
    there.login().await;
    there.ok("SELECT INBOX").await;

    let mut here = world.login().await;
    here.ok("CREATE New").await;
    here.ok("SUBSCRIBE New").await;
    world.deliver(None, b"Subject: x\r\n\r\n").await;

    // The time of the other node has stood still: nothing was polled.
    let (mut later, _) = dial(&other);
    later.login().await;
    let listed = later.ok("LIST \"\" New").await;
    assert!(listed.iter().any(|line| line.contains("New")), "{listed:?}");

    here.ok("RENAME New Newer").await;
    let selected = there.ok("SELECT Newer").await;
    assert!(selected.iter().any(|line| line == "* 0 EXISTS"), "{selected:?}");
    let selected = there.ok("EXAMINE INBOX").await;
    assert!(selected.iter().any(|line| line == "* 1 EXISTS"), "{selected:?}");
}
