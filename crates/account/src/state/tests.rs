//! The state against a naive model, and against itself: replay twice, checkpoint and tail, through chunks.

mod contacts;
mod delivery;
mod emails;
mod submissions;

use std::collections::BTreeMap;

use proptest::prelude::*;
use sealpost_base::{AccountId, MailboxId, ObjectId, Position, Timestamp, Uid, UidSet};
use sealpost_vault::entry::Origin;
use sealpost_vault::message::{Layout, MessageKey};

use super::*;
use crate::event::{Batch, Event, FlagAction, Flags, Message, SystemFlags, Target};
use crate::ops;
use crate::special_use::SpecialUses;
use crate::thread::ThreadId;

pub(super) const ACCOUNT: AccountId = AccountId([9; 16]);

pub(super) fn message(n: u8) -> Message {
    Message {
        object: ObjectId([n; 16]),
        key: MessageKey::from_bytes([n; 32]),
        layout: Layout {
            raw_bytes: u64::from(n) + 1,
            sealed_raw: 1,
            sealed_text: 1,
            sealed_structure: 1,
            sealed_index: 1,
        },
        received: Timestamp(i64::from(n)),
        origin: None,
        thread: ThreadId(u64::from(n)),
        links: Vec::new(),
    }
}

/// What an account would be if it were written without a thought for memory or speed.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    mailboxes: BTreeMap<u32, ModelMailbox>,
    next: u32,
    tombstones: Vec<(u8, i64)>,
}

#[derive(Debug, Clone, PartialEq)]
struct ModelMailbox {
    name: String,
    next: u32,
    rows: BTreeMap<u32, ModelRow>,
}

#[derive(Debug, Clone, PartialEq)]
struct ModelRow {
    message: u8,
    flags: Vec<String>,
    modseq: u64,
}

impl Model {
    fn new() -> Self {
        let mut model = Model { next: 1, ..Model::default() };
        for name in ["INBOX", "Drafts", "Sent", "Junk", "Trash", "Archive"] {
            model.create(name);
        }
        model
    }

    fn create(&mut self, name: &str) {
        if !self.mailboxes.values().any(|m| m.name == name) {
            let mailbox = ModelMailbox { name: name.to_owned(), next: 1, rows: BTreeMap::new() };
            self.mailboxes.insert(self.next, mailbox);
            self.next += 1;
        }
    }

    fn place(&mut self, to: u32, modseq: u64, rows: Vec<ModelRow>) {
        let mailbox = self.mailboxes.get_mut(&to).unwrap();
        for row in rows {
            mailbox.rows.insert(mailbox.next, ModelRow { modseq, ..row });
            mailbox.next += 1;
        }
    }

    fn take(&mut self, from: u32, uids: &UidSet) -> Vec<ModelRow> {
        let Some(mailbox) = self.mailboxes.get_mut(&from) else { return Vec::new() };
        uids.iter().filter_map(|uid| mailbox.rows.remove(&uid.get())).collect()
    }

