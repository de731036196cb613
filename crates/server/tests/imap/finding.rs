//! Searching many messages answers what searching each of them does: the one way reads segments of
//! summaries and of short texts, the other one messages.

use std::fmt::Write;

use sealpost_base::limits;
use sealpost_session::Settings;

use crate::imap_world::TestServer;

/// Enough to be worth a segment.
const MESSAGES: usize = 300;
/// Messages whose text is too long for a segment, and for what is stored of a text.
const LONG: [(usize, usize); 3] =
    [(143, limits::TEXT_BYTES), (150, limits::SEGMENT_TEXT_BYTES), (151, limits::TEXT_BYTES)];

/// Whether its text is not short, but short enough for a segment: enough of them to be worth looking there.
fn is_longer(n: usize) -> bool {
    n.is_multiple_of(2)
}

fn message(n: usize) -> String {
    let mut mail = String::new();
    if !n.is_multiple_of(5) {
        write!(mail, "Date: Sun, {} Mar 2020 {:02}:30:00 -0500\r\n", n % 28 + 1, n % 24).unwrap();
    }
    if !n.is_multiple_of(7) {
        write!(mail, "From: Sender {} <s{}@example.org>\r\n", n % 6, n % 4).unwrap();
    }
    write!(mail, "To: =?utf-8?q?Gr=C3=BC=C3=9Fe?= <to{}@example.net>\r\n", n % 3).unwrap();
    if n.is_multiple_of(11) {
        mail.push_str("X-Other: only here\r\n");
    }
    write!(mail, "Message-ID: <m{n}@example.org>\r\nSubject: topic {}\r\n\r\nbody {n}\r\n", n % 8).unwrap();
    if is_longer(n) {
        mail.push_str(&"on and on, \r\n".repeat(limits::SHORT_TEXT_BYTES / 12));
    }
    if n.is_multiple_of(13) {
        // HTML whose title and links stand aside, in texts of every length.
        mail = mail.replacen(
            "\r\n\r\nbody",
            "\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<title>Head &amp; tail</title>click <a href='https://example.com/A?n=1&amp;m=2'>over\r\nhere</a><br>now pass&shy;word body",
            1,
        );
    }
    if let Some((_, bytes)) = LONG.iter().find(|(at, _)| *at == n) {
        mail.push_str(&"and so on, \r\n".repeat(bytes / 12));
        mail.push_str("a needle\r\nin a <a href='https://hay.example/stack'>hay</a> stack\r\n");
    }
    mail
}

#[tokio::test]
async fn many_at_once_or_one_by_one_is_the_same() {
    let mut world = TestServer::new(Settings::default()).await;
    for n in 0..MESSAGES {
        world.deliver(None, message(n).as_bytes()).await;
    }
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    for key in [
        "FROM \"sender 3\"",
        "FROM s2@",
        "TO \"GR\u{fc}SSE\"",
        "TO \"gr\u{fc}\u{df}e\"",
        "SUBJECT \"topic 5\"",
        "NOT SUBJECT topic",
        "SENTON 7-Mar-2020",
        "SENTSINCE 20-Mar-2020",
        "NOT SENTBEFORE 20-Mar-2020",
        "HEADER Message-ID m17@",
        "HEADER X-Other \"\"",
        "HEADER From \"\"",
        "TEXT \"topic 2\"",
        "TEXT \"only here\"",
        "TEXT \"body 3\"",
        "TEXT \"on and on\"",
        "BODY \"on and on, on\"",
        "BODY \"dy\"",
        "OR FROM s1@ (SUBJECT 4 BODY 2)",
        "FUZZY SUBJECT topyc",
        "FUZZY (SENTON 3-Mar-2020 SUBJECT topc)",
        "BODY 7 NOT TO to1@",
        "SENTSINCE 20-Mar-2020 BODY 3",
        "OR SENTON 7-Mar-2020 HEADER X-Other only",
        "BODY needle",
        "BODY \"a needle\"",
        "BODY no-such-needle",
        "TEXT no-such-needle",
        "TEXT m150@example.org",
        "TEXT \"so on,  and\"",
        "OR BODY no-such-needle SUBJECT \"topic 6\"",
        "BODY \"click over here now password\"",
        "BODY example.com/a?n=1&m=2",
        "TEXT \"head & tail\"",
        "BODY \"body 13 head\"",
        "BODY \"needle in a hay stack\"",
        "BODY https://hay.example/stack",
        "OR BODY https://hay.example/stack SUBJECT \"topic 6\"",
        "NOT TEXT no-such-needle",
        "NOT BODY \"and so on\"",
    ] {
        let first = client.ok(&format!("SEARCH {key}")).await;
        let lines = client.ok(&format!("SEARCH {key}")).await;
        assert_eq!(first, lines, "{key}");
        let all: Vec<usize> =
            lines[0]["* SEARCH".len()..].split_whitespace().map(|n| n.parse().unwrap()).collect();
        let mut each = Vec::new();
        for n in 1..=MESSAGES {
            let lines = client.ok(&format!("SEARCH {n} {key}")).await;
            if lines[0] != "* SEARCH" {
                each.push(n);
            }
        }
        assert_eq!(all, each, "{key}");
    }
}
