//! `BODY[HEADER.FIELDS (…)]` and `.NOT`: passes the wanted fields of a streamed header, byte for
//! byte.
//!
//! "Subsetting does not exclude the delimiting blank line" (RFC 3501 §6.4.5): it is passed on.
//! Memory is bounded by the longest requested name, plus a little for white space before the colon.

use std::sync::Arc;

/// White space before the colon of a field that is examined (RFC 5322 §4.5 allows any amount).
const BLANK_BYTES: usize = 64;

/// Filters one header that arrives in pieces.
#[derive(Debug, Clone)]
pub struct HeaderFilter {
    names: Arc<[String]>,
    /// Fields with these names are dropped instead of kept.
    not: bool,
    longest: usize,
    /// The start of a line whose field is not known yet.
    held: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the start of a line; the flag says whether the field before it, which it may continue, is kept.
    LineStart { keep: bool },
    /// In the name of a field.
    Name,
    /// After the name.
    Rest { keep: bool },
    /// The empty line was passed.
    Done,
}

impl HeaderFilter {
    /// Keeps the fields with these names, in any case.
    pub fn only(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self::new(names, false)
    }

    /// Keeps all but the fields with these names, in any case.
    pub fn without(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self::new(names, true)
    }

    fn new(names: impl IntoIterator<Item = impl AsRef<str>>, not: bool) -> Self {
        let names: Arc<[String]> = names.into_iter().map(|n| n.as_ref().to_ascii_lowercase()).collect();
        let longest = names.iter().map(String::len).max().unwrap_or(0);
        // A header that begins with a continuation line continues no named field.
        HeaderFilter { names, not, longest, held: Vec::new(), state: State::LineStart { keep: not } }
    }