    fn apply(&mut self, modseq: u64, at: i64, event: &Event) {
        match event {
            Event::MailboxCreated { name, .. } => self.create(name),
            Event::MailboxDeleted { mailbox }
                if self.mailboxes.get(&mailbox.0).is_some_and(|m| m.name != "INBOX") =>
            {
                let gone = self.mailboxes.remove(&mailbox.0).unwrap();
                self.tombstones.extend(gone.rows.values().map(|row| (row.message, at)));
            }
            Event::MailboxRenamed { mailbox, name } => {
                let taken = self.mailboxes.values().any(|m| m.name == *name);
                if let Some(m) = self.mailboxes.get_mut(&mailbox.0)
                    && !taken
                    && m.name != "INBOX"
                {
                    m.name.clone_from(name);
                }
            }
            Event::Delivered { target, message, flags, create, .. } => {
                let to = match target {
                    None => None,
                    Some(Target::Mailbox(id)) => Some(id.0).filter(|id| self.mailboxes.contains_key(id)),
                    Some(Target::Named(name)) => {
                        if *create {
                            self.create(name);
                        }
                        self.mailboxes.iter().find(|(_, m)| m.name == *name).map(|(id, _)| *id)
                    }
                };
                let row = ModelRow { message: message.object.0[0], flags: names(flags), modseq };
                self.place(to.unwrap_or(1), modseq, vec![row]);
            }
            Event::Appended { mailbox, message, flags } if self.mailboxes.contains_key(&mailbox.0) => {
                let row = ModelRow { message: message.object.0[0], flags: names(flags), modseq };
                self.place(mailbox.0, modseq, vec![row]);
            }
            Event::Copied { from, uids, to } => {
                let Some(source) = self.mailboxes.get(&from.0) else { return };
                let rows: Vec<_> =
                    uids.iter().filter_map(|uid| source.rows.get(&uid.get()).cloned()).collect();
                if self.mailboxes.contains_key(&to.0) {
                    self.place(to.0, modseq, rows);
                }
            }
            Event::Moved { from, uids, to } if self.mailboxes.contains_key(&to.0) => {
                let rows = self.take(from.0, uids);
                self.place(to.0, modseq, rows);
            }
            Event::FlagsStored { mailbox, uids, action, flags, unchanged_since } => {
                let Some(mailbox) = self.mailboxes.get_mut(&mailbox.0) else { return };
                for uid in uids.iter() {
                    let Some(row) = mailbox.rows.get_mut(&uid.get()) else { continue };
                    if unchanged_since.is_some_and(|m| row.modseq > m.0) {
                        continue;
                    }
                    let mut after = row.flags.clone();
                    match action {
                        FlagAction::Replace => after = names(flags),
                        FlagAction::Add => after.extend(names(flags)),
                        FlagAction::Remove => after.retain(|f| !names(flags).contains(f)),
                    }
                    after.sort();
                    after.dedup();
                    if after != row.flags {
                        row.flags = after;
                        row.modseq = modseq;
                    }
                }
            }
            Event::Expunged { mailbox, uids } => {
                let gone = self.take(mailbox.0, uids);
                self.tombstones.extend(gone.iter().map(|row| (row.message, at)));
            }
            Event::Replaced { from, uid, to, message, flags }
                if self.mailboxes.contains_key(&to.0)
                    && self.mailboxes.get(&from.0).is_some_and(|m| m.rows.contains_key(&uid.get())) =>
            {
                let gone = self.take(from.0, &UidSet::range(*uid, *uid));
                self.tombstones.extend(gone.iter().map(|row| (row.message, at)));
                let row = ModelRow { message: message.object.0[0], flags: names(flags), modseq };
                self.place(to.0, modseq, vec![row]);
            }
            Event::Purged { before } => self.tombstones.retain(|(_, at)| *at >= before.0),
            _ => {}
        }
    }
}

fn names(flags: &Flags) -> Vec<String> {
    let system = flags.system.names().map(str::to_owned);
    let mut names: Vec<_> = system.chain(flags.keywords.iter().cloned()).collect();
    names.sort();
    names
}

/// The state as the model would have it.
fn seen_by_model(state: &AccountState) -> BTreeMap<u32, ModelMailbox> {
    let row = |row: Row| {
        let set = state.flags(row.flags);
        let keywords = set.keywords.iter().map(|k| state.keyword_name(*k).to_owned());
        let mut flags: Vec<_> = set.system.names().map(str::to_owned).chain(keywords).collect();
        flags.sort();
        let message = state.message(row.message).unwrap().object.0[0];
        (row.uid.get(), ModelRow { message, flags, modseq: row.modseq.0 })
    };
    let mailbox = |m: &Mailbox| ModelMailbox {
        name: m.name().to_owned(),
        next: m.uid_next().get(),
        rows: m.all_rows().map(row).collect(),
    };
    state.mailboxes().map(|m| (m.id().0, mailbox(m))).collect()
}

