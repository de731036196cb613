//! [`Cursor`]: a place in a buffer, and the words every rule is made of.

use crate::types::{
    AString, Atom, Flag, InvalidMailbox, Mailbox, ObjectId, SeqNumber, SeqRange, SequenceSet,
    is_astring_char, is_atom_char, is_object_id_char,
};
use crate::utf7;
use sealpost_base::limits;

/// Why a rule did not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The syntax is wrong.
    Bad(&'static str),
    /// An unknown word: what is expected here, and the word.
    Unknown(&'static str, Box<str>),
    /// The syntax is right, the mailbox name is not.
    Name(InvalidMailbox),
    /// The buffer ends where a literal's bytes should begin.
    Incomplete,
}

pub(crate) type Parsed<T> = Result<T, Failure>;

impl From<InvalidMailbox> for Failure {
    fn from(invalid: InvalidMailbox) -> Self {
        Failure::Name(invalid)
    }
}

/// `{n}`, `{n+}` or `~{n}` with its CRLF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiteralHeader {
    pub size: u64,
    pub sync: bool,
    pub binary: bool,
}

/// Digits a literal's size may have: more than a 64-bit number needs, and few enough to be found at
/// a line's end without the line.
const LITERAL_DIGITS: usize = 20;

/// The literal header at the end of `line` (which has no line end), if there is one. A size over 64 bits is
/// `u64::MAX`.
pub(crate) fn literal_at_end(line: &[u8]) -> Option<LiteralHeader> {
    let line = line.strip_suffix(b"}")?;
    let (line, sync) = match line.strip_suffix(b"+") {
        Some(line) => (line, false),
        None => (line, true),
    };
    let digits = line.iter().rev().take(LITERAL_DIGITS + 1).take_while(|b| b.is_ascii_digit()).count();
    if digits == 0 || digits > LITERAL_DIGITS {
        return None;
    }
    let (line, digits) = line.split_at(line.len() - digits);
    let line = line.strip_suffix(b"{")?;
    let size = decimal(digits).unwrap_or(u64::MAX);
    Some(LiteralHeader { size, sync, binary: line.ends_with(b"~") })
}

pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    digits
        .iter()
        .try_fold(0u64, |n, digit| n.checked_mul(10)?.checked_add(u64::from(digit.wrapping_sub(b'0'))))
}

/// Bytes of an unknown word that are repeated to the client.
const REPEATED_BYTES: usize = 40;

/// The form of sequence sets.
const SEQUENCE_SET: &str = "a sequence set has numbers and ranges, like 2,4:7,9:*";

/// For a character that is not allowed in an atom, nor directly behind one.
const NOT_IN_AN_ATOM: &str = "a character that no atom may have: use a quoted string or a literal";
const EIGHT_BIT: &str = "8-bit characters must be in a quoted string or a literal";

/// A place in a buffer.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    input: &'a [u8],
    at: usize,
    pub(crate) utf8: bool,
    /// The buffer is a client's command: see [`Cursor::of_command`].
    command: bool,
}

impl<'a> Cursor<'a> {
    /// A cursor over any text: a response, a section, stored search keys.
    pub(crate) fn new(input: &'a [u8], utf8: bool) -> Self {
        Cursor { input, at: 0, utf8, command: false }
    }

    /// A cursor over a command, as far as the client has sent it: it ends with its CRLF, or where
    /// the bytes of a literal begin. Words must end at a valid delimiter, so that errors say what
    /// is wrong with a word and not only where parsing stopped; responses of servers are parsed
    /// leniently.
    pub(crate) fn of_command(input: &'a [u8], utf8: bool) -> Self {
        Cursor { command: true, ..Cursor::new(input, utf8) }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.input[self.at..]
    }

