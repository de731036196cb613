//! An SMTP (RFC 5321) or LMTP (RFC 2033) client, which pipelines where it may (RFC 2920), and a
//! submission (RFC 6409) client, which does not ([`submit`]).

mod submit;

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::Write as _;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;

use super::{Client, Fail, MISSED_NOTIFICATIONS, OpenCount, count, notified};
use crate::dots::dot;
use crate::load::data::Message;
use crate::load::notice::Announced;
use crate::load::protocol::Protocol;
use crate::load::scan::{Line, Syntax};
use crate::load::target::Endpoint;
use crate::load::wire::{Sink, Wire};
use crate::mail::base64_line;

/// A connection to an SMTP or LMTP server.
pub struct Smtp {
    wire: Wire,
    replies: Replies,
    client: Rc<Client>,
    protocol: Protocol,
    auth: bool,
    out: Vec<u8>,
    /// Deliveries in a row without a notification.
    missed: u32,
    _open: OpenCount,
}

/// One delivery.
pub struct Delivery<'a> {
    /// Its name in reports.
    pub name: &'a str,
    /// From when it counts.
    pub from: Duration,
    /// The accounts that receive it.
    pub recipients: &'a [usize],
    /// The message.
    pub message: &'a Message,
    /// It is complete when the waiting clients were notified.
    pub notified: bool,
}

#[derive(Default)]
struct Replies {
    done: VecDeque<(u16, String)>,
    /// Lines before the last one, of the unfinished reply.
    lines: Vec<String>,
    extensions: Extensions,
}

#[derive(Default, Clone, Copy)]
struct Extensions {
    pipelining: bool,
    size: bool,
    auth_plain: bool,
}

impl Sink for Replies {
    fn line(&mut self, line: Line<'_>) {
        let text = String::from_utf8_lossy(line.text).into_owned();
        if line.text.get(3) == Some(&b'-') {
            // Memory is bounded even if a reply never ends.
            if self.lines.len() < 100 {
                self.lines.push(text);
            }
            return;
        }
        let code = text.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
        self.lines.push(text.clone());
        let said = |name: &str| {
            self.lines.iter().any(|line| {
                line.get(4..).is_some_and(|word| {
                    word.split(' ').next().is_some_and(|word| word.eq_ignore_ascii_case(name))
                })
            })
        };
        self.extensions = Extensions {
            pipelining: self.extensions.pipelining || said("PIPELINING"),
            size: self.extensions.size || said("SIZE"),
            auth_plain: self.extensions.auth_plain || self.lines.iter().any(|line| offers_plain(line)),
        };
        self.lines.clear();
        self.done.push_back((code, text));
    }
}

impl Smtp {
    /// Connects, says EHLO or LHLO, and logs in if the phase wants it.
    ///
    /// # Errors
    /// If the server is not there or refuses.
    pub async fn connect(
        client: &Rc<Client>,
        protocol: Protocol,
        auth: bool,
        from: Duration,
    ) -> Result<Self, Fail> {
        let silent = Cell::new(false);
        let connected = Self::connected(client, protocol, auth, from, &silent);
        match timeout(client.thread.shared.command_timeout, connected).await {
            Ok(connected) => connected,
            // LMTP is never spoken with TLS.
            Err(_) if silent.get() && protocol != Protocol::Lmtp => Err(Fail::Silent),
            Err(_) => Err(Fail::Timeout),
        }
    }

    async fn connected(
        client: &Rc<Client>,
        protocol: Protocol,
        auth: bool,
        from: Duration,
        silent: &Cell<bool>,
    ) -> Result<Self, Fail> {
        let shared = client.thread.shared.clone();
        let endpoint = shared
            .target
            .endpoint(protocol)
            .ok_or_else(|| Fail::Protocol(format!("no {} server is known", protocol.name())))?;
        let stream = endpoint.connect().await?;
        let mut smtp = Smtp {
            wire: Wire::new(stream, Syntax::Smtp),
            replies: Replies::default(),
            client: client.clone(),
            protocol,
            auth,
            out: Vec::new(),
            missed: 0,
            _open: OpenCount::new(&client.thread),
        };
        silent.set(endpoint.tls.as_ref().is_none_or(|tls| !tls.implicit));
        smtp.expect("the greeting").await?;
        silent.set(false);
        smtp.hello().await?;
        if let Some(tls) = endpoint.starts_tls() {
            smtp.command("STARTTLS").await?;
            let plain = std::mem::replace(&mut smtp.wire, Wire::closed(Syntax::Smtp));
            let stream = tls.wrap(plain.into_stream()).await?;
            smtp.wire = Wire::new(stream, Syntax::Smtp);
            // Replies before TLS may have been forged (RFC 3207 §4.2).
            smtp.replies = Replies::default();
            smtp.hello().await?;
        }
        if auth {
            smtp.authenticate(endpoint).await?;
        }
        client.thread.ok("CONNECT", from, 0, 0);
        Ok(smtp)
    }

