//! Executes the steps of a scenario on a connection.

use std::rc::Rc;
use std::time::Duration;

use super::{Capabilities, Counted, Imap};
use crate::load::client::Fail;
use crate::load::data::{DataSet, Message};
use crate::load::scenario::template::Template;
use crate::load::scenario::{Action, Step};

/// Larger messages are sent from their own memory; smaller ones are copied, so that they leave with
/// their command.
const COPIED_BYTES: usize = 32 * 1024;

/// A message to append.
pub(super) struct Outgoing {
    pub message: Message,
    /// Its flags and date as the command has them, each after a blank.
    pub about: String,
}

impl Imap {
    pub(super) async fn act(
        &mut self,
        action: &Action,
        step: &Step,
        name: &Rc<str>,
        from: Duration,
        pipeline: usize,
    ) -> Result<(), Fail> {
        if !matches!(action, Action::Command(..)) {
            self.drained().await?;
        }
        let counted = Counted {
            name: name.clone(),
            from,
            expect: step.expect.as_ref(),
            accept_no: step.accept_no,
            quiet: false,
        };
        match action {
            Action::Command(template, _) => {
                self.render(template);
                let asks = template.asks_for_new();
                let selects = starts_with(&self.line, b"SELECT ") || starts_with(&self.line, b"EXAMINE ");
                self.remember_selected();
                self.start(counted).await?;
                self.wait(|state| state.outstanding.len() < pipeline).await?;
                if asks || (selects && self.client.uid_seen.get() == 0) {
                    self.drained().await?;
                    self.client.uid_seen.set(self.state.uid_next);
                    self.client.mod_seq.set(self.state.mod_seq);
                }
                Ok(())
            }
            Action::Login => self.login(name, from).await,
            Action::Logout => {
                self.line.clear();
                self.line.extend_from_slice(b"LOGOUT");
                self.start(counted).await?;
                self.drained().await
            }
            Action::Wait(pause) => {
                let pause = pause.draw(&self.client.random);
                self.client.pause(self.client.within_phase(pause)).await
            }
            Action::Fresh(mailbox) => self.fresh(mailbox, name, from).await,
            Action::Fill(fill) => self.fill(fill, name, from).await,
            Action::Append { mailbox, data, flags } => self.append(mailbox, data, flags, counted).await,
            Action::Idle { limit, until_notified } => self.idle(*limit, *until_notified, counted).await,
            Action::Clean => self.clean(name).await,
            // Done by the caller, which needs a new connection for it.
            Action::Reconnect => Ok(()),
            // Not of IMAP.
            Action::Deliver(_) | Action::Request(_) | Action::Events => Ok(()),
        }
    }

    fn render(&mut self, template: &Template) {
        self.line.clear();
        template.render(&self.client.values(self.state.exists, self.state.uid_next), &mut self.line);
    }

    /// `template` in this server's syntax, as text.
    pub(super) fn rendered(&mut self, template: &Template) -> String {
        self.render(template);
        String::from_utf8_lossy(&self.line).into_owned()
    }

    pub(super) async fn capabilities(&mut self) -> Result<Capabilities, Fail> {
        if self.state.capabilities.is_none() {
            self.own("CAPABILITY").await?;
        }
        Ok(*self.state.capabilities.get_or_insert_default())
    }

    /// Sends an internal command; returns its untagged responses.
    pub(super) async fn query(&mut self, command: &str) -> Result<Vec<String>, Fail> {
        self.state.captured = Some(Vec::new());
        let sent = self.own(command).await;
        let lines = self.state.captured.take().unwrap_or_default();
        sent.map(|()| lines)
    }

    /// Runs an internal command that must succeed for `name` to succeed.
    pub(super) async fn must(&mut self, command: &str, name: &str) -> Result<bool, Fail> {
        self.own(command).await?;
        if !self.state.last_ok {
            let text = format!("{command}: {}", self.state.last_text);
            self.client.thread.error(name, "NO", || text);
        }
        Ok(self.state.last_ok)
    }

