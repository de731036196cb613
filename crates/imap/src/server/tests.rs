//! The decoder: the events of each input, and that its division into pieces does not matter.

mod empty_literals;

use proptest::prelude::*;

use super::*;
use crate::types::{CommandBody, Flag, Mailbox, Replaces};

fn small() -> Limits {
    Limits {
        command_bytes: 100,
        append_bytes: Some(50),
        non_sync_bytes: None,
        skipped_bytes: 300,
        skipped_command_bytes: 300,
    }
}

/// The events of `input` fed in pieces of the given sizes, over and over; message data joined. A
/// session that wants lines after IDLE and AUTHENTICATE, and refuses messages for `no`.
fn events(limits: Limits, input: &[u8], pieces: &[usize]) -> Vec<Event> {
    let mut decoder = Decoder::new(limits);
    let mut events: Vec<Event> = Vec::new();
    let mut rest = input;
    let mut sizes = pieces.iter().cycle();
    loop {
        while let Some(event) = decoder.next() {
            match &event {
                Event::Command(command) => match command.body {
                    CommandBody::Idle | CommandBody::Authenticate { .. } => decoder.expect_line(),
                    _ => {}
                },
                Event::AppendBegin(head) if head.mailbox.as_str() == "no" => decoder.refuse_append(),
                Event::AppendUrl(url) if url.as_bytes() == b"no" => decoder.refuse_append(),
                Event::AppendLiteral(literal) if literal.size == 13 => decoder.refuse_append(),
                _ => {}
            }
            match (events.last_mut(), event) {
                (Some(Event::AppendData(before)), Event::AppendData(more)) => {
                    *before = Bytes::from([&before[..], &more[..]].concat());
                }
                (_, event) => events.push(event),
            }
        }
        if rest.is_empty() {
            return events;
        }
        let size = (*sizes.next().unwrap_or(&1)).clamp(1, rest.len());
        decoder.feed(&rest[..size]);
        rest = &rest[size..];
    }
}

#[test]
fn literal_minus_bounds_non_synchronizing_literals() {
    let limits = Limits { non_sync_bytes: Some(4), ..small() };
    check(limits, b"a LOGIN {4+}\r\nuser {4+}\r\npass\r\n", &["a LOGIN"]);
    check(
        limits,
        b"a LOGIN {5+}\r\nusers {4+}\r\npass\r\nb LOGIN {5}\r\nusers x\r\n",
        &["a BAD", "+", "b LOGIN"],
    );
    // RFC 7888 §5: TOOBIG if it is an APPEND, and only then.
    let found = events(limits, b"a APPEND x {5+}\r\nSubje\r\nb SELECT {5+}\r\ninbox\r\n", &[usize::MAX]);
    let codes: Vec<_> =
        found.iter().map(|event| matches!(event, Event::Bad { code: Some(Code::TooBig), .. })).collect();
    assert_eq!(codes, [true, false]);
}

fn brief(event: &Event) -> String {
    let tag = |tag: &Option<Tag>| tag.as_ref().map_or("-".to_owned(), Tag::to_string);
    match event {
        Event::Command(command) => format!("{} {}", command.tag, command.body.name()),
        Event::NeedContinuation => "+".into(),
        Event::AppendBegin(head) => match head.replaces {
            None => format!("{} APPEND", head.tag),
            Some(Replaces { uid, number }) => {
                format!("{} {}REPLACE {:?}", head.tag, if uid { "UID " } else { "" }, number.number())
            }
        },
        Event::AppendMessage(message) => if message.catenate { "catenate" } else { "message" }.into(),
        Event::AppendUrl(url) => format!("url {}", url.as_bytes().escape_ascii()),
        Event::AppendLiteral(literal) => {
            let utf8 = if literal.utf8 { "utf8 " } else { "" };
            let binary = if literal.binary { "~" } else { "" };
            format!("{utf8}{binary}{}{}", literal.size, if literal.sync { "" } else { "+" })
        }
        Event::AppendData(data) => format!("data {}", data.escape_ascii()),
        Event::AppendEnd => "end".into(),
        Event::Line(line) => format!("line {}", line.escape_ascii()),
        Event::Bad { tag: t, .. } => format!("{} BAD", tag(t)),
        Event::No { tag, code, .. } => format!("{tag} NO {code:?}"),
        Event::Http => "http".into(),
        Event::Fatal { .. } => "fatal".into(),
    }
}

