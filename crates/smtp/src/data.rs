//! Mail data of the DATA command: its transparency (RFC 5321 §4.5.2) and its end.
//!
//! Only `<CRLF>.<CRLF>` ends it, and only a dot after `<CRLF>` is removed (RFC 5321 §2.3.8, §4.1.1.4).
//! Everything else, bare CR and LF, NUL and 8-bit bytes among it, passes unchanged. A line of one dot whose
//! line ends are not both CRLF (`\n.\n`, `\r\n.\r\r\n`, `\n.\r\n`, …) is an end to some servers and not to
//! others: the way one message is smuggled inside another. Such data passes too, and [`End::lookalike`]
//! reports it, so that the caller can refuse the message at its real end. No memory is used.

use bytes::{Buf, Bytes, BytesMut};

/// The end of mail data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Whether the data held bytes that another server would take for its end.
    pub lookalike: bool,
}

/// A piece of mail data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the message.
    Data(Bytes),
    /// `<CRLF>.<CRLF>`: a command follows.
    End(End),
}

/// The state of the input before the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// CRLF, or the DATA command: a line begins.
    LineStart,
    /// Within a line.
    Middle,
    /// CR, already passed on.
    Cr,
    /// A bare LF, already passed on: for other servers, a line begins.
    BareLf,
    /// A dot at the start of a line, held back.
    Dot,
    /// A dot at the start of a line and CR, both held back.
    DotCr,
    /// A dot after a bare CR or LF, already passed on.
    LooseDot,
}

/// Removes the dots and finds the end.
#[derive(Debug)]
pub struct DataDecoder {
    state: State,
    lookalike: bool,
}

impl Default for DataDecoder {
    fn default() -> Self {
        DataDecoder { state: State::LineStart, lookalike: false }
    }
}

/// The action for a byte.
enum Step {
    /// It belongs to the message; next state.
    Keep(State),
    /// It is held back or dropped; next state.
    Hold(State),
    /// The CR held back belongs to the message; look at the same byte again after it.
    GiveCr,
    /// The end.
    End,
}

impl DataDecoder {
    /// A decoder at the start of mail data.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece from the front of `input`; `None` when it is used up. After
    /// [`Piece::End`], the rest of `input` is not mail data.
    pub fn next_piece(&mut self, input: &mut BytesMut) -> Option<Piece> {
        let mut kept = 0;
        while let Some(&byte) = input.get(kept) {
            if self.state == State::Middle {
                // The fast path: bytes before the next CR or LF pass unchanged.
                let rest = &input[kept..];
                let plain = memchr::memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
                if plain > 0 {
                    kept += plain;
                    continue;
                }
            }
            match self.step(byte) {
                Step::Keep(state) => {
                    self.state = state;
                    kept += 1;
                }
                // Data before the byte comes first; the next call reads the byte again.
                Step::Hold(_) | Step::End if kept > 0 => {
                    return Some(Piece::Data(input.split_to(kept).freeze()));
                }
                Step::Hold(state) => {
                    self.state = state;
                    input.advance(1);
                }
                Step::GiveCr => {
                    self.lookalike = true;
                    self.state = State::Cr;
                    return Some(Piece::Data(Bytes::from_static(b"\r")));
                }
                Step::End => {
                    input.advance(1);
                    return Some(Piece::End(End { lookalike: self.lookalike }));
                }
            }
        }
        (kept > 0).then(|| Piece::Data(input.split_to(kept).freeze()))
    }

    fn step(&mut self, byte: u8) -> Step {
        match (self.state, byte) {
            (State::LineStart, b'.') => Step::Hold(State::Dot),
            (State::Cr, b'\n') => Step::Keep(State::LineStart),
            (State::Cr | State::BareLf, b'.') => Step::Keep(State::LooseDot),
            (State::Dot, b'\r') => Step::Hold(State::DotCr),
            (State::DotCr, b'\n') => Step::End,
            // ".", CR and no LF: for some servers CR alone ends the line of the dot.
            (State::DotCr, _) => Step::GiveCr,
            (State::Dot, b'\n') | (State::LooseDot, b'\r' | b'\n') => {
                self.lookalike = true;
                Step::Keep(if byte == b'\r' { State::Cr } else { State::BareLf })
            }
            (_, b'\r') => Step::Keep(State::Cr),
            (_, b'\n') => Step::Keep(State::BareLf),
            _ => Step::Keep(State::Middle),
        }
    }
}

/// Adds the dots and the end (RFC 5321 §4.5.2), for a client.
///
/// Bare CR and LF pass unchanged: a message that holds a look-alike of the end should go by BDAT instead.
#[derive(Debug, Default)]
pub struct DataEncoder {
    /// How many bytes of CRLF the data so far ends with; `None` before the first byte.
    crlf: Option<u8>,
}

