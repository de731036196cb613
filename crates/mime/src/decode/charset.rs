//! Charsets to Unicode, streaming, with a guess where a label is missing, wrong or not known.
//!
//! encoding_rs decodes what browsers know. Mail has more: charsets that switch codes by escapes
//! ([`iso2022`], [`hz`], [`utf7`]), those of DOS ([`single_byte`]), [`utf32`] and [`johab`].
//! [`label`] says which name means what.
//!
//! The guess, used without a label, for `us-ascii`, `utf-8` and unknown labels: valid UTF-8 is
//! UTF-8, any other byte is windows-1252. It loses nothing and needs no look ahead.

mod guess;
mod hz;
mod iso2022;
mod johab;
mod label;
mod pairs;
mod single_byte;
mod sniff;
mod utf16;
mod utf32;
mod utf7;

use encoding_rs::Decoder;

use guess::Guess;
pub(crate) use guess::windows_1252;
use hz::Hz;
use iso2022::Iso2022;
use johab::Johab;
use label::Decoding;
use single_byte::SingleByte;
use sniff::Sniff;
use utf7::Utf7;
use utf16::Utf16;
use utf32::Utf32;

/// Decodes one text that arrives in pieces.
pub struct CharsetDecoder(State);

enum State {
    Guess(Guess),
    Whatwg(Box<Decoder>),
    Utf16(Box<Utf16>),
    SingleByte(SingleByte),
    Iso2022(Box<Iso2022>),
    Hz(Hz),
    Johab(Johab),
    Utf7(Utf7),
    Utf32(Utf32),
    /// The beginning of a body that may declare its charset.
    Sniff(Sniff),
}

impl CharsetDecoder {
    /// A decoder for the charset with this label, in any case; the guess if it is not known.
    pub fn new(label: Option<&str>) -> Self {
        CharsetDecoder(State::of(label.and_then(label::find).unwrap_or(Decoding::Guess)))
    }

    /// A decoder for the body of a text part with this label. Where the guess would decode it, a
    /// byte order mark goes first, and in HTML then the charset of `<meta>`, unless the label says
    /// UTF-8.
    pub fn of_body(label: Option<&str>, html: bool) -> Self {
        match label.and_then(label::find) {
            None | Some(Decoding::Guess) => CharsetDecoder(State::Sniff(Sniff::new(html))),
            Some(Decoding::Utf8) => CharsetDecoder(State::Sniff(Sniff::new(false))),
            Some(known) => CharsetDecoder(State::of(known)),
        }
    }

    /// Appends the text of `bytes`.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        match &mut self.0 {
            State::Guess(decoder) => decoder.push(bytes, out),
            State::Whatwg(decoder) => decode_whatwg(decoder, bytes, false, out),
            State::Utf16(decoder) => decoder.push(bytes, out),
            State::SingleByte(decoder) => decoder.push(bytes, out),
            State::Iso2022(decoder) => decoder.push(bytes, out),
            State::Hz(decoder) => decoder.push(bytes, out),
            State::Johab(decoder) => decoder.push(bytes, out),
            State::Utf7(decoder) => decoder.push(bytes, out),
            State::Utf32(decoder) => decoder.push(bytes, out),
            State::Sniff(sniff) => {
                if let Some((decoding, held)) = sniff.push(bytes) {
                    self.0 = State::of(decoding);
                    self.push(&held, out);
                }
            }
        }
    }

    /// Ends the text; an incomplete sequence is damage.
    pub fn finish(self, out: &mut String) {
        match self.0 {
            State::Guess(decoder) => decoder.finish(out),
            State::Whatwg(mut decoder) => decode_whatwg(&mut decoder, b"", true, out),
            State::Utf16(decoder) => decoder.finish(out),
            State::SingleByte(_) => {}
            State::Iso2022(decoder) => decoder.finish(out),
            State::Hz(decoder) => decoder.finish(out),
            State::Johab(decoder) => decoder.finish(out),
            State::Utf7(decoder) => decoder.finish(out),
            State::Utf32(decoder) => decoder.finish(out),
            State::Sniff(sniff) => {
                let (decoding, held) = sniff.finish();
                let mut decoder = CharsetDecoder(State::of(decoding));
                decoder.push(&held, out);
                decoder.finish(out);
            }
        }
    }
}

