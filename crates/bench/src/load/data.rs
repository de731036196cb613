//! Data sets: the mail that is sent. The same name and seed give the same bytes, message by
//! message.
//!
//! A set has no end: its messages are repeated with other Message-IDs, so that it can have any size
//! and no server can store two as one. Its messages are generated before the clock starts and
//! shared by all threads.

mod files;
mod sizes;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use sealpost_base::{Random, SeededRandom, Timestamp};

use crate::mail::correspondence::{self, Length};
use crate::{UsageError, mail};

pub use files::{Format, write};

/// Names of generated sets, and their descriptions.
pub const NAMES: [(&str, &str); 5] = [
    ("mailbox-100", "100 messages with the sizes of a real inbox: 23 MB, 700 bytes to 6 MB"),
    (
        "inbox",
        "any number, with the sizes of 2,327 messages of a real user: median 15 kB, mean 126 kB, up to 20 MB",
    ),
    ("tiny", "any number, with bodies of 52 bytes"),
    ("small", "any number, no two alike, of 1 to 2 kB: threads, lists, alternatives, small attachments"),
    ("personal", "the same with the sizes of `inbox`"),
];

/// Different messages of `inbox` that are kept in memory.
const INBOX_MESSAGES: u64 = 256;
/// Bytes of a body of `tiny`, line end included.
const TINY_BODY_BYTES: usize = 52;

/// One message as it is sent. Every line ends with CRLF.
pub type Message = Arc<[u8]>;

/// Mail to send.
#[derive(Debug)]
pub struct DataSet {
    seed: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// Generated or read before.
    Held(Vec<SetMessage>),
    /// The others are generated when they are sent.
    Tiny,
    Small,
    Personal,
}

/// The flags and date of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct About {
    /// Its flags, separated by blanks.
    pub flags: &'static str,
    /// When it arrived, if not when it is stored.
    pub received: Option<Timestamp>,
}

/// Opened data sets, for successive runs: none is generated twice. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Library(Arc<Mutex<Sets>>);

/// By name and seed.
type Sets = HashMap<(String, u64), Arc<DataSet>>;

impl Library {
    /// As [`DataSet::open`], at the first time.
    ///
    /// # Errors
    /// Those of [`DataSet::open`].
    pub fn open(&self, name: &str, seed: u64) -> Result<Arc<DataSet>> {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(set) = sets.get(&(name.to_owned(), seed)) {
            return Ok(set.clone());
        }
        let set = Arc::new(DataSet::open(name, seed)?);
        sets.insert((name.to_owned(), seed), set.clone());
        Ok(set)
    }
}

#[derive(Debug)]
struct SetMessage {
    message: Message,
    /// The position of its Message-ID, without the angle brackets.
    id: Option<std::ops::Range<usize>>,
}

impl DataSet {
    /// The set called `name`: one of [`NAMES`], or a path to an mbox file, a Maildir, or a
    /// directory of `.eml` files.
    ///
    /// # Errors
    /// If there is no such set, or its files cannot be read.
    pub fn open(name: &str, seed: u64) -> Result<Self> {
        let source = match name {
            "tiny" => Source::Tiny,
            "small" => Source::Small,
            "personal" => Source::Personal,
            "mailbox-100" => Source::Held(mail::mailbox_100(seed).into_iter().map(SetMessage::new).collect()),
            "inbox" => {
                Source::Held((0..INBOX_MESSAGES).map(|nth| SetMessage::new(inbox(seed, nth))).collect())
            }
            path if Path::new(path).exists() => {
                let read = files::read(Path::new(path)).with_context(|| path.to_owned())?;
                Source::Held(read.into_iter().map(SetMessage::new).collect())
            }
            _ => return Err(UsageError(unknown(name)).into()),
        };
        Ok(DataSet { seed, source })
    }

    /// The `nth` message, from 0.
    pub fn message(&self, nth: u64) -> Message {
        match &self.source {
            Source::Tiny => tiny(self.seed, nth).into(),
            Source::Small => correspondence::message(self.seed, nth, Length::Small).into(),
            Source::Personal => {
                let length = Length::Bytes(size(self.seed, nth).1);
                correspondence::message(self.seed, nth, length).into()
            }
            Source::Held(messages) => {
                let count = messages.len() as u64;
                let kept = &messages[(nth % count) as usize];
                if nth < count { kept.message.clone() } else { kept.with_id(self.seed, nth) }
            }
        }
    }

    /// Flags and date of the `nth` of `of` messages.
    pub fn about(&self, nth: u64, of: u64) -> About {
        match self.source {
            Source::Small | Source::Personal => About {
                flags: correspondence::flags(self.seed, nth),
                received: Some(correspondence::received(nth, of)),
            },
            Source::Tiny | Source::Held(_) => About::default(),
        }
    }

    /// How many messages there are before they repeat; `None`: no end.
    pub fn len(&self) -> Option<usize> {
        match &self.source {
            Source::Held(messages) => Some(messages.len()),
            _ => None,
        }
    }

