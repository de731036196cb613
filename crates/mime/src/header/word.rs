//! Encoded-words (RFC 2047): decoding, with tolerance for real mail.
//!
//! White space between two encoded-words is dropped (§6.2). Neighbours in one charset are decoded
//! together, because programs split multi-byte characters although §5 forbids it
//! ([`charset::decode_words`]). Encoded-words are found anywhere: next to other text, inside quoted
//! strings, with spaces in their text. Unparsable ones stay unchanged.

use crate::decode::charset;
use crate::decode::transfer::{Encoding, TransferDecoder};

/// `value` with its encoded-words decoded. CR, LF and NUL that were encoded become spaces: decoded
/// text is one line.
pub fn decode(value: &str) -> String {
    if !value.contains("=?") {
        return value.to_owned();
    }
    let mut out = String::with_capacity(value.len());
    let mut run: Option<Run> = None;
    let mut rest = value;
    // No encoded-word can end after the last `?=`: stopping there keeps a value full of openings
    // linear.
    let after_last = value.len() - value.rfind("?=").map_or(0, |at| at + 2);
    while let Some(start) = rest.find("=?").filter(|start| rest.len() - start > after_last) {
        let between = &rest[..start];
        let Some((word, after)) = parse(&rest[start..]) else {
            flush(&mut run, &mut out);
            out.push_str(&rest[..start + 2]);
            rest = &rest[start + 2..];
            continue;
        };
        let adjacent = run.is_some() && between.trim_matches([' ', '\t', '\r', '\n']).is_empty();
        if !adjacent {
            flush(&mut run, &mut out);
            out.push_str(between);
        }
        match &mut run {
            // RFC 2047 §2: an encoded-word is ASCII. Other characters are kept, the rest is
            // decoded.
            _ if !word.text.is_ascii() => {
                flush(&mut run, &mut out);
                word.mixed(&mut out);
            }
            Some(run) if run.continues(&word) => run.words.push(word.bytes()),
            _ => {
                flush(&mut run, &mut out);
                run = Some(Run { charset: word.charset.to_owned(), words: vec![word.bytes()] });
            }
        }
        rest = after;
    }
    flush(&mut run, &mut out);
    out.push_str(rest);
    out
}

/// One `=?charset?encoding?text?=`.
struct Word<'a> {
    charset: &'a str,
    base64: bool,
    text: &'a str,
}

/// Neighbouring encoded-words that are decoded together.
struct Run {
    charset: String,
    /// The bytes of each.
    words: Vec<Vec<u8>>,
}

impl Run {
    fn continues(&self, word: &Word) -> bool {
        self.charset.eq_ignore_ascii_case(word.charset)
    }
}

impl Word<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut decoder;
        if self.base64 {
            decoder = TransferDecoder::new(Encoding::Base64);
            decoder.push(self.text.as_bytes(), &mut out);
        } else {
            // RFC 2047 §4.2: as quoted-printable, with `_` for a space.
            let text = self.text.replace('_', " ");
            decoder = TransferDecoder::new(Encoding::QuotedPrintable);
            decoder.push(text.as_bytes(), &mut out);
        }
        decoder.finish(&mut out);
        out
    }

    /// The text of a word with non-ASCII characters.
    fn mixed(&self, out: &mut String) {
        let mut rest = self.text;
        while let Some(c) = rest.chars().next() {
            let end = rest.find(|d: char| d.is_ascii() != c.is_ascii()).unwrap_or(rest.len());
            let (text, more) = rest.split_at(end);
            if c.is_ascii() {
                let words = vec![Word { text, ..*self }.bytes()];
                flush(&mut Some(Run { charset: self.charset.to_owned(), words }), out);
            } else {
                out.push_str(text);
            }
            rest = more;
        }
    }
}

fn flush(run: &mut Option<Run>, out: &mut String) {
    if let Some(run) = run.take() {
        let text = charset::decode_words(&run.charset, &run.words);
        out.extend(text.chars().map(|c| if matches!(c, '\r' | '\n' | '\0') { ' ' } else { c }));
    }
}

