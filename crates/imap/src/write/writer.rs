//! [`Writer`]: words, strings and lists of the grammar, into a growable buffer.

use bytes::{BufMut, BytesMut};

use crate::types::{
    AString, DateTime, Flag, Mailbox, Partial, Section, SectionText, SeqNumber, SeqRange, SequenceSet, Tag,
    is_astring_char, month_name,
};
use crate::utf7;

/// How literals are announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Literals {
    /// `{n}`: a server's.
    #[default]
    Response,
    /// `{n}`: a client's that waits for the continuation request; see [`Writer::take_pieces`].
    Synchronizing,
    /// `{n+}`: a client's that does not wait (RFC 7888).
    NonSynchronizing,
}

/// Writes the grammar's words into a buffer. Spaces are the caller's, except within [`Writer::list`], and
/// [`Writer::item`] puts one where it is needed.
///
/// The buffer may be taken at any time ([`Writer::take`]) and sent, so that a long response need
/// not be held as a whole.
#[derive(Debug, Default)]
pub struct Writer {
    out: BytesMut,
    utf8: bool,
    utf8_text: bool,
    literals: Literals,
    /// Where a client must wait.
    cuts: Vec<usize>,
}

/// Longest string sent in quotes; a longer one is a literal, which readers take without scanning.
const QUOTED_BYTES: usize = 1000;

impl Writer {
    /// An empty writer for a server.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty writer that announces literals in this way.
    pub fn with_literals(literals: Literals) -> Self {
        Writer { literals, ..Self::default() }
    }

    /// Mailbox names and quoted strings are UTF-8 from now on, after `ENABLE IMAP4rev2` or `UTF8=ACCEPT`
    /// (RFC 9051 §5.1, RFC 6855 §3).
    pub fn set_utf8(&mut self, utf8: bool) {
        self.utf8 = utf8;
    }

    /// Text for people may be UTF-8 from now on, after `ENABLE IMAP4rev2` (RFC 9051 §9, `text`).
    pub fn set_utf8_text(&mut self, utf8: bool) {
        self.utf8_text = utf8;
    }

    /// How many bytes are waiting.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether no bytes are waiting.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Takes the output so far, leaving the writer empty with its settings.
    pub fn take(&mut self) -> BytesMut {
        self.cuts.clear();
        self.out.split()
    }

    /// The output not taken yet.
    pub fn as_bytes(&self) -> &[u8] {
        &self.out
    }

    /// The buffer itself, to add literal bytes to.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// Bytes as they are: the caller vouches for the syntax.
    pub fn raw(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.out.put_slice(bytes.as_ref());
        self
    }

    /// A space.
    pub fn space(&mut self) -> &mut Self {
        self.raw(b" ")
    }

    /// CRLF.
    pub fn crlf(&mut self) -> &mut Self {
        self.raw(b"\r\n")
    }

    /// `(`
    pub fn open(&mut self) -> &mut Self {
        self.raw(b"(")
    }

    /// `)`
    pub fn close(&mut self) -> &mut Self {
        self.raw(b")")
    }

