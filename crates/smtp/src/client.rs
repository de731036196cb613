//! The client's side of the protocol: commands out, and the reply to each.
//!
//! [`Client`] knows which replies the server owes and in which order, so the caller may pipeline commands
//! (RFC 2920). After an LMTP message it expects one reply for each recipient that was accepted
//! (RFC 2033 §4.2). It decides nothing: the caller chooses commands and interprets replies.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;

use bytes::{BufMut, BytesMut};

use crate::data::DataEncoder;
use crate::parse::{ReplyDecoder, ReplyError};
use crate::types::{Chunk, ClientName, Command, Hello, Reply, Secret, Verb};
use crate::write;

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// RFC 5321: one reply per message.
    Smtp,
    /// RFC 2033: one reply per recipient.
    Lmtp,
}

/// The command that a reply answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// No command: the server's greeting.
    Connection,
    /// A command.
    Command(Command),
    /// A line of an authentication exchange after 334 (RFC 4954 §4).
    AuthResponse,
    /// The end of a message by DATA. With LMTP, for the n-th recipient of those that were accepted.
    Message {
        /// 0 for SMTP; counts the accepted recipients for LMTP.
        recipient: usize,
    },
    /// The last chunk of a message by BDAT; recipients as above.
    LastChunk {
        /// 0 for SMTP; counts the accepted recipients for LMTP.
        recipient: usize,
    },
}

/// A reply and the command that it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The command.
    pub to: Sent,
    /// The server's reply.
    pub reply: Reply,
}

/// The server and this client are out of step; the connection cannot be used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientError {
    /// Not a reply.
    Reply(ReplyError),
    /// A reply without a command.
    Unexpected,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Reply(error) => error.fmt(f),
            ClientError::Unexpected => f.write_str("a reply without a command"),
        }
    }
}

impl std::error::Error for ClientError {}

/// Extensions of a server: the lines of its reply to EHLO or LHLO, except the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extensions(Vec<String>);

impl Extensions {
    /// Whether `keyword` was offered, in any case of letters (RFC 5321 §4.1.1.1).
    pub fn has(&self, keyword: &str) -> bool {
        self.parameters(keyword).is_some()
    }

    /// The parameters of `keyword`; empty if it has none; `None` if it was not offered.
    pub fn parameters(&self, keyword: &str) -> Option<&str> {
        self.0.iter().find_map(|line| {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            word.eq_ignore_ascii_case(keyword).then_some(rest)
        })
    }

    /// The size limit (RFC 1870 §4); `None` if there is none.
    pub fn size(&self) -> Option<u64> {
        self.parameters("SIZE")?.trim().parse().ok().filter(|&limit| limit > 0)
    }
}

/// A reply that the server owes.
#[derive(Debug)]
enum Owed {
    One(Sent),
    /// The end of a message. The number of its replies is known when it is the first that is owed.
    Message {
        chunk: bool,
    },
    /// The rest of an LMTP message's replies.
    Recipients {
        chunk: bool,
        next: usize,
        total: usize,
    },
}

/// One connection to a server.
#[derive(Debug)]
pub struct Client {
    protocol: Protocol,
    decoder: ReplyDecoder,
    owed: VecDeque<Owed>,
    accepted: usize,
    extensions: Extensions,
    encoder: Option<DataEncoder>,
}

impl Client {
    /// The client of a new connection, on which the server owes the greeting.
    pub fn new(protocol: Protocol) -> Self {
        Client {
            protocol,
            decoder: ReplyDecoder::new(),
            owed: VecDeque::from([Owed::One(Sent::Connection)]),
            accepted: 0,
            extensions: Extensions::default(),
            encoder: None,
        }
    }

    /// EHLO for SMTP, LHLO for LMTP.
    pub fn hello(&mut self, name: ClientName, out: &mut BytesMut) {
        let verb = match self.protocol {
            Protocol::Smtp => Verb::Ehlo,
            Protocol::Lmtp => Verb::Lhlo,
        };
        self.command(Command::Hello(Hello { verb, name }), out);
    }

    /// Any command except BDAT: see [`Client::chunk`].
    pub fn command(&mut self, command: Command, out: &mut BytesMut) {
        write::command(&command, out);
        self.owed.push_back(Owed::One(Sent::Command(command)));
    }