fn check(limits: Limits, input: &[u8], expected: &[&str]) {
    for pieces in [&[usize::MAX][..], &[1], &[3, 7]] {
        let found: Vec<String> = events(limits, input, pieces).iter().map(brief).collect();
        assert_eq!(found, expected, "{} in {pieces:?}", input.escape_ascii());
    }
}

#[test]
fn a_line_of_http_ends_everything() {
    for line in
        ["GET / HTTP/1.1", "post /x HTTP/1.1", "OPTIONS * HTTP/1.1", "Host: mail.example", "Accept: */*"]
    {
        check(small(), format!("a NOOP\r\n{line}\r\nb NOOP\r\n").as_bytes(), &["a NOOP", "http"]);
    }
    let long = format!("GET /{} HTTP/1.1\r\nb NOOP\r\n", "x".repeat(small().command_bytes));
    check(small(), long.as_bytes(), &["http"]);
    // Any word is a tag.
    check(small(), b"GET NOOP\r\nHost: NOOP\r\nPOST X\r\n", &["GET NOOP", "Host: NOOP", "POST BAD"]);
}

#[test]
fn commands_and_literals() {
    check(small(), b"a NOOP\r\nb noop\nc LOGOUT \r\n", &["a NOOP", "b NOOP", "c LOGOUT"]);
    check(small(), b"a LOGIN {2}\r\nme {3}\r\n{}x\r\nb NOOP\r\n", &["+", "+", "a LOGIN", "b NOOP"]);
    check(small(), b"a LOGIN {2+}\r\nme {0+}\r\n\r\n", &["a LOGIN"]);
    check(small(), b"a LOGIN me {2+}\r\n\r\n\r\n", &["a LOGIN"]);
    check(small(), b"a LOGIN me {3+}\r\n\0\0\0\r\nb NOOP\r\n", &["a BAD", "b NOOP"]);
    check(
        small(),
        b"\r\na\r\n+ x\r\n(\r\na b\r\n\0\r\n",
        &["- BAD", "a BAD", "- BAD", "- BAD", "a BAD", "- BAD"],
    );
    check(small(), b"a SELECT A&B\r\nb SELECT \"A&-B\"\r\n", &["a NO Some(Cannot)", "b SELECT"]);
}

#[test]
fn literals_of_wrong_commands_are_not_requested() {
    check(small(), b"a FOO {3}\r\nb NOOP\r\n", &["a BAD", "b NOOP"]);
    check(small(), b"a NOOP {3}\r\nb NOOP\r\n", &["a BAD", "b NOOP"]);
    check(small(), b"a FOO {4+}\r\n\r\n\r\n {4+}\r\nxxxx\r\nb NOOP\r\n", &["a BAD", "b NOOP"]);
    check(small(), b"a LOGIN \"x{3}\r\nb NOOP\r\n", &["a BAD", "b NOOP"]);
    check(
        small(),
        b"a SEARCH TEXT ~{3}\r\nb SEARCH TEXT ~{3+}\r\nabc\r\nc NOOP\r\n",
        &["a BAD", "b BAD", "c NOOP"],
    );
}

#[test]
fn a_command_over_the_limit_is_skipped() {
    let long = format!("a LOGIN x {}\r\nb NOOP\r\n", "y".repeat(200));
    check(small(), long.as_bytes(), &["a BAD", "b NOOP"]);
    let exact = |n: usize| format!("a LOGIN x {}\r\nb NOOP\r\n", "y".repeat(n));
    check(small(), exact(89).as_bytes(), &["a LOGIN", "b NOOP"]);
    check(small(), exact(90).as_bytes(), &["a BAD", "b NOOP"]);
    check(small(), b"a LOGIN x {101}\r\nb NOOP\r\n", &["a BAD", "b NOOP"]);
    let literal = format!("a LOGIN x {{150+}}\r\n{} {{2+}}\r\n\r\n\r\nb NOOP\r\n", "y\n".repeat(75));
    check(small(), literal.as_bytes(), &["a BAD", "b NOOP"]);
    // In the middle of a long line begins a literal that must not be taken for commands.
    let hidden = format!("a LOGIN x {} {{9+}}\r\nb LOGOUT\n\r\nc NOOP\r\n", "y".repeat(120));
    check(small(), hidden.as_bytes(), &["a BAD", "c NOOP"]);
    let two = format!("a LOGIN {{90+}}\r\n{} {{90+}}\r\n{}\r\nc NOOP\r\n", "x".repeat(90), "y".repeat(90));
    check(small(), two.as_bytes(), &["a BAD", "c NOOP"]);
}

