//! Reads many messages for emails: from segments or caches if these have all requested properties, else ahead
//! while earlier messages are sent ([`sealpost_mailbox::read_ahead`]).

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use sealpost_account::{Account, Message, MessageNumber};
use sealpost_base::limits::JMAP_HEADER_BYTES;
use sealpost_base::{Error, ObjectId, Result};
use sealpost_index::{Index, PackReads, Packed, PieceReads, Pieces};
use sealpost_mailbox::read_ahead::{
    FoundStructure, MessageRow, MessageSource, Prepared, ReadAhead, ReadError, ReadPlan,
};
use sealpost_mime::Outline;

use super::message_bytes::{MessageBytes, unless_damaged};
use super::plan::Plan;
use crate::blob::Blob;

/// A message to read.
#[derive(Clone)]
pub(super) struct EmailRow {
    pub(super) number: MessageNumber,
    pub(super) message: Message,
}

/// What to read of each message.
#[derive(Clone, Copy)]
pub(super) struct EmailReads {
    header: bool,
    structure: bool,
    body: bool,
}

/// A message as far as it was read. Its damaged parts are missing.
pub(super) struct ReadMessage {
    pub(super) header: Vec<u8>,
    pub(super) structure: Option<FoundStructure>,
    pub(super) bytes: Option<MessageBytes>,
    _held: Option<Prepared<EmailRow, Opened>>,
}

/// Reads messages of one log, in order.
pub(super) struct EmailReader {
    account: Arc<Account>,
    reads: EmailReads,
    packs: Arc<PackReads>,
    headers: Arc<PieceReads>,
    structures: Arc<PieceReads>,
    reading: ReadAhead<EmailRow, EmailReads>,
    /// Messages not yet requested.
    waiting: VecDeque<EmailRow>,
}

/// The parts of a message that were read from the message object.
pub(super) struct Opened {
    header: Result<Vec<u8>>,
    bytes: Option<MessageBytes>,
}

impl MessageRow for EmailRow {
    fn number(&self) -> MessageNumber {
        self.number
    }

    fn message(&self) -> &Message {
        &self.message
    }
}

impl EmailReads {
    pub(super) fn of(plan: &Plan) -> Self {
        EmailReads { header: plan.reads_header(), structure: plan.reads_structure(), body: plan.reads_body() }
    }
}

impl ReadPlan for EmailReads {
    type Opened = Opened;

    fn reads_structure(&self) -> bool {
        self.structure
    }

    fn reads_outline(&self) -> bool {
        self.header
    }

    /// Only the header of the message itself is located.
    fn locates_in_bytes(&self) -> bool {
        true
    }

    fn reads_bytes(&self) -> bool {
        self.header || self.body
    }

    fn begins_with_all(&self) -> bool {
        false
    }

    fn reads_bytes_of(&self, _: &Outline) -> bool {
        true
    }

    fn decodes(&self) -> bool {
        self.body
    }

    async fn open(
        &self,
        source: MessageSource,
        whole: Option<Vec<Bytes>>,
        outline: Option<Result<Outline>>,
    ) -> Opened {
        let MessageSource { account, reader, message } = source;
        let whole: Option<Bytes> = whole.map(|mut pieces| match pieces.len() {
            1 => pieces.remove(0),
            _ => pieces.concat().into(),
        });
        let header = match outline {
            Some(outline) if self.header => {
                let range = outline.map(|outline| header_of(&outline));
                match (range, &whole) {
                    (Err(error), _) => Err(error),
                    (Ok(end), Some(whole)) => Ok(whole[..whole.len().min(end as usize)].to_vec()),
                    (Ok(end), None) => {
                        reader.raw(0..end).try_collect().await.map(|pieces: Vec<Bytes>| pieces.concat())
                    }
                }
            }
            _ => Ok(Vec::new()),
        };
        let bytes = self.body.then(|| MessageBytes::new(Blob::message(account, message), whole));
        Opened { header, bytes }
    }
}

/// Where the header ends, within the bytes read.
fn header_of(outline: &Outline) -> u64 {
    outline.part_within(&[]).map_or(0, |(root, _)| root.header().end).min(JMAP_HEADER_BYTES)
}

