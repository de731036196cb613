//! What is left of shared mailboxes that were deleted: kept for as long as deleted mail is, then
//! gone; and nothing else.

use std::time::Duration;

use futures::TryStreamExt;
use sealpost_account::AccountState;
use sealpost_account::share::{self, Link};
use sealpost_base::AccountId;
use sealpost_session::Settings;
use sealpost_vault::{AccountKeys, RootKey};

use crate::imap_world::TestServer;

async fn objects(world: &TestServer, prefix: &str) -> usize {
    world.ctx.store.list(prefix, None).try_collect::<Vec<_>>().await.unwrap().len()
}

#[tokio::test]
async fn a_deleted_share_is_kept_for_its_grace_period() {
    let mut world = TestServer::new(Settings::default()).await;
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
    // Objects carry the time of this machine, which is not the server's clock.
    world.clock.advance(Duration::from_secs(20 * 365 * 24 * 3600));
    // As the server does from time to time. What is loaded is not deleted.
    world.ctx.accounts.evict_idle();
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

/// Leftovers of refused commands of earlier versions, and of crashes, are removed when their owner
/// logs in; and nothing else.
#[tokio::test]
async fn shares_that_were_never_completed_go_and_others_stay() {
    let mut world = TestServer::new(Settings::default()).await;
    world.add_account("bob", None).await;
    let mut client = world.login().await;
    for name in ["Empty", "Used"] {
        client.ok(&format!("CREATE {name}")).await;
        client.ok(&format!("SETACL {name} bob lr")).await;
    }
    client.ok("APPEND Used {3+}\r\na\r\n").await;
    let account = world.account().await;
    let phantom = async |remembered: bool, entries: u8| {
        let random = &*world.ctx.random;
        let (id, root) = (AccountId::random(random), RootKey::generate(random));
        let public = AccountKeys::derive(&root, id).public();
        world.ctx.directory.record_share(account.id(), id, public).await.unwrap();
        let link = Link { share: id, root: root.clone(), owner: None };
        if remembered {
            account.commit(|_| Ok((vec![share::unlinked(&link)], ()))).await.unwrap();
        }
        let log = world.ctx.accounts.open(id, &root).await.unwrap();
        for _ in 0..entries {
            let put = |state: &AccountState| {
                Ok((vec![share::numbered_above(state, state.last_uid_validity())], ()))
            };
            log.commit(put).await.unwrap();
        }
        id
    };
    let gone =
        [phantom(true, 1).await, phantom(true, 5).await, phantom(false, 0).await, phantom(false, 2).await];
    // No session here has its key, and it was used: one on another node may.
    let kept = phantom(false, 3).await;
    // Soon after, they may be mailboxes that are being shared right now.
    client.ok("LOGOUT").await;
    world.login().await;
    assert_eq!(objects(&world, "shares").await, 7);
    world.clock.advance(Duration::from_secs(20 * 365 * 24 * 3600));
    world.ctx.accounts.evict_idle();
    let mut client = world.login().await;
    for _ in 0..1000 {
        if objects(&world, "shares").await == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(objects(&world, "shares").await, 3);
    for share in gone {
        assert_eq!(objects(&world, &format!("acct/{share}")).await, 0);
    }
    assert_eq!(objects(&world, &format!("acct/{kept}")).await, 3);
    assert_eq!(world.account().await.state().unlinked_shares().count(), 0);
    for name in ["Empty", "Used"] {
        client.ok(&format!("STATUS {name} (MESSAGES)")).await;
        assert!(client.ok(&format!("GETACL {name}")).await[0].contains("bob"));
    }
}

/// A mailbox with a message that cannot be read is not shared; nothing of what was copied stays.
#[tokio::test]
async fn a_share_that_could_not_be_filled_takes_nothing() {
    let mut world = TestServer::new(Settings::default()).await;
    world.add_account("bob", None).await;
    let mut client = world.login().await;
    for n in 0..5 {
        client.ok(&format!("APPEND Archive {{9+}}\r\na: {n}\r\n\r\n\r\n")).await;
    }
    let account = world.account().await;
    let object = {
        let state = account.state();
        let row = state.mailbox_named("Archive").unwrap().all_rows().last().unwrap();
        state.message(row.message).unwrap().object
    };
    world.ctx.store.delete(&format!("acct/{}/msg/{object}", account.id())).await.unwrap();
    let messages = async || {
        let all = world.ctx.store.list("acct", None).try_collect::<Vec<_>>().await.unwrap();
        all.iter().filter(|object| object.path.contains("/msg/")).count()
    };
    assert_eq!(messages().await, 4);
    for _ in 0..3 {
        let answer = client.command("SETACL Archive bob lr").await;
        assert!(answer.last().unwrap().starts_with("x NO"), "{answer:?}");
        assert_eq!(messages().await, 4);
    }
    assert_eq!(account.state().given_up_shares().len(), 3);
    world.ctx.accounts.evict_all();
    client.ok("CREATE Other").await;
    client.ok("SETACL Other bob lr").await;
    assert_eq!((objects(&world, "shares").await, account.state().given_up_shares().len()), (1, 0));
}

/// The logs of shares, of those that have any object.
async fn objects_of_shares(world: &TestServer) -> Vec<sealpost_directory::ShareRecord> {
    let mut shares = world.ctx.directory.shares().await.unwrap();
    let mut with_objects = Vec::new();
    for share in shares.drain(..) {
        if objects(world, &format!("acct/{}", share.share)).await > 0 {
            with_objects.push(share);
        }
    }
    with_objects
}
