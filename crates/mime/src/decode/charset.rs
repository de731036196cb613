//! Charsets to Unicode, streaming (encoding_rs), with a guess where a label is missing, wrong or not known.
//!
//! The guess, used for no label, `us-ascii`, `utf-8` and labels nobody knows: what is valid UTF-8 is UTF-8, any other
//! byte is windows-1252. It loses nothing and needs no look ahead.

mod utf7;

use encoding_rs::{Decoder, Encoding, UTF_8, WINDOWS_1252};

use utf7::Utf7;

/// Decodes one text that arrives in pieces.
pub struct CharsetDecoder(State);

enum State {
    /// UTF-8 with windows-1252 for the bytes that are not, and the start of a sequence that was cut.
    Guess {
        held: [u8; 4],
        len: u8,
    },
    Known(Box<Decoder>),
    Utf7(Utf7),
}

impl CharsetDecoder {
    /// A decoder for the charset with this label, in any case; the guess if it is not known.
    pub fn new(label: Option<&str>) -> Self {
        if label.is_some_and(is_utf7) {
            return CharsetDecoder(State::Utf7(Utf7::default()));
        }
        match label.and_then(known) {
            // With sniffing: `utf-16` without a byte order mark is little-endian here, with one it is what the mark says.
            Some(encoding) => CharsetDecoder(State::Known(Box::new(encoding.new_decoder()))),
            None => CharsetDecoder(State::Guess { held: [0; 4], len: 0 }),
        }
    }

    /// Appends what `bytes` say.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        match &mut self.0 {
            State::Guess { held, len } => guess(held, len, bytes, out),
            State::Known(decoder) => decode_known(decoder, bytes, false, out),
            State::Utf7(decoder) => decoder.push(bytes, out),
        }
    }

    /// Ends the text; a sequence that was cut short is given out as damage.
    pub fn finish(self, out: &mut String) {
        match self.0 {
            State::Guess { held, len } => {
                out.extend(held[..usize::from(len)].iter().map(|&b| windows_1252(b)))
            }
            State::Known(mut decoder) => decode_known(&mut decoder, b"", true, out),
            State::Utf7(decoder) => decoder.finish(out),
        }
    }
}

/// All of `bytes` in the charset with this label.
pub fn decode(label: Option<&str>, bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    let mut decoder = CharsetDecoder::new(label);
    decoder.push(bytes, &mut out);
    decoder.finish(&mut out);
    out
}

/// True for a charset label that is decoded as such and not by the guess.
pub fn is_known(label: &str) -> bool {
    is_utf7(label)
        || known(label).is_some()
        || UTF_8 == Encoding::for_label(label.as_bytes()).unwrap_or(WINDOWS_1252)
}

/// encoding_rs leaves UTF-7 out, as browsers must; old Outlook mail is full of it.
fn is_utf7(label: &str) -> bool {
    let label = label.trim();
    ["utf-7", "utf7", "unicode-1-1-utf-7", "x-unicode-2-0-utf-7"]
        .iter()
        .any(|name| label.eq_ignore_ascii_case(name))
}

/// The encoding of a label, unless the guess is the better decoder for it.
fn known(label: &str) -> Option<&'static Encoding> {
    let label = label.trim();
    // Names in mail that the WHATWG list lacks.
    let label = match label.to_ascii_lowercase().as_str() {
        "iso-2022-jp-ms" | "iso-2022-jp-1" | "iso-2022-jp-2" | "cp50220" | "cp50221" => "iso-2022-jp",
        "cp932" | "ms932" | "windows-932" => "shift_jis",
        "cp936" | "ms936" => "gbk",
        "cp949" | "ms949" | "ks_c_5601" | "uhc" => "euc-kr",
        "cp950" => "big5",
        "cp1250" => "windows-1250",
        "koi8r" => "koi8-r",
        "utf16" => "utf-16",
        // windows-1252 is what WHATWG makes of it; the guess also reads UTF-8 that is mislabelled as ASCII.
        "us-ascii" | "ascii" | "ansi_x3.4-1968" | "unknown-8bit" | "x-unknown" | "default" => return None,
        _ => label,
    };
    Encoding::for_label_no_replacement(label.as_bytes()).filter(|encoding| *encoding != UTF_8)
}