    /// How many bytes were read.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    pub(crate) fn advance(&mut self, bytes: usize) {
        self.at = self.input.len().min(self.at + bytes);
    }

    /// Reads `byte` if it comes next.
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let next = self.peek() == Some(byte);
        self.at += usize::from(next);
        next
    }

    /// Reads `word`, in any case, if it comes next.
    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        let next = self.rest().get(..word.len()).is_some_and(|w| w.eq_ignore_ascii_case(word.as_bytes()));
        self.at += if next { word.len() } else { 0 };
        next
    }

    pub(crate) fn expect(&mut self, byte: u8, what: &'static str) -> Parsed<()> {
        if self.eat(byte) { Ok(()) } else { Err(Failure::Bad(what)) }
    }

    /// `SP`
    pub(crate) fn space(&mut self) -> Parsed<()> {
        self.expect(b' ', "a space is missing")
    }

    /// `CRLF` at the end of the buffer. A bare LF is taken for it, and spaces before it are ignored.
    pub(crate) fn end(&mut self) -> Parsed<()> {
        while self.eat(b' ') {}
        if matches!(self.rest(), b"\r\n" | b"\n" | b"") {
            self.at = self.input.len();
            return Ok(());
        }
        Err(Failure::Bad("unexpected text after the command"))
    }

    pub(crate) fn at_end(&self) -> bool {
        matches!(self.rest(), b"\r\n" | b"\n" | b"")
    }

    pub(crate) fn take_while(&mut self, keep: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.rest();
        let end = rest.iter().position(|&b| !keep(b)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Refuses an atom of a command that is followed by a character that no atom has.
    pub(super) fn ends_atom(&self) -> Parsed<()> {
        self.ends_word(if self.peek() >= Some(0x80) { EIGHT_BIT } else { NOT_IN_AN_ATOM })
    }

    /// Refuses a word of a command that is followed by a character it may not have.
    pub(super) fn ends_word(&self, wrong: &'static str) -> Parsed<()> {
        match self.peek() {
            None | Some(b' ' | b')' | b'\r' | b'\n') => Ok(()),
            Some(_) if !self.command => Ok(()),
            Some(_) => Err(Failure::Bad(wrong)),
        }
    }

    /// The failure for a word that is not known here.
    pub(crate) fn unknown(what: &'static str, word: &str) -> Failure {
        let end = word.floor_char_boundary(REPEATED_BYTES);
        Failure::Unknown(what, word[..end].into())
    }

    /// The longest run of ASCII characters that `keep`, as text.
    pub(crate) fn word(&mut self, keep: impl Fn(u8) -> bool) -> &'a str {
        std::str::from_utf8(self.take_while(|b| b.is_ascii() && keep(b))).unwrap_or("")
    }

    /// `atom = 1*ATOM-CHAR`
    pub(crate) fn atom(&mut self) -> Parsed<Atom> {
        Atom::new(self.word(is_atom_char)).map_err(|_| Failure::Bad("an atom is missing"))
    }

    /// `number64`, at most 63 bits (RFC 9051 §9); RFC 3501's `number` is a part of it.
    pub(crate) fn number(&mut self) -> Parsed<u64> {
        let digits = self.take_while(|b| b.is_ascii_digit());
        if digits.is_empty() {
            return Err(Failure::Bad("a number is missing"));
        }
        if self.command && self.peek().is_some_and(|b| b.is_ascii_alphabetic()) {
            return Err(Failure::Bad("a number has digits only"));
        }
        let number = decimal(digits).filter(|n| i64::try_from(*n).is_ok());
        number.ok_or(Failure::Bad("a number is too large"))
    }

    /// `number`: 32 bits.
    pub(crate) fn number32(&mut self) -> Parsed<u32> {
        u32::try_from(self.number()?).map_err(|_| Failure::Bad("a number is too large"))
    }

    /// `quoted = DQUOTE *QUOTED-CHAR DQUOTE`. Bytes above 127 are let through, as servers do; once
    /// UTF-8 was agreed on, they must be that (RFC 6855 §3, RFC 9051 §4.3).
    pub(crate) fn quoted(&mut self) -> Parsed<Vec<u8>> {
        let quoted = self.quoted_bytes()?;
        if self.utf8 && std::str::from_utf8(&quoted).is_err() {
            return Err(Failure::Bad("a quoted string is not UTF-8"));
        }
        Ok(quoted)
    }

    fn quoted_bytes(&mut self) -> Parsed<Vec<u8>> {
        self.expect(b'"', "a quoted string is missing")?;
        let mut out = Vec::new();
        loop {
            out.extend_from_slice(self.take_while(|b| !matches!(b, b'"' | b'\\' | b'\r' | b'\n' | 0)));
            match self.rest() {
                [b'"', ..] => {
                    self.at += 1;
                    return Ok(out);
                }
                [b'\\', escaped @ (b'"' | b'\\'), ..] => {
                    out.push(*escaped);
                    self.at += 2;
                }
                [b'\\', ..] => return Err(Failure::Bad("only \\\" and \\\\ may be escaped")),
                [0, ..] => return Err(Failure::Bad("NUL in a quoted string")),
                _ => return Err(Failure::Bad("a quoted string does not end")),
            }
        }
    }

    /// `"{" number ["+"] "}" CRLF`, the bytes not included.
    pub(crate) fn literal_header(&mut self) -> Parsed<LiteralHeader> {
        let binary = self.eat(b'~');
        self.expect(b'{', "a literal is missing")?;
        let size = self.number()?;
        let sync = !self.eat(b'+');
        self.expect(b'}', "a literal's size does not end")?;
        self.eat(b'\r');
        self.expect(b'\n', "a literal must end its line")?;
        Ok(LiteralHeader { size, sync, binary })
    }

    /// `literal = "{" number "}" CRLF *CHAR8`
    pub(crate) fn literal(&mut self) -> Parsed<&'a [u8]> {
        let header = self.literal_header()?;
        // A command that ends here is incomplete, also behind an empty literal: it lacks its CRLF.
        if self.command && self.rest().is_empty() {
            return Err(Failure::Incomplete);
        }
        let bytes = usize::try_from(header.size).ok().and_then(|size| self.rest().get(..size));
        let bytes = bytes.ok_or(Failure::Incomplete)?;
        self.at += bytes.len();
        // CHAR8 = %x01-ff, unless it is a literal8 (RFC 3516 §4.4).
        if !header.binary && memchr::memchr(0, bytes).is_some() {
            return Err(Failure::Bad("NUL in a literal"));
        }
        Ok(bytes)
    }

    /// `string = quoted / literal`
    pub(crate) fn string(&mut self) -> Parsed<Vec<u8>> {
        match self.peek() {
            Some(b'"') => self.quoted(),
            Some(b'{') => Ok(self.literal()?.to_vec()),
            Some(0x80..) => Err(Failure::Bad(EIGHT_BIT)),
            _ => Err(Failure::Bad("a string is missing")),
        }
    }

    /// `astring = 1*ASTRING-CHAR / string`
    pub(crate) fn astring_bytes(&mut self) -> Parsed<Vec<u8>> {
        let word = self.take_while(is_astring_char);
        if word.is_empty() {
            return self.string();
        }
        self.ends_atom()?;
        Ok(word.to_vec())
    }

    /// `astring`
    pub(crate) fn astring(&mut self) -> Parsed<AString> {
        AString::new(self.astring_bytes()?).map_err(|_| Failure::Bad("NUL in a string"))
    }

    /// `nil`
    pub(crate) fn nil(&mut self) -> bool {
        let mut probe = self.clone();
        let nil = probe.eat_word("NIL") && !probe.peek().is_some_and(is_astring_char);
        if nil {
            *self = probe;
        }
        nil
    }

    /// `nstring = string / nil`
    pub(crate) fn nstring(&mut self) -> Parsed<Option<Vec<u8>>> {
        if self.nil() { Ok(None) } else { self.string().map(Some) }
    }

    /// `mailbox = "INBOX" / astring`
    pub(crate) fn mailbox(&mut self) -> Parsed<Mailbox> {
        Ok(utf7::name(&self.astring_bytes()?, self.utf8)?)
    }

    /// `objectid = 1*255(ALPHA / DIGIT / "_" / "-")` (RFC 8474 §7)
    pub(crate) fn object_id(&mut self) -> Parsed<ObjectId> {
        ObjectId::new(self.word(is_object_id_char)).map_err(|invalid| Failure::Bad(invalid.0))
    }

    /// `flag = "\Answered" / … / flag-keyword / flag-extension`
    pub(crate) fn flag(&mut self) -> Parsed<Flag> {
        let start = self.at;
        self.eat(b'\\');
        self.take_while(is_atom_char);
        let text = std::str::from_utf8(&self.input[start..self.at]).unwrap_or("");
        // RFC 9051 §9: `flag-keyword` and `flag-extension` are atoms.
        self.ends_word(match self.peek() {
            Some(0x80..) => "a flag or keyword has ASCII characters only",
            Some(b']') => "a flag or keyword cannot have a ]",
            Some(b'*') if text == "\\" => "\\* is no flag: it says that keywords can be made",
            Some(b'%') => "a flag or keyword cannot have a %",
            Some(b'*') => "a flag or keyword cannot have a *",
            Some(b'"') => "a flag or keyword cannot have a \", and is not quoted",
            Some(b'{') => "a flag or keyword cannot have a {, and is no literal",
            Some(b'(') => "a flag or keyword cannot have a (",
            Some(b'\\') => "a flag or keyword cannot have a \\ but at its beginning",
            _ => "a flag or keyword cannot have a control character",
        })?;
        Flag::new(text).map_err(|invalid| Failure::Bad(invalid.0))
    }

    /// `flag-list = "(" [flag *(SP flag)] ")"`
    pub(crate) fn flag_list(&mut self) -> Parsed<Vec<Flag>> {
        self.list(Self::flag)
    }

    /// `"(" [item *(SP item)] ")"`
    pub(crate) fn list<T>(&mut self, item: impl Fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.expect(b'(', "a list is missing")?;
        let mut items = Vec::new();
        if self.eat(b')') {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(b')') {
                return Ok(items);
            }
            self.expect(b' ', "in a list, a space or the end of the list is missing")?;
        }
    }

    /// As [`Cursor::list`], of at least one item.
    pub(crate) fn list1<T>(&mut self, item: impl Fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let items = self.list(item)?;
        if items.is_empty() { Err(Failure::Bad("an empty list")) } else { Ok(items) }
    }

    /// `sequence-set = (seq-number / seq-range) ["," sequence-set] / "$"` (RFC 9051 §9)
    pub(crate) fn sequence_set(&mut self) -> Parsed<SequenceSet> {
        let mut ranges = Vec::new();
        loop {
            if self.eat(b'$') {
                return Ok(SequenceSet::with_saved(ranges));
            }
            let start = self.seq_number()?;
            let end = if self.eat(b':') { self.seq_number()? } else { start };
            if ranges.len() == limits::IMAP_SEQUENCE_RANGES {
                return Err(Failure::Bad("too many ranges in a sequence set"));
            }
            ranges.push(SeqRange { start, end });
            if !self.eat(b',') {
                self.ends_word(SEQUENCE_SET)?;
                return SequenceSet::new(ranges).ok_or(Failure::Bad(SEQUENCE_SET));
            }
        }
    }

    /// `seq-number = nz-number / "*"`
    pub(crate) fn seq_number(&mut self) -> Parsed<SeqNumber> {
        if self.eat(b'*') {
            return Ok(SeqNumber::STAR);
        }
        if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
            return Err(Failure::Bad(SEQUENCE_SET));
        }
        let number = self.number32().map_err(|_| Failure::Bad("a message number has at most 32 bits"))?;
        SeqNumber::new(number).ok_or(Failure::Bad("0 is no message number"))
    }
}
