use proptest::prelude::*;

use super::*;
use crate::fuzz::fuzz_server;

/// A short name for each event; DATA always begins.
fn run(wire: &[u8], limit: usize, cut: usize) -> Vec<String> {
    let mut decoder = Decoder::with_line_limit(limit);
    let mut names: Vec<String> = Vec::new();
    for piece in wire.chunks(cut) {
        decoder.feed(piece);
        while let Some(event) = decoder.next_event() {
            match event {
                Event::Command(Command::Data) => decoder.begin_data(),
                Event::Command(Command::Auth(_)) => decoder.expect_auth_line(),
                _ => {}
            }
            match (names.last_mut(), event) {
                (Some(last), Event::Data(data)) if last.starts_with("data ") => {
                    last.push_str(&String::from_utf8_lossy(&data));
                }
                (_, Event::Data(data)) => names.push(format!("data {}", String::from_utf8_lossy(&data))),
                (_, Event::Command(Command::Bdat(chunk))) => names.push(format!("bdat {}", chunk.size)),
                (_, Event::Command(command)) => names.push(format!("{command:?}")),
                (_, Event::Bad(misuse)) => names.push(misuse.reply().code.to_string()),
                (_, Event::DataEnd(end)) => names.push(format!("end {}", end.lookalike)),
                (_, Event::AuthLine(line)) => names.push(format!("auth {}", line.expose())),
                (_, Event::ChunkEnd) => names.push("chunk end".into()),
                (_, Event::Fatal(fatal)) => names.push(format!("{fatal:?}")),
            }
        }
    }
    names
}

fn check(wire: impl AsRef<[u8]>, expected: &[&str]) {
    let wire = wire.as_ref();
    for cut in [1, 2, 3, 5, 7, wire.len()] {
        assert_eq!(run(wire, 64, cut), expected, "cut every {cut}");
    }
}

#[test]
fn commands_and_data_in_one_stream() {
    check(
        "NOOP\r\nDATA\r\na\r\n..b\r\n.\r\nRSET\r\n",
        &["Noop", "Data", "data a\r\n.b\r\n", "end false", "Rset"],
    );
    check("DATA\r\n.\r\nQUIT\r\n", &["Data", "end false", "Quit"]);
}

#[test]
fn the_line_after_a_challenge_is_no_command() {
    let auth = "Auth(Auth { mechanism: \"LOGIN\", initial: None })";
    check("AUTH LOGIN\r\nQUIT\r\nNOOP\r\n", &[auth, "auth QUIT", "Noop"]);
    check("AUTH LOGIN\r\n\r\nNOOP\r\n", &[auth, "auth ", "Noop"]);
    check("AUTH LOGIN\r\n*\r\nNOOP\r\n", &[auth, "auth *", "Noop"]);
    check("AUTH LOGIN\r\na b\r\nNOOP\r\n", &[auth, "500", "Noop"]);
    check("AUTH LOGIN\r\nGET / HTTP/1.1\r\nNOOP\r\n", &[auth, "500", "Noop"]);
    // Longer than a command may be here, and as long as an answer may be; then one longer.
    let longest = "x".repeat(limits::SMTP_AUTH_LINE_BYTES - 2);
    check(format!("AUTH LOGIN\r\n{longest}\r\nNOOP\r\n"), &[auth, &format!("auth {longest}"), "Noop"]);
    check(format!("AUTH LOGIN\r\n{longest}x\r\nNOOP\r\n"), &[auth, "500", "Noop"]);
}

#[test]
fn a_line_of_http_ends_everything() {
    for line in
        ["GET / HTTP/1.1", "post /x HTTP/1.1", "CONNECT a:25 HTTP/1.1", "Host: a", "Content-Type:text/plain"]
    {
        for end in ["\r\n", "\n"] {
            check(format!("NOOP\r\n{line}{end}QUIT\r\n"), &["Noop", "Http"]);
        }
    }
    // Longer than a command may be.
    check(format!("POST /{} HTTP/1.1\r\nQUIT\r\n", "x".repeat(100)), &["Http"]);
    // It may be in a message.
    check(
        "DATA\r\nHost: a\r\nGET / HTTP/1.1\r\n.\r\nQUIT\r\n",
        &["Data", "data Host: a\r\nGET / HTTP/1.1\r\n", "end false", "Quit"],
    );
}

