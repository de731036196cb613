//! Written values are read as the same.

use proptest::collection::vec;
use proptest::prelude::*;

use super::strategy;
use crate::client::{self, BodyName, FetchData, ResponseDecoder, Value};
use crate::parse;
use crate::server::{self, Decoder};
use crate::types::*;
use crate::write::{Literals, Writer};

pub(super) fn written(command: &Command, literals: Literals) -> Vec<u8> {
    let mut writer = Writer::with_literals(literals);
    writer.command(command);
    writer.as_bytes().to_vec()
}

/// Writes a FETCH response as the server does.
fn write_fetch(w: &mut Writer, number: u32, items: &[FetchData]) {
    w.fetch_begin(number);
    for (nth, item) in items.iter().enumerate() {
        w.raw(if nth == 0 { "" } else { " " });
        match item {
            FetchData::Uid(n) => w.raw("UID ").number(u64::from(*n)),
            FetchData::Flags(flags) => w.raw("FLAGS ").flags(flags),
            // The strategy makes neither.
            FetchData::FlagsInPart(flags, _) => w.raw("FLAGS ").flags(flags),
            FetchData::NoDate(_) => w.raw("INTERNALDATE NIL"),
            FetchData::InternalDate(time) => w.raw("INTERNALDATE ").date_time(*time),
            FetchData::Rfc822Size(n) => w.raw("RFC822.SIZE ").number(*n),
            FetchData::BinarySize(section, n) => w.raw("BINARY.SIZE").section(section).space().number(*n),
            FetchData::ModSeq(n) => w.raw("MODSEQ (").number(*n).close(),
            FetchData::Envelope(value) => write_value(w.raw("ENVELOPE "), value),
            FetchData::BodyStructure(value) => write_value(w.raw("BODYSTRUCTURE "), value),
            FetchData::Other(name, value) => write_value(w.raw(name.as_bytes()).space(), value),
            FetchData::Body(name, bytes) => {
                match name {
                    BodyName::Section { section, start } => {
                        w.body_section(section, start.map(|start| Partial { start, count: 1 }))
                    }
                    BodyName::Rfc822 => w.raw("RFC822"),
                    BodyName::Rfc822Header => w.raw("RFC822.HEADER"),
                    BodyName::Rfc822Text => w.raw("RFC822.TEXT"),
                };
                w.space();
                match bytes {
                    None => w.nil(),
                    Some(bytes) => w.literal(bytes),
                }
            }
        };
    }
    w.fetch_end();
}

fn write_value<'w>(w: &'w mut Writer, value: &Value) -> &'w mut Writer {
    match value {
        Value::Nil => w.nil(),
        Value::Atom(atom) => w.raw(atom),
        Value::String(bytes) => w.string(bytes),
        Value::List(items) => w.list(items, |w, item| {
            write_value(w, item);
        }),
    }
}

