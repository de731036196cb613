//! Single-byte charsets that browsers do not support: code pages of DOS, of the Macintosh, and
//! others.
//!
//! The table is made by `crates/mime/tables/make.py`.

/// `name code points`, from 0x80 on, then `byte=code point` for bytes below that are not ASCII.
const TABLE: &str = include_str!("../../../tables/charsets.txt");

/// Decodes one text that arrives in pieces.
#[derive(Debug)]
pub(super) struct SingleByte {
    high: Box<[char; 128]>,
    low: Vec<(u8, char)>,
}

impl SingleByte {
    /// The charset with this name in the table.
    pub(super) fn named(name: &str) -> Option<Self> {
        let line = TABLE.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        let sign = |hex: &str| u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
        let mut high = Box::new([char::REPLACEMENT_CHARACTER; 128]);
        let mut low = Vec::new();
        for (at, entry) in line.split(' ').enumerate() {
            match entry.split_once('=') {
                Some((byte, hex)) => low.push((u8::from_str_radix(byte, 16).ok()?, sign(hex)?)),
                None => *high.get_mut(at)? = sign(entry)?,
            }
        }
        Some(SingleByte { high, low })
    }

    /// The names in the table.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        TABLE.lines().filter_map(|line| line.split(' ').next())
    }

    pub(super) fn push(&mut self, bytes: &[u8], out: &mut String) {
        out.extend(bytes.iter().map(|byte| match byte.checked_sub(0x80) {
            Some(at) => self.high[usize::from(at)],
            None => self.low.iter().find(|(b, _)| b == byte).map_or(char::from(*byte), |(_, c)| *c),
        }));
    }
}
