//! [`Line`]: the connection to one server and account, for bodies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ring::digest::{Context, SHA256};
use sealpost_base::{Budget, Error, Kind, Random, Result};
use sealpost_imap::client::{Event, FetchData};
use sealpost_imap::types::{Response, Status};
use sealpost_imap::utf7;
use sealpost_vault::Store;
use sealpost_vault::message::Wanted;
use sealpost_vault::spool::{SpoolWriter, Spooled};
use tokio::sync::Mutex;

use crate::backup::digest::finish;
use crate::backup::sealed::AtServer;
use crate::client::{Connection, Done, Selected, Server};

/// Where bodies are spooled.
#[derive(Clone, Copy)]
pub(super) struct Spool<'a> {
    pub(super) store: &'a Store,
    /// The memory budget for writing one.
    pub(super) budget: &'a Budget,
    pub(super) random: &'a dyn Random,
}

/// A server, and a connection if there is one.
pub(super) struct Line {
    server: Server,
    open: Mutex<Option<OpenConnection>>,
    /// Counts the fetches, so that the task that closes an idle connection sees whether it was
    /// used.
    used: AtomicU64,
}

struct OpenConnection {
    connection: Connection,
    /// Which mailbox is selected.
    selected: Option<(String, Selected)>,
}

impl Line {
    pub(super) fn new(server: Server) -> Self {
        Line { server, open: Mutex::default(), used: AtomicU64::new(0) }
    }

    /// The message at that place, spooled, once its size and its SHA-256 match.
    ///
    /// # Errors
    /// `Offloaded` if the server no longer has it, or sends another one; `Retry` if it cannot be
    /// reached; `Denied` if it refuses the login.
    pub(super) async fn fetch(&self, place: &AtServer, wanted: Wanted, spool: Spool<'_>) -> Result<Spooled> {
        let mut line = self.open.lock().await;
        self.used.fetch_add(1, Ordering::Relaxed);
        let reused = line.is_some();
        let first = self.once(&mut line, place, wanted, spool).await;
        match first {
            // The server may have closed the idle connection.
            Err(e) if reused && e.kind() == Kind::Retry => self.once(&mut line, place, wanted, spool).await,
            first => first,
        }
    }

    async fn once(
        &self,
        line: &mut Option<OpenConnection>,
        place: &AtServer,
        wanted: Wanted,
        spool: Spool<'_>,
    ) -> Result<Spooled> {
        // An early return leaves the connection in an unknown state: it is put back only at the
        // end.
        let mut open = match line.take() {
            Some(open) => open,
            None => OpenConnection { connection: Connection::open(&self.server).await?, selected: None },
        };
        open.select(place).await?;
        let mut writer = SpoolWriter::new(spool.store, spool.budget, spool.random).await?;
        let fetched = open.body(place.uid, wanted, &mut writer).await?;
        *line = Some(open);
        let Some(sha256) = fetched else {
            return Err(Error::offloaded(format!(
                "the body is evicted, and the server no longer has the message (UID {} of {})",
                place.uid, place.folder
            )));
        };
        if writer.size() != wanted.size || sha256 != wanted.sha256 {
            return Err(Error::offloaded(format!(
                "the body is evicted, and the server's message with UID {} in {} is a different one now: it \
                 is not used",
                place.uid, place.folder
            )));
        }
        writer.finish().await
    }

    /// Closes the connection after `idle`, unless it is used until then.
    pub(super) fn close_when_idle(self: &Arc<Self>, idle: Duration) {
        let (used, line) = (self.used.load(Ordering::Relaxed), Arc::downgrade(self));
        tokio::spawn(async move {
            tokio::time::sleep(idle).await;
            if let Some(line) = line.upgrade()
                && line.used.load(Ordering::Relaxed) == used
            {
                line.close().await;
            }
        });
    }

    /// Logs out.
    pub(super) async fn close(&self) {
        if let Some(open) = self.open.lock().await.take() {
            open.connection.logout().await;
        }
    }
}

impl OpenConnection {
    /// The folder's name as commands send it. A name that the server encodes in a non-standard way
    /// has to be looked up.
    async fn wire(&mut self, name: &str) -> Result<Box<[u8]>> {
        let encoded = utf7::encode(name).into_bytes().into();
        if name.is_ascii() && !name.contains('&') {
            return Ok(encoded);
        }
        let listing = self.connection.listing().await?;
        let found = listing.folders.into_iter().find(|found| found.name.as_str() == name);
        Ok(found.map_or(encoded, |found| found.wire))
    }

    async fn select(&mut self, place: &AtServer) -> Result<()> {
        let name = place.folder.as_str();
        if self.selected.as_ref().is_none_or(|(selected, _)| selected != name) {
            self.selected = None;
            let wire = self.wire(name).await?;
            let selected = self.connection.examine(&wire).await.map_err(|e| match e.kind() {
                Kind::NotFound => Error::offloaded(format!(
                    "the body is evicted, and the server no longer has the folder {name}"
                ))
                .with_source(e),
                _ => e,
            })?;
            self.selected = Some((name.to_owned(), selected));
        }
        match &self.selected {
            Some((_, selected)) if selected.uidvalidity == place.uidvalidity => Ok(()),
            _ => Err(Error::offloaded(format!(
                "the body is evicted, and the UIDVALIDITY of the server's folder {name} has changed"
            ))),
        }
    }

    /// Writes the message; its SHA-256, or nothing if it is not there. Bytes beyond the wanted size
    /// are not written.
    async fn body(&mut self, uid: u32, wanted: Wanted, writer: &mut SpoolWriter) -> Result<Option<[u8; 32]>> {
        let connection = &mut self.connection;
        let tag = connection.queue(|w| w.raw(format!("UID FETCH {uid} (UID BODY.PEEK[])")));
        connection.flush().await?;
        let (mut hash, mut found, mut its, mut taken) = (None, None, None, false);
        loop {
            let event = connection.next().await?;
            if Connection::completion(&event) == Some(tag)
                && let Event::Response(Response::Status { status, code, text, .. }) = event
            {
                let done = Done { status, code, text };
                return match done.status {
                    Status::Ok => Ok(found),
                    _ => done.ok("fetching a body").map(|_| None),
                };
            }
            match event {
                Event::FetchBegin(_) => (hash, its) = (None, None),
                Event::Fetch(FetchData::Uid(n)) => its = Some(n),
                // Only the one message that was asked for is taken.
                Event::Fetch(FetchData::Body(_, Some(bytes))) if !taken => {
                    taken = true;
                    let mut context = Context::new(&SHA256);
                    context.update(&bytes);
                    write(writer, &bytes, wanted).await?;
                    hash = Some(context);
                }
                Event::LiteralBegin(..) if !taken => {
                    taken = true;
                    hash = Some(Context::new(&SHA256));
                }
                Event::LiteralData(bytes) => {
                    if let Some(context) = &mut hash {
                        context.update(&bytes);
                        write(writer, &bytes, wanted).await?;
                    }
                }
                Event::FetchEnd => {
                    if let Some(context) = hash.take().filter(|_| its == Some(uid)) {
                        found = Some(finish(context));
                    }
                }
                _ => {}
            }
        }
    }
}

async fn write(writer: &mut SpoolWriter, bytes: &[u8], wanted: Wanted) -> Result<()> {
    if writer.size() + bytes.len() as u64 > wanted.size {
        return Err(Error::offloaded(
            "the body is evicted, and the server's message is longer now: it is not used",
        ));
    }
    writer.write(bytes).await
}
