//! The list of an account's slots, under a key of the root key.
//!
//! A slot that was withdrawn has a right tag for as long as its root key is the newest one. So a
//! process that has `server.key` and a copy of the slot could put it back into the record. The list
//! says which slots there are; what is not on it was withdrawn, or planted. Its number grows with
//! each list, so that a node that has seen a later list notices an earlier one
//! (`docs/decisions/0070-authentic-slots.md`).

use minicbor::{Decode, Encode};
use sealpost_base::AccountId;

use super::{Slot, SlotId};
use crate::RootKey;
use crate::cipher::equal;

/// Which slots an account has.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct SlotList {
    #[n(0)]
    number: u64,
    /// Ids of slots, ascending, one after the other.
    #[cbor(n(1), with = "minicbor::bytes")]
    ids: Vec<u8>,
    #[cbor(n(2), with = "minicbor::bytes")]
    tag: [u8; 32],
}

impl SlotList {
    /// The list of these slots of an account, whose newest root key is `root`.
    pub fn of(root: &RootKey, account: AccountId, number: u64, slots: impl Iterator<Item = SlotId>) -> Self {
        let mut ids: Vec<_> = slots.collect();
        ids.sort_unstable();
        ids.dedup();
        let ids: Vec<u8> = ids.into_iter().flat_map(|id| id.0).collect();
        let tag = tag(root, account, number, &ids);
        SlotList { number, ids, tag }
    }

    /// Which list of the account it is: each has a greater number than those before it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether a process that had the root key made it.
    pub fn is_authentic(&self, root: &RootKey, account: AccountId) -> bool {
        equal(&self.tag, &tag(root, account, self.number, &self.ids))
    }

    /// Whether that slot is on it.
    pub fn has(&self, slot: SlotId) -> bool {
        self.ids.as_chunks::<8>().0.binary_search(&slot.0).is_ok()
    }

    /// Whether a slot is on it that is not among these: it was withdrawn since.
    pub fn has_withdrawn(&self, slots: &[Slot]) -> bool {
        self.ids.as_chunks::<8>().0.iter().any(|id| slots.iter().all(|slot| slot.id().0 != *id))
    }
}

fn tag(root: &RootKey, account: AccountId, number: u64, ids: &[u8]) -> [u8; 32] {
    root.tag_slots(account, b"sealpost slot list v1", &[&number.to_be_bytes(), ids])
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;

    use super::*;

    const ACCOUNT: AccountId = AccountId([3; 16]);
    const OTHER: AccountId = AccountId([4; 16]);

    #[test]
    fn only_the_root_key_makes_and_binds_a_list() {
        let random = SeededRandom::new(1);
        let (root, thief) = (RootKey::generate(&random), RootKey::generate(&random));
        let ids = [SlotId([2; 8]), SlotId([1; 8]), SlotId([2; 8])];
        let list = SlotList::of(&root, ACCOUNT, 7, ids.into_iter());
        assert!(list.is_authentic(&root, ACCOUNT) && list.number() == 7);
        assert!(!list.is_authentic(&thief, ACCOUNT) && !list.is_authentic(&root, OTHER));
        assert!(!list.is_authentic(&root.next(&random).unwrap(), ACCOUNT), "a list names its epoch");
        assert!(list.has(ids[0]) && list.has(ids[1]) && !list.has(SlotId([3; 8])));
        let bytes = minicbor::to_vec(&list).unwrap();
        assert!(minicbor::decode::<SlotList>(&bytes).unwrap() == list);
        let changed = [
            SlotList { number: 8, ..list.clone() },
            SlotList { ids: vec![1; 8], ..list.clone() },
            SlotList { ids: vec![], ..list.clone() },
            SlotList { ids: [&list.ids[..], &[3; 8]].concat(), ..list.clone() },
            SlotList { tag: [0; 32], ..list.clone() },
        ];
        assert!(changed.iter().all(|list| !list.is_authentic(&root, ACCOUNT)));
        let odd = SlotList { ids: vec![1; 9], ..list };
        assert!(odd.has(SlotId([1; 8])) && !odd.is_authentic(&root, ACCOUNT));
    }

    #[test]
    fn a_slot_that_was_withdrawn_since_is_noticed() {
        let random = SeededRandom::new(2);
        let root = RootKey::generate(&random);
        let slots: Vec<_> = (0..3).map(|_| Slot::token(&root, ACCOUNT, "me@x", &random).0).collect();
        let list = SlotList::of(&root, ACCOUNT, 1, slots[..2].iter().map(Slot::id));
        assert!(!list.has_withdrawn(&slots[..2]) && !list.has_withdrawn(&slots), "one more was not");
        assert!(
            list.has_withdrawn(&slots[1..]) && list.has_withdrawn(&slots[..1]) && list.has_withdrawn(&[])
        );
        assert!(!SlotList::of(&root, ACCOUNT, 1, [].into_iter()).has_withdrawn(&[]));
    }
}
