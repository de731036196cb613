//! Converts a message with 8-bit parts for servers that accept 7 bits only (RFC 6152 §3), as a
//! stream.
//!
//! Two passes, because a part's header comes before its bytes: [`EightBitFinder`] finds the parts
//! that have bytes above 127, whatever their labels, and [`SevenBit`] encodes exactly these in
//! quoted-printable. All else passes byte for byte, except labels that are no longer true.
//! Signatures over the body have to be made after this.
//!
//! The output has no byte above 127: where such a byte has no encoding, in a header or in a part
//! that is labelled as encoded already, it becomes `?`. Memory is that of
//! [`crate::unbinary::Unbinary`].

use std::collections::BTreeSet;

use crate::unbinary::Unbinary;

/// The parts of a message that have bytes above 127, counted in the order of their headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EightBitParts(pub(crate) BTreeSet<u32>);

impl EightBitParts {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The first pass.
pub struct EightBitFinder(Unbinary, Vec<u8>);

impl Default for EightBitFinder {
    fn default() -> Self {
        Self::new()
    }
}

impl EightBitFinder {
    /// At the beginning of a message.
    pub fn new() -> Self {
        EightBitFinder(Unbinary::finding(), Vec::new())
    }

    /// Takes the next bytes of the message.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.push(bytes, &mut self.1);
        self.1.clear();
    }

    /// Ends the message; returns its parts with bytes above 127.
    pub fn finish(mut self) -> EightBitParts {
        self.0.finish(&mut self.1);
        EightBitParts(self.0.found())
    }
}

/// The second pass.
pub struct SevenBit(Unbinary, Vec<u8>);

impl SevenBit {
    /// At the beginning of the message in which [`EightBitFinder`] found `parts`.
    pub fn new(parts: EightBitParts) -> Self {
        SevenBit(Unbinary::quoting(parts.0), Vec::new())
    }

    /// Takes the next bytes and appends the converted ones: at most three times as many and soft
    /// line breaks.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.0.push(bytes, &mut self.1);
        self.give(out);
    }

    /// Ends the message.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.0.finish(&mut self.1);
        self.give(out);
    }

    fn give(&mut self, out: &mut Vec<u8>) {
        out.extend(self.1.drain(..).map(|byte| if byte.is_ascii() { byte } else { b'?' }));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::{Encoding, TransferDecoder};

    fn converted(message: &[u8], step: usize) -> Vec<u8> {
        let mut finder = EightBitFinder::new();
        message.chunks(step).for_each(|piece| finder.push(piece));
        let (mut encoder, mut out) = (SevenBit::new(finder.finish()), Vec::new());
        message.chunks(step).for_each(|piece| encoder.push(piece, &mut out));
        encoder.finish(&mut out);
        out
    }

    fn check(message: &str, expected: &str) {
        for step in [1, 7, 10_000] {
            let out = converted(message.as_bytes(), step);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn a_single_part() {
        check(
            "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\
             Grüße = \t\r\n.\r\n",
            "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Transfer-Encoding: quoted-printable\r\n\r\nGr=C3=BC=C3=9Fe =3D =09\r\n.\r\n",
        );
        // A label that was too careful; a message without labels.
        check("Content-Transfer-Encoding: 8bit\r\n\r\na\r\n", "Content-Transfer-Encoding: 7bit\r\n\r\na\r\n");
        check(
            "Subject: x\r\n\r\nä\r\n",
            "Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=unknown-8bit\r\n\
             Content-Transfer-Encoding: quoted-printable\r\n\r\n=C3=A4\r\n",
        );
        // Bytes without an encoding.
        check("Subject: ä\r\n\r\na\r\n", "Subject: ??\r\n\r\na\r\n");
        check(
            "Content-Transfer-Encoding: base64\r\n\r\nYQ==ä\r\n",
            "Content-Transfer-Encoding: base64\r\n\r\nYQ==??\r\n",
        );
    }

    #[test]
    fn only_parts_that_need_it_change() {
        check(
            "Content-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: 8bit\r\n\r\n--b\r\n\r\nplain\r\n\
             --b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nü\r\n\
             --b\r\nContent-Type: message/rfc822\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\
             Subject: in\r\nContent-Transfer-Encoding: 8bit\r\n\r\nö\r\n\
             --b\r\nContent-Transfer-Encoding: binary\r\n\r\nno ends\n\r\n--b--\r\n",
            "Content-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: 7bit\r\n\r\n--b\r\n\r\nplain\r\n\
             --b\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Transfer-Encoding: quoted-printable\r\n\r\n=C3=BC\r\n\
             --b\r\nContent-Type: message/rfc822\r\nContent-Transfer-Encoding: 7bit\r\n\r\n\
             Subject: in\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=C3=B6\r\n\
             --b\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nno ends=0A\r\n--b--\r\n",
        );
    }

    proptest! {
        #[test]
        fn a_body_survives_and_its_lines_are_short(
            body in proptest::collection::vec(
                prop_oneof![4 => any::<u8>(), 1 => Just(b'\r'), 1 => Just(b'\n'), 1 => Just(b' '), 1 => Just(b'=')], 0..400),
            step in 1usize..40,
        ) {
            let header = b"Content-Transfer-Encoding: binary\r\n\r\n";
            let out = converted(&[&header[..], &body].concat(), step);
            prop_assert!(out.is_ascii());
            let start = out.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
            let encoded = &out[start..];
            for line in encoded.split(|&b| b == b'\n') {
                prop_assert!(line.strip_suffix(b"\r").unwrap_or(line).len() <= 76);
            }
            let mut decoded = Vec::new();
            let mut decoder = TransferDecoder::new(Encoding::QuotedPrintable);
            decoder.push(encoded, &mut decoded);
            decoder.finish(&mut decoded);
            prop_assert_eq!(decoded, body);
        }
    }
}
