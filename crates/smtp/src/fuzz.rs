//! Entry functions for fuzzing: they take any bytes, and panic if an invariant is broken.
//!
//! They are in the library, so that the ordinary tests replay the corpus too.

use bytes::BytesMut;

use crate::parse::{self, ReplyDecoder};
use crate::server::{Decoder, Event};
use crate::types::Command;
use crate::write;

/// Input from a client. The first byte decides how the rest is cut; the events must not depend on
/// it.
///
/// # Panics
/// If cutting changes the events, or a parsed command does not survive being written and parsed again.
pub fn fuzz_server(data: &[u8]) {
    let Some((&cut, wire)) = data.split_first() else { return };
    let whole = events(wire, wire.len().max(1));
    assert_eq!(whole, events(wire, usize::from(cut % 32) + 1), "cutting changes the events");
    for event in &whole {
        if let Event::Command(command) = event {
            assert_survives(command);
        }
    }
}

/// Input from a server.
pub fn fuzz_replies(data: &[u8]) {
    let mut decoder = ReplyDecoder::new();
    for piece in data.chunks(7) {
        decoder.feed(piece);
        while let Ok(Some(reply)) = decoder.next_reply() {
            let mut out = BytesMut::new();
            write::reply(&reply, &mut out);
            assert!(out.is_ascii() && out.ends_with(b"\r\n"));
        }
    }
}

/// All events of `wire`, neighbouring data joined.
fn events(wire: &[u8], cut: usize) -> Vec<Event> {
    let mut decoder = Decoder::new();
    let mut events: Vec<Event> = Vec::new();
    for piece in wire.chunks(cut) {
        decoder.feed(piece);
        while let Some(event) = decoder.next_event() {
            if event == Event::Command(Command::Data) {
                decoder.begin_data();
            }
            match (events.last_mut(), event) {
                (Some(Event::Data(before)), Event::Data(data)) => {
                    *before = [&before[..], &data].concat().into()
                }
                (_, event) => events.push(event),
            }
        }
    }
    events
}

fn assert_survives(command: &Command) {
    let mut line = BytesMut::new();
    write::command(command, &mut line);
    let line = line.strip_suffix(b"\r\n").expect("every command ends with CRLF");
    let again = parse::command(line);
    assert_eq!(again.as_ref(), Ok(command), "{:?}", String::from_utf8_lossy(line));
}
