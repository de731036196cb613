//! The searchable texts of many messages, from segments.

use futures::StreamExt;
use futures::stream::BoxStream;
use sealpost_base::{MailboxId, Uid, UidSet};

use super::content::Content;
use super::{Parts, ReadOrder, Summary, bloom};
use crate::Index;

/// The searchable text of a message, as stored with it, or of one that is not short only what it
/// cannot hold. Cloning shares it with those that were read with it.
#[derive(Clone)]
pub struct ShortText(Summary);

impl ShortText {
    /// The text of the header, if requested, in the form of `sealpost_mime::Text`.
    pub fn headers(&self) -> &str {
        self.0.column(Parts::FIELDS)
    }

    /// The text of the body.
    pub fn body(&self) -> &str {
        self.0.column(Parts::IDS)
    }

    /// It is not here: all that is known is [`ShortText::may_hold`].
    pub fn is_long(&self) -> bool {
        !self.signature().is_empty()
    }

    /// Of a long text: whether these bytes may be in header or body. `false` is certain.
    pub fn may_hold(&self, needle: &[u8]) -> bool {
        bloom::may_hold(self.signature(), needle)
    }

    fn signature(&self) -> &str {
        self.0.column(Parts::HEADERS)
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

impl Index {
    /// The searchable texts of those messages of `mailbox` in `uids` that segments have, as stored;
    /// `headers` says whether to include those of their headers. For messages with more than
    /// `limits::SHORT_TEXT_BYTES` of text it gives the words that they cannot contain. The others
    /// are skipped: their text is truncated, or there are too few of them to be worth a segment.
    ///
    /// Draws on the budget, and comes in batches, as [`Index::summaries`] does.
    pub fn short_texts(
        &self,
        mailbox: MailboxId,
        uids: UidSet,
        headers: bool,
        at_once: usize,
    ) -> BoxStream<'static, Vec<(Uid, ShortText)>> {
        self.texts_of(Content::Texts, mailbox, uids, headers, at_once)
    }

    /// As [`Index::short_texts`], the texts themselves of those with up to
    /// `limits::SEGMENT_TEXT_BYTES` of it; the others are skipped.
    pub fn longer_texts(
        &self,
        mailbox: MailboxId,
        uids: UidSet,
        headers: bool,
        at_once: usize,
    ) -> BoxStream<'static, Vec<(Uid, ShortText)>> {
        self.texts_of(Content::LongTexts, mailbox, uids, headers, at_once)
    }

    fn texts_of(
        &self,
        content: Content,
        mailbox: MailboxId,
        uids: UidSet,
        headers: bool,
        at_once: usize,
    ) -> BoxStream<'static, Vec<(Uid, ShortText)>> {
        let bodies = Parts::IDS | Parts::HEADERS;
        let parts = if headers { Parts::FIELDS | bodies } else { bodies };
        let found = self.stream_segments(content, mailbox, uids, ReadOrder::Stored, parts, at_once);
        let text = |(uid, text): (Uid, sealpost_base::Result<Summary>)| Some((uid, ShortText(text.ok()?)));
        found.map(move |batch| batch.into_iter().filter_map(text).collect()).boxed()
    }
}
