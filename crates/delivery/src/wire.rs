//! Commands and replies over a stream, each step with its timeout and all within a deadline.

use std::io;

use bytes::BytesMut;
use sealpost_smtp::client::{Answer, Client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use crate::dial::Stream;
use crate::outcome::{Reason, Step};
use crate::timeouts::Timeouts;

/// Bytes that are read at once.
const READ_BYTES: usize = 4 * 1024;

/// An SMTP connection. It cannot be used after an error of its methods.
pub(crate) struct Wire {
    stream: Box<dyn Stream>,
    /// The state of the protocol.
    pub client: Client,
    /// The bytes to send next; see [`Wire::flush`].
    pub out: BytesMut,
    timeouts: Timeouts,
    deadline: Instant,
}

impl Wire {
    /// Sets the deadline of all steps until the next call.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Sends the bytes in [`Wire::out`].
    pub async fn flush(&mut self, step: Step) -> Result<(), Reason> {
        if self.out.is_empty() {
            return Ok(());
        }
        let (until, late) = self.until(step);
        let write = async {
            self.stream.write_all(&self.out).await?;
            self.stream.flush().await
        };
        match timeout_at(until, write).await {
            Ok(Ok(())) => {
                self.out.clear();
                Ok(())
            }
            Ok(Err(error)) => Err(lost(&error, step)),
            Err(_) => Err(late),
        }
    }

    /// Sends pending bytes and returns the next answer, all of it within the time of `step`.
    pub async fn answer(&mut self, step: Step) -> Result<Answer, Reason> {
        self.flush(step).await?;
        self.read_answer(step).await
    }

    /// The next answer, without sending anything.
    pub async fn read_answer(&mut self, step: Step) -> Result<Answer, Reason> {
        let (until, late) = self.until(step);
        let read = async {
            let mut input = [0; READ_BYTES];
            loop {
                match self.client.next_answer() {
                    Ok(Some(answer)) => return Ok(answer),
                    Ok(None) => {}
                    Err(_) => return Err(Reason::ProtocolViolation(step)),
                }
                match self.stream.read(&mut input).await {
                    Ok(0) => return Err(Reason::ConnectionLost(step)),
                    Ok(length) => self.client.feed(&input[..length]),
                    Err(error) => return Err(lost(&error, step)),
                }
            }
        };
        timeout_at(until, read).await.unwrap_or(Err(late))
    }

    /// Waits until the server closes the connection or sends something, such as 421 (RFC 5321 §3.8). Returns
    /// at once if that came together with its last reply. It counts as the answer to the next command.
    pub async fn disturbed(&mut self) {
        if self.client.has_input() {
            return;
        }
        let mut input = [0; 128];
        if let Ok(length) = self.stream.read(&mut input).await {
            self.client.feed(&input[..length]);
        }
    }

    /// The deadline of `step` if it begins now, and the reason if it passes.
    fn until(&self, step: Step) -> (Instant, Reason) {
        let end = Instant::now() + self.timeouts.of(step);
        if end <= self.deadline { (end, Reason::TimedOut(step)) } else { (self.deadline, Reason::TooSlow) }
    }

    /// The bare stream and the state of the protocol, for TLS. `None` if the server sent something
    /// too early, which TLS would not protect (RFC 3207 §4.2).
    pub fn into_parts(mut self) -> Option<(Box<dyn Stream>, Client)> {
        (self.client.tls_started() == 0).then_some((self.stream, self.client))
    }

    /// `stream`, on which `client` speaks.
    pub fn from_parts(
        stream: Box<dyn Stream>,
        client: Client,
        timeouts: Timeouts,
        deadline: Instant,
    ) -> Self {
        Wire { stream, client, out: BytesMut::new(), timeouts, deadline }
    }

    /// Ends the connection in an orderly way.
    pub async fn shut_down(mut self) {
        // An error changes nothing: the connection is over.
        let _ = tokio::time::timeout(self.timeouts.quit, self.stream.shutdown()).await;
    }
}

fn lost(error: &io::Error, step: Step) -> Reason {
    match error.kind() {
        // rustls reports input that is no TLS record.
        io::ErrorKind::InvalidData => Reason::ProtocolViolation(step),
        _ => Reason::ConnectionLost(step),
    }
}
