//! Submission (RFC 6409): one command after the other, each timed by itself, as mail programs send
//! them. A user sends as itself: the message gets its address in From, and loses the fields that
//! say who sent and carried it before.

use std::time::Duration;

use super::{Delivery, Smtp, count, is_ok};
use crate::load::client::Fail;
use crate::load::notice::Announced;

/// Fields of a message that its new sender does not take over. A server may refuse a From or Sender
/// that is not the user's.
const LEFT_OUT: [&[u8]; 8] = [
    b"From",
    b"Sender",
    b"Reply-To",
    b"Return-Path",
    b"Received",
    b"DKIM-Signature",
    b"Authentication-Results",
    b"Bcc",
];

impl Smtp {
    /// Submits one message; returns the notifications to wait for.
    ///
    /// Counted are MAIL, RCPT, DATA and `(message)`, from 354 to the reply that the message was
    /// taken, and the whole under the delivery's name.
    pub(super) async fn submitted(&mut self, delivery: &Delivery<'_>) -> Result<Vec<Announced>, Fail> {
        let thread = self.client.thread.clone();
        let sender = self.client.user().to_owned();
        let message = sent_by(&sender, delivery.message);
        let size =
            if self.replies.extensions.size { format!(" SIZE={}", message.len()) } else { String::new() };
        if !self.timed("MAIL", &format!("MAIL FROM:<{sender}>{size}")).await? {
            return self.begin_again(delivery).await;
        }
        let mut accepted = 0;
        for nth in delivery.recipients {
            let to = &thread.shared.target.users[*nth].name;
            accepted += usize::from(self.timed("RCPT", &format!("RCPT TO:<{to}>")).await?);
        }
        if accepted == 0 || !self.timed("DATA", "DATA").await? {
            return self.begin_again(delivery).await;
        }
        let announced = self.announce(delivery);
        let from = thread.now();
        self.body(&message).await?;
        let taken = self.replied("(message)", from).await?;
        let (sent, received) = self.wire.traffic();
        count(&thread.shared.sent, sent);
        count(&thread.shared.received, received);
        if taken {
            thread.ok(delivery.name, delivery.from, sent, received);
            return Ok(announced);
        }
        for one in &announced {
            thread.shared.notices.retract(one);
        }
        thread.error(delivery.name, "refused", || "a command was refused".to_owned());
        Ok(Vec::new())
    }

    /// Sends a command and counts its reply; whether it was positive.
    async fn timed(&mut self, name: &str, line: &str) -> Result<bool, Fail> {
        let from = self.client.thread.now();
        self.send_lines(&[line.to_owned()]).await?;
        self.replied(name, from).await
    }

    async fn replied(&mut self, name: &str, from: Duration) -> Result<bool, Fail> {
        let thread = self.client.thread.clone();
        let (code, text) = self.reply().await?;
        if is_ok(code) || code == 354 {
            thread.ok(name, from, 0, 0);
            return Ok(true);
        }
        thread.error(name, &code.to_string(), || text.clone());
        if code == 421 { Err(Fail::Closed(text)) } else { Ok(false) }
    }

    /// The transaction failed: the next one begins again.
    async fn begin_again(&mut self, delivery: &Delivery<'_>) -> Result<Vec<Announced>, Fail> {
        self.client.thread.error(delivery.name, "refused", || "a command was refused".to_owned());
        self.send(b"RSET\r\n").await?;
        self.reply().await?;
        Ok(Vec::new())
    }
}

/// The message as `sender` sends it.
fn sent_by(sender: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 64);
    out.extend_from_slice(format!("From: {sender}\r\n").as_bytes());
    let (mut rest, mut is_left_out) = (message, false);
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        let (line, after) = rest.split_at(end);
        if matches!(line, b"\r\n" | b"\n") {
            break;
        }
        // RFC 5322 §2.2.3: a line that begins with white space belongs to the field before.
        if !line.starts_with(b" ") && !line.starts_with(b"\t") {
            let name = &line[..memchr::memchr(b':', line).unwrap_or(0)];
            is_left_out = LEFT_OUT.iter().any(|left_out| name.eq_ignore_ascii_case(left_out));
        }
        if !is_left_out {
            out.extend_from_slice(line);
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_sent_by_its_new_sender() {
        let message =
            b"Received: by x;\r\n\tFriday\r\nFROM: a@b\r\nTo: c@d\r\nSubject: x\r\n y\r\n\r\nFrom: body\r\n";
        let sent = b"From: me@x\r\nTo: c@d\r\nSubject: x\r\n y\r\n\r\nFrom: body\r\n";
        assert_eq!(sent_by("me@x", message), sent);
        assert_eq!(sent_by("me@x", b"\r\nbody"), b"From: me@x\r\n\r\nbody");
        assert_eq!(sent_by("me@x", b""), b"From: me@x\r\n");
    }
}
