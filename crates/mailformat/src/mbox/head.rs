//! The fields of a message's header that belong to the mbox: its length, its flags.
//!
//! Any of them may be the sender's. So what counts is where the program that wrote the file puts
//! its own:
//!
//! - Thunderbird puts `X-Mozilla-*` first, perhaps behind `X-Account-Key` and `X-UIDL`. If they are
//!   there, nothing else counts.
//! - Google Takeout puts `X-GM-THRID` and `X-Gmail-Labels` first. If they are there, nothing else
//!   counts either.
//! - Sealpost puts `Status`, `X-Status`, `X-Keywords` first and quotes a message's own (`own_fields`).
//! - mutt, Dovecot, Alpine, Python remove a message's own as a rule and put `Status`, `X-Status`,
//!   `X-Keywords`, `X-UID` at the end of the header. Of several there the last one of a name
//!   counts.
//!
//! A sender's field in the middle of a header is ignored. One at its end looks like a program's, so
//! none there sets `\Deleted`: only fields that Sealpost itself wrote do, since the next EXPUNGE
//! would remove the message.
//!
//! Ignored fields are the message's own and stay in it.

use std::ops::Range;

use sealpost_mime::header::unfold;

use crate::flags::read_status_field;
use crate::takeout::Labels;

/// Bytes of a header that are searched for such fields; the rest passes through unchanged.
pub(super) const HEAD_BYTES: usize = 64 * 1024;

/// The fields that keep a message's flags in a file, in lower case.
const STATUS: [&str; 4] = ["status", "x-status", "x-keywords", "x-uid"];
const MOZILLA: [&str; 3] = ["x-mozilla-status", "x-mozilla-status2", "x-mozilla-keys"];
/// The fields that Thunderbird puts before them.
const MOZILLA_ACCOUNT: [&str; 2] = ["x-account-key", "x-uidl"];
const LABELS: &str = "x-gmail-labels";
/// Fields about the whole file, in its first message.
const OF_THE_FILE: [&str; 2] = ["x-imap", "x-imapbase"];
/// Other fields that programs put at the end of a header: mutt and Solaris, Evolution.
const AMONG: [&str; 4] = ["content-length", "lines", "x-evolution", "x-evolution-source"];
const DELETED: &str = "\\Deleted";

/// The data of the file in a message's header.
#[derive(Default)]
pub(super) struct MboxFields {
    /// `None` if the file has none.
    pub flags: Option<Vec<String>>,
    pub labels: Option<Labels>,
    pub content_length: Option<u64>,
    pub internal: bool,
    /// Sealpost wrote the file.
    pub is_ours: bool,
    status: Vec<Range<usize>>,
    length: Option<Range<usize>>,
}

/// The kinds of notes in the messages of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notes {
    None,
    Flags,
    FlagsAndLabels,
}

struct Field {
    name: String,
    range: Range<usize>,
}

impl MboxFields {
    /// Reads the fields in `head`, whole lines; if it is not `complete`, its last field may be
    /// incomplete and is left alone. `first`: it is the first message of the file.
    pub fn read(head: &[u8], complete: bool, first: bool, notes: Notes) -> Self {
        let mut fields: Vec<Field> = fields(head).map(|range| field(head, range)).collect();
        if !complete && fields.last().is_some_and(|field| field.range.end == head.len()) {
            fields.pop();
        }
        let at_top = leading(&fields, |name| STATUS.contains(&name));
        let mut result = MboxFields { is_ours: is_of_sealpost(head, at_top), ..MboxFields::default() };
        result.read_length(head, &fields);
        if notes == Notes::None {
            return result;
        }
        let of_gmail = leading(&fields, |name| name.starts_with("x-gm-") || name == LABELS);
        let labels = of_gmail.iter().find(|field| field.name == LABELS);
        if let Some(labels) = labels.filter(|_| notes == Notes::FlagsAndLabels) {
            let labels = Labels::parse(value(head, labels));
            result.flags = Some(labels.flags());
            result.labels = Some(labels);
            return result;
        }
        let mozilla = leading(&fields, |name| MOZILLA.contains(&name) || MOZILLA_ACCOUNT.contains(&name));
        let mozilla: Vec<_> = mozilla.iter().filter(|field| MOZILLA.contains(&&*field.name)).collect();
        if !mozilla.is_empty() {
            result.take(head, &mozilla);
            result.never_deleted();
            return result;
        }
        let at_end: &[Field] = if complete { trailing(&fields, is_at_end) } else { &[] };
        // Another program that changed Sealpost's file has put some of them at the end.
        let last = |name: &&str| {
            let named = |field: &&Field| field.name == **name;
            at_end.iter().rfind(named).or_else(|| at_top.iter().rfind(named))
        };
        let taken: Vec<_> = STATUS.iter().filter_map(last).collect();
        result.take(head, &taken);
        let is_ours = |field: &&Field| field.range.start < at_top.last().map_or(0, |last| last.range.end);
        if !(result.is_ours && taken.iter().copied().all(|field| is_ours(&field))) {
            result.never_deleted();
        }
        if first {
            let of_the_file = at_top.iter().chain(at_end).filter(|field| OF_THE_FILE.contains(&&*field.name));
            let of_the_file: Vec<_> = of_the_file.collect();
            result.status.extend(of_the_file.iter().map(|field| field.range.clone()));
            result.internal = of_the_file.iter().any(|field| field.name == "x-imap")
                && fields.iter().any(|field| is_internal(head, field));
        }
        result
    }