#[test]
fn too_much_of_it_is_fatal() {
    let endless = format!("a LOGIN x {}", "y".repeat(500));
    check(small(), endless.as_bytes(), &["fatal"]);
    check(small(), b"a LOGIN x {18446744073709551615+}\r\nb NOOP\r\n", &["fatal"]);
    check(small(), b"a LOGIN x {99999999999999999999+}\r\nb NOOP\r\n", &["fatal"]);
    check(
        small(),
        b"a APPEND x {9223372036854775807+}
b NOOP
",
        &["a APPEND", "message", "fatal"],
    );
    check(small(), b"a LOGIN x {18446744073709551615}\r\nb NOOP\r\n", &["a BAD", "b NOOP"]);
}

#[test]
fn literals_have_a_number() {
    let skipped_bytes = 1 << 20;
    let limits = Limits {
        command_bytes: 1 << 20,
        append_bytes: None,
        non_sync_bytes: None,
        skipped_bytes,
        skipped_command_bytes: skipped_bytes,
    };
    let mut input = b"a SEARCH".to_vec();
    for _ in 0..=limits::IMAP_LITERALS {
        input.extend_from_slice(b" TEXT {1+}\r\nx");
    }
    input.extend_from_slice(b"\r\nb NOOP\r\n");
    let found: Vec<String> = events(limits, &input, &[usize::MAX]).iter().map(brief).collect();
    assert_eq!(found, ["a BAD", "b NOOP"]);
}

