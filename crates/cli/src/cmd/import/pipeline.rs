//! Stores messages several at a time and places them in the order of the archive, many to one log entry.
//!
//! A message may have several mailboxes (labels of Gmail): it is stored once and placed in all of
//! them by the same entry.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use bytes::BytesMut;
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use indicatif::ProgressBar;
use ring::digest::{Context, SHA256};
use sealpost_account::{Account, Flags, Ingest, NewMessage, Stored};
use sealpost_base::{Error, Kind, MailboxId, Timestamp, limits};
use sealpost_directory::Quotas;
use sealpost_mailformat::Meta;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::flags::{self, FlagUpdates};
use super::known::{Digest, Present, finish};
use super::labels::{Target, targets};
use super::placing::{Placed, Placement, Source, ensure, is_of_message, place_each};
use super::reader::ReaderItem;
use super::{Args, Summary, received};
use crate::data_dir::DataDir;

/// Messages up to this size are read whole before anything is stored: most of those that are there
/// already need no write then.
const BUFFERED_BYTES: usize = 256 * 1024;
/// Messages stored at once.
const AT_ONCE: usize = 16;
/// Messages placed by one log entry.
const BATCH: usize = 64;
/// Log entries without a checkpoint that are left as they are.
const TAIL_EVENTS: usize = 64;

/// An import under way.
pub struct Pipeline<'a> {
    data_dir: &'a DataDir,
    args: &'a Args,
    account: Arc<Account>,
    quotas: Quotas,
    bar: &'a ProgressBar,
    summary: &'a mut Summary,
    /// By name: mailboxes that are there.
    mailboxes: HashMap<String, MailboxId>,
    present: Present,
    /// The mailbox of the archive that is being read.
    mailbox: String,
    storing: FuturesOrdered<JoinHandle<Outcome>>,
    ready: Vec<Placement>,
    updates: FlagUpdates,
}

/// What became of storing one message.
struct Outcome {
    at: String,
    to: Vec<String>,
    flags: Flags,
    received: Timestamp,
    stored: sealpost_base::Result<Stored>,
}

/// A message that is being read.
enum Reading {
    Buffered(Message, BytesMut),
    /// Too large for memory: stored as it is read, and discarded if it turns out to exist already.
    Large(Box<Large>),
    /// It failed; what is left of it does not matter.
    Discarded,
}

/// What is known of a message before its bytes.
struct Message {
    meta: Meta,
    /// Its mailboxes, which are there.
    to: Vec<String>,
}

struct Large {
    message: Message,
    ingest: Ingest,
    hash: Context,
    received: Timestamp,
}

impl<'a> Pipeline<'a> {
    /// Nothing imported yet.
    pub fn new(
        data_dir: &'a DataDir,
        args: &'a Args,
        account: Arc<Account>,
        quotas: Quotas,
        bar: &'a ProgressBar,
        summary: &'a mut Summary,
    ) -> Self {
        Pipeline {
            data_dir,
            args,
            account,
            quotas,
            bar,
            summary,
            mailboxes: HashMap::new(),
            present: Present::default(),
            mailbox: String::new(),
            storing: FuturesOrdered::new(),
            ready: Vec::new(),
            updates: FlagUpdates::default(),
        }
    }

    /// Imports everything.
    ///
    /// # Errors
    /// If the store fails; a message that fails is counted and the import continues.
    pub async fn run(mut self, mut items: mpsc::Receiver<ReaderItem>) -> Result<()> {
        let mut reading = Reading::Discarded;
        loop {
            match items.recv().await {
                Some(ReaderItem::Archive { mailbox, is_folder }) => self.enter(mailbox, is_folder).await?,
                Some(ReaderItem::Begin(meta)) => reading = self.begin(meta).await?,
                Some(ReaderItem::Piece(piece)) => reading = self.piece(reading, &piece).await?,
                Some(ReaderItem::End) => {
                    self.end(std::mem::replace(&mut reading, Reading::Discarded)).await?
                }
                Some(ReaderItem::Broken(reason)) => match std::mem::replace(&mut reading, Reading::Discarded)
                {
                    Reading::Buffered(message, _) => self.fail(message.meta.place, reason),
                    Reading::Large(large) => self.fail(large.message.meta.place, reason),
                    Reading::Discarded => {}
                },
                Some(ReaderItem::Failed { place, reason }) => self.fail(place, reason),
                Some(ReaderItem::Progress(bytes)) => self.bar.set_position(bytes),
                Some(ReaderItem::Done) => break,
                None => {
                    self.flush().await?;
                    bail!("reading the archives failed because of a bug in Sealpost; please report it");
                }
            }
        }
        self.flush().await?;
        self.fold().await;
        Ok(())
    }

