//! The attack of a thief of `server.key` who writes to the store: records that are authentic to
//! every node, and not the owner's.

use std::collections::BTreeSet;

use futures::FutureExt;
use sealpost_vault::RootKey;
use sealpost_vault::slot::{Slot, SlotList, SlotTrust};

use super::*;

/// An account with a password, an app password and a recovery code, and what the thief needs to know of it.
struct Victim {
    directory: Directory,
    key: ServerKeys,
    random: Arc<SeededRandom>,
    me: AccountName,
    id: AccountId,
    root: RootKey,
}

impl Victim {
    async fn new() -> Self {
        let world = Fixture::new();
        let (directory, me) = (world.directory(), name("me@x"));
        let (record, root) = directory.create(&me, new("one")).await.unwrap();
        directory.add_app_password(&me, &root, "phone").await.unwrap();
        directory.set_recovery(&me, &root).await.unwrap();
        Victim { directory, key: world.key, random: world.random, me, id: record.id, root }
    }

    async fn record(&self) -> AccountRecord {
        self.directory.get(&self.me).await.unwrap()
    }

    /// The thief writes any record, and has no root key.
    async fn forge(&self, change: impl Fn(&mut AccountRecord)) {
        let changed = self.directory.update(&self.me, |record| {
            change(record);
            Ok(())
        });
        changed.await.unwrap();
    }

    /// A slot that the thief opens, in which there is no key of the account.
    fn planted(&self) -> (Slot, String) {
        let root = RootKey::generate(&*self.random);
        let (slot, token) = Slot::token(&root, self.id, "me@x", &*self.random);
        (slot.labelled(Some("phone".into()), Timestamp(1)).tagged(&root, self.id), token.to_string())
    }

    async fn rekey(&self, unverified: UnverifiedSlots) -> Result<Rekeyed> {
        self.directory.rekey(&self.me, &self.root, unverified).await
    }
}

/// `slot` with the public key of `other`, all else as it was.
fn with_public_key_of(slot: &Slot, other: &Slot) -> Slot {
    let key = |slot: &Slot| {
        let bytes = minicbor::to_vec(slot).unwrap();
        let mut decoder = minicbor::Decoder::new(&bytes);
        decoder.array().unwrap();
        (0..4).for_each(|_| decoder.skip().unwrap());
        (decoder.bytes().unwrap().to_vec(), bytes.clone())
    };
    let ((from, mut bytes), (to, _)) = (key(slot), key(other));
    let at = bytes.windows(32).position(|found| found == from).unwrap();
    bytes[at..at + 32].copy_from_slice(&to);
    minicbor::decode(&bytes).unwrap()
}

#[tokio::test]
async fn no_new_root_key_is_sealed_to_a_planted_slot() {
    let victim = Victim::new().await;
    let (slot, token) = victim.planted();
    victim.forge(|record| record.slots.push(slot.clone())).await;
    let refused = victim.rekey(UnverifiedSlots::Refuse).await.err().unwrap();
    assert_eq!(refused.kind(), Kind::Conflict);
    let named = format!("app password {} (phone)", slot.id());
    assert!(refused.to_string().contains(&named), "{refused}");
    assert_eq!(victim.record().await.slots.len(), 4, "nothing was changed");
    let rekeyed = victim.rekey(UnverifiedSlots::Remove).await.unwrap();
    assert_eq!(rekeyed.removed.iter().map(SlotInfo::to_string).collect::<Vec<_>>(), [named]);
    let record = victim.record().await;
    assert_eq!((record.slots.len(), record.unverified(&rekeyed.root).count()), (3, 0));
    assert!(record.slots.iter().all(|slot| record.opener()(slot, token.as_bytes()).is_none()));
    assert!(victim.directory.unlock(&victim.me, secret("one")).await.unwrap().1.same(&rekeyed.root));
}

