//! APPEND, one after the other without waiting for the answers where the server lets a client send at once (RFC 7888).

use std::collections::VecDeque;

use sealpost_base::{Error, Kind, Result};
use sealpost_imap::client::Event;
use sealpost_imap::types::{Code, Flag, Response, Status};
use tokio::sync::{mpsc, watch};

use super::target::Target;
use super::{FolderReport, Head, Item, Observer};
use crate::client::{Connection, Done};
use crate::keep::Flags;

/// Messages that were sent and not answered.
const AHEAD: usize = 32;
/// Octets of a literal that need not be waited for with LITERAL- (RFC 7888 §5).
const MINUS_OCTETS: u64 = 4096;

struct Delivery<'a> {
    connection: &'a mut Connection,
    folder: &'a [u8],
    name: String,
    asked: VecDeque<(u32, u32)>,
    observer: &'a dyn Observer,
    report: &'a mut FolderReport,
}

/// Puts what comes into the folder that `target` is at.
///
/// # Errors
/// `Retry` if the connection is lost.
pub(super) async fn deliver(
    target: &mut Target,
    mut items: mpsc::Receiver<Item>,
    mut stop: watch::Receiver<bool>,
    observer: &dyn Observer,
    report: &mut FolderReport,
) -> Result<()> {
    let folder = target.selected.clone();
    let name = report.name.clone();
    let connection = &mut target.connection;
    let mut delivery =
        Delivery { connection, folder: &folder, name, asked: VecDeque::new(), observer, report };
    loop {
        let item = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => None,
            item = items.recv() => item,
        };
        match item {
            None => break,
            Some(Item::Failed(uid, why)) => delivery.report.failed.push((uid, why)),
            // Of a message that was refused.
            Some(Item::Octets(_) | Item::End) => {}
            Some(Item::Begin(head)) => delivery.message(&head, &mut items).await?,
        }
    }
    while !delivery.asked.is_empty() {
        delivery.answer().await?;
    }
    Ok(())
}

impl Delivery<'_> {
    async fn message(&mut self, head: &Head, items: &mut mpsc::Receiver<Item>) -> Result<()> {
        let capabilities = self.connection.capabilities();
        let at_once = capabilities.literal_plus()
            || (capabilities.has("LITERAL-") || capabilities.has("IMAP4REV2")) && head.size <= MINUS_OCTETS;
        if !at_once {
            // The answer to this one must be the next.
            while !self.asked.is_empty() {
                self.answer().await?;
            }
        }
        let (folder, plus) = (self.folder, if at_once { "+" } else { "" });
        let flags = flags(&head.flags);
        let tag = self.connection.queue(|w| {
            w.raw(b"APPEND ").astring(folder).space();
            if !flags.is_empty() {
                w.flags(&flags).space();
            }
            if let Some(date) = head.date {
                w.date_time(date).space();
            }
            w.raw(format!("{{{}{plus}}}", head.size))
        });
        self.connection.flush().await?;
        self.asked.push_back((tag, head.uid));
        if !at_once && !self.may_go_on(tag).await? {
            return Ok(());
        }
        let mut left = head.size;
        while let Some(item) = items.recv().await {
            match item {
                Item::Octets(bytes) if bytes.len() as u64 <= left => {
                    left -= bytes.len() as u64;
                    self.connection.send(&bytes).await?;
                }
                Item::End if left == 0 => {
                    self.connection.send(b"\r\n").await?;
                    while self.asked.len() >= AHEAD {
                        self.answer().await?;
                    }
                    return Ok(());
                }
                Item::Failed(uid, why) => {
                    self.report.failed.push((uid, why.clone()));
                    break;
                }
                _ => break,
            }
        }
        // The server waits for octets that there are not: only a new connection helps.
        Err(Error::retry(format!("UID {} has not the size that it should have", head.uid)))
    }

    /// Whether the server wants the literal.
    async fn may_go_on(&mut self, tag: u32) -> Result<bool> {
        loop {
            let event = self.connection.next().await?;
            if matches!(event, Event::Response(Response::Continue(_))) {
                return Ok(true);
            }
            if Connection::completion(&event) == Some(tag) {
                self.completed(tag, event)?;
                return Ok(false);
            }
        }
    }

    async fn answer(&mut self) -> Result<()> {
        let event = self.connection.next().await?;
        match Connection::completion(&event) {
            Some(tag) => self.completed(tag, event),
            None => Ok(()),
        }
    }

    fn completed(&mut self, tag: u32, event: Event) -> Result<()> {
        let Some(at) = self.asked.iter().position(|(asked, _)| *asked == tag) else { return Ok(()) };
        let Some((_, uid)) = self.asked.remove(at) else { return Ok(()) };
        let Event::Response(Response::Status { status, code, text, .. }) = event else { return Ok(()) };
        if status == Status::Ok {
            self.report.put += 1;
            let there = match &code {
                Some(Code::AppendUid { uid_validity, uids }) => {
                    Some((*uid_validity, uids.ranges().first().and_then(|r| r.start.number()).unwrap_or(0)))
                }
                _ => None,
            };
            self.observer.put(&self.name, uid, there);
            return Ok(());
        }
        match (Done { status, code, text }).ok("APPEND") {
            Err(e) if e.kind() == Kind::Retry => Err(e),
            Err(e) => {
                self.report.failed.push((uid, e.to_string()));
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}

/// Flags that can be set by a client.
fn flags(flags: &Flags) -> Vec<Flag> {
    flags
        .names()
        .filter_map(|name| Flag::new(name).ok())
        .filter(|flag| !matches!(flag, Flag::Recent | Flag::Extension(_)))
        .collect()
}
