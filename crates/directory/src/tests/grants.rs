//! OAuth grants and web logins: how many there are, how long they last, and what using one writes.

use sealpost_vault::RootKey;
use sealpost_vault::slot::SlotId;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

async fn world() -> (Fixture, Directory, AccountRecord, RootKey) {
    let world = Fixture::new();
    let directory = world.directory();
    let (record, root) = directory.create(&name("me@x"), new("pw")).await.unwrap();
    (world, directory, record, root)
}

async fn logins(directory: &Directory) -> Vec<SlotId> {
    directory.get(&name("me@x")).await.unwrap().revocable().map(|login| login.id).collect()
}

#[tokio::test]
async fn each_generation_is_written_by_one_node() {
    let (world, directory, record, root) = world().await;
    let (id, slot, _) = directory.add_grant(&record.name, &root, "client").await.unwrap();
    let made = directory.get(&record.name).await.unwrap().version;
    let nodes: Vec<Directory> = (0..8).map(|_| world.directory()).collect();
    let exchanges = nodes.iter().map(|node| node.rotate_grant(id, slot, 0));
    let all = futures::future::try_join_all(exchanges).await.unwrap();
    let won = all.iter().filter(|rotation| **rotation == Rotation::Next(1)).count();
    let replayed = all.iter().filter(|rotation| **rotation == Rotation::Reused).count();
    assert_eq!((won, replayed), (1, 7), "a code counts once");
    let refreshes = nodes.iter().map(|node| node.rotate_grant(id, slot, 1));
    let all = futures::future::try_join_all(refreshes).await.unwrap();
    assert_eq!(all.iter().filter(|rotation| **rotation == Rotation::Next(2)).count(), 1);
    assert_eq!(all.iter().filter(|rotation| **rotation == Rotation::Repeated(2)).count(), 7);
    world.clock.advance(limits::OAUTH_REFRESH_GRACE + SECOND);
    assert_eq!(directory.rotate_grant(id, slot, 1).await.unwrap(), Rotation::Reused);
    // A store that was restored knows an earlier one than the client.
    assert_eq!(directory.rotate_grant(id, slot, 40).await.unwrap(), Rotation::Next(41));
    assert_eq!(directory.get(&record.name).await.unwrap().version, made, "the record is not written");
}

#[tokio::test]
async fn an_account_has_so_many_grants() {
    let (world, directory, record, root) = world().await;
    let add = async || directory.add_grant(&record.name, &root, "client").await;
    let (id, first, _) = add().await.unwrap();
    directory.rotate_grant(id, first, 0).await.unwrap();
    for _ in 1..limits::ACCOUNT_GRANTS {
        add().await.unwrap();
    }
    assert_eq!(kind(add()).await, Kind::Limit);
    world.clock.advance(limits::OAUTH_CODE_LIFETIME + SECOND);
    let (_, last, _) = add().await.unwrap();
    assert_eq!(logins(&directory).await, [first, last], "codes that no client claimed make room");
    // App passwords and web logins have limits of their own.
    directory.add_app_password(&record.name, &root, "phone").await.unwrap();
    directory.add_web_login(&record.name, &root, "browser").await.unwrap();
    assert_eq!(
        kind(directory.add_grant(&record.name, &RootKey::generate(&*world.random), "x")).await,
        Kind::Denied
    );
}

#[tokio::test]
async fn unused_logins_end_and_leave_nothing() {
    let (world, directory, record, root) = world().await;
    let (id, grant, _) = directory.add_grant(&record.name, &root, "client").await.unwrap();
    directory.rotate_grant(id, grant, 0).await.unwrap();
    let (used, _) = directory.add_web_login(&record.name, &root, "used").await.unwrap();
    let (unused, _) = directory.add_web_login(&record.name, &root, "unused").await.unwrap();
    world.clock.advance(limits::WEB_LOGIN_IDLE);
    directory.note_login_use(id, used).await.unwrap();
    assert_eq!(directory.maintain_records(None).await.unwrap().expired, 0);
    world.clock.advance(SECOND);
    assert_eq!(directory.maintain_records(None).await.unwrap().expired, 1);
    assert_eq!(logins(&directory).await, [grant, used]);
    directory.note_login_use(id, unused).await.unwrap();
    world.clock.advance(limits::GRANT_IDLE);
    assert_eq!(directory.maintain_records(None).await.unwrap().expired, 2);
    assert_eq!(logins(&directory).await, []);
    for slot in [grant, used] {
        assert_eq!(directory.login_use(id, slot).await.unwrap(), None);
    }
    directory.remove(&record.name).await.unwrap();
    directory.purge_now(&record.name).await.unwrap();
    assert!(world.paths("logins").await.is_empty(), "what was written too late goes with the account");
}

#[tokio::test]
async fn a_new_root_key_keeps_grants_and_web_logins() {
    let (_, directory, record, root) = world().await;
    let (id, slot, secret) = directory.add_grant(&record.name, &root, "client").await.unwrap();
    let (_, cookie) = directory.add_web_login(&record.name, &root, "browser").await.unwrap();
    let next = directory.rekey(&record.name, &root, UnverifiedSlots::Refuse).await.unwrap().root;
    let record = directory.get(&record.name).await.unwrap();
    let open = record.opener();
    let opened = |secret: &[u8]| record.slots.iter().find_map(|slot| open(slot, secret)).unwrap().root;
    assert!(opened(secret.bytes()).same(&next) && opened(cookie.as_bytes()).same(&next));
    assert!(record.unverified(&next).next().is_none() && record.id == id);
    directory.revoke_app_password(&record.name, slot).await.unwrap();
    assert_eq!(kind(directory.revoke_app_password(&record.name, slot)).await, Kind::NotFound);
    let password = record.slots.iter().find(|slot| slot.kind() == SlotKind::Password).unwrap().id();
    assert_eq!(kind(directory.revoke_app_password(&record.name, password)).await, Kind::NotFound);
}