    /// Delivers one message, and counts it.
    ///
    /// # Errors
    /// If the connection is unusable.
    pub async fn deliver(&mut self, delivery: &Delivery<'_>) -> Result<(), Fail> {
        let command_timeout = self.client.thread.shared.command_timeout;
        let delivered = async {
            match self.protocol {
                Protocol::Submission => self.submitted(delivery).await,
                _ => self.delivered(delivery).await,
            }
        };
        let announced = timeout(command_timeout, delivered).await.map_err(|_| Fail::Timeout)??;
        if delivery.notified && !announced.is_empty() {
            let was_notified = notified(&self.client.thread, &announced).await;
            self.missed = if was_notified { 0 } else { self.missed + 1 };
        }
        if self.missed >= MISSED_NOTIFICATIONS { Err(Fail::NotNotified) } else { Ok(()) }
    }

    /// Delivers one message; returns the notifications to wait for.
    async fn delivered(&mut self, delivery: &Delivery<'_>) -> Result<Vec<Announced>, Fail> {
        let thread = self.client.thread.clone();
        let accepted = self.envelope(delivery).await?;
        if accepted == 0 {
            return Ok(Vec::new());
        }
        let announced = self.announce(delivery);
        self.body(delivery.message).await?;
        // RFC 2033 §4.2: one reply for each recipient that was accepted.
        let replies = if self.protocol == Protocol::Lmtp { accepted } else { 1 };
        let mut refused = None;
        for _ in 0..replies {
            let (code, text) = self.reply().await?;
            if !is_ok(code) {
                refused = Some((code, text));
            }
        }
        let (sent, received) = self.wire.traffic();
        count(&thread.shared.sent, sent);
        count(&thread.shared.received, received);
        match refused {
            None => thread.ok(delivery.name, delivery.from, sent, received),
            Some((code, text)) => {
                for one in &announced {
                    thread.shared.notices.retract(one);
                }
                thread.error(delivery.name, &code.to_string(), || text);
                return Ok(Vec::new());
            }
        }
        Ok(announced)
    }

    /// Sends QUIT.
    pub async fn quit(&mut self) {
        let command_timeout = self.client.thread.shared.command_timeout;
        let goodbye = async {
            self.send(b"QUIT\r\n").await?;
            self.reply().await
        };
        // The outcome does not matter.
        let _ = timeout(command_timeout, goodbye).await;
    }

    /// MAIL, RCPT, DATA; returns how many recipients were accepted.
    async fn envelope(&mut self, delivery: &Delivery<'_>) -> Result<usize, Fail> {
        let thread = self.client.thread.clone();
        let users = &thread.shared.target.users;
        // A logged-in client sends as its account, another one as an external sender.
        let sender = if self.auth { self.client.user() } else { "bench@sender.example" };
        let size = if self.replies.extensions.size {
            format!(" SIZE={}", delivery.message.len())
        } else {
            String::new()
        };
        let mut lines = vec![format!("MAIL FROM:<{sender}>{size}")];
        lines.extend(delivery.recipients.iter().map(|nth| format!("RCPT TO:<{}>", users[*nth].name)));
        lines.push("DATA".into());
        let (mut accepted, mut refused) = (0, None);
        if self.replies.extensions.pipelining {
            self.send_lines(&lines).await?;
        }
        let last = lines.len() - 1;
        for (nth, line) in lines.iter().enumerate() {
            if !self.replies.extensions.pipelining {
                if nth == last && accepted == 0 {
                    break;
                }
                self.send_lines(std::slice::from_ref(line)).await?;
            }
            let (code, text) = self.reply().await?;
            match code {
                354 if nth == last => {}
                code if nth == last => return self.give_up(delivery, refused.unwrap_or((code, text))).await,
                code if is_ok(code) => accepted += usize::from(nth > 0),
                code => {
                    refused.get_or_insert((code, text));
                }
            }
        }
        match refused {
            None => Ok(accepted),
            Some(refused) if accepted == 0 => {
                if self.replies.extensions.pipelining {
                    // DATA was accepted without recipients (RFC 2920 §3.1): an empty message ends
                    // it.
                    self.send(b".\r\n").await?;
                    self.reply().await?;
                }
                self.give_up(delivery, refused).await
            }
            Some((code, text)) => {
                thread.error(delivery.name, &code.to_string(), || text);
                Ok(accepted)
            }
        }
    }

