//! BURL (RFC 4468): content of mailboxes in submitted messages.

use std::time::Duration;

use sealpost_base::limits;
use sealpost_queue::envelope::Body;
use sealpost_session::Settings;
use sealpost_session::net::Stream;
use sealpost_smtp_session::Service;
use sealpost_submission::outbox::SendingLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::submission_world::{Dialog, TestServer};
use crate::transcript;

const HELLO: (&str, &str) = ("EHLO client.example", "250 ");
/// me@localhost
const LOGIN: (&str, &str) = ("AUTH PLAIN AG1lQGxvY2FsaG9zdABzZWNyZXQ=", "235 2.7.0");
const FROM: (&str, &str) = ("MAIL FROM:<me@localhost>", "250 ");
const TO: (&str, &str) = ("RCPT TO:<jane@elsewhere.example>", "250 ");
const RSET: (&str, &str) = ("RSET", "250 ");

/// An IMAP client that has logged in.
struct Imap(Stream);

impl Imap {
    async fn login(world: &mut TestServer, name: &str) -> Self {
        let mut client = Imap(world.connect_imap());
        client.lines_until("* OK").await;
        client.ok(&format!("LOGIN {name}@localhost secret")).await;
        client
    }

    /// The lines up to one that begins so.
    async fn lines_until(&mut self, beginning: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                line.push(self.0.read_u8().await.unwrap());
            }
            let line = String::from_utf8(line).unwrap().trim_end().to_owned();
            let is_last = line.starts_with(beginning);
            lines.push(line);
            if is_last {
                return lines;
            }
        }
    }

    async fn ok(&mut self, command: &str) -> Vec<String> {
        self.0.write_all(format!("x {command}\r\n").as_bytes()).await.unwrap();
        let lines = self.lines_until("x ").await;
        assert!(lines.last().unwrap().starts_with("x OK"), "{command:.80}: {lines:?}");
        lines
    }

    async fn append(&mut self, mailbox: &str, message: &str) {
        self.ok(&format!("APPEND {mailbox} {{{}+}}\r\n{message}", message.len())).await;
    }

    /// The URL with its token.
    async fn authorized(&mut self, url: &str) -> String {
        let lines = self.ok(&format!("GENURLAUTH \"{url}\" INTERNAL")).await;
        lines[0].strip_prefix("* GENURLAUTH \"").unwrap().trim_end_matches('"').to_owned()
    }
}

const MESSAGE: &str = "From: me@localhost\r\nTo: jane@elsewhere.example\r\nMessage-ID: <1@x>\r\nDate: x\r\n\
    Subject: draft\r\n\r\nHello\r\n.\r\n";
const URL: &str = "imap://me@localhost/INBOX/;uid=1;urlauth=submit+me";

async fn world() -> TestServer {
    let mut world = TestServer::new(Settings::default(), SendingLimits::default()).await;
    world.serve_imap();
    world
}

async fn logged_in(world: &mut TestServer) -> Stream {
    let mut stream = world.connect_to(Service::Submission);
    Dialog::new(&mut stream).expect(&[HELLO, LOGIN]).await;
    stream
}

/// The mail that was queued as `id` without its Received field.
async fn mail(world: &TestServer, id: &str) -> String {
    let text = String::from_utf8(world.mail(id).await.1).unwrap();
    let end = text.match_indices("\r\n").find(|(at, _)| !text[at + 2..].starts_with('\t')).unwrap().0;
    text[end + 2..].to_owned()
}