    /// Records which mailbox the command in `line` selects, if any.
    fn remember_selected(&mut self) {
        let line = String::from_utf8_lossy(&self.line);
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "SELECT" | "EXAMINE" => self.selected = Some(rest.to_owned()),
            "CLOSE" | "UNSELECT" => self.selected = None,
            _ => {}
        }
    }

    async fn append(
        &mut self,
        mailbox: &Template,
        data: &str,
        flags: &str,
        counted: Counted<'_>,
    ) -> Result<(), Fail> {
        let Some(data) = self.client.thread.shared.data.get(data).cloned() else { return Ok(()) };
        let message = next_message(&self.client.messages, &data);
        self.capabilities().await?;
        let mailbox = self.rendered(mailbox);
        self.line.clear();
        self.line.extend_from_slice(b"APPEND ");
        self.line.extend_from_slice(mailbox.as_bytes());
        let about = if flags.is_empty() { String::new() } else { format!(" {flags}") };
        self.append_messages(&[Outgoing { message, about }], counted).await
    }

    /// Sends the APPEND that begins with the contents of `line` (RFC 3501 §6.3.11, RFC 3502) and
    /// waits for its end.
    pub(super) async fn append_messages(
        &mut self,
        messages: &[Outgoing],
        counted: Counted<'_>,
    ) -> Result<(), Fail> {
        let capabilities = self.state.capabilities.unwrap_or_default();
        self.begin(counted);
        let line = std::mem::take(&mut self.line);
        self.out.extend_from_slice(&line);
        self.line = line;
        for Outgoing { message, about } in messages {
            // RFC 7888 §5: LITERAL- allows 4,096 bytes without a continuation request.
            let at_once = capabilities.literal_plus || (capabilities.literal_minus && message.len() <= 4096);
            let plus = if at_once { "+" } else { "" };
            self.out.extend_from_slice(format!("{about} {{{}{plus}}}\r\n", message.len()).as_bytes());
            if !at_once && !self.await_continuation().await? {
                // Refused, and counted.
                return Ok(());
            }
            if message.len() <= COPIED_BYTES {
                self.out.extend_from_slice(message);
            } else {
                self.flush().await?;
                self.send(message).await?;
            }
        }
        self.out.extend_from_slice(b"\r\n");
        self.flush().await?;
        self.out.shrink_to(COPIED_BYTES);
        self.drained().await
    }

    /// Sends the contents of `out` up to a literal and waits; returns whether the server accepts
    /// the literal (RFC 3501 §4.3).
    async fn await_continuation(&mut self) -> Result<bool, Fail> {
        self.state.go_on = false;
        self.unsent(true);
        self.flush().await?;
        self.wait(|state| state.go_on || state.outstanding.is_empty()).await?;
        self.unsent(false);
        Ok(self.state.go_on)
    }

    fn unsent(&mut self, unsent: bool) {
        if let Some(command) = self.state.outstanding.back_mut() {
            command.unsent = unsent;
        }
    }

    /// RFC 2177.
    async fn idle(
        &mut self,
        limit: Option<Duration>,
        until_notified: bool,
        counted: Counted<'_>,
    ) -> Result<(), Fail> {
        let thread = self.client.thread.clone();
        let (name, from) = (counted.name.clone(), counted.from);
        self.line.clear();
        self.line.extend_from_slice(b"IDLE");
        self.state.go_on = false;
        self.state.notified = false;
        self.start(Counted { quiet: true, ..counted }).await?;
        self.wait(|state| state.go_on || state.outstanding.is_empty()).await?;
        if !self.state.go_on {
            let text = self.state.last_text.clone();
            thread.error(&name, "NO", || text);
            return Ok(());
        }
        thread.ok(&name, from, 0, 0);
        self.state.idle = Some(thread.shared.notices.enter(self.client.account));
        self.line = Vec::new();
        self.out = Vec::new();
        if limit.is_none() && !until_notified {
            (self.client.settled)();
        }
        let waited = self.wait_idle(limit, until_notified).await;
        if let Some(next) = self.state.idle.take() {
            thread.shared.notices.leave(self.client.account, next);
        }
        let counts = waited?;
        let from = thread.now();
        if let Some(idle) = self.state.outstanding.front_mut() {
            // The waiting itself is not charged: the timeout counts from DONE.
            idle.due = from + thread.shared.command_timeout;
        }
        self.out.extend_from_slice(b"DONE\r\n");
        self.flush().await?;
        self.drained().await?;
        if self.state.last_ok && counts {
            thread.ok("DONE", from, 0, 0);
        } else if !self.state.last_ok {
            let text = self.state.last_text.clone();
            thread.error("DONE", "NO", || text);
        }
        Ok(())
    }

    /// Waits in IDLE. False if the end of the phase ended it: then all waiting clients end it
    /// together, which the scenario does not contain and which is not counted.
    async fn wait_idle(&mut self, limit: Option<Duration>, until_notified: bool) -> Result<bool, Fail> {
        let client = self.client.clone();
        // An unlimited IDLE lasts beyond the end of the phase.
        let stays = limit.is_none() && !until_notified;
        let wanted = limit.unwrap_or(Duration::MAX);
        let limit = if stays { wanted } else { client.within_phase(wanted) };
        let over = async {
            if limit == Duration::MAX {
                return std::future::pending().await;
            }
            tokio::time::sleep(limit).await;
        };
        tokio::pin!(over);
        let stopped = client.stopped();
        tokio::pin!(stopped);
        loop {
            if self.state.bye {
                return Err(Fail::Closed(format!("BYE {}", self.state.last_text)));
            }
            if until_notified && self.state.notified {
                return Ok(true);
            }
            tokio::select! {
                received = self.wire.receive(&mut self.state) => received?,
                () = &mut over => return Ok(limit == wanted),
                () = &mut stopped => return Ok(true),
            }
            self.count_received();
        }
    }
}

fn next_message(sent: &std::cell::Cell<u64>, data: &DataSet) -> Message {
    let nth = sent.get();
    sent.set(nth + 1);
    data.message(nth)
}

fn starts_with(line: &[u8], verb: &[u8]) -> bool {
    line.len() >= verb.len() && line[..verb.len()].eq_ignore_ascii_case(verb)
}
