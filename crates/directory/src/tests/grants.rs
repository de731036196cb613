//! OAuth grants and web logins: how many there are, how long they last, and what using one writes.

use sealpost_vault::RootKey;
use sealpost_vault::slot::{Slot, SlotId};

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
    let (_, slot, _) = directory.add_grant(&record, &root, "client").await.unwrap();
    let made = directory.get(&record.name).await.unwrap().version;
    let nodes: Vec<Directory> = (0..8).map(|_| world.directory()).collect();
    let exchanges = nodes.iter().map(|node| node.rotate_grant(&record, slot, 0));
    let all = futures::future::try_join_all(exchanges).await.unwrap();
    let won = all.iter().filter(|rotation| **rotation == Rotation::Next(1)).count();
    let replayed = all.iter().filter(|rotation| **rotation == Rotation::Reused).count();
    assert_eq!((won, replayed), (1, 7), "a code counts once");
    let refreshes = nodes.iter().map(|node| node.rotate_grant(&record, slot, 1));
    let all = futures::future::try_join_all(refreshes).await.unwrap();
    assert_eq!(all.iter().filter(|rotation| **rotation == Rotation::Next(2)).count(), 1);
    assert_eq!(all.iter().filter(|rotation| **rotation == Rotation::Repeated(2)).count(), 7);
    world.clock.advance(limits::OAUTH_REFRESH_GRACE + SECOND);
    assert_eq!(directory.rotate_grant(&record, slot, 1).await.unwrap(), Rotation::Reused);
    // A store that was restored knows an earlier one than the client.
    assert_eq!(directory.rotate_grant(&record, slot, 40).await.unwrap(), Rotation::Next(41));
    assert_eq!(directory.get(&record.name).await.unwrap().version, made, "the record is not written");
}

#[tokio::test]
async fn an_account_has_so_many_grants() {
    let (world, directory, record, root) = world().await;
    let add = async || directory.add_grant(&record, &root, "client").await;
    let (_, first, _) = add().await.unwrap();
    directory.rotate_grant(&record, first, 0).await.unwrap();
    for _ in 1..limits::ACCOUNT_GRANTS {
        add().await.unwrap();
    }
    assert_eq!(kind(add()).await, Kind::Limit);
    world.clock.advance(limits::OAUTH_CODE_LIFETIME + SECOND);
    let (_, last, _) = add().await.unwrap();
    assert_eq!(logins(&directory).await, [first, last], "codes that no client claimed make room");
    // App passwords and web logins have limits of their own.
    directory.add_app_password(&record.name, &root, "phone").await.unwrap();
    directory.add_web_login(&record, &root, "browser").await.unwrap();
    assert_eq!(
        kind(directory.add_grant(&record, &RootKey::generate(&*world.random), "x")).await,
        Kind::Denied
    );
}

#[tokio::test]
async fn unused_logins_end_and_leave_nothing() {
    let (world, directory, record, root) = world().await;
    let (id, grant, _) = directory.add_grant(&record, &root, "client").await.unwrap();
    directory.rotate_grant(&record, grant, 0).await.unwrap();
    let (used, _) = directory.add_web_login(&record, &root, "used").await.unwrap();
    let (unused, _) = directory.add_web_login(&record, &root, "unused").await.unwrap();
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
async fn a_new_password_or_key_ends_grants_and_web_logins() {
    let (world, directory, record, root) = world().await;
    let (_, phone) = directory.add_app_password(&record.name, &root, "phone").await.unwrap();
    directory.set_recovery(&record.name, &root).await.unwrap();
    let mut root = root;
    for rekey in [false, true, false] {
        let record = directory.get(&record.name).await.unwrap();
        let (_, slot, token) = directory.add_grant(&record, &root, "client").await.unwrap();
        directory.rotate_grant(&record, slot, 0).await.unwrap();
        let (_, cookie) = directory.add_web_login(&record, &root, "browser").await.unwrap();
        directory.set_recovery(&record.name, &root).await.unwrap();
        assert_eq!(logins(&directory).await.len(), 3, "a recovery code ends none");
        let ended = match rekey {
            false => directory.set_password(&record.name, &root, secret("two")).await.unwrap(),
            true => {
                let rekeyed = directory.rekey(&record.name, &root, UnverifiedSlots::Refuse).await.unwrap();
                assert!(rekeyed.removed.is_empty() && rekeyed.kept.len() == 3);
                root = rekeyed.root;
                rekeyed.ended
            }
        };
        assert_eq!(ended, 2);
        let now = directory.get(&record.name).await.unwrap();
        let open = now.opener();
        let opens = |secret: &[u8]| now.slots.iter().any(|slot| open(slot, secret).is_some());
        assert!(!opens(token.bytes()) && !opens(cookie.as_bytes()) && opens(phone.as_bytes()));
        assert!(now.unverified(&root).next().is_none() && !now.is_list_due(), "they are off the list");
        assert!(world.paths("logins").await.is_empty());
    }
}

#[tokio::test]
async fn no_login_comes_after_a_change_of_its_password() {
    let (_, directory, opened, root) = world().await;
    directory.set_password(&opened.name, &root, secret("two")).await.unwrap();
    assert_eq!(kind(directory.add_grant(&opened, &root, "client")).await, Kind::Denied);
    assert_eq!(kind(directory.add_web_login(&opened, &root, "browser")).await, Kind::Denied);
    assert_eq!(logins(&directory).await, []);
}

#[tokio::test]
async fn a_planted_grant_ends_and_stops_no_rekey() {
    let (_, directory, record, root) = world().await;
    directory.add_grant(&record, &root, "planted").await.unwrap();
    let strip = |record: &mut AccountRecord| {
        record.slot_list = None;
        let (slot, _) = Slot::grant(&root, record.id, &SeededRandom::new(7));
        record.slots.push(slot);
        Ok(())
    };
    directory.update(&record.name, strip).await.unwrap();
    let rekeyed = directory.rekey(&record.name, &root, UnverifiedSlots::Refuse).await.unwrap();
    assert_eq!((rekeyed.ended, rekeyed.removed.len(), rekeyed.kept.len()), (2, 0, 1));
}

#[tokio::test]
async fn a_revocable_slot_can_be_revoked_once() {
    let (_, directory, record, root) = world().await;
    let (_, slot, _) = directory.add_grant(&record, &root, "client").await.unwrap();
    let record = directory.get(&record.name).await.unwrap();
    directory.revoke_app_password(&record.name, slot).await.unwrap();
    assert_eq!(kind(directory.revoke_app_password(&record.name, slot)).await, Kind::NotFound);
    let password = record.slots.iter().find(|slot| slot.kind() == SlotKind::Password).unwrap().id();
    assert_eq!(kind(directory.revoke_app_password(&record.name, password)).await, Kind::NotFound);
}