fn chunks(state: &AccountState) -> Vec<(String, Vec<u8>)> {
    state.chunk_names().into_iter().map(|name| (name.clone(), state.chunk(&name))).collect()
}

fn through_chunks(state: &AccountState) -> AccountState {
    let mut restore = Restore::new(ACCOUNT);
    for (name, bytes) in chunks(state) {
        restore.chunk(&name, &bytes).unwrap();
    }
    restore.finish().unwrap()
}

fn check_counts(state: &AccountState) {
    for m in state.mailboxes() {
        let with = |flag| m.all_rows().filter(|r| state.flags(r.flags).system.contains(flag)).count();
        assert_eq!(m.unseen(), m.len() - with(SystemFlags::SEEN));
        assert_eq!(m.deleted(), with(SystemFlags::DELETED));
        let bytes: u64 = m.all_rows().map(|r| state.message(r.message).unwrap().size()).sum();
        assert_eq!(m.bytes(), bytes);
        for row in m.all_rows() {
            assert_eq!(m.row(row.uid), Some(row));
        }
    }
}

fn uid_sets() -> impl Strategy<Value = UidSet> {
    // Now and then many, so that there are packed blocks.
    let more = prop_oneof![30 => 0u32..4, 1 => 60u32..300];
    prop::collection::vec((1u32..12, more), 1..4).prop_map(|ranges| {
        let mut set = UidSet::new();
        for (first, more) in ranges {
            set.insert_range(Uid::new(first).unwrap(), Uid::new(first + more).unwrap());
        }
        set
    })
}

fn flags() -> impl Strategy<Value = Flags> {
    let keywords = prop::sample::subsequence(vec!["$Forwarded", "a", "b"], 0..=3);
    (0usize..32, keywords).prop_map(|(bits, keywords)| {
        let chosen = SystemFlags::NAMES.iter().enumerate().filter(|(i, _)| bits & (1 << i) != 0);
        let system = chosen.fold(SystemFlags::NONE, |all, (_, (flag, _))| all.with(*flag));
        Flags { system, keywords: keywords.into_iter().map(str::to_owned).collect() }
    })
}

fn targets() -> impl Strategy<Value = Target> {
    let named = prop::sample::select(vec!["a", "b", "c", "d", "Trash"]);
    let named = named.prop_map(|name| Target::Named(name.to_owned()));
    prop_oneof![3 => named, 1 => (1u32..10).prop_map(|id| Target::Mailbox(MailboxId(id)))]
}

