//! How long each step of a delivery may take.

use std::time::Duration;

use crate::outcome::Step;

/// Bounds on the time of each step and of the whole. The defaults of the steps are those of RFC
/// 5321 §4.5.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Opening one TCP connection.
    pub connect: Duration,
    /// The greeting (RFC 5321 §4.5.3.2.1).
    pub greeting: Duration,
    /// EHLO, HELO and RSET.
    pub hello: Duration,
    /// STARTTLS and the handshake.
    pub tls: Duration,
    /// Each reply to AUTH.
    pub auth: Duration,
    /// MAIL (RFC 5321 §4.5.3.2.2).
    pub mail: Duration,
    /// RCPT (RFC 5321 §4.5.3.2.3).
    pub rcpt: Duration,
    /// DATA (RFC 5321 §4.5.3.2.4).
    pub data: Duration,
    /// Each 16 KiB of the message (RFC 5321 §4.5.3.2.5).
    pub block: Duration,
    /// The reply to the end of the message (RFC 5321 §4.5.3.2.6).
    pub message_end: Duration,
    /// QUIT.
    pub quit: Duration,
    /// Finding a server that works: all addresses of a destination together.
    pub connect_total: Duration,
    /// One mail over an open connection, besides the time that its size allows at [`Timeouts::throughput`].
    pub mail_total: Duration,
    /// The slowest transfer that is tolerated, in bytes a second.
    pub throughput: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        Timeouts {
            connect: Duration::from_secs(30),
            greeting: minutes(5),
            hello: minutes(5),
            tls: minutes(1),
            auth: minutes(1),
            mail: minutes(5),
            rcpt: minutes(5),
            data: minutes(2),
            block: minutes(3),
            message_end: minutes(10),
            quit: Duration::from_secs(5),
            connect_total: minutes(15),
            mail_total: minutes(30),
            throughput: 32 * 1024,
        }
    }
}

impl Timeouts {
    /// How long the peer may take for `step`.
    pub fn of(&self, step: Step) -> Duration {
        match step {
            Step::Dns => self.connect_total,
            Step::Connect => self.connect,
            Step::Greeting => self.greeting,
            Step::Hello | Step::Reset => self.hello,
            Step::Tls => self.tls,
            Step::Auth => self.auth,
            Step::Mail => self.mail,
            Step::Rcpt => self.rcpt,
            Step::Data => self.data,
            Step::Message => self.block,
            Step::MessageEnd => self.message_end,
        }
    }

    /// How long a mail of `size` bytes may take in all.
    pub fn of_mail(&self, size: u64) -> Duration {
        self.mail_total + Duration::from_secs(size / self.throughput.max(1))
    }
}
