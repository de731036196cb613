use bytes::BytesMut;
use proptest::prelude::*;

use sealpost_base::limits;

use super::*;
use crate::types::{
    Body, Burl, ForwardPath, Hold, Host, LocalPart, Mail, Mailbox, Notify, OriginalRecipient, Rcpt, Return,
};
use crate::write;

fn mailbox(local: &str, host: &str) -> Mailbox {
    Mailbox { local: LocalPart::new(local).unwrap(), host: Host::domain(host).unwrap() }
}

fn from(local: &str, host: &str) -> Mail {
    Mail::new(ReversePath::Mailbox(mailbox(local, host)))
}

fn to(local: &str, host: &str) -> Rcpt {
    Rcpt::new(ForwardPath::Mailbox(mailbox(local, host)))
}

fn written(command: &Command) -> String {
    let mut out = BytesMut::new();
    write::command(command, &mut out);
    String::from_utf8(out.to_vec()).unwrap().strip_suffix("\r\n").unwrap().to_owned()
}

/// Lines that are written exactly as they were read.
#[test]
fn known_answers_both_ways() {
    let hello = |verb, name| Command::Hello(Hello { verb, name: ClientName::new(name).unwrap() });
    let table = [
        ("EHLO mx.example.org", hello(Verb::Ehlo, "mx.example.org")),
        ("HELO [192.0.2.1]", hello(Verb::Helo, "[192.0.2.1]")),
        ("LHLO [IPv6:2001:db8::1]", hello(Verb::Lhlo, "[IPv6:2001:db8::1]")),
        ("EHLO my_laptop", hello(Verb::Ehlo, "my_laptop")),
        ("MAIL FROM:<>", Command::Mail(Mail::new(ReversePath::Null))),
        ("MAIL FROM:<a@b.example>", Command::Mail(from("a", "b.example"))),
        ("MAIL FROM:<\"a b\"@b.example>", Command::Mail(from("a b", "b.example"))),
        (
            "MAIL FROM:<用户@例え.jp> SIZE=123 BODY=8BITMIME SMTPUTF8 RET=HDRS ENVID=QQ+2B314159",
            Command::Mail(Mail {
                size: Some(123),
                body: Some(Body::EightBitMime),
                utf8: true,
                ret: Some(Return::Headers),
                envid: Some("QQ+314159".into()),
                ..from("用户", "例え.jp")
            }),
        ),
        (
            "MAIL FROM:<a@b.example> AUTH=e+3Dmc2@b.example REQUIRETLS HOLDFOR=86400",
            Command::Mail(Mail {
                auth: Some("e=mc2@b.example".into()),
                require_tls: true,
                hold: Some(Hold::For(86_400)),
                ..from("a", "b.example")
            }),
        ),
        (
            "MAIL FROM:<a@b.example> AUTH=<> HOLDUNTIL=2026-11-26T20:00:00Z",
            Command::Mail(Mail {
                auth: Some(String::new()),
                hold: Some(Hold::Until(1_795_723_200)),
                ..from("a", "b.example")
            }),
        ),
        ("RCPT TO:<Postmaster>", Command::Rcpt(Rcpt::new(ForwardPath::Postmaster))),
        ("RCPT TO:<a@b.example>", Command::Rcpt(to("a", "b.example"))),
        (
            "RCPT TO:<a@b.example> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;a+2Bb@c.example",
            Command::Rcpt(Rcpt {
                notify: Some(Notify::On { success: true, failure: false, delay: true }),
                orcpt: Some(OriginalRecipient { kind: "rfc822".into(), address: "a+b@c.example".into() }),
                ..to("a", "b.example")
            }),
        ),
        ("RCPT TO:<a@b> NOTIFY=NEVER", Command::Rcpt(Rcpt { notify: Some(Notify::Never), ..to("a", "b") })),
        ("DATA", Command::Data),
        ("BDAT 0", Command::Bdat(Chunk { size: 0, last: false })),
        ("BDAT 86 LAST", Command::Bdat(Chunk { size: 86, last: true })),
        (
            "BURL imap://harry@example.com/Sent;UIDVALIDITY=1/;UID=2;urlauth=submit+harry:internal:91 LAST",
            Command::Burl(Burl {
                url: "imap://harry@example.com/Sent;UIDVALIDITY=1/;UID=2;urlauth=submit+harry:internal:91"
                    .into(),
                last: true,
            }),
        ),
        ("BURL x:y", Command::Burl(Burl { url: "x:y".into(), last: false })),
        ("RSET", Command::Rset),
        ("NOOP", Command::Noop),
        ("QUIT", Command::Quit),
        ("VRFY fred", Command::Vrfy("fred".into())),
        ("EXPN staff", Command::Expn("staff".into())),
        ("HELP", Command::Help(None)),
        ("HELP MAIL", Command::Help(Some("MAIL".into()))),
        ("STARTTLS", Command::StartTls),
        ("AUTH LOGIN", Command::Auth(Auth { mechanism: "LOGIN".into(), initial: None })),
        (
            "AUTH SCRAM-SHA-256 biws",
            Command::Auth(Auth { mechanism: "SCRAM-SHA-256".into(), initial: Some(Secret::new("biws")) }),
        ),
    ];
    for (line, expected) in table {
        assert_eq!(command(line.as_bytes()).as_ref(), Ok(&expected), "{line}");
        assert_eq!(written(&expected), line);
    }
}

