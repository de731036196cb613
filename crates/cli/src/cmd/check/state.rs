//! The rules that every state keeps: UIDs, UIDVALIDITY, and that what rows and cards refer to exists.

use std::collections::BTreeMap;

use sealpost_account::object_id::card_id;
use sealpost_account::{AccountState, Mailbox, SystemFlags};

use super::report::{Location as At, Report};

/// Checks the state of one account.
pub fn check(state: &AccountState, report: &mut Report) {
    let mut validities = BTreeMap::new();
    for mailbox in state.mailboxes() {
        let name = mailbox.name();
        let mut wrong = |what: String| report.found(At::Account, format!("mailbox {name}: {what}"));
        let validity = mailbox.uid_validity().0.get();
        if validity > state.last_uid_validity() {
            wrong(format!("UIDVALIDITY {validity} was never given"));
        }
        if let Some(other) = validities.insert(validity, name) {
            wrong(format!("it has the UIDVALIDITY of {other}"));
        }
        if mailbox.id() >= state.next_mailbox_id() {
            wrong(format!("its number {} was never given", mailbox.id().0));
        }
        if mailbox.highest_modseq() > state.position() {
            wrong(format!("HIGHESTMODSEQ {} is beyond the end of the log", mailbox.highest_modseq()));
        }
        rows(state, mailbox, &mut wrong);
    }
    for tombstone in state.tombstones() {
        if state.message(tombstone.message).is_none() {
            report.found(At::Account, format!("expunged UID {} refers to no message", tombstone.uid));
        }
    }
    contacts(state, report);
}

fn contacts(state: &AccountState, report: &mut Report) {
    let contacts = state.contacts();
    for card in contacts.cards() {
        let mut wrong = |what: &str| report.found(At::Account, format!("{}: {what}", card_id(card.id)));
        if state.media_of(card).len() < card.media.len() {
            wrong("the card refers to a missing picture or sound");
        }
        if card.books.iter().any(|book| contacts.book(*book).is_none()) {
            wrong("the card is in an address book that does not exist");
        }
        if contacts.with_uid(&card.uid).is_none_or(|other| other.id != card.id) {
            wrong("the card cannot be found by its uid");
        }
    }
}

fn rows(state: &AccountState, mailbox: &Mailbox, wrong: &mut impl FnMut(String)) {
    let mut last = 0;
    let (mut bytes, mut unseen, mut deleted) = (0u64, 0, 0);
    for row in mailbox.all_rows() {
        let uid = row.uid.get();
        // RFC 3501 §2.3.1.1: strictly ascending, and the next one is larger than all of them.
        if uid <= last {
            wrong(format!("UID {uid} comes after UID {last}"));
        }
        if row.uid >= mailbox.uid_next() {
            wrong(format!("UID {uid} is not below UIDNEXT {}", mailbox.uid_next()));
        }
        if row.modseq > mailbox.highest_modseq() {
            wrong(format!("UID {uid} changed at {}, after HIGHESTMODSEQ", row.modseq));
        }
        match state.message(row.message) {
            Some(message) => bytes = bytes.saturating_add(message.size()),
            None => wrong(format!("UID {uid} refers to no message")),
        }
        let flags = state.flags(row.flags).system;
        unseen += usize::from(!flags.contains(SystemFlags::SEEN));
        deleted += usize::from(flags.contains(SystemFlags::DELETED));
        last = uid;
    }
    let counted = (bytes, unseen, deleted);
    let kept = (mailbox.bytes(), mailbox.unseen(), mailbox.deleted());
    if counted != kept {
        wrong(format!("(bytes, unseen, deleted) are stored as {kept:?} and counted as {counted:?}"));
    }
}