    /// `(a b c)`: each item written by `each`, a space between them.
    pub fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        self.open();
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.space();
            }
            each(self, item);
        }
        self.close()
    }

    /// `NIL`
    pub fn nil(&mut self) -> &mut Self {
        self.raw(b"NIL")
    }

    /// A number.
    pub fn number(&mut self, n: u64) -> &mut Self {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = n;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return self.raw(&digits[at..]);
            }
        }
    }

    /// `string`: quoted if it can be, else a literal (RFC 3501 §4.3). NULs, which no string may
    /// hold, are left out.
    pub fn string(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        if bytes.contains(&0) {
            let clean: Vec<u8> = bytes.iter().copied().filter(|&b| b != 0).collect();
            return self.string(clean);
        }
        if !self.can_quote(bytes) {
            return self.literal(bytes);
        }
        self.out.reserve(bytes.len() + 2);
        self.out.put_u8(b'"');
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
            let (plain, special) = rest.split_at(at);
            self.out.put_slice(plain);
            self.out.put_slice(&[b'\\', special[0]]);
            rest = &special[1..];
        }
        self.out.put_slice(rest);
        self.out.put_u8(b'"');
        self
    }

    /// `nstring`: `NIL` or a string.
    pub fn nstring(&mut self, bytes: Option<impl AsRef<[u8]>>) -> &mut Self {
        match bytes {
            Some(bytes) => self.string(bytes),
            None => self.nil(),
        }
    }

    /// `astring`: an atom if it can be, else a string. A string that reads as NIL is quoted.
    pub fn astring(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        let atom = !bytes.is_empty()
            && bytes.iter().all(|&b| is_astring_char(b))
            && !bytes.eq_ignore_ascii_case(b"NIL");
        if atom { self.raw(bytes) } else { self.string(bytes) }
    }

    /// `{n}` CRLF: `size` bytes must follow.
    pub fn literal_header(&mut self, size: u64) -> &mut Self {
        self.raw(b"{").number(size);
        if self.literals == Literals::NonSynchronizing {
            self.raw(b"+");
        }
        self.raw(b"}\r\n");
        if self.literals == Literals::Synchronizing {
            self.cuts.push(self.out.len());
        }
        self
    }

    /// `~{n}` CRLF: `size` bytes must follow, of any value (RFC 3516 §7). For responses.
    pub fn literal8_header(&mut self, size: u64) -> &mut Self {
        self.raw(b"~{").number(size).raw(b"}\r\n")
    }

    /// A literal, whole.
    pub fn literal(&mut self, bytes: &[u8]) -> &mut Self {
        self.literal_header(bytes.len() as u64).raw(bytes)
    }

    /// A tag.
    pub fn tag(&mut self, tag: &Tag) -> &mut Self {
        self.raw(tag.as_str())
    }

    /// A mailbox name: modified UTF-7 (RFC 3501 §5.1.3), or UTF-8 if enabled.
    pub fn mailbox(&mut self, mailbox: &Mailbox) -> &mut Self {
        let name = self.encoded(mailbox.as_str());
        self.astring(name)
    }

    /// `(\Seen $Forwarded)`
    pub fn flags<'a>(&mut self, flags: impl IntoIterator<Item = &'a Flag>) -> &mut Self {
        self.list(flags, |w, flag| {
            w.flag(flag);
        })
    }

    /// One flag.
    pub fn flag(&mut self, flag: &Flag) -> &mut Self {
        if flag.is_system() {
            self.raw(b"\\");
        }
        self.raw(flag.name())
    }

    /// `date-time`, in quotes, the day of two characters (RFC 3501 §9).
    pub fn date_time(&mut self, time: DateTime) -> &mut Self {
        let (date, hour, minute, second) = time.local();
        let (year, month, day) = date.civil();
        let month = month_name(month);
        let zone = time.zone_minutes();
        let sign = if zone < 0 { b"-" } else { b"+" };
        let (zone_hours, zone_minutes) = (zone.unsigned_abs() / 60, zone.unsigned_abs() % 60);
        self.raw(b"\"").padded(day.into(), b' ', 2).raw(b"-").raw(month).raw(b"-").padded(
            year.into(),
            b'0',
            4,
        );
        self.raw(b" ").padded(hour.into(), b'0', 2).raw(b":").padded(minute.into(), b'0', 2);
        self.raw(b":").padded(second.into(), b'0', 2).raw(b" ").raw(sign);
        self.padded(zone_hours.into(), b'0', 2).padded(zone_minutes.into(), b'0', 2).raw(b"\"")
    }

    /// A number of so many digits at least, filled up before it.
    fn padded(&mut self, n: u64, fill: u8, digits: u32) -> &mut Self {
        for place in (1..digits).rev() {
            if n < 10u64.pow(place) {
                self.raw([fill]);
            }
        }
        self.number(n)
    }

    /// A sequence set, as it is.
    pub fn sequence_set(&mut self, set: &SequenceSet) -> &mut Self {
        for (i, range) in set.ranges().iter().enumerate() {
            if i > 0 {
                self.raw(b",");
            }
            self.seq_range(*range);
        }
        match (set.has_saved(), set.ranges().is_empty()) {
            (true, true) => self.raw(b"$"),
            (true, false) => self.raw(b",$"),
            _ => self,
        }
    }

    /// `first`, or `first:last`: a member of a set that is written piece by piece.
    pub fn number_range(&mut self, first: u32, last: u32) -> &mut Self {
        self.number(u64::from(first));
        if first < last { self.raw(b":").number(u64::from(last)) } else { self }
    }

    /// `[section]`, header field names included.
    pub fn section(&mut self, section: &Section) -> &mut Self {
        self.raw(b"[");
        for (i, number) in section.path.iter().enumerate() {
            if i > 0 {
                self.raw(b".");
            }
            self.number(u64::from(number.get()));
        }
        if !section.path.is_empty() && section.text != SectionText::Everything {
            self.raw(b".");
        }
        match &section.text {
            SectionText::Everything => &mut *self,
            SectionText::Header => self.raw(b"HEADER"),
            SectionText::Text => self.raw(b"TEXT"),
            SectionText::Mime => self.raw(b"MIME"),
            SectionText::HeaderFields(names) => self.raw(b"HEADER.FIELDS ").names(names),
            SectionText::HeaderFieldsNot(names) => self.raw(b"HEADER.FIELDS.NOT ").names(names),
        };
        self.raw(b"]")
    }

    /// `BODY[section]` or `BODY[section]<start>`: the name of the data in a FETCH response (RFC
    /// 3501 §7.4.2); the string or literal follows after a space.
    pub fn body_section(&mut self, section: &Section, partial: Option<Partial>) -> &mut Self {
        self.raw(b"BODY").section(section).origin(partial)
    }

    /// `BINARY[section]` or `BINARY[section]<start>`; a string, literal or literal8 follows after a
    /// space (RFC 3516 §7).
    pub fn binary_section(&mut self, section: &Section, partial: Option<Partial>) -> &mut Self {
        self.raw(b"BINARY").section(section).origin(partial)
    }

    /// `<start>`
    fn origin(&mut self, partial: Option<Partial>) -> &mut Self {
        match partial {
            Some(partial) => self.raw(b"<").number(partial.start).raw(b">"),
            None => self,
        }
    }

    /// Text for people: CR, LF and tab become spaces, characters outside of CHAR become `?` unless
    /// UTF-8 is allowed; never empty (RFC 3501 §9, `text`).
    pub fn text(&mut self, text: &str) -> &mut Self {
        if text.is_empty() {
            return self.raw(b".");
        }
        self.out.reserve(text.len());
        for c in text.chars() {
            match c {
                '\r' | '\n' | '\t' => self.out.put_u8(b' '),
                ' '..='~' => self.out.put_u8(c as u8),
                c if self.utf8_text && !c.is_control() => {
                    self.out.put_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => self.out.put_u8(b'?'),
            }
        }
        self
    }

    /// A mailbox name or pattern in the encoding in force.
    pub(super) fn encoded(&self, name: &str) -> String {
        if self.utf8 { name.to_owned() } else { utf7::encode(name) }
    }

    pub(super) fn take_cuts(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.cuts)
    }

    fn names(&mut self, names: &[AString]) -> &mut Self {
        self.list(names, |w, name| {
            w.astring(name.as_bytes());
        })
    }

    fn seq_range(&mut self, range: SeqRange) -> &mut Self {
        self.seq_number(range.start);
        if range.start != range.end {
            self.raw(b":").seq_number(range.end);
        }
        self
    }

    pub(super) fn seq_number(&mut self, n: SeqNumber) -> &mut Self {
        match n.number() {
            Some(n) => self.number(u64::from(n)),
            None => self.raw(b"*"),
        }
    }

    /// `QUOTED-CHAR` is 7-bit text without CR and LF; UTF-8 too, once enabled (RFC 6855 §3).
    fn can_quote(&self, bytes: &[u8]) -> bool {
        bytes.len() <= QUOTED_BYTES
            && !bytes.iter().any(|b| matches!(b, 0 | b'\r' | b'\n'))
            && (bytes.is_ascii() || (self.utf8 && std::str::from_utf8(bytes).is_ok()))
    }
}