/// Lines that are read as another line.
#[test]
fn tolerated() {
    for (line, same) in [
        ("quit", "QUIT"),
        ("QUIT \t ", "QUIT"),
        ("NOOP whatever", "NOOP"),
        ("mail from:<a@b>", "MAIL FROM:<a@b>"),
        ("MAIL FROM: <a@b>  SIZE=1", "MAIL FROM:<a@b> SIZE=1"),
        ("MAIL FROM:<@one.example,@two.example:a@b>", "MAIL FROM:<a@b>"),
        ("RCPT TO:<@[192.0.2.1]:a@b>", "RCPT TO:<a@b>"),
        ("rcpt to:<POSTMASTER>", "RCPT TO:<Postmaster>"),
        ("RCPT TO:<\"fred\"@b>", "RCPT TO:<fred@b>"),
        ("RCPT TO:<\"f\\red\"@b>", "RCPT TO:<fred@b>"),
        ("RCPT TO:<a..b.@c>", "RCPT TO:<\"a..b.\"@c>"),
        ("MAIL FROM:<a@b> SIZE=99999999999999999999", "MAIL FROM:<a@b> SIZE=18446744073709551615"),
        ("bdat 12 last", "BDAT 12 LAST"),
        ("burl x:y  last", "BURL x:y LAST"),
        (
            "MAIL FROM:<a@b> holduntil=2026-11-26t21:00:00.5+01:00",
            "MAIL FROM:<a@b> HOLDUNTIL=2026-11-26T20:00:00Z",
        ),
        ("RCPT TO:<a@b> notify=never", "RCPT TO:<a@b> NOTIFY=NEVER"),
    ] {
        assert_eq!(written(&command(line.as_bytes()).unwrap()), same, "{line}");
    }
}

