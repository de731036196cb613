//! UTF-7 (RFC 2152): ASCII with runs of UTF-16 in base64 between `+` and `-`. Streaming; damage
//! becomes U+FFFD.

/// Decodes one text that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct Utf7 {
    /// Inside a shifted run.
    shifted: bool,
    /// The run is empty so far: `+-` is a plus sign.
    fresh: bool,
    bits: u32,
    count: u32,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

impl Utf7 {
    /// A new encoded-word begins; `rest` has its bytes and those of the words that follow, the
    /// first `run` of them base64. The run before continues if it ended inside a character, or if
    /// the following bytes complete it and end like a run.
    pub(super) fn begin_word(&mut self, rest: &[u8], run: usize, out: &mut String) {
        if !self.shifted || self.fresh || self.bits != 0 || self.count >= 6 || self.high.is_some() {
            return;
        }
        // At the end of a run there are less than six bits more than its characters have.
        let is_complete = |sextets: usize| (sextets * 6 + self.count as usize) % 16 < 6;
        let is_one_of_its_own = rest.first() == Some(&b'+') && (run - 1) * 6 % 16 < 6;
        if rest.get(run) != Some(&b'-') || !is_complete(run) || is_one_of_its_own {
            self.end_run(out);
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8], out: &mut String) {
        for &byte in bytes {
            match (self.shifted, value(byte)) {
                (true, Some(value)) => self.sextet(value, out),
                (true, None) => {
                    let plus = self.fresh && byte == b'-';
                    self.end_run(out);
                    match byte {
                        b'-' if plus => out.push('+'),
                        b'-' => {}
                        _ => self.plain(byte, out),
                    }
                }
                (false, _) => self.plain(byte, out),
            }
        }
    }

    pub(super) fn finish(mut self, out: &mut String) {
        self.end_run(out);
    }

    fn plain(&mut self, byte: u8, out: &mut String) {
        if byte == b'+' {
            (self.shifted, self.fresh) = (true, true);
        } else {
            // RFC 2152: bytes above 0x7f are not UTF-7; they are kept in their most likely meaning.
            out.push(super::guess::windows_1252(byte));
        }
    }

    fn sextet(&mut self, value: u8, out: &mut String) {
        self.fresh = false;
        self.bits = self.bits << 6 | u32::from(value);
        self.count += 6;
        if self.count >= 16 {
            self.count -= 16;
            self.unit((self.bits >> self.count) as u16, out);
            self.bits &= (1 << self.count) - 1;
        }
    }

    /// One UTF-16 code unit.
    fn unit(&mut self, unit: u16, out: &mut String) {
        let high = self.high.take();
        if let (Some(high), 0xdc00..=0xdfff) = (high, unit) {
            let pair = char::decode_utf16([high, unit]);
            out.extend(pair.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)));
            return;
        }
        if high.is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
        match unit {
            0xd800..=0xdbff => self.high = Some(unit),
            _ => out.push(char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }

    fn end_run(&mut self, out: &mut String) {
        if self.high.is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
        *self = Utf7::default();
    }
}

/// The number of base64 bytes at the beginning.
pub(super) fn run(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| value(**byte).is_some()).count()
}

fn value(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}
