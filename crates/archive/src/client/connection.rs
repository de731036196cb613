//! [`Connection`]: one connection to a server: commands out, events in.

use std::time::Duration;

use bytes::BytesMut;
use sealpost_base::{Error, Kind, Result, limits};
use sealpost_imap::NUL_EXTENSION;
use sealpost_imap::client::{Event, Limits, ResponseDecoder};
use sealpost_imap::types::{Code, Response, Status, Tag};
use sealpost_imap::write::{Literals, Writer};
use tokio::time::{Instant, timeout};

use super::answers::Answers;
use super::io::Io;
use super::min_throughput::MinThroughput;
use super::peer_fault::protocol_violation;
use super::refusal;
use super::server_seen::unreached;
use super::{Capabilities, Compress, Security, Server, ServerSeen, login};

/// Bytes that are gathered before they are sent.
const TOGETHER: usize = 32 * 1024;

/// A connection that is logged in. After an error it can only be dropped, except after a refused
/// command ([`Connection::run`]).
pub struct Connection {
    io: Io,
    decoder: ResponseDecoder,
    answers: Answers,
    /// Commands that were not sent yet.
    writer: Writer,
    tag: u32,
    capabilities: Capabilities,
    qresync: bool,
    pace: MinThroughput,
    within: Duration,
}

/// How a command ended.
#[derive(Debug, Clone)]
pub struct Done {
    /// OK, NO or BAD.
    pub status: Status,
    /// Its response code.
    pub code: Option<Code>,
    /// Its text.
    pub text: String,
}

impl Done {
    /// Nothing if it was OK.
    ///
    /// # Errors
    /// The server's text, with a kind that says what can be done; `what` was attempted.
    pub fn ok(self, what: &str) -> Result<Option<Code>> {
        if self.status == Status::Ok {
            return Ok(self.code);
        }
        Err(refusal::error(what, self.status, self.code.as_ref(), &self.text))
    }
}

impl Connection {
    /// Connects, secures the connection as `server` says, logs in, and compresses where it helps.
    ///
    /// # Errors
    /// `Retry` if a later attempt may do better, and if the server never answered ([`ServerSeen`]);
    /// `Denied` if the login is refused; `Invalid` if the server does not support what was asked
    /// for, or its certificate is not trusted.
    pub async fn open(server: &Server) -> Result<Self> {
        let (mut connection, authenticated) = Self::secured(server).await?;
        if !authenticated {
            login::login(&mut connection, server).await?;
        }
        connection.learn_capabilities().await?;
        connection.compress(server.compress).await?;
        connection.io.set_answer(server.timeouts.answer);
        if connection.capabilities.literal_plus() {
            connection.writer = Writer::with_literals(Literals::NonSynchronizing);
        }
        connection.enable_nul();
        Ok(connection)
    }

