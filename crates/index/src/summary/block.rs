//! [`Summary`]: what is known of one message, in a block of summaries that were read together.

use std::ops::{BitOr, Range};
use std::sync::Arc;

use sealpost_base::limits;

use super::packed::Packed;

/// The header fields whose text a summary has, in lower case and in this order of the alphabet. All
/// others are in the message's stored text only.
pub const HEADER_FIELDS: [&str; 13] = [
    "bcc",
    "cc",
    "content-type",
    "date",
    "from",
    "in-reply-to",
    "list-id",
    "message-id",
    "references",
    "reply-to",
    "sender",
    "subject",
    "to",
];

/// The requested parts of summaries: other parts are not even decompressed. The Date field is
/// always included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts(u8);

impl Parts {
    /// The Date field alone.
    pub const DATE: Parts = Parts(0);
    /// Subject and addresses.
    pub const FIELDS: Parts = Parts(1);
    /// Message-ID, In-Reply-To and References.
    pub const IDS: Parts = Parts(2);
    /// The folded text of [`HEADER_FIELDS`].
    pub const HEADERS: Parts = Parts(4);
    /// Everything.
    pub const ALL: Parts = Parts(7);

    /// Whether all of `other` is requested.
    pub fn contains(self, other: Parts) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Parts {
    type Output = Parts;

    fn bitor(self, other: Parts) -> Parts {
        Parts(self.0 | other.0)
    }
}

/// The Date field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Minutes east of UTC that it was written in.
    pub zone: i16,
}

/// An address as the envelope has it, with its name decoded. A group starts with an address that
/// has a mailbox and no host, and ends with one that has neither (RFC 3501 §7.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryAddress<'a> {
    /// The display name, encoded-words decoded.
    pub name: Option<&'a str>,
    /// The local part, or the name of the group that starts here.
    pub mailbox: Option<&'a str>,
    /// The domain.
    pub host: Option<&'a str>,
}

/// The summary of one message. Cloning shares it, and keeps the summaries that were read with it in
/// memory: copy out what is to be kept.
#[derive(Clone)]
pub struct Summary {
    pub(super) block: Arc<Block>,
    pub(super) at: u32,
}

/// Summaries that were read together.
#[derive(Default)]
pub(super) struct Block {
    pub(super) parts: Parts,
    pub(super) entries: Vec<Place>,
    pub(super) text: String,
}

/// Where in the text of a block the parts of an entry are: one after the other.
pub(super) struct Place {
    sent: Option<Sent>,
    headers_complete: bool,
    start: u32,
    fields: u32,
    ids: u32,
    headers: u32,
}

impl Summary {
    /// When the message was sent, if its Date field can be understood. SORT DATE and THREAD fall
    /// back to INTERNALDATE (RFC 5256 §2.2).
    pub fn sent(&self) -> Option<Sent> {
        self.place().and_then(|place| place.sent)
    }

    /// The day written in the Date field, as days since 1970-01-01, without its time and zone (RFC
    /// 3501 §6.4.4).
    pub fn sent_day(&self) -> Option<i64> {
        let sent = self.sent()?;
        Some(sent.seconds.saturating_add(i64::from(sent.zone) * 60).div_euclid(86_400))
    }

    /// The Subject field, unfolded and decoded.
    pub fn subject(&self) -> Option<&str> {
        self.fields().take_optional().flatten()
    }

