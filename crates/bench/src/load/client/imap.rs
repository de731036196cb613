//! An IMAP client that keeps only what the next command needs.
//!
//! Commands may be pipelined (RFC 3501 §5.5): every tagged response is matched with its command and
//! counted at once, as bytes are scanned. Untagged responses are counted; EXISTS, EXPUNGE, UIDNEXT
//! and HIGHESTMODSEQ are kept for the next command's placeholders.

mod actions;
mod mailboxes;
mod state;

use std::io::Write as _;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;

use super::{Client, Fail, OpenCount, count};
use crate::load::protocol::Protocol;
use crate::load::scan::Syntax;
use crate::load::scenario::{Expect, Step};
use crate::load::target::Endpoint;
use crate::load::text::{is_quotable, quoted};
use crate::load::wire::Wire;
use state::{MailboxState, Outstanding};

pub use state::Capabilities;

/// A connection to an IMAP server.
pub struct Imap {
    wire: Wire,
    state: MailboxState,
    client: Rc<Client>,
    /// The next command, and the bytes to send with it; kept for reuse.
    line: Vec<u8>,
    out: Vec<u8>,
    tag: u64,
    /// The mailbox that was selected last, as written.
    selected: Option<String>,
    /// The deadline for responses before the first command.
    due: Duration,
    _open: OpenCount,
}

/// How a command is counted.
struct Counted<'a> {
    name: Rc<str>,
    from: Duration,
    expect: Option<&'a Expect>,
    accept_no: bool,
    /// Not at all: it is an internal command of the bench.
    quiet: bool,
}

impl<'a> Counted<'a> {
    fn own(name: &str) -> Self {
        Counted { name: name.into(), from: Duration::ZERO, expect: None, accept_no: true, quiet: true }
    }
}

impl Imap {
    /// Connects, with TLS as the target wants it, and reads the greeting.
    ///
    /// # Errors
    /// If the server is not there or refuses.
    pub async fn connect(client: &Rc<Client>, from: Duration) -> Result<Self, Fail> {
        let shared = &client.thread.shared;
        let endpoint = shared
            .target
            .endpoint(Protocol::Imap)
            .ok_or_else(|| Fail::Protocol("no IMAP server is known".into()))?;
        let stream =
            timeout(shared.command_timeout, endpoint.connect()).await.map_err(|_| Fail::Timeout)??;
        let mut imap = Imap {
            wire: Wire::new(stream, Syntax::Imap),
            state: MailboxState::new(client.clone()),
            client: client.clone(),
            line: Vec::new(),
            out: Vec::new(),
            tag: 0,
            selected: None,
            due: client.thread.now() + shared.command_timeout,
            _open: OpenCount::new(&client.thread),
        };
        imap.greeted(endpoint).await?;
        if let Some(tls) = endpoint.starts_tls() {
            imap.own("STARTTLS").await?;
            if !imap.state.last_ok {
                return Err(Fail::Protocol(format!("STARTTLS: {}", imap.state.last_text)));
            }
            let plain = std::mem::replace(&mut imap.wire, Wire::closed(Syntax::Imap));
            let stream = timeout(shared.command_timeout, tls.wrap(plain.into_stream()))
                .await
                .map_err(|_| Fail::Timeout)??;
            imap.wire = Wire::new(stream, Syntax::Imap);
            // Capabilities before TLS may have been forged (RFC 3501 §6.2.1).
            imap.state.capabilities = None;
        }
        if imap.state.bye {
            return Err(Fail::Closed(imap.state.last_text.clone()));
        }
        client.thread.ok("CONNECT", from, 0, 0);
        Ok(imap)
    }

    /// Waits for the greeting.
    async fn greeted(&mut self, endpoint: &Endpoint) -> Result<(), Fail> {
        let greeted = self.wait(|state| state.greeted || state.stranger.is_some()).await;
        if let Some(said) = &self.state.stranger {
            return Err(Fail::Protocol(format!("this is no IMAP server, it says {said:?}")));
        }
        greeted.map_err(|fail| fail.of_greeting(endpoint, self.wire.has_received()))
    }

    /// Logs in and reads the capabilities.
    ///
    /// # Errors
    /// `Denied` if the server refuses the login.
    pub async fn login(&mut self, name: &Rc<str>, from: Duration) -> Result<(), Fail> {
        let shared = self.client.thread.shared.clone();
        let user = shared
            .target
            .users
            .get(self.client.account)
            .ok_or_else(|| Fail::Denied("no account was given".into()))?;
        if !is_quotable(&user.name) || !is_quotable(&user.password) {
            return Err(Fail::Denied(
                "an account or password that is not plain ASCII is not supported".into(),
            ));
        }
        self.line.clear();
        self.line.extend_from_slice(b"LOGIN ");
        quoted(&user.name, &mut self.line);
        self.line.push(b' ');
        quoted(&user.password, &mut self.line);
        self.state.capabilities = None;
        let counted = Counted { name: name.clone(), from, expect: None, accept_no: false, quiet: false };
        self.start(counted).await?;
        self.line.fill(0);
        self.drained().await?;
        if self.state.last_ok {
            return Ok(());
        }
        let text = self.state.last_text.clone();
        // RFC 5530 §3: the password was not checked.
        Err(if text.contains("[UNAVAILABLE]") { Fail::Unavailable(text) } else { Fail::Denied(text) })
    }

