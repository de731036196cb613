//! Objects that an attacker plants where a record is about to begin, or beside records of logins, vacation
//! replies and shared mailboxes; and what a purge deletes of other crates' objects.

use sealpost_vault::ShareKeys;
use sealpost_vault::slot::SlotId;

use super::*;

async fn plant(world: &Fixture, directory: &str, versions: &[u64]) {
    for version in versions {
        world.store.put_new(&format!("{directory}/{version:016x}"), Sealed::marker()).await.unwrap();
    }
}

#[tokio::test]
async fn vacation_replies_begin_and_go_on_beside_noise() {
    let (world, id) = (Fixture::new(), AccountId([7; 16]));
    let (one, other) = (world.directory(), world.directory());
    let at = format!("vacations/{id}");
    plant(&world, &at, &[1, u64::MAX]).await;
    assert_eq!(one.vacation_replies(id).await.unwrap(), (None, 0));
    assert!(one.put_vacation_replies(id, 0, b"first").await.unwrap());
    assert!(!other.put_vacation_replies(id, 0, b"also first").await.unwrap(), "one writer was first");
    plant(&world, &at, &[3, 9]).await;
    let (bytes, version) = other.vacation_replies(id).await.unwrap();
    assert!(bytes.unwrap().starts_with(b"first") && version == 2);
    assert!(other.put_vacation_replies(id, version, b"next").await.unwrap());
    assert!(one.vacation_replies(id).await.unwrap().0.unwrap().starts_with(b"next"));
}

#[tokio::test]
async fn a_list_of_replies_that_was_seen_must_return() {
    let (world, id) = (Fixture::new(), AccountId([7; 16]));
    let directory = world.directory();
    directory.put_vacation_replies(id, 0, b"first").await.unwrap();
    let at = format!("vacations/{id}");
    world.store.delete(&format!("{at}/0000000000000001")).await.unwrap();
    plant(&world, &at, &[1]).await;
    assert_eq!(kind(directory.vacation_replies(id)).await, Kind::Corrupt);
}

#[tokio::test]
async fn a_grant_goes_on_beside_noise() {
    let (world, slot) = (Fixture::new(), SlotId([1; 8]));
    let (one, other) = (world.directory(), world.directory());
    let (me, _) = one.create(&name("me@x"), new("one")).await.unwrap();
    let at = format!("logins/{}/{slot}", me.id);
    plant(&world, &at, &[1, u64::MAX]).await;
    assert_eq!(one.rotate_grant(&me, slot, 0).await.unwrap(), Rotation::Next(1));
    plant(&world, &at, &[3]).await;
    assert_eq!(other.rotate_grant(&me, slot, 1).await.unwrap(), Rotation::Next(2));
    world.clock.advance(limits::OAUTH_REFRESH_GRACE * 2);
    assert_eq!(one.rotate_grant(&me, slot, 1).await.unwrap(), Rotation::Reused);
}

#[tokio::test]
async fn a_shared_mailbox_gets_new_keys_beside_noise() {
    let (world, owner, share) = (Fixture::new(), AccountId([7; 16]), AccountId([8; 16]));
    let directory = world.directory();
    let root = sealpost_vault::RootKey::generate(&*world.random);
    let public = sealpost_vault::AccountKeys::derive(&root, share).public();
    let record = directory.record_share(owner, share, public).await.unwrap();
    plant(&world, &format!("shares/{owner}/{share}"), &[2, u64::MAX]).await;
    plant(&world, &format!("shares/{owner}/{}", AccountId([9; 16])), &[1]).await;
    assert_eq!(directory.share(owner, share).await.unwrap().unwrap(), record);
    assert_eq!(directory.shares_of(owner).await.unwrap(), std::slice::from_ref(&record));
    let next = root.next(&*world.random).unwrap();
    let keys = ShareKeys::seal(share, &next, &[(owner, public)], &*world.random).unwrap();
    assert!(directory.set_share_keys(&record, public, keys.clone()).await.unwrap());
    assert!(directory.share(owner, share).await.unwrap().unwrap().keys == Some(keys));
}