/// The owner's slot opens as before, but publishes the thief's key: the next root key would be the thief's.
#[tokio::test]
async fn no_key_is_sealed_to_a_replaced_public_key() {
    let victim = Victim::new().await;
    let (planted, _) = victim.planted();
    for n in 0..3 {
        let before = victim.record().await;
        victim.forge(|record| record.slots[n] = with_public_key_of(&record.slots[n], &planted)).await;
        let record = victim.record().await;
        assert!(victim.directory.unlock(&victim.me, secret("one")).await.unwrap().1.same(&victim.root));
        assert_eq!(record.slots[n].trust(&victim.root, victim.id), SlotTrust::Forged);
        let found = record.forgeries(&victim.root, None);
        assert_eq!(found, [Forgery::Slot(SlotInfo::of(&record.slots[n]))]);
        assert_eq!(victim.rekey(UnverifiedSlots::Refuse).await.err().unwrap().kind(), Kind::Conflict);
        // A tag taken off hides nothing.
        let untagged = |slot: &Slot| slot.clone().labelled(slot.label().map(str::to_owned), Timestamp(1));
        victim.forge(|record| record.slots[n] = untagged(&record.slots[n])).await;
        assert_eq!(victim.rekey(UnverifiedSlots::Refuse).await.err().unwrap().kind(), Kind::Conflict);
        victim.forge(|record| record.slots = before.slots.clone()).await;
    }
    victim.rekey(UnverifiedSlots::Refuse).await.unwrap();
}

#[tokio::test]
async fn a_replaced_delivery_key_is_named_and_put_right() {
    let victim = Victim::new().await;
    let thief = RootKey::generate(&*victim.random);
    let right = victim.record().await.public;
    for n in 0..3 {
        victim.forge(|record| record.public = thief.delivery_key(victim.id)).await;
        let record = victim.record().await;
        assert_eq!(record.forgeries(&victim.root, None), [Forgery::DeliveryKey]);
        let refused = record.check_forgeries(&victim.root, &record.slots[0], true).unwrap_err();
        assert_eq!(refused.kind(), Kind::Corrupt);
        match n {
            0 => assert_eq!(
                victim.directory.set_password(&victim.me, &victim.root, secret("two")).await.unwrap(),
                0
            ),
            1 => drop(victim.directory.add_app_password(&victim.me, &victim.root, "laptop").await.unwrap()),
            _ => {
                let rekeyed = victim.rekey(UnverifiedSlots::Refuse).await.unwrap();
                assert_eq!(victim.record().await.public, rekeyed.root.delivery_key(victim.id));
                continue;
            }
        }
        assert_eq!(victim.record().await.public, right);
    }
    // The thief's own key is not the account's.
    let evil = victim.directory.set_password(&victim.me, &thief, secret("evil")).await;
    assert_eq!(evil.unwrap_err().kind(), Kind::Denied);
}

/// Without the earlier keys in the record, the next root key would come without them, and the old
/// mail be lost.
#[tokio::test]
async fn an_account_whose_earlier_keys_were_removed_is_not_rekeyed() {
    let victim = Victim::new().await;
    let next = victim.rekey(UnverifiedSlots::Refuse).await.unwrap().root;
    let stripped = |record: &mut AccountRecord| record.earlier = None;
    victim.forge(stripped).await;
    let (record, alone) = victim.directory.unlock(&victim.me, secret("one")).await.unwrap();
    assert!(!alone.same(&next));
    victim.forge(|record| record.public = alone.delivery_key(victim.id)).await;
    assert_eq!(record.slots[0].trust(&alone, victim.id), SlotTrust::Forged, "a tag names its epoch");
    let rekeyed = victim.directory.rekey(&victim.me, &alone, UnverifiedSlots::Remove).await;
    assert_eq!(rekeyed.err().unwrap().kind(), Kind::Conflict);
}