#[test]
fn messages_stream() {
    let a = ["a APPEND", "message"];
    let with = |more: &[&'static str]| [&a[..], more].concat();
    check(small(), b"a APPEND x {5}\r\nhello\r\nb NOOP\r\n", &with(&["5", "data hello", "end", "b NOOP"]));
    check(
        small(),
        b"a append {1+}\r\nx (\\Seen) {5+}\r\nhe\r\nl\r\n",
        &with(&["5+", "data he\\r\\nl", "end"]),
    );
    check(
        small(),
        b"a APPEND {1}\r\nx {5+}\r\nhello\nb NOOP\r\n",
        &["+", "a APPEND", "message", "5+", "data hello", "end", "b NOOP"],
    );
    check(small(), b"a APPEND x {0}\r\n\r\nb NOOP\r\n", &with(&["0", "end", "b NOOP"]));
    check(small(), b"a APPEND x ~{3+}\r\n\0\x01\xff\r\n", &with(&["~3+", "data \\x00\\x01\\xff", "end"]));
    check(
        small(),
        b"a APPEND x {5+}\r\nab\0cd\r\nb NOOP\r\n",
        &with(&["5+", "data ab\\x00cd", "end", "b NOOP"]),
    );
    check(
        small(),
        b"a APPEND x {2+}\r\nab junk {1+}\r\n\n\r\nb NOOP\r\n",
        &with(&["2+", "data ab", "message", "a BAD", "b NOOP"]),
    );
    check(small(), b"a APPEND x {2+}\r\nab)\r\nb NOOP\r\n", &with(&["2+", "data ab", "a BAD", "b NOOP"]));
    check(small(), b"a APPEND x\r\nb NOOP\r\n", &["a APPEND", "a BAD", "b NOOP"]);
    check(small(), b"a APPEND x \"yesterday\" {5}\r\nb NOOP\r\n", &["a APPEND", "a BAD", "b NOOP"]);
    check(small(), b"a APPEND x (\\Seen {2+}\r\n\n\n\r\nb NOOP\r\n", &["a APPEND", "a BAD", "b NOOP"]);
}

/// RFC 3502
#[test]
fn many_messages_in_one_command() {
    check(
        small(),
        b"a APPEND x {2}\r\nab (\\Seen) {1+}\r\nc ~{0+}\r\n \r\nb NOOP\r\n",
        &[
            "a APPEND", "message", "2", "data ab", "message", "1+", "data c", "message", "~0+", "end",
            "b NOOP",
        ],
    );
    // The second is too big, or not wanted: a client that waits for it takes the answer for that.
    for (size, answer) in [(51, &["a NO Some(TooBig)", "b NOOP"][..]), (13, &["13", "b NOOP"])] {
        let expected = [&["a APPEND", "message", "2", "data ab", "message"], answer].concat();
        check(small(), format!("a APPEND x {{2}}\r\nab {{{size}}}\r\nb NOOP\r\n").as_bytes(), &expected);
    }
    let input =
        format!("a APPEND x {{2}}\r\nab {{13+}}\r\n{} {{3+}}\r\n\n\n\n\r\nb NOOP\r\n", "\n".repeat(13));
    check(small(), input.as_bytes(), &["a APPEND", "message", "2", "data ab", "message", "13+", "b NOOP"]);
    // The segment between two messages is bounded like a command.
    let flags = "x".repeat(120);
    check(
        small(),
        format!("a APPEND x {{1+}}\r\na ({flags}) {{1+}}\r\na\r\nb NOOP\r\n").as_bytes(),
        &["a APPEND", "message", "1+", "data a", "a BAD", "b NOOP"],
    );
}

/// RFC 4469
#[test]
fn messages_in_parts() {
    check(
        small(),
        b"a APPEND x (\\Seen) CATENATE (URL \"/a\" TEXT {2}\r\nab URL /b URL {2}\r\n/c TEXT {1+}\r\nd)\r\nb NOOP\r\n",
        &[
            "a APPEND", "catenate", "url /a", "2", "data ab", "url /b", "+", "url /c", "1+", "data d", "end",
            "b NOOP",
        ],
    );
    check(
        small(),
        b"a APPEND x CATENATE (URL /a) CATENATE (UTF8 (~{1+}\r\na) URL b) {1+}\r\nx\r\n",
        &[
            "a APPEND", "catenate", "url /a", "catenate", "utf8 ~1+", "data a", "url b", "message", "1+",
            "data x", "end",
        ],
    );
    check(small(), b"a APPEND x CATENATE ()\r\nb NOOP\r\n", &["a APPEND", "catenate", "a BAD", "b NOOP"]);
    check(
        small(),
        b"a APPEND x CATENATE (FILE y {1+}\r\n\n\r\nb NOOP\r\n",
        &["a APPEND", "catenate", "a BAD", "b NOOP"],
    );
    check(
        small(),
        b"a APPEND x CATENATE (TEXT {1+}\r\na\r\nb NOOP\r\n",
        &["a APPEND", "catenate", "1+", "data a", "a BAD", "b NOOP"],
    );
    check(
        small(),
        b"a APPEND x CATENATE (URL ~{1+}\r\na)\r\nb NOOP\r\n",
        &["a APPEND", "catenate", "a BAD", "b NOOP"],
    );
    check(small(), b"a APPEND x CATENATE (URL {99+}\r\n", &["a APPEND", "catenate"]);
}

#[test]
fn parts_that_are_refused() {
    let no = ["a APPEND", "catenate", "url no", "b NOOP"];
    check(small(), b"a APPEND x CATENATE (URL no URL y)\r\nb NOOP\r\n", &no);
    check(small(), b"a APPEND x CATENATE (URL no TEXT {3}\r\nb NOOP\r\n", &no);
    check(small(), b"a APPEND x CATENATE (URL no TEXT {3+}\r\n\n\n\n URL y)\r\nb NOOP\r\n", &no);
    check(small(), b"a APPEND x CATENATE (URL no URL {3}\r\nb NOOP\r\n", &no);
    check(small(), b"a APPEND x CATENATE (URL no URL {3+}\r\n\n\n\n URL {1+}\r\n\n)\r\nb NOOP\r\n", &no);
    // While a URL is waited for, too.
    let mut decoder = Decoder::new(small());
    decoder.feed(b"a APPEND x CATENATE (URL y URL {3}\r\n");
    for expected in ["a APPEND", "catenate", "url y", "+"] {
        assert_eq!(decoder.next().map(|event| brief(&event)).as_deref(), Some(expected));
    }
    decoder.refuse_append();
    decoder.feed(b"b NOOP\r\n");
    assert_eq!(decoder.next().map(|event| brief(&event)).as_deref(), Some("b NOOP"));
}

/// RFC 8508, RFC 6855 §4
#[test]
fn replace_and_utf8() {
    check(
        small(),
        b"a REPLACE 4 x {1+}\r\na\r\nb uid replace * x CATENATE (URL y)\r\n",
        &[
            "a REPLACE Some(4)",
            "message",
            "1+",
            "data a",
            "end",
            "b UID REPLACE None",
            "catenate",
            "url y",
            "end",
        ],
    );
    check(
        small(),
        b"a REPLACE 4 x {1+}\r\na {1+}\r\na\r\nb REPLACE 1:2 x {1}\r\nc REPLACE 1 x\r\nd UID REPLACE x {1+}\r\n\n\r\n",
        &["a REPLACE Some(4)", "message", "1+", "data a", "a BAD", "b BAD", "c REPLACE Some(1)", "c BAD", "d BAD"],
    );
    check(
        small(),
        b"a APPEND x UTF8 (~{1+}\r\na)\r\nb APPEND x UTF8 ({1+}\r\na)\r\n",
        &["a APPEND", "message", "utf8 ~1+", "data a", "end", "b APPEND", "message", "b BAD"],
    );
}

#[test]
fn messages_too_big_or_refused() {
    let a = ["a APPEND", "message"];
    let with = |more: &[&'static str]| [&a[..], more].concat();
    check(small(), b"a APPEND x {51}\r\nb NOOP\r\n", &with(&["a NO Some(TooBig)", "b NOOP"]));
    let big = format!("a APPEND x {{51+}}\r\n{}\r\nb NOOP\r\n", "\n".repeat(51));
    check(small(), big.as_bytes(), &with(&["a NO Some(TooBig)", "b NOOP"]));
    check(small(), b"a APPEND x {301+}\r\n", &with(&["fatal"]));
    check(small(), b"a APPEND no {5}\r\nb NOOP\r\n", &["a APPEND", "b NOOP"]);
    check(small(), b"a APPEND no {5+}\r\n\r\n\r\n\r\r\nb NOOP\r\n", &["a APPEND", "b NOOP"]);
    check(
        Limits::anonymous(),
        b"a APPEND x {5}\r\nb APPEND x {2+}\r\n\n\n\r\nc NOOP\r\n",
        &["a BAD", "b BAD", "c NOOP"],
    );
}

#[test]
fn an_append_in_full() {
    let input = b"a APPEND \"&AOk-\" (\\Seen $Work) \" 1-Feb-2026 10:00:00 +0100\" {3}\r\n";
    let events = events(small(), input, &[1]);
    let [Event::AppendBegin(head), Event::AppendMessage(message), Event::AppendLiteral(literal)] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(head.mailbox, Mailbox::new("é").unwrap());
    assert_eq!(message.flags, [Flag::Seen, Flag::new("$Work").unwrap()]);
    assert_eq!(message.date.unwrap().timestamp().seconds(), 1_769_936_400);
    assert!(literal.sync && !literal.binary && literal.size == 3);
}

#[test]
fn refusing_during_message_data() {
    let mut decoder = Decoder::new(small());
    decoder.feed(b"a APPEND x {6}\r\nab");
    for expected in ["a APPEND", "message", "6"] {
        assert_eq!(decoder.next().map(|event| brief(&event)).as_deref(), Some(expected));
    }
    assert_eq!(decoder.next(), Some(Event::AppendData(Bytes::from_static(b"ab"))));
    decoder.refuse_append();
    assert_eq!(decoder.next(), None);
    decoder.feed(b"\r\ncd\r\nb NOOP\r\n");
    assert_eq!(decoder.next().map(|event| brief(&event)).as_deref(), Some("b NOOP"));
}

#[test]
fn lines() {
    check(small(), b"a IDLE\r\nDONE\r\nb NOOP\r\n", &["a IDLE", "line DONE", "b NOOP"]);
    check(
        small(),
        b"a AUTHENTICATE PLAIN\r\nAG1lAHg=\r\nb NOOP\r\n",
        &["a AUTHENTICATE", "line AG1lAHg=", "b NOOP"],
    );
    check(small(), b"a IDLE\r\n{5+}\n", &["a IDLE", "line {5+}"]);
    let limits = Limits { skipped_command_bytes: 1 << 20, ..small() };
    let long = format!("a IDLE\r\n{} {{7+}}\r\nb NOOP\r\n", "x".repeat(limits::IMAP_LINE_BYTES));
    check(limits, long.as_bytes(), &["a IDLE", "- BAD", "b NOOP"]);
}

#[test]
fn clear_forgets() {
    let mut decoder = Decoder::new(small());
    decoder.feed(b"a STARTTLS\r\nb LOGIN x y\r\nc LOG");
    assert!(matches!(decoder.next(), Some(Event::Command(_))));
    decoder.clear();
    decoder.feed(b"((\r\n");
    assert_eq!(decoder.next().map(|event| brief(&event)).as_deref(), Some("- BAD"));
}

#[test]
fn a_skipped_command_is_not_held() {
    let mut decoder = Decoder::new(Limits { skipped_command_bytes: u64::MAX, ..small() });
    decoder.feed(b"a LOGIN x {1000000+}\r\n");
    for _ in 0..1000 {
        decoder.feed(&[b'x'; 1000]);
        assert_eq!(decoder.next(), None);
        assert_eq!(decoder.pending(), 0);
    }
    decoder.feed(b"\r\n");
    assert_eq!(decoder.next().map(|event| brief(&event)).as_deref(), Some("a BAD"));
}

#[test]
fn refused_commands_have_a_lower_bound_than_refused_messages() {
    let limits = Limits { skipped_bytes: 2000, skipped_command_bytes: 200, ..small() };
    let x = |n: usize| "x".repeat(n);
    // A message that is too large, and the rest of its command.
    check(
        limits,
        format!("a APPEND x {{2000+}}\r\n{}\r\nb NOOP\r\n", x(2000)).as_bytes(),
        &["a APPEND", "message", "a NO Some(TooBig)", "b NOOP"],
    );
    check(
        limits,
        format!("a APPEND x {{2000+}}\r\n{}{}", x(2000), x(201)).as_bytes(),
        &["a APPEND", "message", "fatal"],
    );
    // A command in which there is no message: lines, and literals.
    check(limits, format!("a NOOP {}\r\nb NOOP\r\n", x(190)).as_bytes(), &["a BAD", "b NOOP"]);
    check(limits, format!("a NOOP {}", x(300)).as_bytes(), &["fatal"]);
    check(limits, format!("a LOGIN x {{199+}}\r\n{}\r\nb NOOP\r\n", x(199)).as_bytes(), &["a BAD", "b NOOP"]);
    check(limits, format!("a LOGIN x {{201+}}\r\n{}\r\nb NOOP\r\n", x(201)).as_bytes(), &["fatal"]);
}

/// Streams in which commands, literals, messages and rubbish follow each other.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"a NOOP\r\n".to_vec()),
        Just(b"a IDLE\r\nDONE\r\n".to_vec()),
        Just(b"b LOGIN ".to_vec()),
        Just(b"c SEARCH TEXT ".to_vec()),
        Just(b"d APPEND x ".to_vec()),
        Just(b"d APPEND no ".to_vec()),
        Just(b"d UID REPLACE 1 x ".to_vec()),
        Just(b"CATENATE (TEXT ".to_vec()),
        Just(b" URL no TEXT ".to_vec()),
        Just(b" URL ".to_vec()),
        Just(b")".to_vec()),
        (0u32..130, any::<bool>(), any::<bool>()).prop_map(|(n, plus, binary)| {
            format!("{}{{{n}{}}}\r\n", if binary { "~" } else { "" }, if plus { "+" } else { "" })
                .into_bytes()
        }),
        proptest::collection::vec(any::<u8>(), 0..60),
        "[a-c {}+\"\r\n]{0,12}".prop_map(String::into_bytes),
        Just(b"\r\n".to_vec()),
    ];
    proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn any_division_gives_the_same_events(
        input in stream(),
        pieces in proptest::collection::vec(1usize..20, 1..6),
    ) {
        let whole = events(small(), &input, &[usize::MAX]);
        prop_assert_eq!(&whole, &events(small(), &input, &[1]));
        prop_assert_eq!(&whole, &events(small(), &input, &pieces));
    }
}

#[test]
fn no_password_is_printed() {
    let mut decoder = Decoder::new(Limits::anonymous());
    decoder.feed(b"1 LOGIN me c2VjcmV0cGFzcw==\r\n2 AUTHENTICATE PLAIN\r\n");
    assert!(!format!("{decoder:?}").contains("c2Vj"));
    let login = decoder.next();
    assert!(!format!("{login:?}").contains("c2Vj"), "{login:?}");
    decoder.next();
    decoder.expect_line();
    decoder.feed(b"c2VjcmV0cGFzcw==\r\n");
    let line = decoder.next();
    assert!(matches!(&line, Some(Event::Line(line)) if &line[..] == b"c2VjcmV0cGFzcw=="));
    let printed = format!("{line:?} {decoder:?}");
    assert!(!printed.contains("c2Vj") && !printed.contains("99, 50"), "{printed}");
    decoder.feed(b"3 LOGIN me {12+}\r\nc2VjcmV0");
    assert_eq!(decoder.next(), None);
    assert!(!format!("{decoder:?}").contains("c2Vj"));
}