    /// Many messages to an entry make a log that is short for so large an account and yet long to
    /// replay: it is folded into a checkpoint now rather than when the account is next in use.
    async fn fold(&self) {
        if self.account.tail_events().await > TAIL_EVENTS
            && let Err(e) = self.account.checkpoint().await
        {
            tracing::debug!(error = %e, "no checkpoint after an import");
        }
    }

    fn fail(&mut self, place: String, reason: String) {
        self.summary.fail(self.bar, place, reason);
    }

    /// Turns to an archive; that of a folder is a mailbox also if it is empty.
    async fn enter(&mut self, mailbox: String, is_folder: bool) -> Result<()> {
        self.bar.set_message(mailbox.clone());
        if is_folder && let Err(e) = self.ensure(&Target::plain(mailbox.clone())).await {
            // Its messages, if it has any, show that.
            unless_of_the_mailbox(e)?;
        }
        self.mailbox = mailbox;
        Ok(())
    }

    /// Finds the mailboxes of a message and makes those that are missing.
    async fn begin(&mut self, mut meta: Meta) -> Result<Reading> {
        match self.targets(&mut meta).await {
            Ok(to) => Ok(Reading::Buffered(Message { meta, to }, BytesMut::new())),
            Err(e) => {
                self.fail(meta.place, unless_of_the_mailbox(e)?);
                Ok(Reading::Discarded)
            }
        }
    }

    async fn targets(&mut self, meta: &mut Meta) -> Result<Vec<String>> {
        let targets = targets(&self.account.state(), meta, &self.mailbox, self.args)?;
        for target in &targets {
            self.ensure(target).await?;
        }
        Ok(targets.into_iter().map(|target| target.name).collect())
    }

    /// Makes a mailbox if it is not there, and notes what it has before anything is imported into it.
    async fn ensure(&mut self, target: &Target) -> Result<()> {
        if self.mailboxes.contains_key(&target.name) {
            return Ok(());
        }
        let id = ensure(&self.account, target)
            .await
            .map_err(|e| anyhow::Error::from(e.context(format!("the mailbox {}", target.name))))?;
        let state = self.account.state();
        self.present.begin(&state, id);
        drop(state);
        self.mailboxes.insert(target.name.clone(), id);
        Ok(())
    }

    async fn piece(&mut self, reading: Reading, piece: &[u8]) -> Result<Reading> {
        match reading {
            Reading::Buffered(message, mut bytes) if bytes.len() + piece.len() <= BUFFERED_BYTES => {
                bytes.extend_from_slice(piece);
                Ok(Reading::Buffered(message, bytes))
            }
            Reading::Buffered(message, mut bytes) => {
                bytes.extend_from_slice(piece);
                let received = self.received(&message.meta, &bytes);
                let ingest = self.account.ingest().await?;
                let large = Large { message, ingest, hash: Context::new(&SHA256), received };
                self.grow(Box::new(large), &bytes).await
            }
            Reading::Large(large) => self.grow(large, piece).await,
            Reading::Discarded => Ok(Reading::Discarded),
        }
    }

    async fn grow(&mut self, mut large: Box<Large>, piece: &[u8]) -> Result<Reading> {
        if large.ingest.size() + piece.len() as u64 > limits::MESSAGE_BYTES {
            self.fail(large.message.meta.place, format!("it is larger than {} bytes", limits::MESSAGE_BYTES));
            return Ok(Reading::Discarded);
        }
        large.hash.update(piece);
        large.ingest.write(piece).await?;
        Ok(Reading::Large(large))
    }

    async fn end(&mut self, reading: Reading) -> Result<()> {
        match reading {
            Reading::Discarded => Ok(()),
            Reading::Buffered(mut message, bytes) => {
                let received = self.received(&message.meta, &bytes);
                let digest = || {
                    let mut hash = Context::new(&SHA256);
                    hash.update(&bytes);
                    finish(hash)
                };
                if self.is_stored(&mut message, bytes.len() as u64, digest).await? {
                    return Ok(());
                }
                let account = self.account.clone();
                self.store(message, received, async move {
                    let mut ingest = account.ingest().await?;
                    ingest.write(&bytes).await?;
                    ingest.finish().await
                })
                .await
            }
            Reading::Large(large) => {
                let Large { mut message, ingest, hash, received } = *large;
                if self.is_stored(&mut message, ingest.size(), || finish(hash)).await? {
                    return Ok(());
                }
                self.store(message, received, ingest.finish()).await
            }
        }
    }

