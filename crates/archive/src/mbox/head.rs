//! The fields of a message's header that belong to the mbox: its length, its flags.

use std::ops::Range;

use crate::flags::{add, read_status_field};

/// Bytes of a header that are looked at for such fields; what follows passes through as it is.
pub(super) const HEAD_BYTES: usize = 64 * 1024;

/// What the header says about the file's own matters.
#[derive(Default)]
pub(super) struct Head {
    pub flags: Vec<String>,
    pub content_length: Option<u64>,
    pub internal: bool,
    status: Vec<Range<usize>>,
    length: Vec<Range<usize>>,
}

impl Head {
    /// Reads the fields in `head`, whole lines; if it is not `complete`, its last field may go on and is left alone.
    pub fn read(head: &[u8], complete: bool) -> Self {
        let mut result = Head::default();
        let mut notes = false;
        for field in fields(head) {
            if !complete && field.end == head.len() {
                break;
            }
            let text = String::from_utf8_lossy(&head[field.clone()]);
            let Some((name, value)) = text.split_once(':') else { continue };
            let name = name.trim_end_matches([' ', '\t']);
            if name.eq_ignore_ascii_case("content-length") {
                result.content_length = value.trim().parse().ok();
                result.length.push(field);
            } else if read_status_field(name, value, &mut result.flags) {
                notes |= name.eq_ignore_ascii_case("x-imap");
                result.status.push(field);
            } else if name.eq_ignore_ascii_case("subject") && value.contains("FOLDER INTERNAL DATA") {
                result.internal = true;
            }
        }
        result.internal &= notes;
        let mut unique = Vec::new();
        result.flags.iter().for_each(|flag| add(&mut unique, flag));
        unique.sort();
        result.flags = unique;
        result
    }

    /// `head` without the fields for flags (if `status`) and for the length (if `length`).
    pub fn without_fields(&self, head: &[u8], status: bool, length: bool) -> Vec<u8> {
        let mut cut: Vec<_> = self.status.iter().filter(|_| status).collect();
        cut.extend(self.length.iter().filter(|_| length));
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