impl EmailReader {
    /// A reader of these messages of the account.
    pub(super) async fn new(account: &Arc<Account>, reads: EmailReads, rows: Vec<EmailRow>) -> Self {
        let kind = if reads.reads_bytes() { Packed::Messages } else { Packed::Structures };
        let (index, memory) = (Index::of(account), account.reading());
        let packs = PackReads::new(&index, kind, memory);
        let headers = PieceReads::new(&index, Pieces::Headers, memory);
        let structures = PieceReads::new(&index, Pieces::Structures, memory);
        if !reads.body && reads.header {
            headers.expect(rows.iter().map(|row| row.number)).await;
        }
        if reads.structure || reads.header {
            structures.expect(rows.iter().map(|row| row.number)).await;
        }
        let reading = ReadAhead::new(account.clone(), Arc::new(reads), packs.clone(), structures.clone());
        let (account, waiting) = (account.clone(), rows.into());
        EmailReader { account, reads, packs, headers, structures, reading, waiting }
    }

    /// The next message. Drop it before the next call.
    ///
    /// # Errors
    /// Store errors; `Retry` if there is no memory to read it.
    pub(super) async fn next(&mut self) -> Result<ReadMessage> {
        if self.reading.is_empty() {
            if let Some(row) = self.waiting.front() {
                let (number, object) = (row.number, row.message.object);
                let read = self.derived(number, object).await.or_else(|| self.cached(object));
                if let Some(read) = read {
                    self.waiting.pop_front();
                    return Ok(read);
                }
            }
            self.push_those_without_segments().await;
        }
        let prepared = self.reading.next().await.map_err(of_reading)?;
        let mut prepared =
            prepared.ok_or_else(|| Error::internal("fewer messages were read than asked for"))?;
        let structure = prepared.structure.take().map(unless_damaged).transpose()?.flatten();
        let opened = &mut prepared.opened;
        let header = std::mem::replace(&mut opened.header, Ok(Vec::new()));
        let bytes = opened.bytes.take();
        let header = unless_damaged(header)?;
        if let Some(header) = header.as_ref().filter(|_| self.reads.header && !self.reads.body) {
            self.account.cache_header(prepared.row.message.object, header);
        }
        let header = header.unwrap_or_default();
        Ok(ReadMessage { header, structure, bytes, _held: Some(prepared) })
    }

    /// Starts to read ahead the messages at the front that no segment has.
    async fn push_those_without_segments(&mut self) {
        // A reader must hold no memory while it waits for memory.
        self.headers.release();
        let mut rows = Vec::new();
        while let Some(row) = self.waiting.front() {
            if !rows.is_empty() && (self.is_derived(row.number) || self.is_cached(row)) {
                break;
            }
            rows.extend(self.waiting.pop_front());
        }
        self.packs.expect(rows.iter().map(|row| row.number)).await;
        self.reading.push(rows);
    }

    /// Everything requested of a message, if it was read recently: the newest are in no segment.
    fn cached(&self, object: ObjectId) -> Option<ReadMessage> {
        if self.reads.body {
            return None;
        }
        let header = match self.reads.header {
            true => self.account.cached_header(object)?.to_vec(),
            false => Vec::new(),
        };
        let structure = match self.reads.structure {
            true => Some(FoundStructure::Decoded(self.account.cached_structure(object)?)),
            false => None,
        };
        Some(ReadMessage { header, structure, bytes: None, _held: None })
    }

    fn is_cached(&self, row: &EmailRow) -> bool {
        self.cached(row.message.object).is_some()
    }

    /// Whether segments may have all requested properties of a message.
    fn is_derived(&self, number: MessageNumber) -> bool {
        // `is_ready` is also true for messages that no segment has.
        let has = |pieces: &PieceReads| pieces.is_open(number) || !pieces.is_ready(number);
        let headers = !self.reads.header || has(&self.headers);
        !self.reads.body && headers && (!self.reads.structure || has(&self.structures))
    }

    /// Everything requested of a message, if segments have it. Takes no `&self`: read-ahead is not `Sync`.
    async fn derived(&mut self, number: MessageNumber, object: ObjectId) -> Option<ReadMessage> {
        if self.reads.body {
            return None;
        }
        let (mut header, mut structure) = (Vec::new(), None);
        if self.reads.header && !self.headers.get(number, object, &mut header).await {
            return None;
        }
        if self.reads.structure {
            let mut stored = Vec::new();
            if !self.structures.get(number, object, &mut stored).await {
                return None;
            }
            let found = FoundStructure::Stored(stored);
            // A damaged segment: read the message instead.
            found.read().ok()?;
            structure = Some(found);
        }
        Some(ReadMessage { header, structure, bytes: None, _held: None })
    }
}

fn of_reading(error: ReadError) -> Error {
    match error {
        ReadError::NoMemory => Error::retry("not enough memory to read messages"),
        ReadError::Ended => Error::internal("a task that reads messages ended"),
    }
}