#[tokio::test]
async fn keys_of_a_shared_mailbox_that_went_back_are_refused() {
    let (world, owner, share) = (Fixture::new(), AccountId([7; 16]), AccountId([8; 16]));
    let (one, other, new) = (world.directory(), world.directory(), world.directory());
    let root = sealpost_vault::RootKey::generate(&*world.random);
    let public = sealpost_vault::AccountKeys::derive(&root, share).public();
    let record = one.record_share(owner, share, public).await.unwrap();
    let next = root.next(&*world.random).unwrap();
    let keys = ShareKeys::seal(share, &next, &[(owner, public)], &*world.random).unwrap();
    assert!(one.set_share_keys(&record, public, keys).await.unwrap());
    assert!(other.share(owner, share).await.unwrap().unwrap().keys.is_some());
    world.store.delete(&format!("shares/{owner}/{share}/0000000000000002")).await.unwrap();
    for node in [&one, &other] {
        assert_eq!(kind(node.share(owner, share)).await, Kind::Retry);
        assert_eq!(node.watermarks().back(), 1);
        // The owner's account can still be deleted with it.
        assert_eq!(node.shares_of(owner).await.unwrap().len(), 1);
    }
    assert!(new.share(owner, share).await.unwrap().unwrap().keys.is_none(), "it has not seen the later keys");
    // A deleted one has ended.
    one.delete_share(&record).await.unwrap();
    for node in [&one, &other, &new] {
        assert_eq!(node.share(owner, share).await.unwrap(), None);
    }
}

#[tokio::test]
async fn the_use_of_a_grant_that_went_back_is_refused() {
    let world = Fixture::new();
    let (one, other) = (world.directory(), world.directory());
    let (me, root) = one.create(&name("me@x"), new("one")).await.unwrap();
    let (_, slot, _) = one.add_grant(&me, &root, "client").await.unwrap();
    let at = format!("logins/{}/{slot}", me.id);
    for generation in 0..4 {
        one.rotate_grant(&me, slot, generation).await.unwrap();
    }
    assert_eq!(other.login_use(me.id, slot).await.unwrap().unwrap().generation, 4);
    world.clock.advance(limits::OAUTH_REFRESH_GRACE * 2);
    world.store.delete(&format!("{at}/0000000000000004")).await.unwrap();
    for node in [&one, &other] {
        for generation in [2, 3, 4] {
            assert_eq!(kind(node.rotate_grant(&me, slot, generation)).await, Kind::Retry);
        }
        assert_eq!(node.watermarks().back(), 1);
    }
    // Noise in its place says as little, and a record that is gone.
    plant(&world, &at, &[4]).await;
    world.store.delete(&format!("{at}/0000000000000003")).await.unwrap();
    for _ in 0..2 {
        assert_eq!(one.login_use(me.id, slot).await.unwrap(), None);
        assert_eq!(kind(one.rotate_grant(&me, slot, 0)).await, Kind::Retry);
        world.store.delete(&format!("{at}/0000000000000004")).await.unwrap();
    }
    // With the slot another node deletes it: that is no damage.
    one.revoke_app_password(&me.name, slot).await.unwrap();
    assert_eq!(other.rotate_grant(&me, slot, 4).await.unwrap(), Rotation::Ended);
    let (cookie, _) = one.add_web_login(&me, &root, "browser").await.unwrap();
    one.note_login_use(me.id, cookie).await.unwrap();
    world.store.delete(&format!("logins/{}/{cookie}/0000000000000001", me.id)).await.unwrap();
    // A web login has no generations: it only ends sooner.
    assert_eq!(one.login_use(me.id, cookie).await.unwrap(), None);
    one.note_login_use(me.id, cookie).await.unwrap();
    assert!(other.login_use(me.id, cookie).await.unwrap().is_some());
    assert_eq!(one.watermarks().back(), 1);
}

#[tokio::test]
async fn a_purged_account_leaves_no_push_subscriptions() {
    let world = Fixture::new();
    let (directory, me) = (world.directory(), name("me@x"));
    let (record, _) = directory.create(&me, new("one")).await.unwrap();
    let other = format!("push/accounts/{}", AccountId([9; 16]));
    plant(&world, &format!("push/accounts/{}", record.id), &[4]).await;
    plant(&world, &other, &[1]).await;
    directory.remove(&me).await.unwrap();
    assert_eq!(world.paths("push").await.len(), 2, "it can be brought back");
    directory.purge_now(&me).await.unwrap();
    assert_eq!(world.paths("push").await, [format!("{other}/0000000000000001")]);
}