    /// Counts the delivery as refused, and resets the session.
    async fn give_up(&mut self, delivery: &Delivery<'_>, (code, text): (u16, String)) -> Result<usize, Fail> {
        self.client.thread.error(delivery.name, &code.to_string(), || text.clone());
        if code == 421 {
            return Err(Fail::Closed(text));
        }
        self.send(b"RSET\r\n").await?;
        self.reply().await?;
        Ok(0)
    }

    /// The message with its dots doubled, and its end (RFC 5321 §4.5.2).
    async fn body(&mut self, message: &[u8]) -> Result<(), Fail> {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        let dots = message.starts_with(b".") || memchr::memmem::find(message, b"\n.").is_some();
        let small = message.len() <= 32 * 1024;
        if dots || small {
            dot(message, &mut out);
        } else {
            self.send(message).await?;
        }
        if !message.ends_with(b"\r\n") {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b".\r\n");
        let sent = self.send(&out).await;
        out.shrink_to(64 * 1024);
        self.out = out;
        sent
    }

    fn announce(&self, delivery: &Delivery<'_>) -> Vec<Announced> {
        let thread = &self.client.thread;
        let now = thread.now();
        delivery
            .recipients
            .iter()
            .filter_map(|account| thread.shared.notices.announce(*account, now))
            .collect()
    }

    async fn hello(&mut self) -> Result<(), Fail> {
        let verb = if self.protocol == Protocol::Lmtp { "LHLO" } else { "EHLO" };
        self.command(&format!("{verb} client.bench.example")).await
    }

    /// RFC 4954, PLAIN (RFC 4616).
    async fn authenticate(&mut self, endpoint: &Endpoint) -> Result<(), Fail> {
        if !self.replies.extensions.auth_plain {
            let perhaps =
                if endpoint.tls.is_none() { "; perhaps it does with TLS (--tls starttls)" } else { "" };
            return Err(Fail::Denied(format!("the server does not offer AUTH PLAIN{perhaps}")));
        }
        let thread = self.client.thread.clone();
        let user = thread
            .shared
            .target
            .users
            .get(self.client.account)
            .ok_or_else(|| Fail::Denied("no account was given".into()))?;
        let response = base64_line(format!("\0{}\0{}", user.name, user.password).as_bytes());
        let from = thread.now();
        self.send(format!("AUTH PLAIN {response}\r\n").as_bytes()).await?;
        let (code, text) = self.reply().await?;
        match code {
            code if is_ok(code) => thread.ok("AUTH", from, 0, 0),
            // RFC 4954 §6: 454 and similar replies are temporary.
            400..500 => return Err(Fail::Unavailable(format!("AUTH: {text}"))),
            _ => return Err(Fail::Denied(format!("AUTH: {text}"))),
        }
        Ok(())
    }

    async fn command(&mut self, line: &str) -> Result<(), Fail> {
        self.send_lines(&[line.to_owned()]).await?;
        self.expect(line).await
    }

    async fn expect(&mut self, what: &str) -> Result<(), Fail> {
        let (code, text) = self.reply().await?;
        if is_ok(code) { Ok(()) } else { Err(Fail::Protocol(format!("{what}: {text}"))) }
    }

    async fn send_lines(&mut self, lines: &[String]) -> Result<(), Fail> {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        for line in lines {
            let _ = write!(out, "{line}\r\n");
        }
        let sent = self.send(&out).await;
        self.out = out;
        sent
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), Fail> {
        Ok(self.wire.send(bytes, &mut self.replies).await?)
    }

    /// The next reply. No timeout: the caller bounds the whole delivery.
    async fn reply(&mut self) -> Result<(u16, String), Fail> {
        loop {
            if let Some(reply) = self.replies.done.pop_front() {
                return Ok(reply);
            }
            self.wire.receive(&mut self.replies).await?;
        }
    }
}

/// `250-AUTH LOGIN PLAIN` (RFC 4954 §3), or the older form with `=`.
fn offers_plain(line: &str) -> bool {
    let words = line.get(4..).unwrap_or_default().to_ascii_uppercase();
    let mut words = words.split([' ', '=']);
    words.next() == Some("AUTH") && words.any(|word| word == "PLAIN")
}

fn is_ok(code: u16) -> bool {
    (200..300).contains(&code)
}
