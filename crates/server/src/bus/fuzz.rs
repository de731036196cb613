//! Entry function for fuzzing: it takes any bytes, and panics if an invariant is broken. In the
//! library, so that the corpus is replayed by the ordinary tests too.

use sealpost_base::limits::{BUS_LINE_BYTES, BUS_MESSAGE_BYTES};

use super::protocol::{Decoder, Line, hint, publish};

/// What a bus may send. The first byte decides how the rest is cut; what is read must not depend on it.
///
/// # Panics
/// If cutting changes the result, if more is kept than the limits say, or if a hint does not
/// survive being written again.
pub fn fuzz_bus(data: &[u8]) {
    let Some((&cut, wire)) = data.split_first() else { return };
    let whole = read(wire, wire.len().max(1));
    assert_eq!(whole, read(wire, usize::from(cut % 32) + 1), "cutting changes the result");
    for line in &whole {
        let Some(Line::Message(message)) = line else { continue };
        assert!(message.len() <= BUS_MESSAGE_BYTES);
        if let Some(said) = hint(message) {
            let written = publish("s", &[said]);
            assert_eq!(written.split("\r\n").nth(1).and_then(|again| hint(again.as_bytes())), Some(said));
        }
    }
}

/// The lines of `wire`, which comes in pieces; `None` at the end if it is none of the protocol.
fn read(wire: &[u8], piece: usize) -> Vec<Option<Line>> {
    let (mut decoder, mut lines) = (Decoder::default(), Vec::new());
    for piece in wire.chunks(piece) {
        decoder.push(piece);
        loop {
            match decoder.next() {
                Ok(Some(line)) => lines.push(Some(line)),
                Ok(None) => break,
                Err(_) => {
                    lines.push(None);
                    return lines;
                }
            }
        }
        assert!(decoder.waiting() <= BUS_LINE_BYTES, "{} bytes wait", decoder.waiting());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn every_input_that_once_was_interesting_stays_harmless() {
        sealpost_testkit::corpus::replay_cuts(env!("CARGO_MANIFEST_DIR"), "bus", fuzz_bus);
    }

    #[test]
    fn a_line_without_end_is_refused_however_it_comes() {
        for bytes in [BUS_LINE_BYTES, BUS_LINE_BYTES + 1] {
            let wire = [&b"-ERR "[..], &vec![b'x'; bytes - 5], b"\nPING\r\n"].concat();
            for piece in [1, 4096, wire.len()] {
                assert_eq!(
                    read(&wire, piece).last().unwrap().is_some(),
                    bytes == BUS_LINE_BYTES,
                    "{bytes} {piece}"
                );
            }
        }
    }

    #[test]
    fn messages_that_are_too_long_are_left_out() {
        let wire =
            [&b"MSG s 1 257\r\n"[..], &[b'\n'; 257], b"\r\nMSG s 1 256\r\n", &[b'y'; 256], b"\r\nPING\r\n"]
                .concat();
        let expected = vec![Some(Line::Message(vec![b'y'; 256])), Some(Line::Ping)];
        assert_eq!(read(&wire, 1), expected);
        assert_eq!(read(&wire, wire.len()), expected);
        let never = format!("MSG s 1 {}\r\n{}", u64::MAX, "x".repeat(100));
        assert_eq!(read(never.as_bytes(), 3), []);
    }
}