    /// A line of an authentication exchange, already in base64, after AUTH was answered with 334
    /// (RFC 4954 §4).
    pub fn auth_response(&mut self, response: &Secret, out: &mut BytesMut) {
        write::auth_response(response, out);
        self.owed.push_back(Owed::One(Sent::AuthResponse));
    }

    /// A piece of the message, after DATA was answered with 354.
    pub fn data(&mut self, message: &[u8], out: &mut BytesMut) {
        self.encoder.get_or_insert_default().push(message, out);
    }

    /// The end of the message begun after DATA.
    pub fn end_data(&mut self, out: &mut BytesMut) {
        self.encoder.take().unwrap_or_default().finish(out);
        self.owed.push_back(Owed::Message { chunk: false });
    }

    /// BDAT with its bytes (RFC 3030).
    pub fn chunk(&mut self, bytes: &[u8], last: bool, out: &mut BytesMut) {
        self.begin_chunk(Chunk { size: bytes.len() as u64, last }, out);
        out.put_slice(bytes);
    }

    /// BDAT without its bytes. The caller has to send exactly `chunk.size` bytes next.
    pub fn begin_chunk(&mut self, chunk: Chunk, out: &mut BytesMut) {
        let command = Command::Bdat(chunk);
        write::command(&command, out);
        self.owed.push_back(if chunk.last {
            Owed::Message { chunk: true }
        } else {
            Owed::One(Sent::Command(command))
        });
    }

    /// Takes bytes from the server, cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
    }

    /// The next answer, if it is there.
    ///
    /// # Errors
    /// If the server's output cannot be parsed.
    pub fn next_answer(&mut self) -> Result<Option<Answer>, ClientError> {
        let Some(reply) = self.decoder.next_reply().map_err(ClientError::Reply)? else { return Ok(None) };
        let Some(to) = self.next_owed() else { return Err(ClientError::Unexpected) };
        self.learn(&to, &reply);
        Ok(Some(Answer { to, reply }))
    }

    /// Whether the server owes no reply.
    pub fn is_idle(&self) -> bool {
        let nothing = self.protocol == Protocol::Lmtp && self.accepted == 0;
        self.owed.iter().all(|owed| nothing && matches!(owed, Owed::Message { .. }))
    }

    /// Whether the server has sent more than the answers taken so far.
    pub fn has_input(&self) -> bool {
        self.decoder.has_input()
    }

    /// The extensions in the server's last reply to EHLO or LHLO.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// Drops all state from plaintext when TLS has started (RFC 3207 §4.2). Returns how many bytes had
    /// arrived too early; the caller should hang up if there are any.
    pub fn tls_started(&mut self) -> usize {
        let early = self.decoder.discard_input();
        self.extensions = Extensions::default();
        early
    }

    fn next_owed(&mut self) -> Option<Sent> {
        loop {
            let (chunk, next, total) = match self.owed.pop_front()? {
                Owed::One(sent) => return Some(sent),
                Owed::Message { chunk } => match self.protocol {
                    Protocol::Smtp => (chunk, 0, 1),
                    // RFC 2033 §4.3: no recipients, no replies.
                    Protocol::Lmtp => (chunk, 0, self.accepted),
                },
                Owed::Recipients { chunk, next, total } => (chunk, next, total),
            };
            if next + 1 < total {
                self.owed.push_front(Owed::Recipients { chunk, next: next + 1, total });
            } else {
                self.accepted = 0;
            }
            if next < total {
                return Some(if chunk {
                    Sent::LastChunk { recipient: next }
                } else {
                    Sent::Message { recipient: next }
                });
            }
        }
    }

    fn learn(&mut self, to: &Sent, reply: &Reply) {
        let Sent::Command(command) = to else { return };
        match command {
            Command::Rcpt(_) if reply.is_positive() => self.accepted += 1,
            Command::Mail(_) | Command::Rset if reply.is_positive() => self.accepted = 0,
            Command::Hello(hello) if reply.is_positive() => {
                self.accepted = 0;
                let offered = reply.lines.iter().skip(1).map(|line| line.to_string());
                self.extensions =
                    Extensions(if hello.verb == Verb::Helo { Vec::new() } else { offered.collect() });
            }
            _ => {}
        }
    }
}
