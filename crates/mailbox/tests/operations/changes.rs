//! Changes of a mailbox: a client that applies them knows the mailbox.

use std::collections::BTreeMap;

use sealpost_account::event::Event;
use sealpost_account::state::Mailbox;
use sealpost_account::{AccountState, FlagAction, Flags, SystemFlags};
use sealpost_base::{Random, SeededRandom, Uid, UidSet};
use sealpost_mailbox::changes::{KnownUpTo, MailboxChanges, since, updated, vanished_since};

use crate::fixture::{Fixture, uids};

/// A client: its messages, with their flags.
struct Client {
    messages: BTreeMap<Uid, Flags>,
    known: KnownUpTo,
}

impl Client {
    fn new(state: &AccountState) -> Self {
        let mailbox = state.inbox();
        Client { messages: content(state, mailbox), known: known(state) }
    }

    /// Applies the changes. Expunges may be held back.
    fn learn(&mut self, state: &AccountState, expunges: bool) {
        let mailbox = state.inbox();
        let has: UidSet = self.messages.keys().copied().collect();
        let keep = |row: &sealpost_account::Row| has.contains(row.uid);
        let MailboxChanges { created, updated: first, destroyed } = since(mailbox, self.known, &has, keep);
        let mut part = first;
        loop {
            for uid in part.uids.iter() {
                let row = mailbox.row(uid).unwrap();
                self.messages.insert(uid, state.flags_by_name(row.flags));
            }
            let Some(next) = part.next else { break };
            part = updated(mailbox, self.known.flags, next, Some(self.known.uid_next), keep);
        }
        for uid in created.iter() {
            let row = mailbox.row(uid).expect("a new message exists");
            assert!(self.messages.insert(uid, state.flags_by_name(row.flags)).is_none());
        }
        let now = known(state);
        if expunges {
            destroyed.iter().for_each(|uid| assert!(self.messages.remove(&uid).is_some()));
            self.known = now;
        } else {
            self.known = KnownUpTo { expunges: self.known.expunges, ..now };
        }
    }
}

fn known(state: &AccountState) -> KnownUpTo {
    let position = state.position();
    KnownUpTo { flags: position, expunges: position, uid_next: state.inbox().uid_next() }
}

fn content(state: &AccountState, mailbox: &Mailbox) -> BTreeMap<Uid, Flags> {
    mailbox.all_rows().map(|row| (row.uid, state.flags_by_name(row.flags))).collect()
}

#[tokio::test]
async fn clients_that_apply_changes_know_the_mailbox() {
    let w = Fixture::new().await;
    let random = SeededRandom::new(5);
    let inbox = w.me.account.state().inbox().id();
    let mut prompt = Client::new(&w.me.account.state());
    let mut slow = Client::new(&w.me.account.state());
    for step in 0..300 {
        let some: UidSet = {
            let state = w.me.account.state();
            let all = state.inbox().uids();
            all.iter().filter(|_| below(&random, 4) == 0).collect()
        };
        match below(&random, 3) {
            0 => drop(w.append(&w.me, "INBOX", Flags::default()).await.unwrap()),
            1 if !some.is_empty() => commit(&w, Event::Expunged { mailbox: inbox, uids: some }).await,
            _ if !some.is_empty() => {
                let actions = [FlagAction::Add, FlagAction::Remove, FlagAction::Replace];
                let flags = Flags::system(SystemFlags::SEEN);
                let action = actions[below(&random, 3)];
                let unchanged_since = None;
                commit(&w, Event::FlagsStored { mailbox: inbox, uids: some, action, flags, unchanged_since })
                    .await;
            }
            _ => {}
        }
        let state = w.me.account.state();
        prompt.learn(&state, true);
        assert_eq!(prompt.messages, content(&state, state.inbox()), "step {step}");
        if below(&random, 5) == 0 {
            let held_back = below(&random, 2) == 0;
            slow.learn(&state, !held_back);
            let mut there = slow.messages.clone();
            there.retain(|uid, _| state.inbox().row(*uid).is_some());
            assert_eq!(there, content(&state, state.inbox()), "step {step}");
            assert!(held_back || there.len() == slow.messages.len());
        }
    }
}

#[tokio::test]
async fn changes_of_every_other_message_come_in_parts() {
    let w = Fixture::new().await;
    for _ in 0..40 {
        let inbox = w.me.account.state().inbox().id();
        let all = w.me.account.state().inbox().uids();
        if all.is_empty() {
            w.append(&w.me, "INBOX", Flags::default()).await.unwrap();
        } else if all.len() < 1200 {
            commit(&w, Event::Copied { from: inbox, uids: all, to: inbox }).await;
        }
    }
    let before = known(&w.me.account.state());
    let (inbox, all) = {
        let state = w.me.account.state();
        (state.inbox().id(), state.inbox().uids())
    };
    let every_other: UidSet = all.iter().step_by(2).collect();
    let event = Event::FlagsStored {
        mailbox: inbox,
        uids: every_other.clone(),
        action: FlagAction::Add,
        flags: Flags::system(SystemFlags::FLAGGED),
        unchanged_since: None,
    };
    commit(&w, event).await;
    let state = w.me.account.state();
    let first = since(state.inbox(), before, &all, |_| true).updated;
    assert_eq!(first.uids.range_count(), 512);
    let (mut found, mut next) = (first.uids, first.next);
    while let Some(from) = next {
        let part = updated(state.inbox(), before.flags, from, Some(before.uid_next), |_| true);
        assert!(!part.is_empty());
        (found, next) = (found.union(&part.uids), part.next);
    }
    assert_eq!(found, every_other);
}

#[tokio::test]
async fn expunges_since_a_position_are_known() {
    let w = Fixture::new().await;
    for _ in 0..5 {
        w.append(&w.me, "INBOX", Flags::default()).await.unwrap();
    }
    let (inbox, before) = (w.me.account.state().inbox().id(), w.me.account.state().position());
    commit(&w, Event::Expunged { mailbox: inbox, uids: uids(&[2, 4]) }).await;
    let state = w.me.account.state();
    let gone = |since, among: &[u32]| vanished_since(state.inbox(), since, &uids(among));
    assert_eq!(gone(before, &[1, 2, 3]), uids(&[2]));
    assert_eq!(gone(state.position(), &[1, 2, 3, 4]), uids(&[]));
}

async fn commit(w: &Fixture, event: Event) {
    w.me.account.commit(|_| Ok((vec![event.clone()], ()))).await.unwrap();
}

fn below(random: &SeededRandom, n: usize) -> usize {
    let mut bytes = [0; 4];
    random.fill(&mut bytes);
    u32::from_le_bytes(bytes) as usize % n
}
