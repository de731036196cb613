//! Double-byte sets of ISO 2022, decoded by encoding_rs in their EUC forms.

use encoding_rs::{EUC_JP, EUC_KR, Encoding, GBK};

/// A set of characters of two bytes from 0x21 to 0x7e.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    /// JIS X 0208 and its relatives: 1978, 1983, 1990, and the first plane of JIS X 0213.
    Jis0208,
    /// JIS X 0212.
    Jis0212,
    /// GB 2312.
    Gb2312,
    /// KS X 1001.
    Ksx1001,
    /// An unsupported set, such as CNS 11643: each pair becomes U+FFFD.
    Unknown,
}

impl Set {
    fn encoding(self) -> &'static Encoding {
        match self {
            Set::Jis0208 | Set::Jis0212 | Set::Unknown => EUC_JP,
            Set::Gb2312 => GBK,
            Set::Ksx1001 => EUC_KR,
        }
    }
}

/// Pairs of bytes that wait to be decoded together.
#[derive(Debug)]
pub(super) struct Pairs {
    set: Set,
    lead: Option<u8>,
    run: Vec<u8>,
}

/// The most bytes that are decoded together.
const RUN_BYTES: usize = 1024;

impl Default for Pairs {
    fn default() -> Self {
        Pairs { set: Set::Unknown, lead: None, run: Vec::new() }
    }
}

impl Pairs {
    /// Takes one byte, with or without its highest bit, of a character of that set.
    pub(super) fn push(&mut self, set: Set, byte: u8, out: &mut String) {
        if set != self.set {
            self.end(out);
            self.set = set;
        }
        let Some(lead) = self.lead.take() else {
            self.lead = Some(byte);
            return;
        };
        match set {
            Set::Unknown => out.push(char::REPLACEMENT_CHARACTER),
            Set::Jis0212 => self.run.extend([0x8f, lead | 0x80, byte | 0x80]),
            _ => self.run.extend([lead | 0x80, byte | 0x80]),
        }
        if self.run.len() >= RUN_BYTES {
            self.decode(out);
        }
    }

    /// Whether the second byte of a character is missing.
    pub(super) fn is_half(&self) -> bool {
        self.lead.is_some()
    }

    /// Other text follows; half a character is damage.
    pub(super) fn end(&mut self, out: &mut String) {
        self.decode(out);
        if self.lead.take().is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }

    /// Decodes the complete pairs.
    pub(super) fn decode(&mut self, out: &mut String) {
        if !self.run.is_empty() {
            out.push_str(&self.set.encoding().decode_without_bom_handling(&self.run).0);
            self.run.clear();
        }
    }
}
