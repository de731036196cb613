//! What is left of shared mailboxes that were deleted: kept for as long as deleted mail is, then gone; and nothing else.

use std::time::Duration;

use futures::TryStreamExt;
use sealpost_server::Settings;

use crate::imap_world::World;

async fn objects(world: &World, prefix: &str) -> usize {
    world.ctx.store.list(prefix, None).try_collect::<Vec<_>>().await.unwrap().len()
}

#[tokio::test]
async fn a_deleted_share_is_kept_for_a_while_and_others_are_not_touched() {
    let mut world = World::new(Settings::default()).await;
    world.add_account("bob", None).await;
    let mut client = world.login().await;
    for name in ["A", "B", "C"] {
        client.ok(&format!("CREATE {name}")).await;
    }
    for name in ["A", "B"] {
        client.ok(&format!("SETACL {name} bob lr")).await;
    }
    client.ok("DELETE A").await;
    let before = objects_of_shares(&world).await;
    assert_eq!((before.len(), objects(&world, "shares").await), (2, 2));
    // Soon after, nothing of it is gone.
    client.ok("SETACL C bob lr").await;
    assert_eq!(objects_of_shares(&world).await.len(), 3);
    // Objects carry the time of this machine, which is not the one that the server is told.
    world.clock.advance(Duration::from_secs(20 * 365 * 24 * 3600));
    client.ok("CREATE D").await;
    client.ok("SETACL D bob lr").await;
    assert_eq!(objects(&world, "shares").await, 3, "B, C and D");
    assert_eq!(objects_of_shares(&world).await.len(), 3);
    for name in ["B", "C", "D"] {
        client.ok(&format!("STATUS {name} (MESSAGES)")).await;
        client.ok(&format!("GETACL {name}")).await;
    }
    let mut bob = world.connect();
    bob.login_as("bob").await;
    let listed = bob.ok("LIST \"\" \"Other Users/me@localhost/%\"").await;
    assert_eq!(listed.len(), 4, "{listed:?}");
}

/// The logs of shares, of those that have any object.
async fn objects_of_shares(world: &World) -> Vec<sealpost_account::directory::ShareRecord> {
    let mut shares = world.ctx.directory.shares().await.unwrap();
    let mut with_objects = Vec::new();
    for share in shares.drain(..) {
        if objects(world, &format!("acct/{}", share.share)).await > 0 {
            with_objects.push(share);
        }
    }
    with_objects
}