    fn read_length(&mut self, head: &[u8], fields: &[Field]) {
        if let Some(field) = fields.iter().rfind(|field| field.name == "content-length") {
            self.content_length =
                std::str::from_utf8(value(head, field)).ok().and_then(|v| v.trim().parse().ok());
            self.length = Some(field.range.clone());
        }
    }

    /// Takes the flags of these fields, which belong to the file.
    fn take(&mut self, head: &[u8], fields: &[&Field]) {
        let mut flags = Vec::new();
        for field in fields {
            read_status_field(&field.name, &unfold(value(head, field)), &mut flags);
            self.status.push(field.range.clone());
        }
        flags.sort();
        // A UID alone is not about flags.
        self.flags = fields.iter().any(|field| field.name != "x-uid").then_some(flags);
    }

    /// Clears `\Deleted`: the archive does not show which program marked the message for removal.
    fn never_deleted(&mut self) {
        if let Some(flags) = &mut self.flags {
            flags.retain(|flag| flag != DELETED);
        }
    }

    /// `head` without the fields that belong to the file, and without its length if `length`.
    pub fn without_fields(&self, head: &[u8], length: bool) -> Vec<u8> {
        let mut cut = self.status.clone();
        cut.extend(self.length.clone().filter(|_| length));
        cut.sort_by_key(|range| range.start);
        let mut out = Vec::with_capacity(head.len());
        let mut from = 0;
        for range in cut {
            out.extend_from_slice(&head[from..range.start]);
            from = range.end;
        }
        out.extend_from_slice(&head[from..]);
        out
    }
}

/// The leading fields of the header that have such names.
fn leading(fields: &[Field], such: impl Fn(&str) -> bool) -> &[Field] {
    let end = fields.iter().position(|field| !such(&field.name)).unwrap_or(fields.len());
    &fields[..end]
}

/// The trailing fields of the header that have such names.
fn trailing(fields: &[Field], such: impl Fn(&str) -> bool) -> &[Field] {
    let begins = fields.iter().rposition(|field| !such(&field.name)).map_or(0, |at| at + 1);
    &fields[begins..]
}

/// Whether programs add a field of this name to a header's end.
fn is_at_end(name: &str) -> bool {
    STATUS.contains(&name) || OF_THE_FILE.contains(&name) || AMONG.contains(&name)
}

/// Whether the header begins like Sealpost's exports: no mail program puts `Status` first, and a
/// sender's field comes after the trace fields of the delivering servers.
fn is_of_sealpost(head: &[u8], at_top: &[Field]) -> bool {
    at_top.first().is_some_and(|field| {
        field.name == "status" && matches!(value(head, field).trim_ascii(), b"O" | b"RO")
    })
}

/// The message in which Alpine, and what reads its files, keeps notes.
fn is_internal(head: &[u8], field: &Field) -> bool {
    field.name == "subject" && memchr::memmem::find(value(head, field), b"FOLDER INTERNAL DATA").is_some()
}

fn value<'a>(head: &'a [u8], field: &Field) -> &'a [u8] {
    let field = &head[field.range.clone()];
    memchr::memchr(b':', field).map_or(b"", |colon| &field[colon + 1..])
}

/// A line that is not a field has no name: it belongs to no program.
fn field(head: &[u8], range: Range<usize>) -> Field {
    let name = crate::header::field_name(&head[range.clone()]).unwrap_or_default();
    Field { name: String::from_utf8_lossy(name).to_ascii_lowercase(), range }
}

/// The fields, continuation lines and line ends included (RFC 5322 §2.2.3).
fn fields(head: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let begins = at;
        while at < head.len() {
            at = memchr::memchr(b'\n', &head[at..]).map_or(head.len(), |n| at + n + 1);
            if !matches!(head.get(at), Some(b' ' | b'\t')) {
                break;
            }
        }
        (begins < at).then_some(begins..at)
    })
}