    /// Connects, secures the connection and logs out: checks for a trusted server without a login.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn reach(server: &Server) -> Result<()> {
        Self::secured(server).await?.0.logout().await;
        Ok(())
    }

    /// A connection that is as secure as `server` says, and whether it is authenticated.
    async fn secured(server: &Server) -> Result<(Self, bool)> {
        let (mut connection, authenticated) = match Self::greeted(server).await {
            Err(e) if !server.reached.is_set() => return Err(unreached(&server.host, server.port, e)),
            greeted => greeted?,
        };
        if server.security == Security::StartTls {
            if authenticated {
                // An attacker in between could have sent it to keep the connection in the clear
                // (RFC 9051 §6.2.1).
                return Err(Error::invalid("the server greets with PREAUTH, so STARTTLS is not possible"));
            }
            connection.start_tls(server).await?;
        }
        Ok((connection, authenticated))
    }

    /// Has a Sealpost server send messages with NUL as they are: with the next command, without
    /// waiting. Other servers, and this one to other clients, replace NUL by another byte, which
    /// cannot be detected.
    fn enable_nul(&mut self) {
        if self.capabilities.has(NUL_EXTENSION) && self.capabilities.has("ENABLE") {
            self.queue(|w| w.raw(b"ENABLE ").raw(NUL_EXTENSION));
        }
    }

    /// A connection that was greeted, and whether that says it is authenticated.
    async fn greeted(server: &Server) -> Result<(Self, bool)> {
        let mut timeouts = server.timeouts;
        if !server.reached.is_set() {
            let first = timeouts.first.saturating_mul(2);
            (timeouts.connect, timeouts.greeting) =
                (timeouts.connect.min(first), timeouts.greeting.min(first));
        }
        let io = Self::tcp(server).await?;
        let limits = Limits {
            inline_bytes: limits::ARCHIVE_INLINE_BYTES,
            response_bytes: limits::ARCHIVE_RESPONSE_BYTES,
        };
        let mut connection = Connection {
            io,
            decoder: ResponseDecoder::new(limits),
            answers: Answers::default(),
            writer: Writer::with_literals(Literals::Synchronizing),
            tag: 0,
            capabilities: Capabilities::default(),
            qresync: false,
            pace: MinThroughput::new(timeouts.within),
            within: timeouts.within,
        };
        if server.security == Security::Implicit {
            connection.io.start_tls(&server.host, server.tls.clone(), timeouts.connect).await?;
        }
        // A server that accepts connections and sends nothing is recognized sooner than one that
        // works on a command.
        match timeout(timeouts.greeting, connection.greeting(&server.reached)).await {
            Ok(greeted) => Ok((connection, greeted?)),
            Err(_) => {
                let tls = match server.security {
                    Security::Implicit => "",
                    _ => ", and not the one for --tls implicit",
                };
                let (host, seconds) = (&server.host, timeouts.greeting.as_secs());
                Err(Error::retry(format!(
                    "{host} takes the connection and has said nothing for {seconds} s: is this its IMAP port{tls}?"
                )))
            }
        }
    }

    /// A connection over TCP: tried a few times, quickly, if the server was never reached.
    async fn tcp(server: &Server) -> Result<Io> {
        let timeouts = server.timeouts;
        let connect = || Io::connect(&server.host, server.port, timeouts.connect, timeouts.greeting);
        if server.reached.is_set() {
            return connect().await;
        }
        let mut last = None;
        let tries = async {
            for pause in [timeouts.retry / 2, timeouts.retry] {
                match connect().await {
                    Err(e) if e.kind() == Kind::Retry => last = Some(e),
                    connected => return connected,
                }
                tokio::time::sleep(pause).await;
            }
            connect().await
        };
        match timeout(timeouts.first, tries).await {
            Ok(tried) => tried,
            Err(_) => {
                Err(last
                    .unwrap_or_else(|| Error::retry(format!("no answer in {} s", timeouts.first.as_secs()))))
            }
        }
    }

    /// What the server can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Has the server report which messages vanished (RFC 7162 §3.2.3) if it can: with the next
    /// command, without waiting.
    pub fn enable_qresync(&mut self) {
        if self.capabilities.has("QRESYNC") && self.capabilities.has("ENABLE") && !self.qresync {
            self.qresync = true;
            self.queue(|w| w.raw(b"ENABLE QRESYNC"));
        }
    }

    /// Whether QRESYNC was enabled.
    pub fn qresync(&self) -> bool {
        self.qresync
    }

    /// Bytes received so far, as they came over the network.
    pub fn received(&self) -> u64 {
        self.io.received()
    }

    /// Writes a command, `body` without tag and line end, to be sent with the next
    /// [`Connection::flush`]; its tag.
    pub fn queue(&mut self, body: impl FnOnce(&mut Writer) -> &mut Writer) -> u32 {
        self.tag += 1;
        self.writer.raw(b"s").number(u64::from(self.tag)).space();
        body(&mut self.writer);
        self.writer.crlf();
        self.tag
    }

    /// Begins a command whose end comes by [`Connection::more`]; its tag.
    pub fn begin(&mut self, body: impl FnOnce(&mut Writer) -> &mut Writer) -> u32 {
        self.tag += 1;
        self.writer.raw(b"s").number(u64::from(self.tag)).space();
        body(&mut self.writer);
        self.tag
    }

    /// More of a command that was begun, to be sent with the next [`Connection::flush`].
    pub fn more(&mut self, body: impl FnOnce(&mut Writer) -> &mut Writer) {
        body(&mut self.writer);
    }

    /// Sends bytes of a literal that the server already accepts, with the next
    /// [`Connection::flush`] or before.
    ///
    /// # Errors
    /// `Retry` if the connection is lost.
    pub async fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if self.writer.len() + bytes.len() > TOGETHER {
            self.flush().await?;
        }
        if bytes.len() > TOGETHER {
            return self.io.send(bytes).await;
        }
        self.writer.raw(bytes);
        Ok(())
    }

    /// Sends what was queued. Commands with literals that have to be waited for go by
    /// [`Connection::run`] alone.
    ///
    /// # Errors
    /// `Retry` if the connection is lost.
    pub async fn flush(&mut self) -> Result<()> {
        if !self.writer.is_empty() {
            let bytes = self.writer.take();
            self.io.send(&bytes).await?;
        }
        Ok(())
    }

    /// Sends bytes of a literal that the server waits for.
    ///
    /// # Errors
    /// `Retry` if the connection is lost.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.io.send(bytes).await
    }

    /// The next event, if it came already.
    ///
    /// # Errors
    /// `Retry` if the server said BYE, cannot be understood, or sends responses without completing
    /// a command.
    pub fn ready(&mut self) -> Result<Option<Event>> {
        let Some(event) = self.decoder.next() else { return Ok(None) };
        if !matches!(event, Event::LiteralData(_)) {
            self.pace.begin();
        }
        self.answers.take(&event, self.tag)?;
        match event {
            Event::Broken(reason) => {
                Err(protocol_violation(format!("invalid data from the server: {reason}")))
            }
            Event::LiteralBegin(_, size) if size > limits::ARCHIVE_MESSAGE_BYTES => {
                let most = limits::ARCHIVE_MESSAGE_BYTES;
                Err(protocol_violation(format!(
                    "the server announces a message of {size} bytes; the limit is {most}"
                )))
            }
            Event::Response(Response::Status { tag: None, status: Status::Bye, code, text }) => {
                Err(refusal::error("the connection was ended", Status::Bye, code.as_ref(), &text))
            }
            event => Ok(Some(event)),
        }
    }

    /// The next event. Waits up to the answer timeout; may be dropped while waiting, and called
    /// again.
    ///
    /// # Errors
    /// `Retry` if the connection is lost or ended.
    pub async fn next(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = self.ready()? {
                return Ok(event);
            }
            self.receive().await?;
        }
    }

    /// Receives the next bytes. An answer that has begun must keep a minimum throughput.
    async fn receive(&mut self) -> Result<()> {
        if !self.decoder.is_within() {
            return self.io.receive(self.decoder.buffer(), None).await;
        }
        let (before, begin) = (self.io.received(), Instant::now());
        self.io.receive(self.decoder.buffer(), Some(self.within)).await?;
        self.pace.record(self.io.received() - before, begin.elapsed())
    }

    /// How the command with this tag ended, if the event says so.
    pub fn completion(event: &Event) -> Option<u32> {
        let Event::Response(Response::Status { tag: Some(tag), .. }) = event else { return None };
        number(tag)
    }

    /// Runs one command and gives all events up to its end to `on`.
    ///
    /// # Errors
    /// `Retry` if the connection is lost; the error of `on`, after which the connection is
    /// unusable. A refusal is no error here ([`Done::ok`]).
    pub async fn run(
        &mut self,
        body: impl FnOnce(&mut Writer) -> &mut Writer,
        mut on: impl FnMut(Event) -> Result<()>,
    ) -> Result<Done> {
        let tag = self.queue(body);
        let mut pieces = self.writer.take_pieces().into_iter();
        if let Some(first) = pieces.next() {
            self.io.send(&first).await?;
        }
        loop {
            match self.next().await? {
                Event::Response(Response::Continue(_)) => {
                    let piece = pieces.next().unwrap_or_else(|| BytesMut::from(&b"\r\n"[..]));
                    self.io.send(&piece).await?;
                }
                Event::Response(Response::Status { tag: Some(its), status, code, text }) => {
                    if number(&its) == Some(tag) {
                        return Ok(Done { status, code, text });
                    }
                }
                event => on(event)?,
            }
        }
    }

    /// Sends LOGOUT without waiting for the answer.
    pub async fn logout(mut self) {
        self.queue(|w| w.raw(b"LOGOUT"));
        let _ = self.flush().await;
    }

    /// Whether the session is authenticated already.
    async fn greeting(&mut self, reached: &ServerSeen) -> Result<bool> {
        match self.next().await? {
            Event::Response(Response::Status { tag: None, status, code, text }) => {
                // Also if it answers that it is busy.
                reached.set();
                if let Some(Code::Capability(names)) = code {
                    self.capabilities = Capabilities::new(&names);
                }
                match status {
                    Status::Ok => Ok(false),
                    Status::PreAuth => Ok(true),
                    status => Err(refusal::error("the greeting", status, None, &text)),
                }
            }
            _ => Err(protocol_violation("the server sends no IMAP greeting")),
        }
    }

    async fn start_tls(&mut self, server: &Server) -> Result<()> {
        if !self.capabilities.is_empty() && !self.capabilities.has("STARTTLS") {
            let why = "the server does not offer STARTTLS; try implicit TLS, port 993";
            return Err(Error::invalid(why));
        }
        let done = self.run(|w| w.raw(b"STARTTLS"), |_| Ok(())).await?;
        done.ok("STARTTLS")?;
        // Bytes that came in the clear must not be taken for the server's over TLS.
        if self.decoder.pending() > 0 {
            return Err(Error::invalid(
                "received data between STARTTLS and the TLS handshake: an attack on the \
                                       connection, or a faulty server",
            ));
        }
        self.io.start_tls(&server.host, server.tls.clone(), server.timeouts.connect).await?;
        // RFC 9051 §6.2.1: what was announced before may have been forged.
        self.capabilities = Capabilities::default();
        Ok(())
    }

    /// Asks for the capabilities unless the server has sent them.
    pub(super) async fn learn_capabilities(&mut self) -> Result<()> {
        if !self.capabilities.is_empty() {
            return Ok(());
        }
        let mut names = Vec::new();
        let on = |event| {
            if let Event::Response(Response::Capability(list)) = event {
                names = list;
            }
            Ok(())
        };
        self.run(|w| w.raw(b"CAPABILITY"), on).await?.ok("CAPABILITY")?;
        self.capabilities = Capabilities::new(&names);
        Ok(())
    }

    /// The capabilities that the server announced; empty: they have to be asked for.
    pub(super) fn set_capabilities(&mut self, capabilities: Capabilities) {
        self.capabilities = capabilities;
    }

    async fn compress(&mut self, compress: Compress) -> Result<()> {
        let wanted = match compress {
            Compress::Always => true,
            Compress::Auto => !self.io.is_near(),
            Compress::Never => false,
        };
        if !wanted || !self.capabilities.has("COMPRESS=DEFLATE") {
            return Ok(());
        }
        let done = self.run(|w| w.raw(b"COMPRESS DEFLATE"), |_| Ok(())).await?;
        if done.status == Status::Ok {
            let received = self.decoder.buffer().split();
            self.io.start_deflate(received);
        }
        Ok(())
    }
}

fn number(tag: &Tag) -> Option<u32> {
    tag.as_str().strip_prefix('s')?.parse().ok()
}
