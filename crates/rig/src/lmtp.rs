//! A raw LMTP client (RFC 2033) that pipelines like an MTA's: envelope in one write, then the message.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use sealpost_bench::dots::dot;

use crate::wire::Wire;

/// A connection to an LMTP server.
pub struct Lmtp {
    wire: Wire,
}

/// One reply: its code and the text of its last line.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The reply code.
    pub code: u16,
    /// The last line, code included.
    pub text: String,
}

impl Answer {
    /// Whether the code is 2xx.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// A message as DATA needs it: dots doubled, terminator at its end (RFC 5321 §4.5.2). Ends with
/// CRLF already.
pub fn dotted(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 16);
    dot(message, &mut out);
    out.extend_from_slice(b".\r\n");
    out
}

impl Lmtp {
    /// Connects, reads the greeting, sends LHLO.
    pub async fn connect(addr: SocketAddr) -> Result<Self> {
        Self::greeted(addr, b"LHLO client.bench.example\r\n").await
    }

    /// Connects to an SMTP server (RFC 5321), which answers a message once, however many recipients it has.
    pub async fn connect_smtp(addr: SocketAddr) -> Result<Self> {
        Self::greeted(addr, b"EHLO client.bench.example\r\n").await
    }

    async fn greeted(addr: SocketAddr, hello: &[u8]) -> Result<Self> {
        let mut lmtp = Lmtp { wire: Wire::connect(addr).await? };
        lmtp.expect_ok().await?;
        lmtp.wire.send(hello).await?;
        lmtp.expect_ok().await?;
        Ok(lmtp)
    }

    /// Sends the envelope and waits until the server accepts the message; the caller sends the
    /// message.
    pub async fn envelope(&mut self, recipients: &[&str]) -> Result<()> {
        let mut head = String::from("MAIL FROM:<sender@bench.example>\r\n");
        for recipient in recipients {
            head.push_str(&format!("RCPT TO:<{recipient}>\r\n"));
        }
        head.push_str("DATA\r\n");
        self.wire.send(head.as_bytes()).await?;
        for _ in 0..=recipients.len() {
            self.expect_ok().await?;
        }
        let go = self.answer().await?;
        ensure!(go.code == 354, "DATA: {}", go.text);
        Ok(())
    }

    /// Delivers one dotted message; one answer per recipient, in order (RFC 2033 §4.2).
    pub async fn deliver(&mut self, recipients: &[&str], dotted: &[u8]) -> Result<Vec<Answer>> {
        self.envelope(recipients).await?;
        self.wire.send(dotted).await?;
        let mut answers = Vec::with_capacity(recipients.len());
        for _ in recipients {
            answers.push(self.answer().await?);
        }
        Ok(answers)
    }

    /// Sends raw bytes.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.wire.send(bytes).await
    }

    /// Reads one reply.
    pub async fn answer(&mut self) -> Result<Answer> {
        loop {
            let line = self.wire.line().await?;
            if line.get(3) == Some(&b'-') {
                continue;
            }
            let text = String::from_utf8_lossy(&line).into_owned();
            let code = text.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
            return Ok(Answer { code, text });
        }
    }

    async fn expect_ok(&mut self) -> Result<()> {
        let answer = self.answer().await?;
        ensure!(answer.is_ok(), "LMTP: {}", answer.text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_at_line_starts_are_doubled() {
        assert_eq!(dotted(b"a\r\n.b\r\n"), b"a\r\n..b\r\n.\r\n");
    }
}
