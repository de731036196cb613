//! Builds messages: sample mail and generated load. For real mail, addresses must have been checked
//! before.
//!
//! Deterministic: no clock and no randomness, so dates and message ids are arguments, and
//! boundaries are strings that do not occur in the parts.

use crate::encode;
use crate::header::date;

/// A message under construction.
#[derive(Debug, Clone, Default)]
pub struct MessageBuilder {
    header: String,
    body: Entity,
}

impl MessageBuilder {
    /// A message without any field.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field unchanged; its value must be ASCII and need no folding.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.header.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// An unstructured field with any text.
    #[must_use]
    pub fn text_field(mut self, name: &str, text: &str) -> Self {
        self.header.push_str(&encode::unstructured(name, text));
        self
    }

    /// An address field (From, To, …) with (display name, address) pairs; an empty name is left out.
    #[must_use]
    pub fn addresses(mut self, name: &str, mailboxes: &[(&str, &str)]) -> Self {
        let items: Vec<String> =
            mailboxes.iter().map(|(name, address)| encode::mailbox(name, address)).collect();
        self.header.push_str(&encode::list(name, &items));
        self
    }

    /// The Subject.
    #[must_use]
    pub fn subject(self, text: &str) -> Self {
        self.text_field("Subject", text)
    }

    /// The Date: seconds since 1970, and minutes east of UTC.
    #[must_use]
    pub fn date(self, seconds: i64, zone: i16) -> Self {
        self.field("Date", &date::format(seconds, zone))
    }

    /// The body of the message.
    #[must_use]
    pub fn body(mut self, body: Entity) -> Self {
        self.body = body;
        self
    }

    /// The message, with CRLF line ends.
    pub fn build(self) -> Vec<u8> {
        let mut out = self.header.into_bytes();
        out.extend_from_slice(b"MIME-Version: 1.0\r\n");
        self.body.write(&mut out);
        out
    }
}

/// A MIME entity: a part, or the body of a message.
#[derive(Debug, Clone)]
pub struct Entity {
    /// The Content- fields, each with its CRLF.
    header: String,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Bytes(Vec<u8>),
    Parts { subtype: String, parts: Vec<Entity> },
}

impl Default for Entity {
    fn default() -> Self {
        Entity::text("")
    }
}

impl Entity {
    /// A text/plain part in UTF-8, quoted-printable unless it is plain ASCII with short lines.
    pub fn text(text: &str) -> Self {
        Self::text_of("plain", text)
    }

    /// A text/html part in UTF-8.
    pub fn html(html: &str) -> Self {
        Self::text_of("html", html)
    }

    fn text_of(subtype: &str, text: &str) -> Self {
        let plain = text.is_ascii() && !text.contains('\0') && text.lines().all(|line| line.len() <= 76);
        let (encoding, body) = if plain {
            ("7bit", text.replace("\r\n", "\n").replace('\n', "\r\n"))
        } else {
            ("quoted-printable", encode::quoted_printable(text))
        };
        Self::raw(&format!("text/{subtype}; charset=utf-8"), encoding, body.into_bytes())
    }

    /// Bytes that are already in their transfer encoding, in any charset or form.
    pub fn raw(content_type: &str, encoding: &str, body: Vec<u8>) -> Self {
        let header = format!("Content-Type: {content_type}\r\nContent-Transfer-Encoding: {encoding}\r\n");
        Entity { header, content: Content::Bytes(body) }
    }

    /// A file, in base64.
    pub fn attachment(media_type: &str, filename: &str, bytes: &[u8]) -> Self {
        Self::base64(media_type, "attachment", filename, bytes)
    }

    /// A file that is shown where `cid:` refers to its id, in base64.
    pub fn inline(media_type: &str, filename: &str, content_id: &str, bytes: &[u8]) -> Self {
        Self::base64(media_type, "inline", filename, bytes).field("Content-ID", &format!("<{content_id}>"))
    }

    fn base64(media_type: &str, disposition: &str, filename: &str, bytes: &[u8]) -> Self {
        let name = encode::parameter("filename", filename);
        Self::raw(media_type, "base64", encode::base64(bytes).into_bytes())
            .field("Content-Disposition", &format!("{disposition}{name}"))
    }