    /// The From addresses.
    pub fn from(&self) -> impl Iterator<Item = SummaryAddress<'_>> {
        addresses(self.list(0))
    }

    /// The To addresses.
    pub fn to(&self) -> impl Iterator<Item = SummaryAddress<'_>> {
        addresses(self.list(1))
    }

    /// The Cc addresses.
    pub fn cc(&self) -> impl Iterator<Item = SummaryAddress<'_>> {
        addresses(self.list(2))
    }

    /// The Bcc addresses.
    pub fn bcc(&self) -> impl Iterator<Item = SummaryAddress<'_>> {
        addresses(self.list(3))
    }

    /// The Sender addresses, or those of From if there are none.
    pub fn sender(&self) -> impl Iterator<Item = SummaryAddress<'_>> {
        addresses(self.list(4).or_else(|| self.list(0)))
    }

    /// The Reply-To addresses, or those of From if there are none.
    pub fn reply_to(&self) -> impl Iterator<Item = SummaryAddress<'_>> {
        addresses(self.list(5).or_else(|| self.list(0)))
    }

    /// The Message-ID, normalized (RFC 5256 §3) and without angle brackets; none if it is not a valid one.
    pub fn message_id(&self) -> Option<&str> {
        self.ids().take_optional().flatten()
    }

    /// The identifiers of In-Reply-To, in order, normalized.
    pub fn in_reply_to(&self) -> impl Iterator<Item = &str> {
        let mut ids = self.ids();
        let list = ids.take_optional().and_then(|_| ids.take()).unwrap_or_default();
        strings(list)
    }

    /// The identifiers of References, in order, normalized.
    pub fn references(&self) -> impl Iterator<Item = &str> {
        let mut ids = self.ids();
        let list = ids.take_optional().and_then(|_| ids.take()).and_then(|_| ids.take()).unwrap_or_default();
        strings(list)
    }

    /// The lines `name: value\n` of [`HEADER_FIELDS`], exactly as the stored text has them:
    /// decoded, folded, runs of white space made one space.
    pub fn headers(&self) -> &str {
        self.column(Parts::HEADERS)
    }

    /// Whether [`Summary::headers`] has all lines of these fields. If not, the stored text was cut
    /// off within the header, and what is not found may still be in the message.
    pub fn headers_complete(&self) -> bool {
        self.place().is_some_and(|place| place.headers_complete)
    }

    /// Whether the field of this name, in lower case, is one that [`Summary::headers`] has.
    pub fn has_field(name: &str) -> bool {
        HEADER_FIELDS.binary_search(&name).is_ok()
    }

    fn fields(&self) -> Packed<'_> {
        Packed(self.column(Parts::FIELDS))
    }

    fn ids(&self) -> Packed<'_> {
        Packed(self.column(Parts::IDS))
    }

    /// The list of that number; `None` if it is not there, because it is the same as From.
    fn list(&self, number: usize) -> Option<&str> {
        let mut fields = self.fields();
        fields.take_optional()?;
        for _ in 0..number {
            fields.take_optional()?;
        }
        fields.take_optional()?
    }

    fn place(&self) -> Option<&Place> {
        self.block.entries.get(self.at as usize)
    }

    /// The text of one part.
    pub(super) fn column(&self, part: Parts) -> &str {
        debug_assert!(self.block.parts.contains(part), "a part of a summary that was not asked for");
        let range = self.place().map_or(0..0, |place| place.range(part));
        self.block.text.get(range.start as usize..range.end as usize).unwrap_or_default()
    }
}

impl Place {
    fn range(&self, part: Parts) -> Range<u32> {
        let ids = self.start + self.fields;
        let headers = ids + self.ids;
        match part {
            Parts::FIELDS => self.start..ids,
            Parts::IDS => ids..headers,
            _ => headers..headers + self.headers,
        }
    }
}

impl Block {
    /// Bytes that these parts of a summary take in it.
    pub(super) fn bytes_of(&self, [fields, ids, headers]: [&str; 3]) -> usize {
        let parts = [(Parts::FIELDS, fields), (Parts::IDS, ids), (Parts::HEADERS, headers)];
        parts.iter().filter(|(part, _)| self.parts.contains(*part)).map(|(_, value)| value.len()).sum()
    }

    pub(super) fn push(
        &mut self,
        sent: Option<Sent>,
        headers_complete: bool,
        [fields, ids, headers]: [&str; 3],
    ) {
        let bytes = self.bytes_of([fields, ids, headers]);
        let text = &mut self.text;
        if bytes > limits::SUMMARY_BYTES {
            // As it grows usually, it may become twice as large.
            text.reserve_exact(bytes);
        }
        let start = text.len() as u32;
        let mut append = |part: Parts, value: &str| {
            if !self.parts.contains(part) {
                return 0;
            }
            text.push_str(value);
            value.len() as u32
        };
        let fields = append(Parts::FIELDS, fields);
        let ids = append(Parts::IDS, ids);
        let headers = append(Parts::HEADERS, headers);
        self.entries.push(Place { sent, headers_complete, start, fields, ids, headers });
    }
}

fn addresses(list: Option<&str>) -> impl Iterator<Item = SummaryAddress<'_>> {
    let mut packed = Packed(list.unwrap_or_default());
    std::iter::from_fn(move || {
        let (name, mailbox) = (packed.take_optional()?, packed.take_optional()?);
        Some(SummaryAddress { name, mailbox, host: packed.take_optional()? })
    })
}

fn strings(list: &str) -> impl Iterator<Item = &str> {
    let mut packed = Packed(list);
    std::iter::from_fn(move || packed.take())
}