    /// Whether one of the mailboxes has the message already; the others get it from there.
    /// `digest`: of its bytes, if they have to be compared.
    async fn is_stored(
        &mut self,
        message: &mut Message,
        size: u64,
        digest: impl FnOnce() -> Digest,
    ) -> Result<bool> {
        let ids: Vec<_> = message.to.iter().filter_map(|name| self.mailboxes.get(name)).copied().collect();
        let number = message.meta.sender.as_deref().filter(|sender| sender.ends_with("@xxx"));
        let number = number.filter(|_| message.meta.labels.is_some());
        if number.is_none() && !self.present.has_size(&ids, size) {
            return Ok(false);
        }
        let digest = digest();
        if number.is_some_and(|number| self.present.was_met(number, &digest)) {
            self.summary.present += 1;
            return Ok(true);
        }
        let places = self.present.find(&self.account, &ids, size, &digest).await?;
        let Some(there) = places.iter().flatten().next().copied() else { return Ok(false) };
        for at in places.iter().flatten() {
            let flags = message.meta.flags.as_ref();
            let differs = flags
                .is_some_and(|flags| self.updates.compare(&self.account, *at, flags, self.args.update_flags));
            self.summary.other_flags += u64::from(differs);
        }
        self.summary.present += 1;
        let missing = std::mem::take(&mut message.to).into_iter().zip(&places);
        let missing: Vec<_> = missing.filter(|(_, at)| at.is_none()).map(|(name, _)| name).collect();
        if !missing.is_empty() {
            let at = std::mem::take(&mut message.meta.place);
            self.push_ready(Placement { at, source: Source::Placed(there, size), to: missing }).await?;
        }
        self.update_flags(false).await?;
        Ok(true)
    }

    async fn update_flags(&mut self, all: bool) -> Result<()> {
        if self.updates.len() >= if all { 1 } else { BATCH } {
            self.summary.flags_updated += self.updates.write(&self.account).await?;
        }
        Ok(())
    }

    /// Stores a message on a task of its own, and places those that are stored by now.
    async fn store(
        &mut self,
        message: Message,
        received: Timestamp,
        store: impl Future<Output = sealpost_base::Result<Stored>> + Send + 'static,
    ) -> Result<()> {
        let Message { meta, to } = message;
        let (at, flags) = (meta.place, flags::flags(&meta.flags.unwrap_or_default()));
        let task = tokio::spawn(async move { Outcome { at, to, flags, received, stored: store.await } });
        self.storing.push_back(task);
        while self.storing.len() >= AT_ONCE {
            self.next_stored().await?;
        }
        Ok(())
    }

    async fn next_stored(&mut self) -> Result<()> {
        let Some(outcome) = self.storing.next().await else { return Ok(()) };
        let Outcome { at, to, flags, received, stored } =
            outcome.context("storing a message did not finish")?;
        match stored {
            Ok(stored) => {
                let new = NewMessage { stored, flags: flags.into(), received };
                self.push_ready(Placement { at, source: Source::New(new), to }).await
            }
            Err(e) if matches!(e.kind(), Kind::Invalid | Kind::Limit) => {
                self.fail(at, e.to_string());
                Ok(())
            }
            Err(e) => Err(anyhow::Error::from(e).context(at)),
        }
    }

    async fn push_ready(&mut self, ready: Placement) -> Result<()> {
        self.ready.push(ready);
        if self.ready.len() >= BATCH {
            self.place_ready().await?;
        }
        Ok(())
    }

    /// Places everything that was read so far.
    async fn flush(&mut self) -> Result<()> {
        while !self.storing.is_empty() {
            self.next_stored().await?;
        }
        self.place_ready().await?;
        self.update_flags(true).await
    }

    /// Places what is stored.
    async fn place_ready(&mut self) -> Result<()> {
        let mut ready = std::mem::take(&mut self.ready);
        if ready.is_empty() {
            return Ok(());
        }
        let outcomes = place_each(&self.account, &self.quotas, &mut ready).await?;
        for (placement, placed) in ready.into_iter().zip(outcomes) {
            if let Placed::Refused(reason) = placed {
                self.fail(placement.at, reason);
                continue;
            }
            self.summary.without_keywords += u64::from(placed == Placed::WithoutKeywords);
            self.summary.imported += u64::from(matches!(placement.source, Source::New(_)));
            for mailbox in placement.to {
                *self.summary.mailboxes.entry(mailbox).or_default() += 1;
            }
        }
        Ok(())
    }

    /// The archive's date, the header's, the file's; now if there is none.
    fn received(&self, meta: &Meta, head: &[u8]) -> Timestamp {
        let header = || received::from_header(head);
        meta.received.or_else(header).or(meta.modified).unwrap_or_else(|| self.data_dir.clock.now())
    }
}

/// What an error says that is about a mailbox; others end the import.
fn unless_of_the_mailbox(e: anyhow::Error) -> Result<String> {
    match e.downcast_ref::<Error>() {
        Some(error) if is_of_message(error) => Ok(error.to_string()),
        _ => Err(e),
    }
}
