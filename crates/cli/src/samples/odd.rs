//! Odd and broken ones, which must be kept byte for byte and shown as well as can be.

use sealpost_mime::Entity;

use super::Sample;
use super::letter::{ADA, GRACE, Letter};

/// The samples.
pub fn samples(me: &str) -> Vec<Sample> {
    vec![
        long_subject(me),
        empty_body(me),
        many_recipients(me),
        eight_bit(me),
        long_line(me),
        unclosed(me),
        nearly_nothing(),
        nested(me),
    ]
}

fn long_subject(me: &str) -> Sample {
    let letter = Letter(90);
    // prose: off
    let words = "a subject that goes on and on, as some do, because the whole letter was written into it ";
    let message =
        letter.begin(GRACE, me).subject(words.repeat(6).trim_end()).body(Entity::text("See above.\n"));
    Sample::inbox(&letter, message.build())
}

fn empty_body(me: &str) -> Sample {
    let letter = Letter(91);
    Sample::inbox(&letter, letter.begin(ADA, me).subject("(nothing inside)").build())
}

fn many_recipients(me: &str) -> Sample {
    let letter = Letter(92);
    let names: Vec<_> =
        (1..=40).map(|n| (format!("Member, No. {n}"), format!("member{n}@club.example"))).collect();
    let names: Vec<_> = names.iter().map(|(name, address)| (name.as_str(), address.as_str())).collect();
    let message = letter
        .begin(("The Club", "club@club.example"), me)
        .addresses("Cc", &names)
        .subject("Spring meeting")
        .body(Entity::text("On the first of April, as every year.\n"));
    Sample::inbox(&letter, message.build())
}

/// Eight-bit header fields and no MIME at all, as mail was before it.
fn eight_bit(me: &str) -> Sample {
    let letter = Letter(93);
    let mut raw = letter.raw_head("Bj\u{f6}rn <bjorn@example.se>", me);
    raw.push_str("Subject: Hej fr\u{e5}n G\u{f6}teborg\r\n\r\nV\u{e4}dret \u{e4}r fint.\r\n");
    // Every character is below U+0100: these are its bytes in ISO 8859-1, without a declaration.
    let raw = raw.chars().map(|c| c as u8).collect();
    Sample::inbox(&letter, raw)
}

fn long_line(me: &str) -> Sample {
    let letter = Letter(94);
    let line = "without end ".repeat(400);
    let raw = format!("{}Subject: One line\r\n\r\n{line}\r\n", letter.raw_head("grace@example.com", me));
    Sample::inbox(&letter, raw.into_bytes())
}

/// A multipart whose last boundary is missing, and a part in an unknown charset.
fn unclosed(me: &str) -> Sample {
    let letter = Letter(95);
    let raw = format!(
        "{}Subject: Cut off\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=here\r\n\r\n\
         preamble\r\n--here\r\nContent-Type: text/plain; charset=x-charset-none\r\n\r\nfirst part\r\n\
         --here\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\nVGhlIHNlY29uZCBwYXJ0LCBjdXQgb",
        letter.raw_head("Ada Lovelace <ada@example.org>", me)
    );
    Sample::inbox(&letter, raw.into_bytes())
}

/// No date, no subject, no sender that can be read, undisclosed recipients.
fn nearly_nothing() -> Sample {
    let raw = b"From: \"unbalanced <nobody\r\nTo: undisclosed-recipients:;\r\n\r\n?\r\n".to_vec();
    Sample::inbox(&Letter(96), raw)
}

/// Multiparts eight deep.
fn nested(me: &str) -> Sample {
    let letter = Letter(97);
    let innermost = Entity::text("At the bottom.\n");
    let body = (0..8).fold(innermost, |inner, level| {
        Entity::multipart("mixed", vec![Entity::text(&format!("Level {}\n", 8 - level)), inner])
    });
    Sample::inbox(&letter, letter.begin(ADA, me).subject("Boxes in boxes").body(body).build())
}
