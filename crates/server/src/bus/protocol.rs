//! The few lines of the NATS client protocol that are needed, without sockets.

use std::fmt::Write;

use sealpost_base::limits::{BUS_LINE_BYTES, BUS_MESSAGE_BYTES};
use sealpost_base::{AccountId, Error, Position, Result};

/// Bytes of a hint: an account's id and a position, in hexadecimal.
const HINT_BYTES: usize = 32 + 16;

/// A node's state. Receivers that do not know such a message do not take it for a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// A node has just connected: it could not report its earlier appends.
    Back,
    /// A sign of life, sent regularly.
    Here(u64),
    /// This node leaves, and has reported all its appends.
    Leaves(u64),
}

/// A line from the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// A message.
    Message(Vec<u8>),
    /// It asks whether this end is there.
    Ping,
    /// The answer to a ping.
    Pong,
    /// It is about to hang up, and why.
    Error(String),
    /// Nothing to do.
    Other,
}

/// What a line says before its payload is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LineHead {
    /// A line that is complete.
    Line(Line),
    /// A message of so many bytes follows.
    Message(u64),
    /// The bus presents itself.
    Info {
        /// It continues with TLS only.
        tls: bool,
    },
}

/// Divides the stream of the bus into lines and messages, in any pieces. The memory that the bus
/// can make it use is bounded.
#[derive(Default)]
pub(super) struct Decoder {
    /// Received and not yet parsed.
    input: Vec<u8>,
    /// Of these no line ends.
    looked: usize,
    /// Bytes of a message that are left out.
    skip: u64,
    /// The line before announced a message of that many bytes.
    message: Option<usize>,
}

impl Decoder {
    /// More came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next line, with its message if it announces one; `None` if more has to come first.
    ///
    /// # Errors
    /// `Corrupt` or `Limit` if what comes is none of the protocol: the connection is of no use any more.
    pub fn next(&mut self) -> Result<Option<Line>> {
        loop {
            if let Some(bytes) = self.message {
                // With the line end behind it.
                if self.input.len() < bytes + 2 {
                    return Ok(None);
                }
                self.message = None;
                let mut message = self.take(bytes + 2);
                message.truncate(bytes);
                return Ok(Some(Line::Message(message)));
            }
            match self.head()? {
                None => return Ok(None),
                Some(LineHead::Line(line)) => return Ok(Some(line)),
                Some(LineHead::Info { .. }) => return Ok(Some(Line::Other)),
                Some(LineHead::Message(_)) => {}
            }
        }
    }

    /// The next line; [`Decoder::next`] then returns the message that it announces, if it is of a
    /// known kind.
    ///
    /// # Errors
    /// As [`Decoder::next`].
    pub fn head(&mut self) -> Result<Option<LineHead>> {
        loop {
            if self.skip > 0 {
                let now = usize::try_from(self.skip).unwrap_or(usize::MAX).min(self.input.len());
                self.take(now);
                self.skip -= now as u64;
                if self.skip > 0 {
                    return Ok(None);
                }
            }
            let end = self.input[self.looked..].iter().position(|byte| *byte == b'\n');
            let end = end.map(|end| self.looked + end);
            self.looked = self.input.len();
            if end.unwrap_or(self.looked) > BUS_LINE_BYTES {
                return Err(Error::limit("the bus sends a line that is too long"));
            }
            let Some(end) = end else { return Ok(None) };
            let mut line = self.take(end + 1);
            line.truncate(end);
            let head = parse(&line)?;
            if let LineHead::Message(bytes) = head {
                match usize::try_from(bytes) {
                    Ok(bytes) if bytes <= BUS_MESSAGE_BYTES => self.message = Some(bytes),
                    // None of ours.
                    _ => {
                        self.skip = bytes.saturating_add(2);
                        continue;
                    }
                }
            }
            return Ok(Some(head));
        }
    }

    /// Bytes that wait for more.
    pub fn waiting(&self) -> usize {
        self.input.len()
    }

    fn take(&mut self, bytes: usize) -> Vec<u8> {
        let rest = self.input.split_off(bytes);
        self.looked = 0;
        std::mem::replace(&mut self.input, rest)
    }
}

/// Reads a line, without its end.
///
/// # Errors
/// `Corrupt` if it is none of the protocol.
pub(super) fn parse(line: &[u8]) -> Result<LineHead> {
    let bad = || Error::corrupt("the peer is not a NATS server");
    let line = std::str::from_utf8(line).map_err(|_| bad())?.trim_end();
    let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    Ok(match word.to_ascii_uppercase().as_str() {
        "MSG" => {
            let fields = rest.split_ascii_whitespace();
            if !(3..=4).contains(&fields.clone().count()) {
                return Err(bad());
            }
            LineHead::Message(fields.last().and_then(|bytes| bytes.parse().ok()).ok_or_else(bad)?)
        }
        "INFO" => {
            let info: serde_json::Value = serde_json::from_str(rest.trim()).map_err(|_| bad())?;
            LineHead::Info {
                tls: info.get("tls_required").and_then(serde_json::Value::as_bool).unwrap_or(false),
            }
        }
        "PING" => LineHead::Line(Line::Ping),
        "PONG" => LineHead::Line(Line::Pong),
        "-ERR" => LineHead::Line(Line::Error(rest.trim().trim_matches('\'').to_owned())),
        "+OK" => LineHead::Line(Line::Other),
        _ => return Err(bad()),
    })
}