fn events() -> impl Strategy<Value = Event> {
    let mailbox = || (1u32..10).prop_map(MailboxId);
    let name = || prop::sample::select(vec!["a", "b", "c", "Trash"]).prop_map(str::to_owned);
    prop_oneof![
        1 => name().prop_map(|name| Event::MailboxCreated { name, special_use: None }),
        1 => (mailbox(), name()).prop_map(|(mailbox, name)| Event::MailboxRenamed { mailbox, name }),
        1 => mailbox().prop_map(|mailbox| Event::MailboxDeleted { mailbox }),
        4 => (any::<u8>(), prop::option::of(targets()), flags(), any::<bool>()).prop_map(
            |(n, target, flags, create)| {
                Event::Delivered { target, message: message(n), structure: None, flags, create, report_on: None }
            }
        ),
        4 => (any::<u8>(), mailbox(), flags())
            .prop_map(|(n, mailbox, flags)| Event::Appended { mailbox, message: message(n), flags }),
        3 => (mailbox(), uid_sets(), mailbox()).prop_map(|(from, uids, to)| Event::Copied { from, uids, to }),
        3 => (mailbox(), uid_sets(), mailbox()).prop_map(|(from, uids, to)| Event::Moved { from, uids, to }),
        4 => (mailbox(), uid_sets(), 0..3, flags(), prop::option::of(0u64..40)).prop_map(
            |(mailbox, uids, action, flags, since)| Event::FlagsStored {
                mailbox,
                uids,
                action: [FlagAction::Replace, FlagAction::Add, FlagAction::Remove][action as usize],
                flags,
                unchanged_since: since.map(Position),
            }
        ),
        3 => (mailbox(), uid_sets()).prop_map(|(mailbox, uids)| Event::Expunged { mailbox, uids }),
        3 => (mailbox(), 1u32..12, mailbox(), any::<u8>(), flags()).prop_map(|(from, uid, to, n, flags)| {
            Event::Replaced { from, uid: Uid::new(uid).unwrap(), to, message: message(n), flags }
        }),
        1 => (0i64..40).prop_map(|t| Event::Purged { before: Timestamp(t) }),
        1 => (name(), any::<bool>()).prop_map(|(name, on)| Event::Subscribed { name, on }),
        1 => (mailbox(), 1u32..9)
            .prop_map(|(mailbox, n)| Event::RecentTaken { mailbox, below: Uid::new(n).unwrap() }),
        1 => (name(), prop::collection::vec(any::<u8>(), 0..9))
            .prop_map(|(name, value)| Event::ObjectPut { name, value }),
        1 => name().prop_map(|name| Event::ObjectRemoved { name }),
        1 => (mailbox(), prop::sample::subsequence(vec![SpecialUse::Sent, SpecialUse::Junk], 0..=2))
            .prop_map(|(mailbox, uses)| Event::SpecialUsesSet { mailbox, uses }),
        1 => mailbox().prop_map(|mailbox| Event::ObjectPut {
            name: format!("meta/{:08x}/private/x", mailbox.0),
            value: vec![1],
        }),
        1 => (mailbox(), 0u32..3).prop_map(|(mailbox, order)| {
            let name = crate::sort_order::object_of(mailbox);
            match crate::sort_order::value(order) {
                Some(value) => Event::ObjectPut { name, value },
                None => Event::ObjectRemoved { name },
            }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_state_equals_a_naive_model(
        log in prop::collection::vec(prop::collection::vec(events(), 1..4), 0..40),
        cut in 0usize..40,
    ) {
        let mut model = Model::new();
        let mut state = AccountState::new(ACCOUNT);
        let mut restored = AccountState::new(ACCOUNT);
        for (i, events) in log.iter().enumerate() {
            let position = i as u64 + 1;
            // Through the bytes, as from a log.
            let batch = Batch { at: Timestamp(position as i64), events: events.clone() };
            let batch = Batch::decode(&batch.encode()).unwrap();
            state.apply(Position(position), Origin::Owner, &batch);
            restored.apply(Position(position), Origin::Owner, &batch);
            for event in events {
                model.apply(position, position as i64, event);
            }
            if i == cut {
                restored = through_chunks(&restored);
                // Whether they are there makes no difference.
                state.make_maps();
            }
        }
        prop_assert_eq!(seen_by_model(&state), model.mailboxes);
        let tombstones: Vec<_> =
            state.tombstones().map(|b| (state.message(b.message).unwrap().object.0[0], b.at.0)).collect();
        let mut expected = model.tombstones;
        expected.sort_unstable();
        let mut tombstones = tombstones;
        tombstones.sort_unstable();
        prop_assert_eq!(tombstones, expected);
        check_counts(&state);
        prop_assert_eq!(chunks(&state), chunks(&restored), "checkpoint and tail is not full replay");
        prop_assert_eq!(chunks(&through_chunks(&state)), chunks(&state));
    }

    #[test]
    fn expunged_and_changed_rows_update_any_view(
        log in prop::collection::vec(events(), 1..40),
        then in 0usize..40,
    ) {
        let mut state = AccountState::new(ACCOUNT);
        let mut old = state.clone();
        for (i, event) in log.into_iter().enumerate() {
            let position = Position(i as u64 + 1);
            state.apply(position, Origin::Owner, &Batch { at: Timestamp(0), events: vec![event] });
            if i == then {
                old = state.clone();
            }
        }
        for now in state.mailboxes() {
            let Some(before) = old.mailbox(now.id()) else { continue };
            let mut view = before.uids();
            let vanished = now.vanished_since(old.position()).unwrap();
            for (first, last) in vanished.ranges() {
                view.remove_range(first, last);
            }
            for row in now.changed_since(old.position()) {
                view.insert(row.uid);
            }
            prop_assert_eq!(view, now.uids());
        }
    }
}

pub(super) fn apply(state: &mut AccountState, events: Vec<Event>) -> Vec<Applied> {
    let position = state.position().next();
    state.apply(position, Origin::Owner, &Batch { at: Timestamp(0), events })
}

fn names_of(state: &AccountState) -> Vec<&str> {
    state.mailboxes().map(Mailbox::name).collect()
}

#[test]
fn entries_sealed_to_the_public_key_hold_deliveries_and_offers() {
    let mut state = AccountState::new(ACCOUNT);
    let root = sealpost_vault::RootKey::generate(&sealpost_base::SeededRandom::new(1));
    let link = crate::share::Link { share: AccountId([7; 16]), root, owner: Some("o@x".to_owned()) };
    let events = vec![
        Event::delivered(message(1)),
        Event::MailboxDeleted { mailbox: MailboxId(2) },
        Event::Linked { mailbox: MailboxId(3), link: link.clone() },
        Event::Offered { link, name: "n".to_owned(), below: None, unaccepted: None },
        Event::Expunged { mailbox: MailboxId(1), uids: UidSet::range(Uid::MIN, Uid::MIN) },
    ];
    state.apply(Position(1), Origin::Delivery, &Batch { at: Timestamp(0), events });
    assert_eq!(state.inbox().len(), 1);
    assert!(state.mailbox_named("Drafts").is_some());
    let links: Vec<_> = state.links().map(|(m, _)| m.name()).collect();
    assert_eq!(links, ["Other Users/o@x/n"]);
}

#[test]
fn renaming_takes_inferiors_along_and_leaves_those_of_the_inbox() {
    let mut state = AccountState::new(ACCOUNT);
    for name in ["a/b/c", "INBOX/x"] {
        let events = ops::create_mailbox(&state, name, SpecialUses::default()).unwrap();
        apply(&mut state, events);
    }
    let events = ops::rename_mailbox(&state, "a", "n/m").unwrap();
    apply(&mut state, events);
    assert!(names_of(&state).starts_with(&["Archive", "Drafts", "INBOX", "INBOX/x"]));
    assert!(names_of(&state).ends_with(&["n", "n/m", "n/m/b", "n/m/b/c"]));
    assert!(ops::rename_mailbox(&state, "n", "n/m/inside").is_err());

    apply(&mut state, vec![Event::delivered(message(1))]);
    let events = ops::rename_mailbox(&state, "inbox", "old/mail").unwrap();
    apply(&mut state, events);
    assert_eq!(state.mailbox_named("old/mail").unwrap().len(), 1);
    assert!(state.inbox().is_empty());
    assert!(state.mailbox_named("INBOX/x").is_some());
}

#[test]
fn a_level_that_is_no_mailbox_can_be_renamed() {
    let mut state = AccountState::new(ACCOUNT);
    let events = ops::create_mailbox(&state, "a/b/c", SpecialUses::default()).unwrap();
    apply(&mut state, events);
    let events = ops::delete_mailbox(&state, "a").unwrap();
    apply(&mut state, events);
    assert!(ops::delete_mailbox(&state, "a").is_err(), "only a level now");
    let events = ops::rename_mailbox(&state, "a", "z").unwrap();
    apply(&mut state, events);
    assert!(names_of(&state).ends_with(&["z", "z/b", "z/b/c"]));
}

#[test]
fn the_last_uid_is_followed_by_a_new_uidvalidity() {
    let mut state = AccountState::new(ACCOUNT);
    apply(&mut state, vec![Event::delivered(message(1))]);
    let inbox = state.inbox().id();
    let before = state.inbox().uid_validity();
    state.mailboxes.get_mut(&inbox).unwrap().uid_next = Uid::new(u32::MAX).unwrap();
    apply(&mut state, vec![Event::delivered(message(2))]);
    assert!(state.inbox().uid_validity() > before);
    assert_eq!(state.inbox().uids().to_string(), "1:2");
}

#[test]
fn a_uidvalidity_that_was_raised_is_below_all_that_follow() {
    let mut state = AccountState::new(ACCOUNT);
    let inbox = state.inbox().id();
    apply(&mut state, vec![Event::delivered(message(1))]);
    let above = state.last_uid_validity() + 1000;
    apply(&mut state, vec![Event::UidValidityRaised { above, mailbox: Some(inbox) }]);
    let raised = state.inbox().uid_validity();
    assert!(raised.0.get() > above);
    assert_eq!(state.inbox().uids().to_string(), "1");
    apply(&mut state, vec![Event::UidValidityRaised { above: above - 1, mailbox: Some(inbox) }]);
    assert_eq!(state.inbox().uid_validity(), raised, "it has a greater one");
    let events = ops::create_mailbox(&state, "a", SpecialUses::default()).unwrap();
    apply(&mut state, events);
    assert!(state.mailbox_named("a").unwrap().uid_validity() > raised);
}

#[test]
fn old_expunges_are_dropped_completely() {
    let mut state = AccountState::new(ACCOUNT);
    let limit = sealpost_base::limits::VANISHED_RANGES as u32;
    let deliver = |_| Event::delivered(message(1));
    apply(&mut state, (0..limit * 2 + 4).map(deliver).collect());
    for n in 0..=limit {
        let uid = Uid::new(n * 2 + 1).unwrap();
        let inbox = state.inbox().id();
        apply(&mut state, vec![Event::Expunged { mailbox: inbox, uids: UidSet::range(uid, uid) }]);
    }
    let inbox = state.inbox();
    assert!(inbox.vanished_since(Position(1)).is_none());
    assert!(inbox.vanished.len() <= limits_half(limit));
    assert_eq!(inbox.vanished_since(state.position()).unwrap().len(), 0);
}

fn limits_half(limit: u32) -> usize {
    limit as usize / 2 + 1
}

#[test]
fn keywords_and_objects_stop_at_their_limits() {
    let mut state = AccountState::new(ACCOUNT);
    apply(&mut state, vec![Event::delivered(message(1))]);
    let inbox = state.inbox().id();
    let uids = state.inbox().uids();
    let keywords: Vec<_> = (0..5000).map(|n| format!("k{n}")).collect();
    for few in keywords.chunks(200) {
        let flags = Flags { system: SystemFlags::NONE, keywords: few.to_vec() };
        let action = FlagAction::Add;
        let event =
            Event::FlagsStored { mailbox: inbox, uids: uids.clone(), action, flags, unchanged_since: None };
        apply(&mut state, vec![event]);
    }
    assert_eq!(state.keywords().len(), sealpost_base::limits::KEYWORDS);
    let row = state.inbox().row(Uid::MIN).unwrap();
    assert_eq!(state.flags(row.flags).keywords.len(), sealpost_base::limits::FLAG_SET_KEYWORDS);
    let many = Flags { system: SystemFlags::NONE, keywords: vec!["one more".to_owned()] };
    assert_eq!(ops::check_flags(&state, &many).unwrap_err().kind(), sealpost_base::Kind::Limit);

    let value = vec![0; sealpost_base::limits::ACCOUNT_OBJECT_BYTES];
    let put = |n: usize| Event::ObjectPut { name: format!("o{n}"), value: value.clone() };
    apply(&mut state, (0..100).map(put).collect());
    assert!(state.objects_bytes() <= sealpost_base::limits::ACCOUNT_OBJECTS_BYTES);
    assert!(state.objects("o").count() >= 60);
}

fn mailbox_names(state: &AccountState) -> Vec<&str> {
    state.mailboxes().map(|m| m.name()).filter(|name| name.starts_with(['a', 'x'])).collect()
}

#[test]
fn a_rename_may_reuse_names_of_moved_mailboxes() {
    let create = |name: &str| Event::MailboxCreated { name: name.to_owned(), special_use: None };
    let made = |names: &[&str]| {
        let mut state = AccountState::new(ACCOUNT);
        apply(&mut state, names.iter().map(|name| create(name)).collect());
        state
    };
    let renamed = |names: &[&str], from: &str, to: &str| {
        let mut state = made(names);
        let ids: Vec<_> = names.iter().map(|name| state.mailbox_named(name).unwrap().id()).collect();
        let events = ops::rename_mailbox(&state, from, to).unwrap();
        let applied = apply(&mut state, events);
        assert!(!applied.contains(&Applied::Nothing), "{from} {to}");
        // Every mailbox is still there.
        assert!(ids.iter().all(|id| state.mailbox(*id).is_some()));
        mailbox_names(&state).join(" ")
    };
    assert_eq!(renamed(&["a/b", "a/b/b", "a/b/b/b"], "a/b", "a"), "a a/b a/b/b");
    // The same where only levels are above them.
    assert_eq!(renamed(&["a/b/b", "a/b/b/b"], "a/b", "a"), "a a/b a/b/b");
    assert_eq!(renamed(&["a/b/b/x", "a/b/x", "a/b/x/y"], "a/b", "a"), "a a/b/x a/x a/x/y");
    assert_eq!(renamed(&["a/b/c", "a/d"], "a/b", "x/y"), "a/d x x/y x/y/c");
    let state = made(&["a/b/b", "a/c"]);
    let kind = |from, to| ops::rename_mailbox(&state, from, to).unwrap_err().kind();
    assert_eq!(kind("a/b", "a/c"), sealpost_base::Kind::Conflict);
    assert_eq!(kind("a", "a"), sealpost_base::Kind::Conflict);
    assert_eq!(kind("a", "a/b"), sealpost_base::Kind::Invalid);
    let state = made(&["a/b/c", "x/c"]);
    let kind = ops::rename_mailbox(&state, "a/b", "x").unwrap_err().kind();
    assert_eq!(kind, sealpost_base::Kind::Conflict);
}

#[test]
fn a_rename_makes_no_more_mailboxes_than_there_may_be() {
    let mut state = AccountState::new(ACCOUNT);
    let create = |n: usize| Event::MailboxCreated { name: format!("a{n:05}"), special_use: None };
    let room = sealpost_base::limits::MAILBOXES - state.mailbox_count();
    apply(&mut state, (0..room - 1).map(create).collect());
    let limit = sealpost_base::Kind::Limit;
    assert_eq!(ops::rename_mailbox(&state, "a00000", "x/y/z").unwrap_err().kind(), limit);
    assert_eq!(ops::rename_mailbox(&state, "INBOX", "x/y").unwrap_err().kind(), limit);
    let events = ops::rename_mailbox(&state, "a00000", "x/y").unwrap();
    assert!(!apply(&mut state, events).contains(&Applied::Nothing));
    assert_eq!(state.mailbox_count(), sealpost_base::limits::MAILBOXES);
}

#[test]
fn a_special_use_is_one_mailboxs() {
    let mut state = AccountState::new(ACCOUNT);
    let uses: SpecialUses = [SpecialUse::Sent, SpecialUse::Drafts].into_iter().collect();
    let events = ops::create_mailbox(&state, "x/y", uses).unwrap();
    apply(&mut state, events);
    assert_eq!(state.mailbox_for(SpecialUse::Sent).unwrap().name(), "x/y");
    assert!(state.mailbox_named("Drafts").unwrap().special_uses().is_empty());
    assert_eq!(chunks(&through_chunks(&state)), chunks(&state));
    assert_eq!(through_chunks(&state).mailbox_named("x/y").unwrap().special_uses(), uses);
    let mailbox = state.mailbox_named("Sent").unwrap();
    let events = ops::set_special_uses(mailbox, [SpecialUse::Sent].into_iter().collect()).unwrap();
    let before = state.position();
    apply(&mut state, events);
    assert!(!state.mailbox_named("x/y").unwrap().special_uses().contains(SpecialUse::Sent));
    assert_eq!(state.metadata_changes(before).unwrap().count(), 2);
    // RFC 7162 §3.2: an annotation that changes is a change of the mailbox.
    for name in ["x/y", "Sent"] {
        assert_eq!(state.mailbox_named(name).unwrap().highest_modseq(), state.position());
    }
    let holder = crate::metadata::Holder::Mailbox(state.inbox().id());
    let put = |name: String| vec![Event::ObjectPut { name, value: b"x".to_vec() }];
    apply(&mut state, put(format!("{}/private/comment", holder.prefix())));
    assert_eq!(state.inbox().highest_modseq(), state.position());
    apply(&mut state, put("something else".to_owned()));
    assert!(state.inbox().highest_modseq() < state.position());
    assert!(ops::set_special_uses(state.inbox(), uses).is_err());
}

#[test]
fn subscriptions_are_bounded_in_bytes() {
    let mut state = AccountState::new(ACCOUNT);
    let long = "x".repeat(sealpost_base::limits::MAILBOX_NAME_BYTES - 5);
    let mut count = 0;
    let refused = loop {
        match ops::subscribe(&state, &format!("{long}{count:05}"), true) {
            Ok(events) => apply(&mut state, events),
            Err(refused) => break refused,
        };
        count += 1;
    };
    assert_eq!(refused.kind(), sealpost_base::Kind::Limit);
    assert!(count > 900 && count * 1000 < sealpost_base::limits::SUBSCRIPTIONS_BYTES);
    assert!(ops::subscribe(&state, &format!("{long}00000"), false).is_ok());
}

#[test]
fn damaged_chunks_are_refused_not_believed() {
    let mut state = AccountState::new(ACCOUNT);
    apply(&mut state, vec![Event::delivered(message(1))]);
    let whole = chunks(&state);
    for skip in 0..whole.len() {
        let mut restore = Restore::new(ACCOUNT);
        let rest = whole.iter().enumerate().filter(|(i, _)| *i != skip).map(|(_, chunk)| chunk);
        let result = rest.clone().try_for_each(|(name, bytes)| restore.chunk(name, bytes));
        let lost_messages = whole[skip].0.starts_with("messages");
        assert_eq!(result.is_err(), skip == 0 || lost_messages, "{}", whole[skip].0);
        if skip != 0 {
            let mut lenient = Restore::lenient(ACCOUNT);
            rest.for_each(|(name, bytes)| lenient.chunk(name, bytes).unwrap());
            assert!(lenient.finish().unwrap().inbox().is_empty());
        }
    }
}

#[test]
fn chunks_of_a_newer_version_are_no_damage() {
    let whole = chunks(&AccountState::new(ACCOUNT));
    for make in [Restore::new, Restore::lenient] {
        let mut restore = make(ACCOUNT);
        whole.iter().for_each(|(name, bytes)| restore.chunk(name, bytes).unwrap());
        for (name, bytes) in
            [("novelties-00000000", b"\x80".as_slice()), ("gone-novelties-00000000", b"\x80")]
        {
            let refused = restore.chunk(name, bytes).unwrap_err();
            assert_eq!(refused.kind(), sealpost_base::Kind::Retry, "{refused}");
        }
    }
}
