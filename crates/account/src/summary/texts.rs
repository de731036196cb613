//! The searchable texts of many messages, from segments.

use futures::StreamExt;
use futures::stream::BoxStream;
use sealpost_base::{MailboxId, Uid, UidSet};

use super::content::Content;
use super::{Parts, Summary};
use crate::account::Account;

/// The searchable text of a message, as stored with it. Cloning shares it with those that were read with it.
#[derive(Clone)]
pub struct ShortText(Summary);

impl ShortText {
    /// The text of the header, if it was asked for: as `sealpost_mime::Text` has it.
    pub fn headers(&self) -> &str {
        self.0.column(Parts::FIELDS)
    }

    /// The text of the body.
    pub fn body(&self) -> &str {
        self.0.column(Parts::IDS)
    }

    /// As [`Summary::sent_day`].
    pub fn sent_day(&self) -> Option<i64> {
        self.0.sent_day()
    }

    /// The message has more text than is stored: what is not found here may still be in it.
    pub fn is_truncated(&self) -> bool {
        !self.0.headers_complete()
    }
}

impl Account {
    /// The searchable texts of those messages of `mailbox` in `uids` that segments have, ascending by UID; `headers`
    /// says whether those of their headers are wanted too. The others are passed over: they have more than
    /// `limits::SEGMENT_TEXT_BYTES` of text, or there are too few of them to be worth a segment.
    ///
    /// Draws on the budget as [`Account::summaries`] does.
    pub fn short_texts(
        self: &std::sync::Arc<Self>,
        mailbox: MailboxId,
        uids: UidSet,
        headers: bool,
    ) -> BoxStream<'static, (Uid, ShortText)> {
        let parts = if headers { Parts::FIELDS | Parts::IDS } else { Parts::IDS };
        let found = self.from_segments(Content::Texts, mailbox, uids, parts);
        let found = found.filter_map(async |(uid, text)| Some((uid, ShortText(text.ok()?))));
        found.boxed()
    }
}
