//! [`Contents`]: the messages of a folder, at either end, with the data needed to recognize them.

use std::collections::HashMap;

use sealpost_base::{Error, Kind, Result, Timestamp, Uid, UidSet, limits};
use sealpost_imap::client::{Event, FetchData};
use sealpost_imap::types::{Code, DateTime};

use super::key::{self, FALLBACK_FIELD_NAMES, Key};
use crate::backup::Flags;
use crate::client::{Connection, lowest};

/// Ranges of one command: lines of more than 8 KiB are refused by some servers.
pub(super) const RANGES: usize = 500;

/// The messages of a folder, by UID.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) uidvalidity: u32,
    /// Every message that the folder has is among them.
    pub(super) complete: bool,
    pub(super) messages: Vec<Message>,
    /// Data about messages without a Message-ID.
    pub(super) without_id: Vec<WithoutId>,
    flags: Vec<Flags>,
    numbers: HashMap<Flags, u32>,
    flag_bytes: usize,
}

/// A message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub(super) uid: u32,
    pub(super) key: Key,
    pub(super) like: Like,
    flags: u32,
}

/// Tells messages of one key apart: size and INTERNALDATE, shortened to what is enough for that; 0
/// where not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Like {
    pub(super) size: u32,
    pub(super) date: u32,
}

impl Like {
    /// Of a message with this size and date.
    pub(super) fn of(size: u64, date: Option<Timestamp>) -> Self {
        Like { size: size as u32, date: date.map_or(0, |date| date.seconds() as u32) }
    }
}

/// A message without a Message-ID, for when its INTERNALDATE, or that of its counterpart, is not
/// known.
#[derive(Debug, Clone, Copy)]
pub(super) struct WithoutId {
    pub(super) uid: u32,
    /// Its key without INTERNALDATE.
    pub(super) key: Key,
    /// Its INTERNALDATE is known.
    pub(super) dated: bool,
}

/// The flags were not stored: too many different sets.
const UNKNOWN: u32 = u32::MAX;

impl Contents {
    /// None yet.
    pub(super) fn new(uidvalidity: u32) -> Self {
        Contents { uidvalidity, ..Self::default() }
    }

    /// Adds a message.
    pub(super) fn add(&mut self, uid: u32, key: Key, like: Like, flags: &Flags) {
        let flags = self.number(flags);
        self.messages.push(Message { uid, key, like, flags });
    }

    /// Adds a message without a Message-ID. `dated`: its date is a server's INTERNALDATE.
    pub(super) fn add_without_id(
        &mut self,
        (uid, header): (u32, &[u8]),
        size: u64,
        date: Option<Timestamp>,
        dated: bool,
        flags: &Flags,
    ) {
        self.add(uid, key::by_fields(header, size, date), Like::of(size, date), flags);
        self.without_id.push(WithoutId { uid, key: key::by_fields(header, size, None), dated });
    }

    /// All messages were added.
    pub(super) fn end(&mut self, complete: bool) {
        self.messages.sort_by_key(|message| message.uid);
        self.messages.dedup_by_key(|message| message.uid);
        self.without_id.sort_by_key(|message| message.uid);
        self.complete = complete;
    }

    /// Its flags, unless they were not stored.
    pub(super) fn flags(&self, message: &Message) -> Option<&Flags> {
        self.flags.get(message.flags as usize)
    }

    /// Whether the message's key is its Message-ID's.
    pub(super) fn has_id(&self, message: &Message) -> bool {
        self.without_id.binary_search_by_key(&message.uid, |without| without.uid).is_err()
    }

    /// All UIDs.
    pub(super) fn uids(&self) -> UidSet {
        self.messages.iter().filter_map(|message| Uid::new(message.uid)).collect()
    }

    /// The message of this UID.
    pub(super) fn find(&self, uid: u32) -> Option<usize> {
        self.messages.binary_search_by_key(&uid, |message| message.uid).ok()
    }

    fn number(&mut self, flags: &Flags) -> u32 {
        if let Some(number) = self.numbers.get(flags) {
            return *number;
        }
        let bytes = flags.names().map(str::len).sum::<usize>() + size_of::<Flags>();
        if self.flag_bytes + bytes > limits::ARCHIVE_FLAG_BYTES {
            return UNKNOWN;
        }
        self.flag_bytes += bytes;
        let number = self.flags.len() as u32;
        self.flags.push(flags.clone());
        self.numbers.insert(flags.clone(), number);
        number
    }

