//! The speed of the scanner, on different kinds of mail and on input made to slow it down (`x:`):
//! `cargo run --release -p sealpost-mime --example scan_speed`.

#![allow(clippy::print_stdout, reason = "a program for people")]

use sealpost_base::{Clock, Random, SeededRandom, SystemClock};
use sealpost_mime::structure::Structure;
use sealpost_mime::text::{CappedText, NoText, TextSink};
use sealpost_mime::{Entity, MessageBuilder, Scanner};

/// A sink that takes all text and keeps none: the cost of the decoders without a cap.
struct Everything(usize);

impl TextSink for Everything {
    fn header(&mut self, text: &str) {
        self.0 += text.len();
    }
    fn body(&mut self, text: &str) {
        self.0 += text.len();
    }
    fn aside(&mut self, text: &str) {
        self.0 += text.len();
    }
}

fn main() {
    let clock = SystemClock::new();
    let random = SeededRandom::new(1);
    let mut noise = vec![0; 24 << 20];
    random.fill(&mut noise);
    let words = "The quick brown fox jumps over the lazy dog, and then it does so again. ";
    let umlauts = "Größere Übungen für Äcker und Wälder, müßig wie eh und je; наконец и всё. ";
    let html =
        "<p style=\"x: y\">The <b>quick</b> brown fox &amp; the <a href=\"http://x/\">lazy</a> dog.</p>\r\n";
    let text = |line: &str, n: usize| format!("{line}\r\n").repeat(n);
    let small = MessageBuilder::new()
        .addresses("From", &[("Jörg Müller", "joerg@example.org")])
        .addresses("To", &[("", "a@example.org"), ("Somebody Else", "b@example.org")])
        .subject("A message of the usual size, with an ordinary subject")
        .date(1_700_000_000, 60)
        .body(Entity::multipart(
            "alternative",
            vec![Entity::text(&text(words, 60)), Entity::html(&text(html, 60))],
        ))
        .build();
    let one = |entity| MessageBuilder::new().subject("x").body(entity).build();
    let mixed = |parts| one(Entity::multipart("mixed", parts));
    let raw = |kind: &str, body: String| one(Entity::raw(kind, "8bit", body.into_bytes()));
    let cases = [
        ("base64 attachment", mixed(vec![Entity::attachment("application/pdf", "a.pdf", &noise)])),
        ("ASCII text", raw("text/plain; charset=utf-8", text(words, 400_000))),
        ("UTF-8 text", raw("text/plain; charset=utf-8", text(umlauts, 300_000))),
        ("HTML", raw("text/html; charset=utf-8", text(html, 300_000))),
        ("quoted-printable", one(Entity::text(&text(umlauts, 150_000)))),
        (
            "base64 text",
            one(Entity::raw(
                "text/plain",
                "base64",
                sealpost_mime::encode::base64(text(words, 300_000).as_bytes()).into_bytes(),
            )),
        ),
        ("mail of 10 kB", small),
    ];
    let hostile =
        |start: &str, piece: &str| format!("{start}{}", piece.repeat((8 << 20) / piece.len())).into_bytes();
    let mixed_start = "Content-Type: multipart/mixed; boundary=b\n\n";
    let cases = cases.into_iter().chain([
        ("x: empty fields", hostile("", "a:\n")),
        ("x: word openings", hostile("", &format!("a: {}\n", "=?a?q? ".repeat(9000)))),
        ("x: long words", hostile("", &format!("a: {}\n", "=?a?q?a?= ".repeat(6000)))),
        ("x: addresses", hostile("", &format!("to: {}\n", "a,".repeat(30_000)))),
        ("x: comments", hostile("", &format!("to: {}\n", "(".repeat(60_000)))),
        ("x: parameters", hostile("", &format!("content-type: a/b{}\n", ";a*1=b".repeat(10_000)))),
        ("x: parts", hostile(mixed_start, "--b\n\nx\n")),
        ("x: near boundaries", hostile(mixed_start, "--\n")),
        ("x: HTML", hostile("Content-Type: text/html\n\n", "<a&<b c='&amp;'>&x;<!---->")),
        ("x: decompositions", hostile("\n", "\u{fdfa}")),
    ]);
    let cases: Vec<(&str, Vec<u8>)> = cases.collect();
    println!("{:20} {:>10} {:>14} {:>14} {:>14}", "MB/s", "MB", "as stored", "all text", "structure");
    for (name, message) in &cases {
        let rounds = (if name.starts_with("x:") { 16 } else { 200 } << 20) / message.len() + 1;
        let megabytes = (rounds * message.len()) as f64 / 1e6;
        let speed = |run: &dyn Fn() -> Structure| {
            let start = clock.monotonic();
            for _ in 0..rounds {
                assert_eq!(run().size, message.len() as u64);
            }
            megabytes / (clock.monotonic() - start).as_secs_f64()
        };
        println!(
            "{name:20} {:10.2} {:14.0} {:14.0} {:14.0}",
            message.len() as f64 / 1e6,
            speed(&|| scan(message, CappedText::default())),
            speed(&|| scan(message, Everything(0))),
            speed(&|| scan(message, NoText)),
        );
    }
}

fn scan<S: TextSink>(message: &[u8], sink: S) -> Structure {
    let mut scanner = Scanner::with_sink(sink);
    for chunk in message.chunks(64 * 1024) {
        scanner.push(chunk);
    }
    scanner.finish().0
}