/// The encoded-word at the start of `s`, and the text after it.
fn parse(s: &str) -> Option<(Word<'_>, &str)> {
    let (charset, rest) = s.strip_prefix("=?")?.split_once('?')?;
    let (encoding, rest) = rest.split_once('?')?;
    let base64 = match encoding {
        "B" | "b" => true,
        "Q" | "q" => false,
        _ => return None,
    };
    // RFC 2231 §5: a language may follow the charset.
    let charset = charset.split('*').next().unwrap_or_default();
    if charset.is_empty() || charset.len() > 64 || charset.contains(char::is_whitespace) {
        return None;
    }
    let end = rest.find("?=")?;
    let text = &rest[..end];
    Some((Word { charset, base64, text }, &rest[end + 2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_2047_section_8() {
        for (encoded, shown) in [
            ("=?ISO-8859-1?Q?a?=", "a"),
            ("=?ISO-8859-1?Q?a?= b", "a b"),
            ("=?ISO-8859-1?Q?a?= =?ISO-8859-1?Q?b?=", "ab"),
            ("=?ISO-8859-1?Q?a?=  =?ISO-8859-1?Q?b?=", "ab"),
            ("=?ISO-8859-1?Q?a?=\r\n    =?ISO-8859-1?Q?b?=", "ab"),
            ("=?ISO-8859-1?Q?a_b?=", "a b"),
            ("=?ISO-8859-1?Q?a?= =?ISO-8859-2?Q?_b?=", "a b"),
            ("=?US-ASCII?Q?Keith_Moore?= <moore@cs.utk.edu>", "Keith Moore <moore@cs.utk.edu>"),
            ("=?ISO-8859-1?Q?Andr=E9?= Pirard", "André Pirard"),
            (
                "=?ISO-8859-1?B?SWYgeW91IGNhbiByZWFkIHRoaXMgeW8=?=\r\n =?ISO-8859-2?B?dSB1bmRlcnN0YW5kIHRoZSBleGFtcGxlLg==?=",
                "If you can read this you understand the example.",
            ),
        ] {
            assert_eq!(decode(encoded), shown, "{encoded}");
        }
    }

    #[test]
    fn real_mail() {
        // A character cut in two, in both encodings.
        assert_eq!(decode("=?utf-8?B?w6TD?= =?utf-8?B?tg==?="), "äö");
        assert_eq!(decode("=?utf-8?Q?=E2=82?=\t=?UTF-8?Q?=AC?="), "€");
        assert_eq!(decode("\"=?utf-8?q?in_quotes?=\" <a@b>"), "\"in quotes\" <a@b>");
        assert_eq!(decode("x=?utf-8?q?glued?=y"), "xgluedy");
        assert_eq!(decode("=?utf-8?q?with space?="), "with space");
        assert_eq!(decode("=?utf-8*en?q?lang?="), "lang");
        assert_eq!(decode("=?iso-2022-jp?B?GyRCJDMkcyRLJEEkTxsoQg==?="), "こんにちは");
        assert_eq!(decode("=?nonsense?Q?caf=C3=A9?="), "café");
        assert_eq!(decode("=?utf-8?q?a=0D=0Ab?="), "a  b");
        assert_eq!(decode("=?utf-8?q?Really=3F?="), "Really?");
        assert_eq!(decode("=?iso-8859-1?Q?Fr\u{f6}sche_=FCber_?="), "Fr\u{f6}sche über ");
        assert_eq!(decode("=?utf-7?Q?Fr+APY-sche?="), "Frösche");
    }

    /// RFC 2047 §3, §6.2: a charset that switches codes begins each encoded-word in ASCII.
    #[test]
    fn stateful_encoded_words_are_decoded_separately() {
        let one = "東京都千代田区";
        assert_eq!(decode("=?ISO-2022-JP?B?GyRCRWw1fkVUQGlCZUVENmgbKEI=?="), one);
        assert_eq!(decode("=?ISO-2022-JP?B?GyRCRWw1fkVUGyhC?= =?iso-2022-jp?B?GyRCQGlCZUVENmgbKEI=?="), one);
        assert_eq!(
            decode("=?ISO-2022-JP?Q?=1B$BEl5~=1B(B?=\r\n =?ISO-2022-JP?Q?=1B$BET=1B(B?= x"),
            "東京都 x"
        );
        assert_eq!(decode("=?iso-2022-kr?Q?=1B$)C=0EGQ=0F?= =?iso-2022-kr?Q?=1B$)C=0E19=0F?="), "한국");
        assert_eq!(decode("=?utf-7?Q?+ZeU?= =?utf-7?Q?+Zyw-?="), "日本");
    }

    #[test]
    fn openings_without_an_end_are_linear() {
        let value = "=?a?q? ".repeat(200_000);
        assert_eq!(decode(&value), value);
        assert_eq!(decode(&format!("=?a?q?b?={value}")), format!("b{value}"));
    }

    #[test]
    fn malformed_encoded_words_stay_as_they_are() {
        for s in ["=?", "=?x", "=?utf-8?x?a?=", "=?utf-8?q?a", "=??q?a?=", "a =?= b", "=?utf-8?q"] {
            assert_eq!(decode(s), s);
        }
        assert_eq!(decode("=?x =?utf-8?q?ok?="), "=?x ok");
    }
}