    /// Runs all of `step`, once; the first command counts from `from`.
    ///
    /// # Errors
    /// If the connection is unusable.
    pub async fn step(
        &mut self,
        step: &Step,
        names: &[Rc<str>],
        from: Duration,
        pipeline: usize,
    ) -> Result<(), Fail> {
        let mut from = Some(from);
        for (action, name) in step.actions.iter().zip(names) {
            let from = from.take().unwrap_or_else(|| self.client.thread.now());
            self.act(action, step, name, from, pipeline).await?;
        }
        Ok(())
    }

    /// Waits until every command is answered.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn drained(&mut self) -> Result<(), Fail> {
        self.wait(|state| state.outstanding.is_empty()).await
    }

    /// Waits for `time`, and reads responses meanwhile, so that an answer counts on arrival.
    ///
    /// # Errors
    /// If the connection is unusable, or the client is to stop.
    pub async fn rest(&mut self, time: Duration) -> Result<(), Fail> {
        let client = self.client.clone();
        let over = client.pause(time);
        tokio::pin!(over);
        while !self.state.outstanding.is_empty() {
            tokio::select! {
                biased;
                rested = &mut over => return rested,
                received = self.receive() => received?,
            }
        }
        over.await
    }

    /// Messages in the selected mailbox.
    pub fn exists(&self) -> u32 {
        self.state.exists
    }

    /// Whether the server has said goodbye.
    pub fn is_closed(&self) -> bool {
        self.state.bye
    }

    /// Counts the unanswered commands as failed; returns how many there were, without internal
    /// ones.
    pub fn abandon(&mut self, fail: &Fail) -> usize {
        let mut counted = 0;
        for command in std::mem::take(&mut self.state.outstanding) {
            if !command.quiet && *fail != Fail::Stopped {
                let text = self.why(fail);
                self.client.thread.error(&command.name, fail.kind(), || text);
                counted += 1;
            }
        }
        counted
    }

    /// Why the connection is unusable: the server's text, if it sent BYE.
    pub fn why(&self, fail: &Fail) -> String {
        if self.state.bye { format!("BYE {}", self.state.last_text) } else { fail.to_string() }
    }

    /// Sends an internal command and waits for it; it is not counted.
    async fn own(&mut self, command: &str) -> Result<(), Fail> {
        self.line.clear();
        self.line.extend_from_slice(command.as_bytes());
        self.start(Counted::own(command)).await?;
        self.drained().await
    }

    /// Sends a tag and the contents of `line`.
    async fn start(&mut self, counted: Counted<'_>) -> Result<(), Fail> {
        self.begin(counted);
        self.out.extend_from_slice(&self.line);
        self.out.extend_from_slice(b"\r\n");
        self.flush().await
    }

    /// Puts the tag of a new command into `out`.
    fn begin(&mut self, counted: Counted<'_>) {
        self.tag += 1;
        self.out.clear();
        let _ = write!(self.out, "a{} ", self.tag);
        self.state.outstanding.push_back(Outstanding {
            tag: self.tag,
            name: counted.name,
            from: counted.from,
            sent: 0,
            received: 0,
            expect: counted.expect.cloned(),
            matched: 0,
            accept_no: counted.accept_no,
            quiet: counted.quiet,
            unsent: false,
            due: self.client.thread.now() + self.client.thread.shared.command_timeout,
        });
    }

    /// Sends the contents of `out`.
    async fn flush(&mut self) -> Result<(), Fail> {
        let out = std::mem::take(&mut self.out);
        let sent = self.send(&out).await;
        self.out = out;
        self.out.clear();
        sent
    }

    /// Sends bytes that belong to the newest command.
    async fn send(&mut self, bytes: &[u8]) -> Result<(), Fail> {
        if let Some(command) = self.state.outstanding.back_mut() {
            command.sent += bytes.len() as u64;
        }
        let shared = self.client.thread.shared.clone();
        count(&shared.sent, bytes.len() as u64);
        let sent = timeout(self.left()?, self.wire.send(bytes, &mut self.state)).await;
        self.count_received();
        match sent {
            Ok(sent) => Ok(sent?),
            Err(_) => Err(Fail::Timeout),
        }
    }

    async fn wait(&mut self, until: impl Fn(&MailboxState) -> bool) -> Result<(), Fail> {
        while !until(&self.state) {
            self.receive().await?;
        }
        Ok(())
    }

    /// How long the oldest command may still take, whatever responses come meanwhile.
    fn left(&self) -> Result<Duration, Fail> {
        let due = self.state.outstanding.front().map_or(self.due, |command| command.due);
        due.checked_sub(self.client.thread.now()).ok_or(Fail::Timeout)
    }

    async fn receive(&mut self) -> Result<(), Fail> {
        let received = timeout(self.left()?, self.wire.receive(&mut self.state)).await;
        self.count_received();
        match received {
            Ok(received) => Ok(received?),
            Err(_) => Err(Fail::Timeout),
        }
    }

    fn count_received(&mut self) {
        let (_, received) = self.wire.traffic();
        count(&self.client.thread.shared.received, received);
    }
}