#[test]
fn chunks_hold_anything() {
    check(
        "BDAT 9\r\n\r\n.\r\nQUITBDAT 0 LAST\r\nQUIT\r\n",
        &["bdat 9", "data \r\n.\r\nQUIT", "chunk end", "bdat 0", "chunk end", "Quit"],
    );
}

/// RFC 3030 §2: "MUST accept and discard the associated message data before sending the … code".
#[test]
fn bytes_of_a_wrong_bdat_are_swallowed() {
    check("BDAT 6 FIRST\r\nQUIT\r\nNOOP\r\n", &["501", "Noop"]);
    check("BDAT 6 \x01\r\nQUIT\r\nNOOP\r\n", &["500", "Noop"]);
    check("BDAT\r\nNOOP\r\n", &["501", "Noop"]);
    check("BDAT 18446744073709551616\r\nNOOP\r\n", &["ChunkSize"]);
}

/// RFC 5321 §2.3.8; and nothing behind a bare LF is taken for a command.
#[test]
fn only_crlf_ends_a_line() {
    check("NOOP\nQUIT\r\nRSET\r\n", &["500", "Rset"]);
    check("\nQUIT\r\nRSET\r\n", &["500", "Rset"]);
    check("NOOP\rQUIT\r\nRSET\r\n", &["500", "Rset"]);
    check("NOOP\n\n\n\r\r\nRSET\r\n", &["500", "Rset"]);
    check("NOOP\r\r\nRSET\r\n", &["500", "Rset"]);
}

#[test]
fn a_long_line_is_one_error() {
    let fits = format!("NOOP {}\r\n", "x".repeat(57));
    check(format!("{fits}RSET\r\n"), &["Noop", "Rset"]);
    let long = format!("NOOP {}\r\nRSET\r\n", "x".repeat(58));
    check(long, &["500", "Rset"]);
    let longer = format!("{}\nNOOP\n\r\nRSET\r\n", "x".repeat(1000));
    check(longer, &["500", "Rset"]);
}

#[test]
fn an_endless_line_is_the_end() {
    let wire = vec![b'x'; 64 + limits::SMTP_DISCARD_BYTES + 100];
    for cut in [1000, 4096, wire.len()] {
        assert_eq!(run(&wire, 64, cut), ["500", "EndlessLine"]);
    }
    let mut just = wire[..64 + limits::SMTP_DISCARD_BYTES - 2].to_vec();
    just.extend_from_slice(b"\r\nNOOP\r\n");
    assert_eq!(run(&just, 64, 4096), ["500", "Noop"]);
}

#[test]
fn plain_text_before_tls_is_dropped() {
    let mut decoder = Decoder::new();
    decoder.feed(b"STARTTLS\r\nMAIL FROM:<evil@example>\r\n");
    assert_eq!(decoder.next_event(), Some(Event::Command(Command::StartTls)));
    assert_eq!(decoder.discard_input(), 26);
    decoder.feed(b"NOOP\r\n");
    assert_eq!(decoder.next_event(), Some(Event::Command(Command::Noop)));
    assert_eq!(decoder.next_event(), None);
}

/// Memory is the input fed and not taken out: a message is never held whole.
#[test]
fn data_passes_through() {
    let mut decoder = Decoder::new();
    decoder.feed(b"DATA\r\n");
    assert_eq!(decoder.next_event(), Some(Event::Command(Command::Data)));
    decoder.begin_data();
    for _ in 0..1000 {
        decoder.feed(&[b'.'; 100]);
        decoder.feed(b"\r\n");
        while decoder.next_event().is_some() {}
        assert_eq!(decoder.input.len(), 0);
        assert!(decoder.input.capacity() < 16 * 1024);
    }
}

const PIECES: &[&[u8]] = &[
    b"MAIL FROM:<a@b>\r\n",
    b"RCPT TO:<a@b>\r\n",
    b"DATA\r\n",
    b".\r\n",
    b"BDAT 5 LAST\r\n",
    b"BDAT 3 X\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b".",
    b"text",
    b"\0\xff",
    b"VRFY \"a\\\"b\"\r\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn cutting_changes_nothing(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..20),
        cut in any::<u8>(),
    ) {
        fuzz_server(&[&[cut][..], &pieces.concat()].concat());
    }

    #[test]
    fn noise(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz_server(&data);
        crate::fuzz::fuzz_replies(&data);
    }
}
