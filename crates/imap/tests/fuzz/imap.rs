//! Entry points for fuzzers: any bytes, and the invariants for them. Panics are findings.

use bytes::Bytes;

use sealpost_imap::client::{self, ResponseDecoder};
use sealpost_imap::parse;
use sealpost_imap::server::{self, Decoder};
use sealpost_imap::types::{CommandBody, Response};
use sealpost_imap::write::{Literals, Writer};

/// A client's side of a connection. The first byte says how the rest is divided; the events must
/// not depend on it, and a parsed command must parse to the same value after it is written.
pub fn fuzz_command(data: &[u8]) {
    let Some((&seed, input)) = data.split_first() else { return };
    let limits = server::Limits {
        command_bytes: 500,
        append_bytes: Some(100 + u64::from(seed)),
        non_sync_bytes: (seed % 2 == 1).then_some(64),
        skipped_bytes: 2000,
        skipped_command_bytes: 1000,
    };
    let whole = server_events(limits, input, usize::MAX, seed);
    assert_eq!(whole, server_events(limits, input, 1, seed), "one byte at a time");
    assert_eq!(whole, server_events(limits, input, 2 + usize::from(seed % 64), seed), "in pieces");
    for event in whole {
        let server::Event::Command(command) = event else { continue };
        let mut writer = Writer::with_literals(Literals::NonSynchronizing);
        writer.command(&command);
        assert_eq!(parse::command(writer.as_bytes(), false), Ok(command));
    }
}

fn server_events(limits: server::Limits, input: &[u8], piece: usize, seed: u8) -> Vec<server::Event> {
    use server::Event;
    let mut decoder = Decoder::new(limits);
    decoder.set_utf8(seed & 64 != 0);
    let mut events: Vec<Event> = Vec::new();
    for piece in input.chunks(piece) {
        decoder.feed(piece);
        while let Some(event) = decoder.next() {
            match &event {
                Event::Command(command) => match command.body {
                    CommandBody::Idle | CommandBody::Authenticate { .. } => decoder.expect_line(),
                    CommandBody::StartTls if seed & 128 != 0 => return events,
                    _ => {}
                },
                Event::AppendMessage(message) if !message.flags.is_empty() => decoder.refuse_append(),
                Event::AppendUrl(url) if url.as_bytes().len() == 3 => decoder.refuse_append(),
                _ => {}
            }
            match (events.last_mut(), event) {
                (Some(Event::AppendData(before)), Event::AppendData(more)) => {
                    *before = Bytes::from([&before[..], &more[..]].concat());
                }
                (_, event) => events.push(event),
            }
        }
        let most = limits.command_bytes.max(sealpost_base::limits::IMAP_LINE_BYTES);
        assert!(decoder.pending() <= most + piece.len(), "memory is bounded");
    }
    events
}

/// A server's side of a connection: the events must not depend on the division, and a response
/// written and read again must stay as it is.
pub fn fuzz_response(data: &[u8]) {
    let Some((&seed, input)) = data.split_first() else { return };
    let limits = client::Limits { inline_bytes: 20, response_bytes: 1000 };
    let whole = client_events(limits, input, usize::MAX);
    assert_eq!(whole, client_events(limits, input, 1), "one byte at a time");
    assert_eq!(whole, client_events(limits, input, 2 + usize::from(seed % 64)), "in pieces");
    for event in whole {
        let client::Event::Response(response) = event else { continue };
        if matches!(response, Response::Other(_) | Response::ListUndecodable { .. }) {
            continue;
        }
        // Text for people loses non-ASCII characters when it is written, once.
        let once = rewritten(&response);
        assert_eq!(rewritten(&once), once);
    }
}

fn rewritten(response: &Response) -> Response {
    let mut writer = Writer::new();
    writer.response(response);
    let wire = writer.as_bytes();
    match parse::response(wire, false) {
        Ok(response) => response,
        Err(reason) => panic!("{reason}: {}", wire.escape_ascii()),
    }
}

fn client_events(limits: client::Limits, input: &[u8], piece: usize) -> Vec<client::Event> {
    use client::Event;
    let mut decoder = ResponseDecoder::new(limits);
    let mut events: Vec<Event> = Vec::new();
    for piece in input.chunks(piece) {
        decoder.feed(piece);
        while let Some(event) = decoder.next() {
            match (events.last_mut(), event) {
                (Some(Event::LiteralData(before)), Event::LiteralData(more)) => {
                    *before = Bytes::from([&before[..], &more[..]].concat());
                }
                (_, event) => events.push(event),
            }
        }
        assert!(decoder.pending() <= limits.response_bytes + piece.len(), "memory is bounded");
    }
    events
}
