//! EXAMINE and SELECT, and what they say of the mailbox.

use sealpost_base::Result;
use sealpost_imap::client::Event;
use sealpost_imap::types::{Code, PermanentFlag, Response, Status};

use super::Connection;
use crate::backup::Identity;

/// A mailbox that was selected; 0: not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selected {
    /// EXISTS
    pub messages: u32,
    /// UIDNEXT
    pub uidnext: u32,
    /// UIDVALIDITY
    pub uidvalidity: u32,
    /// HIGHESTMODSEQ; 0 also if the mailbox has no mod-sequences.
    pub highestmodseq: u64,
    /// MAILBOXID
    pub mailboxid: Option<String>,
    /// Flags that can be changed permanently; `None`: the server does not report it, all can (RFC
    /// 9051 §7.1).
    pub permanent_flags: Option<Vec<PermanentFlag>>,
}

impl Selected {
    /// Which mailbox it is.
    pub fn identity(&self) -> Identity {
        Identity { uidvalidity: self.uidvalidity, mailboxid: self.mailboxid.clone() }
    }

    fn take(&mut self, code: Code) {
        match code {
            Code::UidNext(n) => self.uidnext = n,
            Code::UidValidity(n) => self.uidvalidity = n,
            Code::HighestModSeq(n) => self.highestmodseq = n,
            Code::MailboxId(id) => self.mailboxid = Some(id.as_str().to_owned()),
            Code::PermanentFlags(flags) => self.permanent_flags = Some(flags),
            _ => {}
        }
    }
}

impl Connection {
    /// Selects a mailbox, `wire` being its name as commands send it; read-only, so that nothing
    /// changes on the server.
    ///
    /// # Errors
    /// `Retry` if the connection is lost; `NotFound` if it is not there; what else the server says.
    pub async fn examine(&mut self, wire: &[u8]) -> Result<Selected> {
        self.select("EXAMINE", wire).await
    }

    /// Selects a mailbox for changes.
    ///
    /// # Errors
    /// As [`Connection::examine`].
    pub async fn select_to_change(&mut self, wire: &[u8]) -> Result<Selected> {
        self.select("SELECT", wire).await
    }

    async fn select(&mut self, command: &str, wire: &[u8]) -> Result<Selected> {
        let condstore = if self.capabilities().condstore() { " (CONDSTORE)" } else { "" };
        // The untagged OK responses with codes are for `run` like any other.
        let mut selected = Selected::default();
        let done = self
            .run(
                |w| w.raw(command).space().astring(wire).raw(condstore),
                |event| {
                    match event {
                        Event::Response(Response::Exists(n)) => selected.messages = n,
                        Event::Response(Response::Status {
                            status: Status::Ok, code: Some(code), ..
                        }) => {
                            selected.take(code);
                        }
                        _ => {}
                    }
                    Ok(())
                },
            )
            .await?;
        let name = String::from_utf8_lossy(wire).into_owned();
        if let Some(code) = done.ok(&format!("{command} {name}"))? {
            selected.take(code);
        }
        Ok(selected)
    }
}
