//! The position of a mailbox among its siblings: `sortOrder` of RFC 8621 §2.
//!
//! It is a small object, `sort-order/{mailbox}`, in the log of the account that shows the mailbox, even if a
//! shared mailbox's log has the messages. So it survives a rename or sharing, and
//! [`crate::AccountState::apply`] removes it with the mailbox. A mailbox without the object has 0.

use sealpost_base::MailboxId;

/// The prefix of the names of these objects; the mailbox's id follows, in eight hex digits.
const PREFIX: &str = "sort-order/";

/// The name of the object with the sort order of a mailbox.
pub(crate) fn object_of(mailbox: MailboxId) -> String {
    format!("{PREFIX}{:08x}", mailbox.0)
}

/// The value of the object; `None` for 0, which has none.
pub(crate) fn value(order: u32) -> Option<Vec<u8>> {
    (order != 0).then(|| order.to_be_bytes().to_vec())
}

/// The sort order in an object with that value.
pub(crate) fn order_in(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_be_bytes)
}

/// The mailbox whose sort order is in the object with that name.
pub(crate) fn mailbox_of(object: &str) -> Option<MailboxId> {
    u32::from_str_radix(object.strip_prefix(PREFIX)?, 16).ok().map(MailboxId)
}

#[cfg(test)]
mod tests {
    use sealpost_base::{AccountId, Position, Timestamp, limits};
    use sealpost_vault::entry::Origin;

    use super::*;
    use crate::event::{Batch, Event};
    use crate::ops::{self, NewMailbox};
    use crate::state::{AccountState, MailboxChanged};

    fn state() -> AccountState {
        AccountState::new(AccountId([9; 16]))
    }

    fn apply(state: &mut AccountState, events: Vec<Event>) {
        let position = state.position().next();
        state.apply(position, Origin::Owner, &Batch { at: Timestamp(0), events });
    }

    fn create(state: &mut AccountState, name: &str, sort_order: u32) -> MailboxId {
        let new = NewMailbox { sort_order, ..NewMailbox::default() };
        let events = ops::create_mailbox_with(state, name, new).unwrap();
        apply(state, events);
        state.mailbox_named(name).unwrap().id()
    }

    #[test]
    fn a_new_mailbox_has_its_order_and_subscription_at_once() {
        let mut state = state();
        let new = NewMailbox { sort_order: 7, is_subscribed: Some(true), ..NewMailbox::default() };
        let events = ops::create_mailbox_with(&state, "a/b", new).unwrap();
        let before = state.position();
        apply(&mut state, events);
        let [parent, made] = ["a", "a/b"].map(|name| state.mailbox_named(name).unwrap().id());
        assert_eq!((state.sort_order(made), state.sort_order(parent)), (7, 0));
        assert!(state.is_subscribed("a/b") && !state.is_subscribed("a"));
        let changes = state.mailbox_changes(before, usize::MAX).unwrap().changes;
        assert_eq!(changes, [MailboxChanged::Created(parent), MailboxChanged::Created(made)]);
    }

    #[test]
    fn a_new_mailbox_can_end_an_earlier_subscription() {
        let mut state = state();
        let events = ops::subscribe(&state, "a", true).unwrap();
        apply(&mut state, events);
        create(&mut state, "b", 0);
        assert!(state.is_subscribed("a"));
        let new = NewMailbox { is_subscribed: Some(false), ..NewMailbox::default() };
        let events = ops::create_mailbox_with(&state, "a", new).unwrap();
        apply(&mut state, events);
        assert!(!state.is_subscribed("a"));
    }

    #[test]
    fn an_order_survives_a_rename_and_ends_with_its_mailbox() {
        let mut state = state();
        let (first, second) = (create(&mut state, "a", 1), create(&mut state, "b", u32::MAX));
        let events = ops::rename_mailbox(&state, "a", "c").unwrap();
        apply(&mut state, events);
        assert_eq!((state.sort_order(first), state.sort_order(second)), (1, u32::MAX));
        let events = ops::delete_mailbox(&state, "c").unwrap();
        apply(&mut state, events);
        assert_eq!((state.sort_order(first), state.sort_order(second)), (0, u32::MAX));
        assert_eq!(state.object_count(), 1);
        create(&mut state, "c", 0);
        assert_eq!(state.object_count(), 1);
    }

    #[test]
    fn a_changed_order_is_a_changed_property_to_jmap_alone() {
        let mut state = state();
        let inbox = state.inbox().id();
        let (before, modseq) = (state.position(), state.inbox().highest_modseq());
        for order in [5, 0] {
            let events = ops::set_sort_order(&state, inbox, order).unwrap();
            apply(&mut state, events);
            assert_eq!(state.sort_order(inbox), order);
            assert_eq!(state.inbox().properties_changed(), state.position());
        }
        assert_eq!((state.position(), state.object_count()), (Position(before.0 + 2), 0));
        assert_eq!(state.inbox().highest_modseq(), modseq);
        assert!(ops::set_sort_order(&state, inbox, 0).unwrap().is_empty(), "it is 0 already");
    }

    #[test]
    fn no_order_is_kept_beyond_the_limit_of_objects() {
        let mut state = state();
        let inbox = state.inbox().id();
        let put = |n| Event::ObjectPut { name: format!("x{n}"), value: Vec::new() };
        apply(&mut state, (0..limits::ACCOUNT_OBJECTS).map(put).collect());
        let refused = ops::set_sort_order(&state, inbox, 1).unwrap_err();
        assert_eq!(refused.kind(), sealpost_base::Kind::Limit);
        let new = NewMailbox { sort_order: 1, ..NewMailbox::default() };
        assert!(ops::create_mailbox_with(&state, "a", new).is_err());
        apply(&mut state, vec![Event::ObjectRemoved { name: "x0".to_owned() }]);
        assert_eq!(ops::set_sort_order(&state, inbox, 1).unwrap().len(), 1);
    }

    #[test]
    fn an_object_of_another_length_is_no_order() {
        let mut state = state();
        let name = object_of(state.inbox().id());
        for value in [&b""[..], b"abc", b"abcde"] {
            apply(&mut state, vec![Event::ObjectPut { name: name.clone(), value: value.to_vec() }]);
            assert_eq!(state.sort_order(state.inbox().id()), 0);
        }
    }
}