/// A record from before there were tags: only what its owner's secret has opened gets one.
#[tokio::test]
async fn slots_without_a_tag_are_verified_by_their_secret_alone() {
    let victim = Victim::new().await;
    let (planted, token) = victim.planted();
    let untagged = |slot: &Slot| slot.clone().labelled(slot.label().map(str::to_owned), Timestamp(1));
    victim
        .forge(|record| {
            record.slots.push(planted.clone());
            record.slots = record.slots.iter().map(untagged).collect();
            record.slot_list = None;
        })
        .await;
    let record = victim.record().await;
    assert_eq!(record.unverified(&victim.root).count(), 4);
    assert!(record.forgeries(&victim.root, None).is_empty(), "nobody can tell");
    let none = victim.rekey(UnverifiedSlots::Remove).await.err().unwrap();
    assert!(none.to_string().contains("log in once"), "{none}");
    victim.directory.verify_slot(&victim.me, &victim.root, &record.slots[0]).await.unwrap();
    let gone = victim.directory.verify_slot(&victim.me, &victim.root, &record.slots[0]).await;
    assert_eq!(gone.unwrap_err().kind(), Kind::Conflict, "it has a tag by now");
    // The thief's login verifies the planted slot under the thief's own key, which is no tag of the
    // account's.
    let (_, open) = (victim.record().await, record.opener());
    let foreign = open(&record.slots[3], token.as_bytes()).unwrap().root;
    victim.directory.verify_slot(&victim.me, &foreign, &record.slots[3]).await.unwrap();
    let refused = victim.rekey(UnverifiedSlots::Refuse).await.err().unwrap();
    assert!(refused.to_string().contains(&planted.id().to_string()), "{refused}");
    let rekeyed = victim.rekey(UnverifiedSlots::Remove).await.unwrap();
    assert_eq!((rekeyed.removed.len(), victim.record().await.slots.len()), (3, 1));
}

/// Its tag is right for as long as the root key is the newest one.
#[tokio::test]
async fn a_withdrawn_slot_that_is_put_back_opens_nothing() {
    let victim = Victim::new().await;
    let (directory, me, root) = (&victim.directory, &victim.me, &victim.root);
    let (phone, _) = directory.add_app_password(me, root, "lost phone").await.unwrap();
    let before = victim.record().await;
    let lost = before.slots.iter().find(|slot| slot.id() == phone.id).unwrap().clone();
    let old = before.slots.iter().find(|slot| slot.kind() == SlotKind::Password).unwrap().clone();
    directory.set_password(me, root, secret("two")).await.unwrap();
    directory.revoke_app_password(me, phone.id).await.unwrap();
    // Revoking takes no key: the next login makes the list.
    assert!(victim.record().await.is_list_due());
    directory.list_slots(me, root).await.unwrap();
    let listed = victim.record().await;
    assert!(!listed.is_list_due() && listed.forgeries(root, None).is_empty());
    for slot in [lost, old] {
        assert_eq!(slot.trust(root, victim.id), SlotTrust::Verified);
        victim.forge(|record| record.slots.push(slot.clone())).await;
        let record = victim.record().await;
        assert_eq!(record.forgeries(root, None), [Forgery::Slot(SlotInfo::of(&slot))]);
        assert_eq!(record.check_forgeries(root, &slot, true).unwrap_err().kind(), Kind::Corrupt);
        record.check_forgeries(root, &record.slots[0], true).unwrap();
        directory.check_slot_list(&record, root).await.unwrap();
        // Nor does a change of another secret bring it back, or its own.
        directory.set_recovery(me, root).await.unwrap();
        directory.verify_slot(me, root, &slot).await.unwrap();
        let record = victim.record().await;
        assert_eq!(record.forgeries(root, None), [Forgery::Slot(SlotInfo::of(&slot))]);
        assert!(!record.is_list_due(), "no login writes it again and again");
        assert_eq!(victim.rekey(UnverifiedSlots::Refuse).await.err().unwrap().kind(), Kind::Conflict);
        victim.forge(|record| record.slots.retain(|other| other.id() != slot.id())).await;
    }
    let kept = victim.rekey(UnverifiedSlots::Refuse).await.unwrap().kept;
    let ids: BTreeSet<_> = kept.iter().map(|slot| slot.id.0).collect();
    assert_eq!(ids, victim.record().await.slots.iter().map(|slot| slot.id().0).collect());
}