    /// A forwarded message.
    pub fn message(message: Vec<u8>) -> Self {
        let encoding = if message.is_ascii() { "7bit" } else { "8bit" };
        Self::raw("message/rfc822", encoding, message)
    }

    /// A multipart of this subtype: `mixed`, `alternative`, `related`, `digest`.
    pub fn multipart(subtype: &str, parts: Vec<Entity>) -> Self {
        Entity { header: String::new(), content: Content::Parts { subtype: subtype.to_owned(), parts } }
    }

    /// One more Content- field.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.header.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// Writes the header fields, the empty line and the body.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.header.as_bytes());
        match &self.content {
            Content::Bytes(bytes) => {
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(bytes);
            }
            Content::Parts { subtype, parts } => {
                let written: Vec<Vec<u8>> = parts
                    .iter()
                    .map(|part| {
                        let mut bytes = Vec::new();
                        part.write(&mut bytes);
                        bytes
                    })
                    .collect();
                let boundary = free_boundary(&written);
                let head = format!("Content-Type: multipart/{subtype}; boundary=\"{boundary}\"\r\n");
                out.extend_from_slice(head.as_bytes());
                for part in &written {
                    out.extend_from_slice(format!("\r\n--{boundary}\r\n").as_bytes());
                    out.extend_from_slice(part);
                }
                out.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
            }
        }
    }
}

/// A boundary that none of the parts contains. `=_` occurs in neither base64 nor quoted-printable
/// (RFC 2045 §6.7).
fn free_boundary(parts: &[Vec<u8>]) -> String {
    let mut number = 0u64;
    loop {
        // The closing `=` keeps one boundary from being the beginning of another.
        let boundary = format!("=_sealpost_{number}=");
        let finder = memchr::memmem::Finder::new(boundary.as_bytes());
        if parts.iter().all(|part| finder.find(part).is_none()) {
            return boundary;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scanner;

    #[test]
    fn built_messages_are_scanned_back() {
        let inner = MessageBuilder::new()
            .subject("Inneres")
            .body(Entity::multipart("mixed", vec![Entity::text("deep"), Entity::html("<b>x</b>")]))
            .build();
        let message = MessageBuilder::new()
            .date(1_700_000_000, 60)
            .addresses("From", &[("Jörg", "joerg@example.org")])
            .addresses("To", &[("", "a@example.org"), ("B, C.", "b@example.org")])
            .subject("Grüße")
            .field("Message-ID", "<1@example.org>")
            .body(Entity::multipart(
                "mixed",
                vec![
                    Entity::multipart(
                        "alternative",
                        vec![Entity::text("Hallo Welt\nÄ"), Entity::html("<p>Hallo</p>")],
                    ),
                    Entity::attachment("application/pdf", "Rechnung für März.pdf", &[0, 1, 2, 255]),
                    Entity::inline("image/png", "x.png", "img@x", b"png"),
                    Entity::message(inner.clone()),
                ],
            ))
            .build();
        let mut scanner = Scanner::new();
        scanner.push(&message);
        let (structure, sink) = scanner.finish();
        let text = sink.into_text();
        let part = |path: &[u32]| structure.part(path).unwrap();
        assert_eq!(structure.envelope.sent_date, Some(1_700_000_000));
        assert_eq!(structure.envelope.to[1].name.as_deref(), Some("B, C."));
        assert!(
            text.headers.contains("subject: gru\u{308}ße\n")
                && text.headers.contains("from: jo\u{308}rg <joerg@example.org>\n")
        );
        assert!(
            text.body.contains("hallo welt a\u{308}")
                && text.body.contains("inneres")
                && text.body.contains("deep")
        );
        assert_eq!(structure.preview.as_deref(), Some("Hallo Welt Ä"));
        assert_eq!(part(&[2]).filename().unwrap(), "Rechnung für März.pdf");
        assert_eq!(part(&[3]).content_id.as_deref(), Some("<img@x>"));
        let body = part(&[4]).body.clone();
        assert_eq!(&message[body.start as usize..body.end as usize], &inner[..]);
        assert!(part(&[4, 2]).is("text", "html"));
        assert!(!structure.limited);
    }
}
