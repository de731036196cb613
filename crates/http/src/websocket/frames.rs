//! WebSocket frames (RFC 6455 §5): decodes those of clients from pieces of any size, and encodes those of the
//! server.
//!
//! The decoder takes no memory for a message of more than [`HTTP_SMALL_MESSAGE_BYTES`] before
//! [`Decoded::Large`] has announced its size.

use sealpost_base::limits::HTTP_SMALL_MESSAGE_BYTES;

/// The most bytes in the payload of a control frame (§5.5).
const CONTROL_BYTES: u64 = 125;

/// The decoder's output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// A large message begins: its size in bytes, or the maximum size if it has fragments.
    Large(usize),
    /// A text message.
    Text(Vec<u8>),
    /// Respond with a pong that has the same payload.
    Ping(Vec<u8>),
    /// The client closes the connection.
    Close,
}

/// Why a connection ends: the status codes of §7.4.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseCode {
    /// The response to the client's close.
    Normal = 1000,
    /// The server stops.
    GoingAway = 1001,
    /// The client violates RFC 6455.
    Protocol = 1002,
    /// Not a text message.
    Unsupported = 1003,
    /// Not UTF-8.
    NotUtf8 = 1007,
    /// The login is no longer valid.
    Policy = 1008,
    /// The message is too large.
    TooLarge = 1009,
    /// The server failed.
    Internal = 1011,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opcode {
    Continuation,
    Text,
    Close,
    Ping,
    Pong,
}

/// Decodes frames.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// The most bytes in a message.
    most: usize,
    head: Vec<u8>,
    frame: Option<Frame>,
    /// The message received so far.
    message: Vec<u8>,
    /// Whether more fragments follow.
    is_fragmented: bool,
    /// The payload of the current control frame.
    control: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    opcode: Opcode,
    is_final: bool,
    mask: [u8; 4],
    read: u64,
    length: u64,
}

impl Decoder {
    /// A decoder for messages of at most `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        let (head, message, control) = Default::default();
        Decoder { most, head, frame: None, message, is_fragmented: false, control }
    }

    /// Whether no part of a message has arrived.
    pub(crate) fn is_idle(&self) -> bool {
        self.head.is_empty() && self.frame.is_none() && !self.is_fragmented
    }

    /// Decodes from the front of `input` and advances it. `None` if more input is needed.
    ///
    /// # Errors
    /// The code to close the connection with. Do not call `decode` again after it.
    pub(crate) fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Decoded>, CloseCode> {
        loop {
            let Some(frame) = &mut self.frame else {
                if !self.read_head(input)? {
                    return Ok(None);
                }
                if let Some(large) = self.is_large() {
                    return Ok(Some(Decoded::Large(large)));
                }
                continue;
            };
            let left = usize::try_from(frame.length - frame.read).unwrap_or(usize::MAX);
            let (now, rest) = input.split_at(input.len().min(left));
            *input = rest;
            let is_control = frame.opcode.is_control();
            let payload = if is_control { &mut self.control } else { &mut self.message };
            let mask = frame.mask;
            let keys = (frame.read..).map(|at| mask[(at % 4) as usize]);
            payload.extend(now.iter().zip(keys).map(|(byte, key)| byte ^ key));
            frame.read += now.len() as u64;
            if frame.read < frame.length {
                return Ok(None);
            }
            let frame = *frame;
            self.frame = None;
            if let Some(decoded) = self.complete(frame)? {
                return Ok(Some(decoded));
            }
        }
    }

    /// Reads the head of a frame; returns whether it is complete.
    fn read_head(&mut self, input: &mut &[u8]) -> Result<bool, CloseCode> {
        loop {
            if let Some(frame) = frame(&self.head)? {
                self.check(&frame)?;
                self.head.clear();
                self.frame = Some(frame);
                return Ok(true);
            }
            let Some((byte, rest)) = input.split_first() else { return Ok(false) };
            self.head.push(*byte);
            *input = rest;
        }
    }

    /// Checks that the frame is allowed at this point.
    fn check(&self, frame: &Frame) -> Result<(), CloseCode> {
        if frame.opcode.is_control() {
            // §5.5: control frames may come between fragments, but cannot have fragments.
            let is_allowed = frame.is_final && frame.length <= CONTROL_BYTES;
            return if is_allowed { Ok(()) } else { Err(CloseCode::Protocol) };
        }
        if (frame.opcode == Opcode::Continuation) != self.is_fragmented {
            return Err(CloseCode::Protocol);
        }
        let bytes = frame.length.saturating_add(self.message.len() as u64);
        if bytes > self.most as u64 { Err(CloseCode::TooLarge) } else { Ok(()) }
    }

    /// The size to announce, if the message becomes large with the current frame.
    fn is_large(&mut self) -> Option<usize> {
        let frame = self.frame.as_ref().filter(|frame| !frame.opcode.is_control())?;
        let bytes = self.message.len() + usize::try_from(frame.length).unwrap_or(usize::MAX);
        if bytes <= HTTP_SMALL_MESSAGE_BYTES || self.message.capacity() >= bytes {
            return None;
        }
        let most = if frame.is_final { bytes } else { self.most };
        Some(most)
    }

    /// Grants the memory for the current message, in bytes.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.message.reserve_exact(bytes.min(self.most).saturating_sub(self.message.len()));
    }

    fn complete(&mut self, frame: Frame) -> Result<Option<Decoded>, CloseCode> {
        let control = std::mem::take(&mut self.control);
        match frame.opcode {
            Opcode::Ping => return Ok(Some(Decoded::Ping(control))),
            Opcode::Pong => return Ok(None),
            // §5.5.1: the payload is a status code of two bytes and a reason.
            Opcode::Close if control.len() == 1 => return Err(CloseCode::Protocol),
            Opcode::Close => return Ok(Some(Decoded::Close)),
            Opcode::Text | Opcode::Continuation => self.is_fragmented = !frame.is_final,
        }
        if self.is_fragmented {
            return Ok(None);
        }
        let message = std::mem::take(&mut self.message);
        match std::str::from_utf8(&message) {
            Ok(_) => Ok(Some(Decoded::Text(message))),
            Err(_) => Err(CloseCode::NotUtf8),
        }
    }
}

