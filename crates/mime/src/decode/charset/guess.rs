//! UTF-8, with windows-1252 for the bytes that are not.

/// Decodes one text that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct Guess {
    /// The start of a sequence that was cut.
    held: [u8; 4],
    len: u8,
}

impl Guess {
    pub(super) fn push(&mut self, mut bytes: &[u8], out: &mut String) {
        let Guess { held, len } = self;
        // A sequence cut between two pieces is completed byte by byte; after that the piece is taken whole.
        while *len > 0 {
            let Some((&byte, rest)) = bytes.split_first() else { return };
            held[usize::from(*len)] = byte;
            *len += 1;
            bytes = rest;
            let sequence = *held;
            let taken = run(&sequence[..usize::from(*len)], out);
            held.copy_within(taken..usize::from(*len), 0);
            *len -= taken as u8;
        }
        let taken = run(bytes, out);
        let rest = &bytes[taken..];
        held[..rest.len()].copy_from_slice(rest);
        *len = rest.len() as u8;
    }

    pub(super) fn finish(self, out: &mut String) {
        out.extend(self.held[..usize::from(self.len)].iter().map(|&b| windows_1252(b)));
    }
}

/// Decodes the decided part of `bytes` and returns its length; at most three bytes, the start of a
/// sequence, are left.
fn run(bytes: &[u8], out: &mut String) -> usize {
    let mut rest = bytes;
    loop {
        match std::str::from_utf8(rest) {
            Ok(valid) => {
                out.push_str(valid);
                return bytes.len();
            }
            Err(error) => {
                let (valid, after) = rest.split_at(error.valid_up_to());
                out.push_str(std::str::from_utf8(valid).unwrap_or_default());
                if error.error_len().is_none() {
                    return bytes.len() - after.len();
                }
                // One byte at a time: the second byte of a broken sequence may begin a good one.
                out.push(windows_1252(after[0]));
                rest = &after[1..];
            }
        }
    }
}

/// The character of a byte in windows-1252, as browsers read it.
pub(crate) fn windows_1252(byte: u8) -> char {
    // The upper half differs from Latin-1 in 0x80–0x9f only; five of those are undefined and map to controls.
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
        '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}