    /// The messages of a server's folder; it is selected afterwards, read-only.
    ///
    /// # Errors
    /// `Retry` if the connection is lost; `Limit` beyond [`limits::ARCHIVE_FOLDER_MESSAGES`]; the
    /// server's errors.
    pub(super) async fn of_server(connection: &mut Connection, wire: &[u8]) -> Result<Self> {
        let selected = connection.examine(wire).await?;
        if selected.messages > limits::ARCHIVE_FOLDER_MESSAGES {
            let why = format!("the server announces {} messages", selected.messages);
            return Err(Error::limit(why));
        }
        let mut contents = Contents::new(selected.uidvalidity);
        if selected.messages > 0 {
            contents.list(connection).await?;
        }
        let listed = contents.messages.len();
        contents.end(listed >= selected.messages as usize);
        Ok(contents)
    }

    async fn list(&mut self, connection: &mut Connection) -> Result<()> {
        let mut without = Vec::new();
        let mut last = None;
        loop {
            let to = last.map_or("*".to_owned(), |last: u32| last.to_string());
            let command = format!(
                "UID FETCH 1:{to} (UID FLAGS INTERNALDATE RFC822.SIZE BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])"
            );
            let on = |read: &Read| match read.header.as_deref().and_then(key::by_id) {
                Some(key) => self.add(read.uid, key, Like::of(read.size, read.date), &read.flags),
                None if read.header.is_some() => without.push(read.clone()),
                None => {}
            };
            let code = fetch(connection, &command, on).await?;
            // RFC 9738 §3.2: the lowest UID that was processed.
            match code.and_then(|code| lowest(&code)).filter(|uid| last.is_none_or(|last| *uid <= last)) {
                Some(uid) if uid > 1 => last = Some(uid - 1),
                _ => break,
            }
        }
        self.without_id(connection, without).await
    }

    /// Fetches other fields of messages without a Message-ID.
    async fn without_id(&mut self, connection: &mut Connection, without: Vec<Read>) -> Result<()> {
        let mut without: HashMap<u32, Read> = without.into_iter().map(|read| (read.uid, read)).collect();
        let set: UidSet = without.keys().filter_map(|uid| Uid::new(*uid)).collect();
        for set in in_commands(&set) {
            let command = format!("UID FETCH {set} (UID BODY.PEEK[HEADER.FIELDS ({FALLBACK_FIELD_NAMES})])");
            fetch(connection, &command, |read| {
                if let Some(header) = &read.header
                    && let Some(known) = without.remove(&read.uid)
                {
                    let (size, date, dated) = (known.size, known.date, known.date.is_some());
                    self.add_without_id((read.uid, header), size, date, dated, &known.flags);
                }
            })
            .await?;
        }
        Ok(())
    }
}

/// The data of a FETCH response.
#[derive(Debug, Clone, Default)]
struct Read {
    uid: u32,
    size: u64,
    date: Option<Timestamp>,
    flags: Flags,
    header: Option<Vec<u8>>,
}

async fn fetch(
    connection: &mut Connection,
    command: &str,
    mut on: impl FnMut(&Read),
) -> Result<Option<Code>> {
    let mut read = Read::default();
    let take = |event| {
        match event {
            Event::FetchBegin(_) => read = Read::default(),
            Event::Fetch(FetchData::Uid(n)) => read.uid = n,
            Event::Fetch(FetchData::Rfc822Size(n)) => read.size = n,
            Event::Fetch(FetchData::InternalDate(at)) => read.date = Some(DateTime::timestamp(at)),
            Event::Fetch(FetchData::Flags(flags) | FetchData::FlagsInPart(flags, _)) => {
                let names: Vec<String> = flags.iter().map(ToString::to_string).collect();
                read.flags = Flags::from_names(names.iter().map(String::as_str));
            }
            Event::Fetch(FetchData::Body(_, bytes)) => read.header = Some(bytes.unwrap_or_default()),
            // A field of more than 64 KiB.
            Event::LiteralBegin(..) => read.header = Some(Vec::new()),
            Event::FetchEnd if read.uid > 0 => on(&read),
            _ => {}
        }
        Ok(())
    };
    let done = connection.run(|w| w.raw(command), take).await?;
    match &done.code {
        // Responses before the limit are valid even if the server says NO.
        Some(code) if lowest(code).is_some() => Ok(done.code),
        _ => done.ok("listing the messages of the folder"),
    }
}

/// The set divided into what one command may name.
pub(super) fn in_commands(set: &UidSet) -> Vec<UidSet> {
    let ranges: Vec<(Uid, Uid)> = set.ranges().collect();
    ranges.chunks(RANGES).map(|ranges| UidSet::from_ranges(ranges.iter().copied())).collect()
}

/// An error about the folder alone: the connection is still usable, and another one would not do
/// better.
pub(super) fn of_the_folder(error: Error) -> Error {
    match error.kind() {
        Kind::Retry => Error::new(Kind::Internal, error.to_string()).with_source(error),
        _ => error,
    }
}