    /// Takes the next piece of the header and passes kept bytes to `out`, in order.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            let used = match self.state {
                State::LineStart { keep } => self.line_start(bytes, keep, out),
                State::Name => self.name(bytes, out),
                State::Rest { keep } => {
                    let end = memchr::memchr(b'\n', bytes);
                    if end.is_some() {
                        self.state = State::LineStart { keep };
                    }
                    let used = end.map_or(bytes.len(), |lf| lf + 1);
                    if keep {
                        out(&bytes[..used]);
                    }
                    used
                }
                State::Done => return,
            };
            bytes = &bytes[used..];
        }
    }

    /// Ends a header without an empty line: decides about a name without a colon.
    pub fn finish(mut self, out: &mut impl FnMut(&[u8])) {
        if !self.held.is_empty() {
            self.decide(out);
        }
    }

    /// Appends the kept part of a complete header to `out`: the result of [`HeaderFilter::push`]
    /// and [`HeaderFilter::finish`] of a new filter.
    pub fn apply(&self, header: &[u8], out: &mut Vec<u8>) {
        let (mut rest, mut keep) = (header, self.not);
        while let Some(first) = rest.first() {
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |lf| lf + 1);
            let (line, after) = rest.split_at(end);
            rest = after;
            if matches!(line, b"\r\n" | b"\n") {
                out.extend_from_slice(line);
                return;
            }
            if !matches!(first, b' ' | b'\t') {
                let seen = &line[..line.len().min(self.longest + BLANK_BYTES)];
                let name = &seen[..memchr::memchr2(b':', b'\n', seen).unwrap_or(seen.len())];
                keep = self.keeps(name);
            }
            if keep {
                out.extend_from_slice(line);
            }
        }
    }

    /// Whether a field that begins with `name`, up to its colon, is kept.
    fn keeps(&self, name: &[u8]) -> bool {
        let name = name.trim_ascii_end();
        self.names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted.as_bytes())) != self.not
    }

    /// True once the empty line was passed; later bytes are ignored.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    fn line_start(&mut self, bytes: &[u8], keep: bool, out: &mut impl FnMut(&[u8])) -> usize {
        match (self.held.as_slice(), bytes[0]) {
            ([], b' ' | b'\t') => {
                self.state = State::Rest { keep };
                0
            }
            ([], b'\r') => {
                self.held.push(b'\r');
                1
            }
            ([], b'\n') | ([b'\r'], b'\n') => {
                self.held.push(b'\n');
                out(&self.held);
                self.held.clear();
                self.state = State::Done;
                1
            }
            _ => {
                self.state = State::Name;
                0
            }
        }
    }

    fn name(&mut self, bytes: &[u8], out: &mut impl FnMut(&[u8])) -> usize {
        // No wanted name is longer than this, so this many bytes decide about the field.
        let room = (self.longest + BLANK_BYTES).saturating_sub(self.held.len()).min(bytes.len());
        let end = memchr::memchr2(b':', b'\n', &bytes[..room]);
        self.held.extend_from_slice(&bytes[..end.unwrap_or(room)]);
        if end.is_some() || room < bytes.len() || self.held.len() >= self.longest + BLANK_BYTES {
            self.decide(out);
        }
        end.unwrap_or(room)
    }

    /// Compares the held name and passes or drops it.
    fn decide(&mut self, out: &mut impl FnMut(&[u8])) {
        let keep = self.keeps(&self.held);
        if keep {
            out(&self.held);
        }
        self.held.clear();
        self.state = State::Rest { keep };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: &str = "Received: by x\r\n\tfor y\r\nSubject : hello\r\n world\r\nno colon\r\nX-Long: 1\nsubject:2\r\n\r\nSubject: body\r\n";

    fn run(mut filter: HeaderFilter, pieces: &[&str]) -> String {
        let mut kept = Vec::new();
        let mut out = |bytes: &[u8]| kept.extend_from_slice(bytes);
        pieces.iter().for_each(|piece| filter.push(piece.as_bytes(), &mut out));
        filter.finish(&mut out);
        String::from_utf8(kept).unwrap()
    }

    #[test]
    fn keeps_the_requested_fields() {
        let only = run(HeaderFilter::only(["SUBJECT", "absent"]), &[HEADER]);
        assert_eq!(only, "Subject : hello\r\n world\r\nsubject:2\r\n\r\n");
        let not = run(HeaderFilter::without(["subject"]), &[HEADER]);
        assert_eq!(not, "Received: by x\r\n\tfor y\r\nno colon\r\nX-Long: 1\n\r\n");
        assert_eq!(run(HeaderFilter::without([""; 0]), &["A: b"]), "A: b");
        assert_eq!(run(HeaderFilter::only(["a"]), &["B: c\r\n\r\n"]), "\r\n");
        assert_eq!(run(HeaderFilter::without(["a"]), &["no end"]), "no end");
        assert_eq!(run(HeaderFilter::without(["a"]), &[" x\n\n"]), " x\n\n");
    }

    #[test]
    fn endless_names_are_not_collected() {
        let mut filter = HeaderFilter::without(["a"]);
        let mut kept = 0;
        for _ in 0..1000 {
            filter.push(&[b'x'; 1000], &mut |b| kept += b.len());
            assert!(filter.held.capacity() < 1000);
        }
        assert_eq!(kept, 1_000_000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn cuts_do_not_matter(at in proptest::collection::vec(0..HEADER.len(), 0..8)) {
            let mut at = at;
            at.extend([0, HEADER.len()]);
            at.sort_unstable();
            let pieces: Vec<&str> = at.windows(2).map(|w| &HEADER[w[0]..w[1]]).collect();
            for filter in [HeaderFilter::only(["subject"]), HeaderFilter::without(["x-long"])] {
                prop_assert_eq!(run(filter.clone(), &pieces), run(filter, &[HEADER]));
            }
        }

        /// A header at once gives the same result as in pieces.
        #[test]
        fn at_once_is_as_in_pieces(
            header in "([aA]|[bB]c|[ \t]|:|\r|\n|\r\n|x{60,70}|aa: b\r\n|Bc : d\r\n| e\n){0,40}",
            names in proptest::sample::select(vec![vec![], vec!["a"], vec!["BC"], vec!["aa", "bc"], vec!["", "a"]]),
        ) {
            for filter in [HeaderFilter::only(&names), HeaderFilter::without(&names)] {
                let mut kept = Vec::new();
                filter.apply(header.as_bytes(), &mut kept);
                prop_assert_eq!(run(filter, &[&header]).into_bytes(), kept);
            }
        }
    }
}
