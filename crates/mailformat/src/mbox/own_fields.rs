//! A message's own fields with the names in which mbox files keep flags and lengths.
//!
//! Every program that opens an mbox treats `Status`, `X-Status`, `Content-Length` and similar
//! fields as its own notes, also those from the sender: `X-Status: D` marks a message for deletion,
//! and a length hides the messages after it. So a message's own fields of these names are written
//! with [`PREFIX`] in front of the name, and read without it: the file has only the exporter's
//! notes, and the message comes back byte for byte. A name that has the prefix already gets one
//! more, like `>` in mboxrd.
//!
//! A line with the prefix alone separates the file's fields from a message that begins with a
//! continuation line (RFC 5322 §2.2.3), which would become a part of them otherwise.

/// The prefix of the name of a message's own field.
pub(super) const PREFIX: &[u8] = b"X-Sealpost-Own-";
/// The names.
const NAMES: [&[u8]; 11] = [
    b"status",
    b"x-status",
    b"x-keywords",
    b"x-mozilla-status",
    b"x-mozilla-status2",
    b"x-mozilla-keys",
    b"x-uid",
    b"x-imap",
    b"x-imapbase",
    b"content-length",
    b"x-gmail-labels",
];

/// Adds or removes prefixes in a header, in pieces; the body passes through.
pub(super) struct OwnFields {
    direction: Direction,
    at: At,
    /// The beginning of a line while its kind is unknown: never longer than a name or the prefix.
    held: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// On the way into the file.
    Quote,
    /// On the way out of it.
    Unquote,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// At the beginning of a line, after so many prefixes.
    Start {
        prefixes: u32,
    },
    /// In a line that is kept unchanged.
    Line,
    /// In a line that is dropped.
    Dropped,
    Body,
}

const LINE_BEGINS: At = At::Start { prefixes: 0 };

impl OwnFields {
    /// Adds prefixes.
    pub fn quoting() -> Self {
        OwnFields { direction: Direction::Quote, at: LINE_BEGINS, held: Vec::new() }
    }

    /// Removes them.
    pub fn unquoting() -> Self {
        OwnFields { direction: Direction::Unquote, ..Self::quoting() }
    }

    /// Whether the header is over, so that bytes pass unchanged.
    pub fn is_done(&self) -> bool {
        self.at == At::Body
    }

