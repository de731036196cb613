//! Messages from another server.

use std::collections::HashMap;

use sealpost_base::{Error, Result, Uid, UidSet};
use sealpost_imap::client::{Event, FetchData};
use sealpost_imap::types::{DateTime, Response};
use tokio::sync::mpsc;

use super::contents::Contents;
use super::message_chunk::{MessageChunk, MessageMeta};
use crate::backup::Flags;
use crate::backup::sent::sent;
use crate::client::{Connection, Done, ListedMailbox, Server};

/// Messages whose flags and dates are asked for at a time, before their bytes.
const GROUP: usize = 200;

/// A server as the source of messages.
pub(super) struct Remote {
    server: Server,
    connection: Option<Connection>,
}

/// How sending ended without an error.
enum Sent {
    /// All were sent, or named as failed.
    All,
    /// The receiver is gone.
    Refused,
}

impl Remote {
    /// Without a connection yet.
    pub(super) fn new(server: &Server) -> Self {
        Remote { server: server.clone(), connection: None }
    }

    async fn connection(&mut self) -> Result<&mut Connection> {
        if self.connection.is_none() {
            self.connection = Some(Connection::open(&self.server).await?);
        }
        self.connection.as_mut().ok_or_else(|| Error::internal("there is no connection"))
    }

    /// Drops the connection, which is unusable.
    pub(super) fn drop_connection(&mut self) {
        self.connection = None;
    }

    /// Logs out.
    pub(super) async fn logout(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.logout().await;
        }
    }

    /// The server's folders that may have messages.
    ///
    /// # Errors
    /// As [`Connection::open`] and [`Connection::listing`].
    pub(super) async fn folders(&mut self) -> Result<Vec<ListedMailbox>> {
        let mut listing = self.connection().await?.listing().await?;
        listing.folders.retain(|found| found.selectable);
        Ok(listing.folders)
    }

    /// The messages of a folder; it is selected afterwards.
    ///
    /// # Errors
    /// As [`Contents::of_server`].
    pub(super) async fn contents(&mut self, found: &ListedMailbox) -> Result<Contents> {
        Contents::of_server(self.connection().await?, &found.wire).await
    }

    /// Sends messages of the selected folder. Those that were begun are removed from `left`.
    ///
    /// # Errors
    /// `Retry` if the connection is lost.
    pub(super) async fn send(&mut self, left: &mut UidSet, to: mpsc::Sender<MessageChunk>) -> Result<()> {
        // The connection is put back only once no response is pending.
        let Some(mut connection) = self.connection.take() else {
            return Err(Error::retry("the connection is lost"));
        };
        let mut groups = Vec::new();
        for at in (0..left.len()).step_by(GROUP).rev() {
            groups.push(left.slice(at..left.len().min(at + GROUP)));
        }
        while let Some(group) = groups.pop() {
            let (sent, refused) = send_group(&mut connection, &group, left, &to).await?;
            if matches!(sent, Sent::Refused) {
                return Ok(());
            }
            let Some((missing, why)) = refused else { continue };
            let (n, first) = (missing.len(), missing.first());
            match first {
                // One of them is the cause: it is found by halves.
                Some(_) if n > 1 => groups.extend([missing.slice(n / 2..n), missing.slice(0..n / 2)]),
                Some(uid) => {
                    left.remove(uid);
                    if to.send(MessageChunk::Failed(uid.get(), why)).await.is_err() {
                        return Ok(());
                    }
                }
                None => {}
            }
        }
        self.connection = Some(connection);
        Ok(())
    }
}

/// Sends the messages of `group`; returns those that the server refused, and why.
async fn send_group(
    connection: &mut Connection,
    group: &UidSet,
    left: &mut UidSet,
    to: &mpsc::Sender<MessageChunk>,
) -> Result<(Sent, Option<(UidSet, String)>)> {
    // APPEND needs flags and date before a message's bytes; FETCH may send them after.
    let mut heads: HashMap<u32, (Flags, Option<DateTime>)> = HashMap::new();
    connection.queue(|w| w.raw(format!("UID FETCH {group} (UID FLAGS INTERNALDATE)")));
    let last = connection.queue(|w| w.raw(format!("UID FETCH {group} (UID BODY.PEEK[])")));
    connection.flush().await?;
    let mut missing = group.clone();
    let (mut uid, mut flags, mut date, mut body, mut large) = (None, None, None, None, false);
    loop {
        let event = connection.next().await?;
        if Connection::completion(&event) == Some(last)
            && let Event::Response(Response::Status { status, code, text, .. }) = event
        {
            let why = match (Done { status, code, text }).ok("FETCH") {
                Err(e) if e.kind() == sealpost_base::Kind::Retry => return Err(e),
                Err(e) => e.to_string(),
                Ok(_) => "the server did not send it".to_owned(),
            };
            return Ok((Sent::All, (!missing.is_empty()).then_some((missing, why))));
        }
        match event {
            Event::FetchBegin(_) => (uid, flags, date, body, large) = (None, None, None, None, false),
            Event::Fetch(FetchData::Uid(n)) => uid = Some(n),
            Event::Fetch(FetchData::Flags(list) | FetchData::FlagsInPart(list, _)) => {
                let names: Vec<String> = list.iter().map(ToString::to_string).collect();
                flags = Some(Flags::from_names(names.iter().map(String::as_str)));
            }
            Event::Fetch(FetchData::InternalDate(at)) => date = Some(at),
            Event::Fetch(FetchData::Body(_, bytes)) => body = bytes,
            Event::LiteralBegin(_, size) => {
                let Some(uid) = uid else {
                    return Err(Error::retry("the server sends a message before its UID"));
                };
                // Messages that were not asked for, or come again, are not put there.
                large = mark_received(uid, &mut missing, left);
                let (flags, date) = heads.remove(&uid).unwrap_or_default();
                if large
                    && to.send(MessageChunk::Begin(MessageMeta { uid, flags, date, size })).await.is_err()
                {
                    return Ok((Sent::Refused, None));
                }
            }
            Event::LiteralData(bytes) => {
                let refused = large && to.send(MessageChunk::Bytes(bytes)).await.is_err();
                if refused {
                    return Ok((Sent::Refused, None));
                }
            }
            Event::FetchEnd => {
                let Some(uid) = uid else { continue };
                if let Some(bytes) = body.take().filter(|_| mark_received(uid, &mut missing, left)) {
                    let (flags, date) = heads.remove(&uid).unwrap_or_default();
                    let date = date.or_else(|| sent(&bytes));
                    let meta = MessageMeta { uid, flags, date, size: bytes.len() as u64 };
                    let bytes = (!bytes.is_empty()).then(|| MessageChunk::Bytes(bytes.into()));
                    large = true;
                    for chunk in [Some(MessageChunk::Begin(meta)), bytes].into_iter().flatten() {
                        if to.send(chunk).await.is_err() {
                            return Ok((Sent::Refused, None));
                        }
                    }
                } else if let Some(flags) = flags.take() {
                    // Flags that change meanwhile are sent without the date.
                    let known = heads.get(&uid).and_then(|(_, date)| *date);
                    heads.insert(uid, (flags, date.or(known)));
                }
                if large && to.send(MessageChunk::End).await.is_err() {
                    return Ok((Sent::Refused, None));
                }
            }
            _ => {}
        }
    }
}

/// Removes a message from those that are expected; returns whether it was one of them.
fn mark_received(uid: u32, missing: &mut UidSet, left: &mut UidSet) -> bool {
    let Some(uid) = Uid::new(uid) else { return false };
    left.remove(uid);
    missing.remove(uid)
}