impl Opcode {
    fn is_control(self) -> bool {
        matches!(self, Opcode::Close | Opcode::Ping | Opcode::Pong)
    }
}

/// Parses the head of a frame (§5.2). `None` if it is incomplete.
fn frame(head: &[u8]) -> Result<Option<Frame>, CloseCode> {
    let [first, second, rest @ ..] = head else { return Ok(None) };
    let opcode = match first & 0x0f {
        0 => Opcode::Continuation,
        1 => Opcode::Text,
        2 => return Err(CloseCode::Unsupported),
        8 => Opcode::Close,
        9 => Opcode::Ping,
        10 => Opcode::Pong,
        _ => return Err(CloseCode::Protocol),
    };
    // No extension was negotiated, and clients must mask frames (§5.1).
    if first & 0x70 != 0 || second & 0x80 == 0 {
        return Err(CloseCode::Protocol);
    }
    let (length, rest) = match second & 0x7f {
        126 => match rest.split_first_chunk() {
            Some((bytes, rest)) => (u64::from(u16::from_be_bytes(*bytes)), rest),
            None => return Ok(None),
        },
        127 => match rest.split_first_chunk() {
            Some((bytes, rest)) => (u64::from_be_bytes(*bytes), rest),
            None => return Ok(None),
        },
        short => (u64::from(short), rest),
    };
    let Some(mask) = rest.first_chunk() else { return Ok(None) };
    Ok(Some(Frame { opcode, is_final: first & 0x80 != 0, mask: *mask, read: 0, length }))
}

/// The content of a server's frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// A message, or its first fragment.
    Text,
    /// A later fragment.
    Continuation,
    Close,
    Ping,
    Pong,
}