#[tokio::test]
async fn a_draft_is_sent_without_being_uploaded() {
    let mut world = world().await;
    let mut imap = Imap::login(&mut world, "me").await;
    imap.append("INBOX", MESSAGE).await;
    let url = imap.authorized(URL).await;
    let mut stream = logged_in(&mut world).await;
    let mut dialog = Dialog::new(&mut stream);
    assert!(dialog.ask("EHLO client.example").await.lines().any(|line| line == "250-BURL imap"));
    let burl = format!("BURL {url} LAST");
    dialog.go_on(&[FROM, TO, (&burl, "250 2.0.0 Message queued as Q0")]).await;
    assert_eq!(mail(&world, "Q0").await, MESSAGE);
    // The account is opened by submission itself: the IMAP session need not last.
    drop(imap);
    world.clock.advance(Duration::from_secs(120));
    world.ctx.accounts.evict_idle();
    let mut dialog = Dialog::new(&mut stream);
    dialog.go_on(&[FROM, TO, (&burl, "250 2.0.0 Message queued as Q1")]).await;
    assert_eq!(mail(&world, "Q1").await, MESSAGE);
    // In one round trip (RFC 4468 §3.2).
    let lines = format!("{}\r\n{}\r\n{burl}\r\n", FROM.0, TO.0);
    stream.write_all(lines.as_bytes()).await.unwrap();
    for expected in ["250 2.1.0", "250 2.1.5", "250 2.0.0 Message queued as Q2"] {
        let reply = Dialog::new(&mut stream).reply().await;
        assert!(reply.starts_with(expected), "{reply}");
    }
    assert_eq!(world.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn parts_and_chunks_make_one_message() {
    let mut world = world().await;
    let mut imap = Imap::login(&mut world, "me").await;
    let stored = "Subject: report\r\nX-Other: 1\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
        --b\r\n\r\nSi vis pacem\r\n--b\r\n\r\npara bellum\r\n--b--\r\n";
    imap.append("Drafts", stored).await;
    let at = |rest: &str| format!("imap://me@localhost/Drafts/;uid=1{rest};urlauth=submit+me@localhost");
    let fields = imap.authorized(&at("/;section=HEADER.FIELDS%20(SUBJECT)")).await;
    let first = imap.authorized(&at("/;section=1")).await;
    let some = imap.authorized(&at("/;section=2/;partial=5.6")).await;
    let mut stream = logged_in(&mut world).await;
    let mut dialog = Dialog::new(&mut stream);
    dialog.go_on(&[FROM, TO]).await;
    let header = "From: me@localhost\r\nMessage-ID: <1@x>\r\nDate: x\r\n";
    // The line end of `ask` is the last of the chunk.
    let reply = dialog.ask(&format!("BDAT {}\r\n{}", header.len(), header.trim_end())).await;
    assert!(reply.starts_with("250 "), "{reply}");
    dialog.go_on(&[(&format!("BURL {fields}"), "250 2.5.0 19 bytes")]).await;
    dialog.go_on(&[(&format!("BURL {first}"), "250 2.5.0 12 bytes")]).await;
    assert!(dialog.ask("BDAT 2\r\n").await.starts_with("250 "));
    dialog.go_on(&[(&format!("BURL {some} last"), "250 2.0.0 Message queued as Q0")]).await;
    let expected = format!("{header}Subject: report\r\n\r\nSi vis pacem\r\nbellum\r\n");
    assert_eq!(mail(&world, "Q0").await, expected);
}

#[tokio::test]
async fn large_content_streams_into_the_queue() {
    let mut world = world().await;
    let mut imap = Imap::login(&mut world, "me").await;
    let line = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd\r\n";
    let message = format!("{MESSAGE}{}", line.repeat(3 * 1024 * 1024 / 64));
    imap.append("INBOX", &message).await;
    let url = imap.authorized(URL).await;
    let mut stream = logged_in(&mut world).await;
    let burl = format!("BURL {url} LAST");
    Dialog::new(&mut stream).go_on(&[FROM, TO, (&burl, "250 ")]).await;
    assert!(matches!(world.mail("Q0").await.0.body, Body::Object(_)));
    assert_eq!(mail(&world, "Q0").await, message);
    // Several at once wait for memory in turn and end.
    let mut streams = Vec::new();
    for _ in 0..12 {
        let mut stream = logged_in(&mut world).await;
        let lines = format!("{}\r\n{}\r\n{burl}\r\n", FROM.0, TO.0);
        stream.write_all(lines.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    for stream in &mut streams {
        let mut dialog = Dialog::new(stream);
        let replies = [dialog.reply().await, dialog.reply().await, dialog.reply().await];
        assert!(replies[2].starts_with("250 2.0.0"), "{replies:?}");
    }
    assert_eq!((world.queued(), world.ctx.budget.in_use()), (13, 0));
}

#[tokio::test]
async fn only_the_users_own_urls_for_submission_count() {
    let mut world = world().await;
    let (mut imap, mut other) = (Imap::login(&mut world, "me").await, Imap::login(&mut world, "you").await);
    imap.append("INBOX", MESSAGE).await;
    other.append("INBOX", MESSAGE).await;
    let good = imap.authorized(URL).await;
    let flipped = format!("{}{}", &good[..good.len() - 1], if good.ends_with('0') { '1' } else { '0' });
    let on_other_host = good.replace("@localhost", "@imap.elsewhere.example");
    let of_other = "imap://you@localhost/INBOX/;uid=1;urlauth=";
    let expired = "imap://me@localhost/INBOX/;uid=1;expire=2026-11-20T11:59:59Z;urlauth=submit+me";
    let cases = [
        // RFC 4468 §3.3: made for another user's submission, or for no submission.
        (other.authorized(&format!("{of_other}submit+me")).await, "554 5.7.0"),
        (imap.authorized("imap://me@localhost/INBOX/;uid=1;urlauth=submit+you").await, "554 5.7.0"),
        (imap.authorized("imap://me@localhost/INBOX/;uid=1;urlauth=user+me").await, "554 5.7.0"),
        (imap.authorized("imap://me@localhost/INBOX/;uid=1;urlauth=authuser").await, "554 5.7.0"),
        (imap.authorized(expired).await, "554 5.7.0"),
        (flipped, "554 5.7.0"),
        (good.replace("uid=1", "uid=2"), "554 5.7.0"),
        (URL.to_owned(), "554 5.7.0"),
        ("imap://me@localhost/INBOX/;uid=1".to_owned(), "554 5.7.0"),
        (on_other_host, "554 5.7.14"),
        ("imap://me@elsewhere.example/INBOX/;uid=1".to_owned(), "554 5.7.14"),
        (imap.authorized("imap://me@localhost/INBOX/;uid=9;urlauth=submit+me").await, "554 5.6.6"),
        (
            imap.authorized("imap://me@localhost/INBOX;uidvalidity=7/;uid=1;urlauth=submit+me").await,
            "554 5.6.6",
        ),
        (imap.authorized("imap://me@localhost/INBOX/;uid=1/;section=7;urlauth=submit+me").await, "554 5.6.6"),
        ("http://localhost/".to_owned(), "501 5.5.4"),
        ("/INBOX/;uid=1".to_owned(), "501 5.5.4"),
    ];
    let mut stream = logged_in(&mut world).await;
    for (url, expected) in &cases {
        // A mistake ends the session after a while; a new one begins.
        let burl = format!("BURL {url} LAST");
        Dialog::new(&mut stream).go_on(&[FROM, TO, (&burl, expected)]).await;
    }
    // Without LAST the message fails too, and every command that comes for it.
    let (first, last) = (format!("BURL {URL}"), format!("BURL {good} LAST"));
    Dialog::new(&mut stream)
        .go_on(&[FROM, TO, (&first, "554 5.7.0"), (&first, "554 5.7.0"), (&last, "554 5.7.0")])
        .await;
    assert_eq!(world.queued(), 0);
    let mut dialog = Dialog::new(&mut stream);
    dialog.go_on(&[FROM, TO, (&last, "250 ")]).await;
    // A key that is reset withdraws what was made with it (RFC 4467 §7).
    imap.ok("RESETKEY INBOX").await;
    dialog.go_on(&[FROM, TO, (&last, "554 5.7.0")]).await;
    assert_eq!((world.queued(), world.ctx.budget.in_use()), (1, 0));
}

#[tokio::test]
async fn burl_keeps_to_the_order_of_commands() {
    let mut settings = Settings::default();
    settings.sending.trusted_clients = vec!["192.0.2.0/28".parse().unwrap()];
    settings.message_size = 500;
    let limits = SendingLimits { message_size: 500, ..SendingLimits::default() };
    let mut world = TestServer::new(settings, limits).await;
    // Not offered without IMAP, and never on other ports.
    let mut stream = logged_in(&mut world).await;
    let burl = format!("BURL {URL} LAST");
    Dialog::new(&mut stream).go_on(&[FROM, TO, (&burl, "502 5.5.1")]).await;
    world.serve_imap();
    let mut stream = world.connect_to(Service::Smtp);
    Dialog::new(&mut stream).expect(&[HELLO, (&burl, "502 5.5.1")]).await;
    let mut stream = logged_in(&mut world).await;
    let mut dialog = Dialog::new(&mut stream);
    dialog.go_on(&[(&burl, "503 5.5.1"), FROM, (&burl, "503 5.5.1"), FROM, RSET]).await;
    // A token is not sent in the clear, and a trusted client that has not logged in has no mailbox.
    let mut printer = world.connect_from("192.0.2.15");
    Dialog::new(&mut printer).expect(&[HELLO, (&burl, "502 5.5.1"), ("STARTTLS", "220 ")]).await;
    let mut printer = transcript::TestServer::start_tls(&mut world, Box::new(printer)).await;
    Dialog::new(&mut printer).go_on(&[HELLO, FROM, TO, (&burl, "530 5.7.0")]).await;
    // The size is that of the whole message.
    let mut imap = Imap::login(&mut world, "me").await;
    imap.append("INBOX", MESSAGE).await;
    let url = imap.authorized(URL).await;
    let mut dialog = Dialog::new(&mut stream);
    let (more, last) = (format!("BURL {url}"), format!("BURL {url} LAST"));
    dialog.go_on(&[FROM, TO]).await;
    for _ in 0..500 / MESSAGE.len() {
        dialog.go_on(&[(&more, "250 2.5.0")]).await;
    }
    dialog.go_on(&[(&last, "552 5.3.4")]).await;
    // So many parts, and no more.
    let nothing = imap.authorized("imap://me@localhost/INBOX/;uid=1/;partial=0.1;urlauth=submit+me").await;
    let part = format!("BURL {nothing}");
    dialog.go_on(&[FROM, TO]).await;
    for _ in 0..limits::SUBMISSION_URLS {
        dialog.go_on(&[(&part, "250 2.5.0")]).await;
    }
    dialog.go_on(&[(&part, "554 5.5.0"), (&format!("{part} LAST"), "554 5.5.0")]).await;
    assert_eq!((world.queued(), world.ctx.budget.in_use()), (0, 0));
}