/// The events of `input` fed in pieces, streamed bodies put together again.
fn client_events(input: &[u8], pieces: &[usize]) -> Vec<client::Event> {
    let limits = client::Limits { inline_bytes: 64, response_bytes: 100_000 };
    let mut decoder = ResponseDecoder::new(limits);
    let mut events = Vec::new();
    let mut streamed: Option<(BodyName, Vec<u8>)> = None;
    let mut rest = input;
    let mut sizes = pieces.iter().cycle();
    loop {
        while let Some(event) = decoder.next() {
            match event {
                client::Event::LiteralBegin(name, size) => {
                    assert!(size > 64 && streamed.is_none());
                    streamed = Some((name, Vec::new()));
                }
                client::Event::LiteralData(data) => streamed.as_mut().unwrap().1.extend_from_slice(&data),
                client::Event::LiteralEnd => {
                    let (name, body) = streamed.take().unwrap();
                    events.push(client::Event::Fetch(FetchData::Body(name, Some(body))));
                }
                event => events.push(event),
            }
        }
        if rest.is_empty() {
            assert_eq!(decoder.pending(), 0);
            return events;
        }
        let size = (*sizes.next().unwrap_or(&1)).clamp(1, rest.len());
        decoder.feed(&rest[..size]);
        rest = &rest[size..];
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn commands(tag in strategy::tag(), body in strategy::body(), utf8 in any::<bool>()) {
        let command = Command { tag, body };
        for literals in [Literals::Synchronizing, Literals::NonSynchronizing] {
            let mut writer = Writer::with_literals(literals);
            writer.set_utf8(utf8);
            writer.command(&command);
            let wire = writer.as_bytes();
            prop_assert_eq!(parse::command(wire, utf8), Ok(command.clone()), "{}", wire.escape_ascii());
        }
    }

    #[test]
    fn commands_through_the_decoder(tag in strategy::tag(), body in strategy::body()) {
        let command = Command { tag, body };
        let mut writer = Writer::with_literals(Literals::Synchronizing);
        writer.command(&command);
        let mut decoder = Decoder::new(server::Limits::authenticated(0));
        let mut pieces = writer.take_pieces().into_iter().peekable();
        while let Some(piece) = pieces.next() {
            decoder.feed(&piece);
            if pieces.peek().is_some() {
                prop_assert_eq!(decoder.next(), Some(server::Event::NeedContinuation));
                prop_assert_eq!(decoder.next(), None);
            }
        }
        prop_assert_eq!(decoder.next(), Some(server::Event::Command(command)));
        prop_assert_eq!(decoder.next(), None);
    }

    #[test]
    fn appends(
        head in strategy::append_head(),
        messages in vec(
            (strategy::append_message(), vec(prop_oneof![
                strategy::append_literal().prop_map(Ok),
                strategy::astring().prop_map(Err),
            ], 1..4)),
            1..4,
        ),
    ) {
        use server::Event;
        let mut writer = Writer::with_literals(Literals::NonSynchronizing);
        writer.append(&head);
        let mut expected = vec![Event::AppendBegin(head.clone())];
        let most = if head.replaces.is_some() { 1 } else { messages.len() };
        for (mut message, parts) in messages.into_iter().take(most) {
            // A message that is not put together is one literal.
            message.catenate |= parts[0].is_err();
            writer.append_message(&message);
            expected.push(Event::AppendMessage(message.clone()));
            let parts = if message.catenate { &parts[..] } else { &parts[..1] };
            for (n, part) in parts.iter().enumerate() {
                if n > 0 {
                    writer.space();
                }
                match part {
                    Ok(literal) => {
                        if message.catenate && !literal.utf8 {
                            writer.raw("TEXT ");
                        }
                        let bytes = vec![b'x'; literal.size as usize];
                        writer.append_literal(*literal).raw(&bytes);
                        if literal.utf8 {
                            writer.close();
                        }
                        expected.push(Event::AppendLiteral(*literal));
                        if !bytes.is_empty() {
                            expected.push(Event::AppendData(bytes.into()));
                        }
                    }
                    Err(url) => {
                        writer.raw("URL ").astring(url.as_bytes());
                        expected.push(Event::AppendUrl(url.clone()));
                    }
                }
            }
            if message.catenate {
                writer.close();
            }
        }
        writer.crlf();
        expected.push(Event::AppendEnd);
        let mut decoder = Decoder::new(server::Limits::authenticated(1000));
        decoder.feed(writer.as_bytes());
        let found: Vec<Event> = std::iter::from_fn(|| decoder.next()).collect();
        prop_assert_eq!(found, expected, "{}", writer.as_bytes().escape_ascii());
    }

    #[test]
    fn responses(response in prop_oneof![4 => strategy::response(), 1 => strategy::search_response()], utf8 in any::<bool>()) {
        let mut writer = Writer::new();
        writer.set_utf8(utf8);
        writer.response(&response);
        let wire = writer.as_bytes();
        prop_assert_eq!(parse::response(wire, utf8), Ok(response), "{}", wire.escape_ascii());
    }

    #[test]
    fn streams_of_responses(
        items in vec(prop_oneof![
            strategy::response().prop_map(Ok),
            (1u32.., vec(strategy::fetch_data(), 1..5)).prop_map(Err),
        ], 1..5),
        pieces in vec(1usize..40, 1..5),
    ) {
        let mut writer = Writer::new();
        let mut expected = Vec::new();
        for item in items {
            match item {
                Ok(response) => {
                    writer.response(&response);
                    expected.push(client::Event::Response(response));
                }
                Err((number, data)) => {
                    write_fetch(&mut writer, number, &data);
                    expected.push(client::Event::FetchBegin(number));
                    expected.extend(data.into_iter().map(client::Event::Fetch));
                    expected.push(client::Event::FetchEnd);
                }
            }
        }
        for pieces in [&[usize::MAX][..], &[1], &pieces] {
            prop_assert_eq!(&client_events(writer.as_bytes(), pieces), &expected);
        }
    }
}