    /// Appends the converted `bytes` to `out`.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while let Some((first, rest)) = bytes.split_first() {
            match self.at {
                At::Body => return out.extend_from_slice(bytes),
                At::Start { prefixes } => {
                    self.held.push(*first);
                    self.at = self.decide(prefixes, out);
                    bytes = rest;
                }
                At::Line | At::Dropped => {
                    let ends = memchr::memchr(b'\n', bytes);
                    let (line, rest) = bytes.split_at(ends.map_or(bytes.len(), |at| at + 1));
                    if self.at == At::Line {
                        out.extend_from_slice(line);
                    }
                    if ends.is_some() {
                        self.at = LINE_BEGINS;
                    }
                    bytes = rest;
                }
            }
        }
    }

    /// Ends the message: writes held bytes.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if let At::Start { prefixes } = self.at {
            self.give(prefixes, true, out);
        }
        self.at = LINE_BEGINS;
    }

    /// Decides about the line if enough of it is held, and then writes it.
    fn decide(&mut self, prefixes: u32, out: &mut Vec<u8>) -> At {
        let held = &*self.held;
        if prefixes == 0 && matches!(held, b"\n" | b"\r\n") {
            self.give(0, true, out);
            return At::Body;
        }
        if held == PREFIX {
            // All prefixes are alike: the removed or added one may as well be the last.
            if self.direction == Direction::Quote || prefixes > 0 {
                out.extend_from_slice(PREFIX);
            }
            self.held.clear();
            return At::Start { prefixes: prefixes + 1 };
        }
        let undecided = PREFIX.starts_with(held)
            || NAMES.iter().any(|name| name.get(..held.len()).is_some_and(|n| n.eq_ignore_ascii_case(held)))
            || (prefixes == 0 && held == b"\r");
        if undecided {
            return At::Start { prefixes };
        }
        let (last, name) = held.split_last().unwrap_or((&0, &[]));
        let named = matches!(last, b':' | b' ' | b'\t') && NAMES.iter().any(|n| n.eq_ignore_ascii_case(name));
        let nameless = prefixes > 0 && held == b":";
        let ends = *last == b'\n';
        if nameless && prefixes == 1 && self.direction == Direction::Unquote {
            self.held.clear();
            return At::Dropped;
        }
        if (named || nameless) && self.direction == Direction::Quote {
            out.extend_from_slice(PREFIX);
        }
        self.give(prefixes, !(named || nameless), out);
        if ends { LINE_BEGINS } else { At::Line }
    }

    /// Writes held bytes, preceded by the last prefix if that was held and `stays`.
    fn give(&mut self, prefixes: u32, stays: bool, out: &mut Vec<u8>) {
        if self.direction == Direction::Unquote && prefixes > 0 && stays {
            out.extend_from_slice(PREFIX);
        }
        out.append(&mut self.held);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(mut fields: OwnFields, bytes: &[u8], piece: usize) -> Vec<u8> {
        let mut out = Vec::new();
        bytes.chunks(piece).for_each(|piece| fields.push(piece, &mut out));
        fields.finish(&mut out);
        out
    }

    fn quoted(text: &str) -> String {
        String::from_utf8(run(OwnFields::quoting(), text.as_bytes(), 1)).unwrap()
    }

    fn unquoted(text: &str) -> String {
        String::from_utf8(run(OwnFields::unquoting(), text.as_bytes(), 3)).unwrap()
    }

    #[test]
    fn fields_in_which_an_mbox_keeps_notes_are_quoted() {
        for (own, in_the_file) in [
            ("Status: RO\n", "X-Sealpost-Own-Status: RO\n"),
            ("A: b\nX-STATUS \t: D\n", "A: b\nX-Sealpost-Own-X-STATUS \t: D\n"),
            ("content-length: 7\r\n\r\n", "X-Sealpost-Own-content-length: 7\r\n\r\n"),
            ("X-Sealpost-Own-Status: R\n", "X-Sealpost-Own-X-Sealpost-Own-Status: R\n"),
            ("X-Sealpost-Own-:\n", "X-Sealpost-Own-X-Sealpost-Own-:\n"),
            ("X-Statuses: D\nX-Sealpost-Own-Other: x\n", "X-Statuses: D\nX-Sealpost-Own-Other: x\n"),
            ("A: b\n\nStatus: RO\n", "A: b\n\nStatus: RO\n"),
            ("\nStatus: RO\n", "\nStatus: RO\n"),
            ("X-Stat", "X-Stat"),
            ("X-Sealpost-Own-X-Stat", "X-Sealpost-Own-X-Stat"),
            ("\rStatus: x\n\r\nStatus: y", "\rStatus: x\n\r\nStatus: y"),
        ] {
            assert_eq!(quoted(own), in_the_file);
            assert_eq!(unquoted(in_the_file), own);
        }
        assert_eq!(unquoted("X-Sealpost-Own-:\n folded\n\nx"), " folded\n\nx", "the line in between goes");
        assert_eq!(unquoted("Status: RO\nA: b\n"), "Status: RO\nA: b\n", "the file's own stay here");
    }

    fn text() -> impl Strategy<Value = String> {
        let tokens = vec![
            "X-Sealpost-Own-",
            "Status",
            "x-status",
            "X-IMAPbase",
            "X-S",
            ":",
            " ",
            "x",
            "\n",
            "\r\n",
            "\r",
        ];
        proptest::collection::vec(proptest::sample::select(tokens), 0..20).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn every_header_comes_back(text in text(), into in 1usize..9, out_of in 1usize..9) {
            let file = run(OwnFields::quoting(), text.as_bytes(), into);
            let back = run(OwnFields::unquoting(), &file, out_of);
            prop_assert_eq!(String::from_utf8_lossy(&back), text.as_str());
        }

        #[test]
        fn no_field_of_the_message_passes_for_the_files(text in text()) {
            let file = quoted(&text);
            let header = file.split("\n\n").next().unwrap().split("\n\r\n").next().unwrap();
            let header = if file.starts_with('\n') || file.starts_with("\r\n") { "" } else { header };
            for line in header.split('\n') {
                let name = line.split(':').next().unwrap().trim_end_matches([' ', '\t']);
                let is_one = line.contains(':') && NAMES.iter().any(|n| n.eq_ignore_ascii_case(name.as_bytes()));
                prop_assert!(!is_one, "{}", line);
            }
        }
    }
}