/// Encodes a frame.
pub(crate) fn write(out: &mut Vec<u8>, kind: Outgoing, is_final: bool, payload: &[u8]) {
    let opcode = match kind {
        Outgoing::Continuation => 0,
        Outgoing::Text => 1,
        Outgoing::Close => 8,
        Outgoing::Ping => 9,
        Outgoing::Pong => 10,
    };
    out.push(u8::from(is_final) << 7 | opcode);
    match payload.len() {
        short @ 0..=125 => out.push(short as u8),
        medium @ 126..=0xffff => {
            out.push(126);
            out.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        long => {
            out.push(127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 100_000;

    /// Encodes a client's frame.
    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![first];
        match payload.len() {
            short @ 0..=125 => frame.push(0x80 | short as u8),
            medium @ 126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&(medium as u16).to_be_bytes());
            }
            long => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(long as u64).to_be_bytes());
            }
        }
        let mask = [1, 2, 3, 4];
        frame.extend_from_slice(&mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
        frame
    }

    /// Decodes in pieces of that size, and grants memory whenever the decoder requests it.
    fn decode(bytes: &[u8], piece: usize) -> Result<Vec<Decoded>, CloseCode> {
        let (mut decoder, mut all) = (Decoder::new(MOST), Vec::new());
        for mut input in bytes.chunks(piece) {
            while let Some(decoded) = decoder.decode(&mut input)? {
                match decoded {
                    Decoded::Large(bytes) => decoder.reserve(bytes),
                    decoded => all.push(decoded),
                }
            }
            assert!(input.is_empty());
        }
        Ok(all)
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // §5.7: a masked "Hello"; the other examples masked as a client does.
        let hello = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        let text = |text: &str| Decoded::Text(text.into());
        assert_eq!(decode(&hello, 1), Ok(vec![text("Hello")]));
        let fragments = [masked(0x01, b"Hel"), masked(0x89, b"Hello"), masked(0x80, b"lo")].concat();
        assert_eq!(decode(&fragments, 3), Ok(vec![Decoded::Ping(b"Hello".to_vec()), text("Hello")]));
        assert_eq!(decode(&masked(0x88, &[3, 232]), 9), Ok(vec![Decoded::Close]));
        assert_eq!(decode(&masked(0x8a, b"x"), 9), Ok(vec![]));
        let mut out = Vec::new();
        write(&mut out, Outgoing::Text, true, b"Hello");
        assert_eq!(out, [0x81, 5, 0x48, 0x65, 0x6c, 0x6c, 0x6f]);
        out.clear();
        write(&mut out, Outgoing::Text, true, &[7; 256]);
        assert_eq!(out[..4], [0x81, 0x7e, 1, 0]);
        out.clear();
        write(&mut out, Outgoing::Continuation, false, &[7; 65_536]);
        assert_eq!(out[..10], [0, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn frames_that_are_not_allowed_close_the_connection() {
        for (bytes, code) in [
            (masked(0x82, b"x"), CloseCode::Unsupported),
            (masked(0x83, b"x"), CloseCode::Protocol),
            (masked(0xc1, b"x"), CloseCode::Protocol),
            (masked(0x80, b"x"), CloseCode::Protocol),
            (masked(0x09, b"x"), CloseCode::Protocol),
            (masked(0x89, &[7; 126]), CloseCode::Protocol),
            (masked(0x88, b"x"), CloseCode::Protocol),
            (vec![0x81, 1, b'x'], CloseCode::Protocol),
            (masked(0x81, b"\xff"), CloseCode::NotUtf8),
            ([masked(0x01, b"a"), masked(0x81, b"b")].concat(), CloseCode::Protocol),
            (masked(0x81, &[b'x'; MOST + 1]), CloseCode::TooLarge),
            (
                vec![0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
                CloseCode::TooLarge,
            ),
            ([masked(0x01, &[b'x'; MOST]), masked(0x80, b"x")].concat(), CloseCode::TooLarge),
        ] {
            assert_eq!(decode(&bytes, 7), Err(code), "{:?}", &bytes[..bytes.len().min(20)]);
        }
    }

    #[test]
    fn memory_is_wanted_before_a_large_message_comes() {
        let mut decoder = Decoder::new(MOST);
        let message = [b'x'; HTTP_SMALL_MESSAGE_BYTES + 1];
        let frame = masked(0x81, &message);
        assert_eq!(decoder.decode(&mut &frame[..8]), Ok(Some(Decoded::Large(message.len()))));
        let mut decoder = Decoder::new(MOST);
        let mut frames = &[masked(0x01, &message[1..]), masked(0x00, b"x")].concat()[..];
        assert_eq!(decoder.decode(&mut frames), Ok(Some(Decoded::Large(MOST))));
        assert!(!decoder.is_idle());
    }

    proptest! {
        #[test]
        fn messages_are_read_in_any_pieces(
            texts in prop::collection::vec(".{0,300}", 0..5), piece in 1usize..50, fragment in 1usize..100,
        ) {
            let mut bytes = Vec::new();
            for text in &texts {
                let mut fragments: Vec<&[u8]> = text.as_bytes().chunks(fragment).collect();
                if fragments.is_empty() {
                    fragments.push(b"");
                }
                for (at, payload) in fragments.iter().enumerate() {
                    let opcode = u8::from(at == 0);
                    let last = u8::from(at + 1 == fragments.len()) << 7;
                    bytes.extend(masked(opcode | last, payload));
                }
            }
            let expected = texts.into_iter().map(|text| Decoded::Text(text.into_bytes())).collect();
            prop_assert_eq!(decode(&bytes, piece), Ok(expected));
        }
    }
}