impl State {
    fn of(decoding: Decoding) -> Self {
        match decoding {
            Decoding::Guess | Decoding::Utf8 => State::Guess(Guess::default()),
            Decoding::Utf16 => State::Utf16(Box::default()),
            Decoding::Whatwg(encoding) => State::Whatwg(Box::new(encoding.new_decoder())),
            Decoding::SingleByte(name) => {
                SingleByte::named(name).map_or(State::Guess(Guess::default()), State::SingleByte)
            }
            Decoding::Iso2022(variant) => State::Iso2022(Box::new(Iso2022::new(variant))),
            Decoding::Hz => State::Hz(Hz::default()),
            Decoding::Johab => State::Johab(Johab::default()),
            Decoding::Utf7 => State::Utf7(Utf7::default()),
            Decoding::Utf32(order) => State::Utf32(Utf32::new(order)),
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

/// The bytes of neighbouring encoded-words in the charset with this label, as one text.
///
/// A charset that switches codes begins each encoded-word in ASCII (RFC 2047 §3, §6.2), so each is
/// decoded separately. Only where a word ends in another code, and the next escape switches back,
/// or where it ends inside an escape or a character, the word is continued: a program has cut the
/// text without regard to that. In all other charsets the words are decoded together, because
/// programs split characters.
pub fn decode_words(label: &str, words: &[Vec<u8>]) -> String {
    let mut out = String::new();
    let all = words.concat();
    match label::find(label) {
        Some(Decoding::Iso2022(variant)) => {
            let mut decoder = Iso2022::new(variant);
            for (word, continued) in words.iter().zip(continued(words, &iso2022::escapes(&all))) {
                decoder.begin_word(continued, &mut out);
                decoder.push(word, &mut out);
            }
            decoder.finish(&mut out);
        }
        Some(Decoding::Hz) => {
            let mut decoder = Hz::default();
            for (word, continued) in words.iter().zip(continued(words, &hz::escapes(&all))) {
                decoder.begin_word(continued, &mut out);
                decoder.push(word, &mut out);
            }
            decoder.finish(&mut out);
        }
        Some(Decoding::Utf7) => {
            let mut decoder = Utf7::default();
            let (mut begins, mut run_ends) = (0, 0);
            for word in words {
                if run_ends <= begins {
                    run_ends = begins + utf7::run(&all[begins..]);
                }
                decoder.begin_word(&all[begins..], run_ends - begins, &mut out);
                decoder.push(word, &mut out);
                begins += word.len();
            }
            decoder.finish(&mut out);
        }
        _ => out = decode(Some(label), &all),
    }
    out
}

/// For each word, whether the next escape, in it or after it, switches back to ASCII. `escapes`:
/// where those of all the words begin, and whether they do.
fn continued(words: &[Vec<u8>], escapes: &[(usize, bool)]) -> Vec<bool> {
    let mut escapes = escapes.iter().peekable();
    let mut begins = 0;
    let of_word = |word: &Vec<u8>| {
        while escapes.next_if(|(at, _)| *at < begins).is_some() {}
        begins += word.len();
        escapes.peek().is_some_and(|(_, returns)| *returns)
    };
    words.iter().map(of_word).collect()
}

/// True for a charset label that is decoded as such and not by the guess.
pub fn is_known(label: &str) -> bool {
    label::find(label).is_some()
}

/// True for a label under which text is read as UTF-8, and bytes that are not UTF-8 by the guess.
pub fn is_guessed(label: Option<&str>) -> bool {
    matches!(label.and_then(label::find), None | Some(Decoding::Guess | Decoding::Utf8))
}

fn decode_whatwg(decoder: &mut Decoder, mut bytes: &[u8], last: bool, out: &mut String) {
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

#[cfg(test)]
mod tests;
