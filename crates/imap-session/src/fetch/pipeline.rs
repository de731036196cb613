//! The parts of each message that [`sealpost_mailbox::read_ahead`] prepares for FETCH.

use bytes::Bytes;
use sealpost_account::{Message, MessageNumber};
use sealpost_base::Result;
use sealpost_imap::types::Code;
use sealpost_mailbox::read_ahead::{self, MessageRow, MessageSource, ReadError, ReadPlan};
use sealpost_mime::Outline;

use super::items::Plan;
use super::ranges::{Opened, Reads};
use super::rows::FetchRow;
use crate::connection::End;
use crate::reply::{Failure, Reply};

/// A message with the parts that its response needs, as far as they could be read.
pub(super) type Prepared = read_ahead::Prepared<FetchRow, Opening>;

/// The opened parts of a message.
pub(super) struct Opening {
    pub(super) reads: Reads,
    /// The first bytes that the plan requests.
    pub(super) first: Option<Result<Opened>>,
}

impl MessageRow for FetchRow {
    fn number(&self) -> MessageNumber {
        self.number
    }

    fn message(&self) -> &Message {
        &self.message
    }
}

impl ReadPlan for Plan {
    type Opened = Opening;

    fn reads_structure(&self) -> bool {
        Plan::reads_structure(self)
    }

    fn reads_outline(&self) -> bool {
        Plan::reads_outline(self)
    }

    fn locates_in_bytes(&self) -> bool {
        Plan::locates_in_bytes(self)
    }

    fn reads_bytes(&self) -> bool {
        Plan::reads_bytes(self)
    }

    fn begins_with_all(&self) -> bool {
        Plan::begins_with_all(self)
    }

    fn reads_bytes_of(&self, outline: &Outline) -> bool {
        Plan::reads_bytes_of(self, outline)
    }

    fn decodes(&self) -> bool {
        Plan::decodes(self)
    }

    async fn open(
        &self,
        source: MessageSource,
        whole: Option<Vec<Bytes>>,
        outline: Option<Result<Outline>>,
    ) -> Opening {
        let MessageSource { account, reader, message } = source;
        let mut reads = Reads { reader, account, message, outline, whole: None };
        let first = match (whole, self.first_bytes()) {
            (Some(pieces), _) if Plan::begins_with_all(self) => Some(Ok(Opened::all(&reads.reader, pieces))),
            (whole, Some(wanted)) => {
                reads.whole = whole.map(|mut pieces| match pieces.len() {
                    1 => pieces.remove(0),
                    _ => pieces.concat().into(),
                });
                Some(reads.open(wanted).await)
            }
            (_, None) => None,
        };
        Opening { reads, first }
    }
}

/// The IMAP reply when reading stops.
pub(super) fn stopped(error: ReadError) -> Failure {
    match error {
        ReadError::NoMemory => {
            Reply::no(Code::Unavailable, "not enough memory to read messages; retry later").into()
        }
        ReadError::Ended => End::Broken.into(),
    }
}