#[test]
fn refused() {
    let code = |line: &[u8]| command(line).map_err(|misuse| misuse.reply().code);
    for (line, expected) in [
        ("", 500),
        ("XYZZY", 500),
        ("BURL", 501),
        ("BURL x:y FIRST", 501),
        ("BURL x:y LAST z", 501),
        ("MAIL FROM:<a@b> HOLDFOR=0", 501),
        ("MAIL FROM:<a@b> HOLDFOR=1234567890", 501),
        ("MAIL FROM:<a@b> HOLDFOR=1 HOLDUNTIL=2026-11-26T20:00:00Z", 501),
        ("MAIL FROM:<a@b> HOLDUNTIL=tomorrow", 501),
        ("MAIL FROM:<a@b> REQUIRETLS=YES", 501),
        ("MAIL FROM:<a@b> AUTH=", 501),
        ("MAILFROM:<a@b>", 500),
        ("QUI", 500),
        ("DATA\0", 500),
        ("NOOP \u{1b}[2J", 500),
        ("TURN", 502),
        ("SOML FROM:<a@b>", 502),
        ("QUIT now", 501),
        ("DATA now", 501),
        ("EHLO", 501),
        ("EHLO a b", 501),
        ("EHLO 例え.jp", 501),
        ("VRFY", 501),
        ("MAIL", 501),
        ("MAIL FROM", 501),
        ("MAIL FROM:", 501),
        ("MAIL FROM:a@b", 501),
        ("MAIL FROM:<a@b", 501),
        ("MAIL FROM:<a>", 501),
        ("MAIL FROM:<a@>", 501),
        ("MAIL FROM:<@b>", 501),
        ("MAIL FROM:<.@b>", 501),
        ("MAIL FROM:<a@b_c>", 501),
        ("MAIL FROM:<a@b>SIZE=1", 501),
        ("MAIL FROM:<a@b> SIZE", 501),
        ("MAIL FROM:<a@b> SIZE=", 501),
        ("MAIL FROM:<a@b> SIZE=-1", 501),
        ("MAIL FROM:<a@b> SIZE=1 SIZE=1", 501),
        ("MAIL FROM:<a@b> SIZE=999999999999999999999", 501),
        ("MAIL FROM:<a@b> BODY=9BIT", 501),
        ("MAIL FROM:<a@b> SMTPUTF8=1", 501),
        ("MAIL FROM:<a@b> SMTPUTF8 SMTPUTF8", 501),
        ("MAIL FROM:<a@b> ENVID=+4", 501),
        ("MAIL FROM:<a@b> ENVID=+0D", 501),
        ("MAIL FROM:<a@b> ENVID=+2b", 501),
        ("MAIL FROM:<a@b> ENVID=a=b", 501),
        ("MAIL FROM:<a@b> X-UNKNOWN=1", 555),
        ("RCPT TO:<>", 501),
        ("RCPT TO:<a@b> SIZE=1", 555),
        ("RCPT TO:<a@b> NOTIFY=NEVER,SUCCESS", 501),
        ("RCPT TO:<a@b> ORCPT=rfc822", 501),
        ("RCPT TO:<\"a@b>", 501),
        ("RCPT TO:<\"a\"b@c>", 501),
        ("RCPT TO:<a@[1.2.3]>", 501),
        ("RCPT TO:<@one.example:>", 501),
        ("BDAT", 501),
        ("BDAT x", 501),
        ("BDAT 1 FIRST", 501),
        ("BDAT 1LAST", 501),
        ("BDAT -1", 501),
        ("AUTH", 501),
        ("AUTH A B C", 501),
    ] {
        assert_eq!(code(line.as_bytes()), Err(expected), "{line:?}");
    }
    assert_eq!(code(b"MAIL FROM:<\xff@b>"), Err(500));
    let path = |bytes: usize| format!("MAIL FROM:<{}@b>", "a".repeat(bytes - 2));
    assert!(code(path(limits::SMTP_PATH_BYTES).as_bytes()).is_ok());
    assert_eq!(code(path(limits::SMTP_PATH_BYTES + 1).as_bytes()), Err(501));
}

#[test]
fn replies_in_any_cut() {
    let wire = b"220 ready\r\n250-mx\r\n250-SIZE 10\r\n250 HELP\r\n550 5.1.1 no\r\n354\r\n421 bye\n";
    for cut in 1..wire.len() {
        let (mut decoder, mut replies) = (ReplyDecoder::new(), Vec::new());
        for piece in wire.chunks(cut) {
            decoder.feed(piece);
            while let Some(reply) = decoder.next_reply().unwrap() {
                replies.push(reply.to_string());
            }
        }
        assert_eq!(replies, ["220 ready", "250 mx / SIZE 10 / HELP", "550 5.1.1 no", "354 ", "421 bye"]);
    }
}

#[test]
fn invalid_replies_are_refused() {
    let error = |wire: &[u8]| {
        let mut decoder = ReplyDecoder::new();
        decoder.feed(wire);
        decoder.next_reply()
    };
    assert_eq!(error(b"SSH-2.0\r\n"), Err(ReplyError::Code));
    assert_eq!(error(b"199 low\r\n"), Err(ReplyError::Code));
    assert_eq!(error(b"250_x\r\n"), Err(ReplyError::Code));
    assert_eq!(error(b"250-a\r\n251 b\r\n"), Err(ReplyError::Codes));
    assert_eq!(error(&[b'2'; 5000]), Err(ReplyError::TooLong));
    assert_eq!(error(&b"250-x\r\n".repeat(300)), Err(ReplyError::TooLong));
    let long = [&b"250-"[..], &[b'x'; 1000], b"\r\n"].concat();
    assert_eq!(error(&long.repeat(20)), Err(ReplyError::TooLong));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any local part survives quoting.
    #[test]
    fn local_parts_survive(local in "\\PC{0,20}") {
        prop_assume!(LocalPart::new(local.as_str()).is_some());
        let sent = Command::Rcpt(Rcpt::new(ForwardPath::Mailbox(mailbox(&local, "example.org"))));
        prop_assert_eq!(command(written(&sent).as_bytes()), Ok(sent));
    }

    #[test]
    fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = command(&line);
        let _ = command(&[b"MAIL FROM:<", line.as_slice()].concat());
        let _ = command(&[b"RCPT TO:<a@b> ", line.as_slice()].concat());
    }
}