fn decode_known(decoder: &mut Decoder, mut bytes: &[u8], last: bool, out: &mut String) {
    loop {
        let slice = &bytes[..bytes.len().min(16 * 1024)];
        let end = last && slice.len() == bytes.len();
        out.reserve(decoder.max_utf8_buffer_length(slice.len()).unwrap_or(slice.len() * 4 + 16).max(16));
        let (_, read, _) = decoder.decode_to_string(slice, out, end);
        bytes = &bytes[read..];
        if bytes.is_empty() {
            return;
        }
    }
}

fn windows_1252(byte: u8) -> char {
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

fn guess(held: &mut [u8; 4], len: &mut u8, mut bytes: &[u8], out: &mut String) {
    // A sequence cut between two pieces is completed byte by byte; after that the piece is taken whole.
    while *len > 0 {
        let Some((&byte, rest)) = bytes.split_first() else { return };
        held[usize::from(*len)] = byte;
        *len += 1;
        bytes = rest;
        let sequence = *held;
        let taken = guess_run(&sequence[..usize::from(*len)], out);
        held.copy_within(taken..usize::from(*len), 0);
        *len -= taken as u8;
    }
    let taken = guess_run(bytes, out);
    let rest = &bytes[taken..];
    held[..rest.len()].copy_from_slice(rest);
    *len = rest.len() as u8;
}

/// Decodes as much of `bytes` as is decided and says how much that was; at most three bytes, the start of a sequence, are
/// left.
fn guess_run(bytes: &[u8], out: &mut String) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labelled_text() {
        assert_eq!(decode(Some("ISO-8859-1"), b"caf\xe9"), "café");
        assert_eq!(decode(Some("iso-2022-jp"), b"\x1b$B$3$s$K$A$O\x1b(B"), "こんにちは");
        assert_eq!(decode(Some("gb18030"), b"\xc4\xe3\xba\xc3"), "你好");
        assert_eq!(decode(Some("koi8-r"), b"\xf0\xd2\xc9\xd7\xc5\xd4"), "Привет");
        assert_eq!(decode(Some("cp932"), b"\x93\xfa\x96{"), "日本");
        assert_eq!(decode(Some("utf-16"), b"\xfe\xff\0h\0i"), "hi");
        assert_eq!(decode(Some("utf-7"), b"Hi Mom -+Jjo--+ACE-!+- +ZeVnLIqe"), "Hi Mom -\u{263a}-!!+ 日本語");
        assert_eq!(decode(Some("UTF-7"), b"+2D3eAA-+ADw b+2D3-"), "\u{1f600}< b\u{fffd}");
        assert!(is_known("UTF-8") && is_known("big5") && !is_known("x-nonsense"));
    }

    #[test]
    fn the_guess_reads_both() {
        assert_eq!(decode(None, "grün".as_bytes()), "grün");
        assert_eq!(decode(None, b"gr\xfcn \x80 gr\xc3\xbcn"), "grün € grün");
        assert_eq!(decode(Some("x-nonsense"), b"gr\xfcn"), "grün");
        assert_eq!(decode(Some("us-ascii"), b"\xe2\x82"), "â‚");
        for byte in 0x80..=0xff {
            assert_eq!(decode(None, &[byte]), WINDOWS_1252.decode(&[byte]).0);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn cuts_do_not_matter(pieces in proptest::collection::vec(proptest::collection::vec(
            prop_oneof![Just(0xe2u8), Just(0x82), Just(0xac), Just(0xf0), Just(b'a'), Just(b'+'), Just(b'-'), Just(b'2'), Just(0x1b), Just(b'$'), any::<u8>()], 0..5), 0..6)) {
            for label in [None, Some("utf-7"), Some("gb18030"), Some("iso-2022-jp"), Some("utf-16be"), Some("shift_jis")] {
                let mut decoder = CharsetDecoder::new(label);
                let mut out = String::new();
                pieces.iter().for_each(|piece| decoder.push(piece, &mut out));
                decoder.finish(&mut out);
                prop_assert_eq!(out, decode(label, &pieces.concat()));
            }
        }
    }
}