impl DataEncoder {
    /// An encoder at the start of a message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `data` in its transparent form.
    pub fn push(&mut self, data: &[u8], out: &mut BytesMut) {
        let mut rest = data;
        while let Some(&first) = rest.first() {
            if first == b'.' && matches!(self.crlf, None | Some(2)) {
                out.extend_from_slice(b".");
            }
            // Up to and with the next LF, where the next line may begin.
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |lf| lf + 1);
            let (line, after) = rest.split_at(end);
            out.extend_from_slice(line);
            self.crlf = Some(match line {
                [.., b'\r', b'\n'] => 2,
                [b'\n'] if self.crlf == Some(1) => 2,
                [.., b'\r'] => 1,
                _ => 0,
            });
            rest = after;
        }
    }

    /// Appends the end, after the CRLF that the message may lack (RFC 5321 §4.1.1.4).
    pub fn finish(self, out: &mut BytesMut) {
        if !matches!(self.crlf, None | Some(2)) {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b".\r\n");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes `wire` cut at `cuts`; message, end, and the rest of the input.
    fn decode(wire: &[u8], cuts: &[usize]) -> (Vec<u8>, Option<End>, Vec<u8>) {
        let mut decoder = DataDecoder::new();
        let (mut message, mut input, mut fed) = (Vec::new(), BytesMut::new(), 0);
        for &cut in cuts.iter().chain([&wire.len()]) {
            let cut = cut.clamp(fed, wire.len());
            input.extend_from_slice(&wire[fed..cut]);
            fed = cut;
            while let Some(piece) = decoder.next_piece(&mut input) {
                match piece {
                    Piece::Data(data) => message.extend_from_slice(&data),
                    Piece::End(end) => {
                        let rest = [&input[..], &wire[fed..]].concat();
                        return (message, Some(end), rest);
                    }
                }
            }
        }
        (message, None, Vec::new())
    }

    #[test]
    fn known_answers() {
        let clean = Some(End { lookalike: false });
        for (wire, message) in [
            ("a\r\n.\r\nQUIT\r\n", "a\r\n"),
            (".\r\nQUIT\r\n", ""),
            ("..\r\n.\r\nQUIT\r\n", ".\r\n"),
            ("...a\r\n.\r\nQUIT\r\n", "..a\r\n"),
            (".a\r\n.\r\nQUIT\r\n", "a\r\n"),
            ("a\n.b\r\n.\r\nQUIT\r\n", "a\n.b\r\n"),
            ("a\n..\n\r\n.\r\nQUIT\r\n", "a\n..\n\r\n"),
            ("\r\r\n.\r\nQUIT\r\n", "\r\r\n"),
            ("\0\u{7f}\r\n.\r\nQUIT\r\n", "\0\u{7f}\r\n"),
        ] {
            let (got, end, rest) = decode(wire.as_bytes(), &[]);
            assert_eq!((got.as_slice(), end), (message.as_bytes(), clean), "{wire:?}");
            assert_eq!(rest, b"QUIT\r\n", "{wire:?}");
        }
    }

    /// A line of one dot with line ends other than CRLF is no end, and is reported.
    #[test]
    fn lookalikes_of_the_end() {
        let ends = ["\r\n", "\n", "\r"];
        for before in ends {
            for after in ends {
                if (before, after) == ("\r\n", "\r\n") {
                    continue;
                }
                let data = format!("a{before}.{after}MAIL FROM:<x@y>\r\n");
                let (message, end, rest) = decode(format!("{data}.\r\nQUIT").as_bytes(), &[]);
                assert_eq!(end, Some(End { lookalike: true }), "{data:?}");
                assert_eq!(rest, b"QUIT");
                if before != "\r\n" {
                    assert_eq!(message, data.as_bytes(), "byte-exact");
                }
            }
        }
        for first in [".\nX", ".\rX", ".\r\rX", ".\r.\rX"] {
            let (_, end, _) = decode(format!("{first}\r\n.\r\n").as_bytes(), &[]);
            assert_eq!(end, Some(End { lookalike: true }), "{first:?} as the first line");
        }
    }

    fn mail_bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            3 => Just(b'.'), 3 => Just(b'\r'), 3 => Just(b'\n'), 2 => Just(b'a'), 1 => any::<u8>()
        ];
        proptest::collection::vec(byte, 0..64)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn cuts_change_nothing(wire in mail_bytes(), cuts in proptest::collection::vec(0usize..64, 0..8)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let every: Vec<usize> = (0..wire.len()).collect();
            let whole = decode(&wire, &[]);
            prop_assert_eq!(&whole, &decode(&wire, &cuts));
            prop_assert_eq!(&whole, &decode(&wire, &every));
        }

        #[test]
        fn the_end_is_where_a_plain_search_finds_it(wire in mail_bytes()) {
            let framed = [b"\r\n", wire.as_slice()].concat();
            let expected = framed.windows(5).position(|w| w == b"\r\n.\r\n").map(|at| framed[at + 5..].to_vec());
            let (_, end, rest) = decode(&wire, &[]);
            prop_assert_eq!(end.map(|_| rest), expected);
        }

        #[test]
        fn encoded_data_decodes_to_itself(mut message in mail_bytes(), cut in 0usize..64) {
            let (mut encoder, mut wire) = (DataEncoder::new(), BytesMut::new());
            let (head, tail) = message.split_at(cut.min(message.len()));
            encoder.push(head, &mut wire);
            encoder.push(tail, &mut wire);
            encoder.finish(&mut wire);
            if !message.is_empty() && !message.ends_with(b"\r\n") {
                message.extend_from_slice(b"\r\n");
            }
            let (got, end, rest) = decode(&wire, &[]);
            prop_assert_eq!(got, message);
            prop_assert!(end.is_some() && rest.is_empty());
        }
    }
}
