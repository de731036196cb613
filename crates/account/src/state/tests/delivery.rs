//! Where deliveries go, and in which thread they are.

use sealpost_base::limits;

use super::*;
use crate::share::Link;

fn deliver(state: &mut AccountState, target: Target, create: bool, flags: Flags) -> String {
    let n = state.message_count() as u8 + 1;
    let event = Event::Delivered {
        target: Some(target),
        message: message(n),
        structure: None,
        flags,
        create,
        report_on: None,
    };
    let applied = apply(state, vec![event]);
    let [Applied::Placed { mailbox, .. }] = applied[..] else { panic!("{applied:?}") };
    state.mailbox(mailbox).unwrap().name().to_owned()
}

fn named(state: &mut AccountState, name: &str, create: bool) -> String {
    deliver(state, Target::Named(name.to_owned()), create, Flags::default())
}

#[test]
fn a_delivery_enters_its_mailbox_or_the_inbox() {
    let mut state = AccountState::new(ACCOUNT);
    assert_eq!(named(&mut state, "Archive", false), "Archive");
    assert_eq!(named(&mut state, "inbox", false), INBOX);
    assert_eq!(named(&mut state, "lists", false), INBOX, "there is none");
    let archive = state.mailbox_named("Archive").unwrap().id();
    assert_eq!(deliver(&mut state, Target::Mailbox(archive), false, Flags::default()), "Archive");
    assert_eq!(deliver(&mut state, Target::Mailbox(MailboxId(99)), true, Flags::default()), INBOX);
}

#[test]
fn a_delivery_creates_its_mailbox_if_permitted() {
    let mut state = AccountState::new(ACCOUNT);
    assert_eq!(named(&mut state, "lists/Entwu\u{308}rfe", true), "lists/Entw\u{fc}rfe", "in NFC");
    assert!(state.mailbox_named("lists").is_some() && state.is_subscribed("lists/Entw\u{fc}rfe"));
    assert_eq!(named(&mut state, "lists/Entwu\u{308}rfe", true), "lists/Entw\u{fc}rfe");
    let long = "x".repeat(limits::MAILBOX_NAME_BYTES + 1);
    for name in ["", "a//b", "a\u{7}", "Other Users/x/y", &long] {
        assert_eq!(named(&mut state, name, true), INBOX, "{name}");
    }
    let count = state.mailbox_count();
    let more = (count..limits::MAILBOXES - 1).map(|n| format!("m{n}"));
    let more = more.map(|name| Event::MailboxCreated { name, special_use: None });
    apply(&mut state, more.collect());
    assert_eq!(named(&mut state, "two/levels", true), INBOX, "one more fits, and not two");
    assert!(state.mailbox_named("two").is_none());
    assert_eq!(named(&mut state, "one", true), "one");
}

#[test]
fn a_delivery_goes_into_no_share() {
    let mut state = AccountState::new(ACCOUNT);
    let root = sealpost_vault::RootKey::generate(&sealpost_base::SeededRandom::new(1));
    let link = Link { share: AccountId([7; 16]), root, owner: None };
    let archive = state.mailbox_named("Archive").unwrap().id();
    apply(&mut state, vec![Event::Linked { mailbox: archive, link }]);
    assert_eq!(named(&mut state, "Archive", true), INBOX);
    assert_eq!(named(&mut state, "Archive/2026", true), INBOX, "its owner decides who sees what is below it");
    assert_eq!(deliver(&mut state, Target::Mailbox(archive), false, Flags::default()), INBOX);
}

#[test]
fn forbidden_flags_of_a_delivery_are_left_out() {
    let mut state = AccountState::new(ACCOUNT);
    let mut keywords: Vec<String> = (0..limits::FLAG_SET_KEYWORDS + 5).map(|n| format!("k{n}")).collect();
    keywords.splice(0..0, ["with space".to_owned(), "\\Seen".to_owned(), String::new(), "x".repeat(200)]);
    let flags = Flags { system: SystemFlags::FLAGGED, keywords };
    deliver(&mut state, Target::Named("Archive".to_owned()), false, flags);
    let row = state.mailbox_named("Archive").unwrap().all_rows().next().unwrap();
    let stored = state.flags_by_name(row.flags);
    assert_eq!(stored.system, SystemFlags::FLAGGED);
    assert_eq!((stored.keywords.len(), stored.keywords[0].as_str()), (limits::FLAG_SET_KEYWORDS, "k0"));
    // No more keywords fit into the account: the system flags are kept.
    for from in (0..limits::KEYWORDS).step_by(200) {
        let flags = Flags {
            system: SystemFlags::SEEN,
            keywords: (from..from + 200).map(|n| format!("m{n}")).collect(),
        };
        deliver(&mut state, Target::Named("Junk".to_owned()), false, flags);
    }
    assert_eq!(state.keywords().len(), limits::KEYWORDS);
    assert_eq!(state.mailbox_named("Junk").unwrap().unseen(), 0);
}

#[test]
fn replies_are_joined_to_their_thread_when_they_are_applied() {
    let mut state = AccountState::new(ACCOUNT);
    let with = |n: u8, links: &[u64]| {
        let links: Vec<_> = links.iter().copied().map(ThreadId).collect();
        Event::delivered(Message { thread: *links.last().unwrap(), links, ..message(n) })
    };
    // The second reply names the first alone, and comes before it.
    apply(&mut state, vec![with(1, &[1]), with(2, &[3, 2]), with(3, &[2, 1]), with(4, &[4, 3])]);
    let threads: Vec<u64> = state.messages().map(|(_, message)| message.thread.0).collect();
    assert_eq!(threads, [1, 2, 2, 2], "the first one's thread had begun already");
    let mut state = through_chunks(&state);
    apply(&mut state, vec![with(5, &[5, 4])]);
    assert_eq!(state.messages().last().unwrap().1.thread, ThreadId(2), "a checkpoint knows the links");
}