    /// No set is empty.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Bytes of the messages that are kept in memory.
    pub fn bytes(&self) -> u64 {
        match &self.source {
            Source::Held(messages) => messages.iter().map(|kept| kept.message.len() as u64).sum(),
            _ => 0,
        }
    }
}

impl SetMessage {
    fn new(message: Vec<u8>) -> Self {
        let head = memchr::memmem::find(&message, b"\r\n\r\n").unwrap_or(message.len());
        let head = &message[..head];
        let name = head.windows(13).position(|name| name.eq_ignore_ascii_case(b"\r\nMessage-ID:"));
        let id = name.and_then(|at| {
            let open = memchr::memchr(b'<', &head[at..])? + at + 1;
            Some(open..memchr::memchr(b'>', &head[open..])? + open)
        });
        SetMessage { message: message.into(), id }
    }

    /// The same message under another Message-ID.
    fn with_id(&self, seed: u64, nth: u64) -> Message {
        let id = format!("{nth:x}.{seed:x}@again.example");
        let message = &self.message;
        match &self.id {
            Some(range) => [&message[..range.start], id.as_bytes(), &message[range.end..]].concat().into(),
            None => [format!("Message-ID: <{id}>\r\n").as_bytes(), message].concat().into(),
        }
    }
}

fn unknown(name: &str) -> String {
    let names = NAMES.iter().map(|(name, _)| *name);
    let near = sealpost_base::suggest::nearest(name, names.clone());
    match near.filter(|_| !name.contains(['/', '.'])) {
        Some(near) => format!("there is no data set {name}; is it {near}?"),
        None => format!("{name} is neither a data set ({}) nor a file", names.collect::<Vec<_>>().join(", ")),
    }
}

/// With the sizes of a real person's mail.
fn inbox(seed: u64, nth: u64) -> Vec<u8> {
    let (seed, size) = size(seed, nth);
    mail::message(seed, size)
}

/// A seed for the `nth` message, and how many bytes it has.
fn size(seed: u64, nth: u64) -> (u64, usize) {
    let seed = SeededRandom::new(seed ^ nth.rotate_left(32)).next_u64();
    (seed, sizes::draw(&SeededRandom::new(seed)))
}

fn tiny(seed: u64, nth: u64) -> Vec<u8> {
    let body = format!("Message {nth} of set {seed}. The rest is padding");
    format!(
        "From: a@sender.example\r\nTo: b@reader.example\r\nSubject: Number {nth}\r\n\
         Date: Tue, 14 Oct 2025 12:00:00 +0000\r\nMessage-ID: <{nth:x}.{seed:x}@tiny.example>\r\n\r\n{body:.<width$.width$}\r\n",
        width = TINY_BODY_BYTES - 2,
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_others() {
        for (name, _) in NAMES {
            let (one, same, other) = (
                DataSet::open(name, 7).unwrap(),
                DataSet::open(name, 7).unwrap(),
                DataSet::open(name, 8).unwrap(),
            );
            for nth in [0, 1, 99, 100, 12_345] {
                assert_eq!(one.message(nth), same.message(nth), "{name} {nth}");
                assert_ne!(one.message(nth), other.message(nth), "{name} {nth}");
                assert_ne!(one.message(nth), one.message(nth + 100), "{name} {nth}");
                assert!(one.message(nth).ends_with(b"\r\n"));
            }
        }
    }

    #[test]
    fn a_library_makes_no_set_twice() {
        let library = Library::default();
        let first = library.open("tiny", 1).unwrap();
        assert!(Arc::ptr_eq(&first, &library.clone().open("tiny", 1).unwrap()));
        assert!(!Arc::ptr_eq(&first, &library.open("tiny", 2).unwrap()));
        assert!(library.open("tini", 1).is_err());
    }

    #[test]
    fn tiny_bodies_have_52_bytes() {
        for nth in [0, 999_999, u64::MAX] {
            let message = tiny(1, nth);
            let head = memchr::memmem::find(&message, b"\r\n\r\n").unwrap();
            assert_eq!(message.len() - head - 4, TINY_BODY_BYTES);
        }
    }

    #[test]
    fn messages_that_come_again_differ_in_their_id_alone() {
        let kept =
            SetMessage::new(b"A: 1\r\nMessage-Id: <x@y>\r\nB: 2\r\n\r\nMessage-ID: <body>\r\n".to_vec());
        assert_eq!(
            &*kept.with_id(1, 16),
            b"A: 1\r\nMessage-Id: <10.1@again.example>\r\nB: 2\r\n\r\nMessage-ID: <body>\r\n"
        );
        let none = SetMessage::new(b"A: 1\r\n\r\n".to_vec());
        assert_eq!(&*none.with_id(1, 16), b"Message-ID: <10.1@again.example>\r\nA: 1\r\n\r\n");
    }

    #[test]
    fn names_that_there_are_not() {
        assert_eq!(
            DataSet::open("tini", 1).unwrap_err().to_string(),
            "there is no data set tini; is it tiny?"
        );
        assert!(DataSet::open("/nowhere/mail.mbox", 1).unwrap_err().to_string().contains("nor a file"));
    }
}