/// The thief puts the list back, too, or takes it away, or changes it.
#[tokio::test]
async fn nor_with_the_list_of_its_time() {
    let victim = Victim::new().await;
    let (directory, me, root) = (&victim.directory, &victim.me, &victim.root);
    let before = victim.record().await;
    directory.set_password(me, root, secret("two")).await.unwrap();
    let after = victim.record().await;
    directory.check_slot_list(&after, root).await.unwrap();
    let put_back = |list: Option<Box<SlotList>>| {
        let slots = before.slots.clone();
        move |record: &mut AccountRecord| {
            (record.slots, record.slot_list) = (slots.clone(), list.clone());
        }
    };
    for list in [before.slot_list.clone(), None] {
        victim.forge(put_back(list)).await;
        let record = victim.record().await;
        assert!(record.forgeries(root, None).is_empty(), "nothing in the record tells");
        assert_eq!(directory.check_slot_list(&record, root).await.unwrap_err().kind(), Kind::Retry);
        // A node that was never there cannot know.
        let new_node = directory.clone().with_watermarks(Watermarks::default());
        new_node.check_slot_list(&record, root).await.unwrap();
    }
    let thief = RootKey::generate(&*victim.random);
    let forged = SlotList::of(&thief, victim.id, u64::MAX, before.slots.iter().map(Slot::id));
    victim.forge(put_back(Some(Box::new(forged)))).await;
    let record = victim.record().await;
    assert_eq!(record.forgeries(root, None), [Forgery::SlotList]);
    assert!(record.check_forgeries(root, &record.slots[0], true).is_err());
    // A new password is all that is on the list then.
    directory.set_password(me, root, secret("three")).await.unwrap();
    let record = victim.record().await;
    directory.check_slot_list(&record, root).await.unwrap();
    let verified: Vec<_> = record.slots.iter().filter(|slot| record.is_verified(root, slot)).collect();
    assert_eq!((verified.len(), verified[0].kind()), (1, SlotKind::Password));
    let list = record.slot_list.as_deref().unwrap();
    assert!(list.is_authentic(root, victim.id) && list.number() < u64::MAX);
}

/// A record that an earlier version made, or changed.
#[tokio::test]
async fn a_record_without_a_list_gets_one() {
    let victim = Victim::new().await;
    let (directory, me, root) = (&victim.directory, &victim.me, &victim.root);
    let stripped = |record: &mut AccountRecord| record.slot_list = None;
    let changes: [&dyn Fn(Directory) -> futures::future::BoxFuture<'static, ()>; 3] = [
        &|directory| {
            let (me, root) = (me.clone(), root.clone());
            async move { directory.list_slots(&me, &root).await.unwrap() }.boxed()
        },
        &|directory| {
            let (me, root) = (me.clone(), root.clone());
            async move { assert_eq!(directory.set_password(&me, &root, secret("two")).await.unwrap(), 0) }
                .boxed()
        },
        &|directory| {
            let (me, root) = (me.clone(), root.clone());
            async move { drop(directory.add_app_password(&me, &root, "new").await.unwrap()) }.boxed()
        },
    ];
    for change in changes {
        victim.forge(stripped).await;
        assert!(victim.record().await.is_list_due());
        let later = directory.clone().with_watermarks(Watermarks::default());
        change(later.clone()).await;
        let record = victim.record().await;
        assert!(!record.is_list_due() && record.forgeries(root, None).is_empty());
        later.check_slot_list(&record, root).await.unwrap();
    }
}

/// A thief with write access alone does not make servers remove anything.
#[tokio::test]
async fn a_replaced_record_makes_no_server_remove_the_owners_slots() {
    let victim = Victim::new().await;
    let (slot, _) = victim.planted();
    let thief = RootKey::generate(&*victim.random);
    let (directory, record) = (&victim.directory, victim.record().await);
    let at = directory.path_of(&victim.me);
    let forged = AccountRecord {
        slots: vec![slot],
        public: thief.delivery_key(victim.id),
        version: record.version + 1,
        ..record.clone()
    };
    let bytes = minicbor::to_vec(&forged).unwrap();
    // As the thief writes it: one object, and nothing is removed.
    let path = format!("{at}/{:016x}", forged.version);
    let sealed = seal_record(&victim.key, &path, &[&bytes[..], &[0; 16]].concat());
    directory.versions.store().put_new(&path, sealed).await.unwrap();
    assert!(victim.record().await.slots == forged.slots);
    for _ in 0..2 {
        assert_eq!(directory.maintain_records(None).await.unwrap().finished, 0);
    }
    // It is named, and the record can be had back.
    let copies = directory.withdrawn_copies(&forged).await.unwrap();
    assert_eq!(copies.len(), 2, "{copies:?}");
    directory.versions.store().delete(&path).await.unwrap();
    let restored = directory.clone().with_watermarks(Watermarks::default());
    assert!(restored.get(&victim.me).await.unwrap().slots == record.slots);
    restored.unlock(&victim.me, secret("one")).await.unwrap();
}
