//! The expected contents of a mailbox, in the simplest form: placements, and the effect of each
//! command.

use std::collections::{BTreeMap, BTreeSet};

use sealpost_base::SeededRandom;
use sealpost_bench::words;

/// A message's place: account, mailbox, message id. A worker never puts a message into a mailbox
/// twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageLocation {
    /// The account.
    pub account: usize,
    /// The mailbox.
    pub mailbox: &'static str,
    /// The local part of its Message-ID.
    pub id: String,
}

/// The known data of a message in its place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placed {
    /// Its UID, once a reply named it or it was observed.
    pub uid: Option<u32>,
    /// Its flags, without \Recent.
    pub flags: BTreeSet<String>,
}

/// All placements of one worker's messages.
pub type Placements = BTreeMap<MessageLocation, Placed>;

/// One command on messages of one account, atomic.
#[derive(Debug, Clone)]
pub enum Op {
    /// A delivery or an APPEND.
    Add {
        /// The place of the new message.
        place: MessageLocation,
        /// Its flags.
        flags: BTreeSet<String>,
    },
    /// COPY, or MOVE if `remove`.
    Transfer {
        /// The account.
        account: usize,
        /// The source mailbox.
        from: &'static str,
        /// The target mailbox.
        to: &'static str,
        /// The messages.
        ids: Vec<String>,
        /// Whether they are removed from `from`.
        remove: bool,
    },
    /// STORE of one flag.
    Store {
        /// The account.
        account: usize,
        /// The mailbox.
        mailbox: &'static str,
        /// The messages.
        ids: Vec<String>,
        /// The flag.
        flag: String,
        /// +FLAGS or -FLAGS.
        add: bool,
    },
    /// UID EXPUNGE of messages that have \Deleted.
    Expunge {
        /// The account.
        account: usize,
        /// The mailbox.
        mailbox: &'static str,
        /// The messages.
        ids: Vec<String>,
    },
}

impl Op {
    /// Applies the command to `placements`. `uids` are those that the reply named for new places.
    pub fn apply(&self, placements: &mut Placements, uids: &BTreeMap<String, u32>) {
        let place = |account: usize, mailbox: &'static str, id: &String| MessageLocation {
            account,
            mailbox,
            id: id.clone(),
        };
        match self {
            Op::Add { place, flags } => {
                let uid = uids.get(&place.id).copied();
                placements.insert(place.clone(), Placed { uid, flags: flags.clone() });
            }
            Op::Transfer { account, from, to, ids, remove } => {
                for id in ids {
                    let source = place(*account, from, id);
                    let found =
                        if *remove { placements.remove(&source) } else { placements.get(&source).cloned() };
                    if let Some(found) = found {
                        let uid = uids.get(id).copied();
                        placements.insert(place(*account, to, id), Placed { uid, flags: found.flags });
                    }
                }
            }
            Op::Store { account, mailbox, ids, flag, add } => {
                for id in ids {
                    if let Some(placed) = placements.get_mut(&place(*account, mailbox, id)) {
                        if *add {
                            placed.flags.insert(flag.clone());
                        } else {
                            placed.flags.remove(flag);
                        }
                    }
                }
            }
            Op::Expunge { account, mailbox, ids } => {
                for id in ids {
                    placements.remove(&place(*account, mailbox, id));
                }
            }
        }
    }
}

/// The bytes of message `id`, derived from it. From under 1 kB to several sealed chunks.
pub fn content(id: &str) -> Vec<u8> {
    let seed = id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let random = SeededRandom::new(seed);
    let bytes = match random.below(20) {
        0 => 250_000,
        1..4 => 70_000,
        4..10 => 9_000,
        _ => 600,
    };
    let words = words::list();
    let mut text = format!(
        "From: Load <load@crash.example>\r\nTo: ada@localhost\r\nSubject: {id}\r\nMessage-ID: <{id}@crash.example>\r\n\
         Date: Tue, 14 Oct 2025 12:21:05 +0200\r\n\r\n"
    );
    while text.len() < bytes {
        text.push_str(&words::sentence(&random, &words));
        text.push_str("\r\n");
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(mailbox: &'static str) -> MessageLocation {
        MessageLocation { account: 0, mailbox, id: "m".into() }
    }

    #[test]
    fn operations_change_the_model_as_named() {
        let mut placements = Placements::new();
        let named = BTreeMap::from([("m".to_owned(), 7)]);
        let ids = vec!["m".to_owned()];
        Op::Add { place: place("INBOX"), flags: BTreeSet::new() }.apply(&mut placements, &named);
        assert_eq!(placements[&place("INBOX")].uid, Some(7));
        let store =
            Op::Store { account: 0, mailbox: "INBOX", ids: ids.clone(), flag: "\\Seen".into(), add: true };
        store.apply(&mut placements, &BTreeMap::new());
        let moved = Op::Transfer { account: 0, from: "INBOX", to: "Alpha", ids: ids.clone(), remove: true };
        moved.apply(&mut placements, &BTreeMap::new());
        assert!(!placements.contains_key(&place("INBOX")));
        assert!(placements[&place("Alpha")].flags.contains("\\Seen"), "flags travel with a message");
        assert_eq!(placements[&place("Alpha")].uid, None);
        Op::Expunge { account: 0, mailbox: "Alpha", ids }.apply(&mut placements, &BTreeMap::new());
        assert!(placements.is_empty());
    }

    #[test]
    fn content_is_a_function_of_the_id() {
        assert_eq!(content("w1-2"), content("w1-2"));
        assert_ne!(content("w1-2"), content("w1-3"));
    }
}