/// The account and position that a message is about; `None` if it is no hint.
pub(super) fn hint(payload: &[u8]) -> Option<(AccountId, Position)> {
    let text =
        std::str::from_utf8(payload).ok().filter(|text| text.len() == HINT_BYTES && text.is_ascii())?;
    let (account, position) = text.split_at(32);
    Some((account.parse().ok()?, Position(u64::from_str_radix(position, 16).ok()?)))
}

/// Messages with these hints.
pub(super) fn publish(subject: &str, hints: &[(AccountId, Position)]) -> String {
    let mut text = String::with_capacity(hints.len() * (HINT_BYTES + subject.len() + 16));
    for (account, position) in hints {
        // Writing to a string cannot fail.
        let _ = write!(text, "PUB {subject} {HINT_BYTES}\r\n{account}{:016x}\r\n", position.0);
    }
    text
}

/// What a node says of itself in a message; `None` if it is something else.
pub(super) fn presence(payload: &[u8]) -> Option<Presence> {
    let text = std::str::from_utf8(payload).ok()?;
    let Some((word, node)) = text.split_once(' ') else {
        return (text == "back").then_some(Presence::Back);
    };
    let node = u64::from_str_radix(node, 16).ok()?;
    match word {
        "here" => Some(Presence::Here(node)),
        "leaves" => Some(Presence::Leaves(node)),
        _ => None,
    }
}

/// The message that says it.
pub(super) fn say(subject: &str, presence: Presence) -> String {
    let text = match presence {
        Presence::Back => "back".to_owned(),
        Presence::Here(node) => format!("here {node:016x}"),
        Presence::Leaves(node) => format!("leaves {node:016x}"),
    };
    format!("PUB {subject} {}\r\n{text}\r\n", text.len())
}

/// The name of this end. The bus does not return its own messages.
pub(super) fn connect(user: Option<&str>, secret: Option<&str>, tls: bool) -> String {
    let mut options = serde_json::json!({
        "verbose": false, "pedantic": false, "echo": false, "protocol": 1, "lang": "rust", "name": "sealpost",
        "version": env!("CARGO_PKG_VERSION"), "tls_required": tls,
    });
    match (user, secret) {
        (Some(user), secret) => {
            options["user"] = user.into();
            options["pass"] = secret.unwrap_or_default().into();
        }
        (None, Some(token)) => options["auth_token"] = token.into(),
        (None, None) => {}
    }
    format!("CONNECT {options}\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_parsed_as_the_protocol_defines() {
        for (line, head) in [
            ("MSG a.b 1 48", LineHead::Message(48)),
            ("msg a.b\t1 reply.to  7", LineHead::Message(7)),
            ("PING", LineHead::Line(Line::Ping)),
            ("PONG", LineHead::Line(Line::Pong)),
            ("+OK", LineHead::Line(Line::Other)),
            (
                "-ERR 'Authorization Violation'",
                LineHead::Line(Line::Error("Authorization Violation".to_owned())),
            ),
            ("INFO {\"server_id\":\"x\",\"tls_required\":true}", LineHead::Info { tls: true }),
            ("INFO {\"max_payload\":1048576} ", LineHead::Info { tls: false }),
        ] {
            assert_eq!(parse(line.as_bytes()).unwrap(), head, "{line}");
        }
        for bad in
            ["", "HTTP/1.1 400", "MSG a 1", "MSG a 1 2 3 4", "MSG a 1 -1", "INFO x", "* OK IMAP", "\u{e9}"]
        {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse(b"MSG \xff 1 1").is_err());
    }

    #[test]
    fn secrets_are_where_they_belong() {
        assert!(connect(Some("me"), Some("pw"), false).contains(r#""pass":"pw""#));
        assert!(connect(None, Some("t\"\r\n"), true).contains(r#""auth_token":"t\"\r\n""#));
        assert!(!connect(None, None, false).contains("pass"));
    }

    #[test]
    fn presence_messages_round_trip() {
        for said in [Presence::Back, Presence::Here(7), Presence::Leaves(u64::MAX)] {
            let sent = say("s", said);
            let payload = sent.split("\r\n").nth(1).unwrap();
            assert_eq!(presence(payload.as_bytes()), Some(said), "{sent}");
            assert_eq!(hint(payload.as_bytes()), None, "{sent}");
        }
        for nonsense in ["", "here", "back 1", "here x", "here 11111111111111111", "HERE 1"] {
            assert_eq!(presence(nonsense.as_bytes()), None, "{nonsense}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&line);
            let _ = hint(&line);
            let _ = presence(&line);
        }

        #[test]
        fn hints_come_back(account: [u8; 16], position: u64) {
            let sent = publish("s", &[(AccountId(account), Position(position))]);
            let payload = sent.split("\r\n").nth(1).unwrap();
            prop_assert_eq!(hint(payload.as_bytes()), Some((AccountId(account), Position(position))));
        }
    }
}
