//! Stores messages several at a time and places them in the order of the archive, many to one log entry.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::BytesMut;
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use indicatif::ProgressBar;
use ring::digest::{Context, SHA256};
use sealpost_account::directory::{Quotas, Usage};
use sealpost_account::{Account, Event, Flags, Ingest, NewMessage, Stored, ops};
use sealpost_archive::Meta;
use sealpost_base::{Error, Kind, MailboxId, Timestamp, limits};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::known::{Digest, Known, finish};
use super::reader::Item;
use super::{Summary, flags, received};
use crate::place::Place;

/// Messages up to this size are read whole before anything is stored: most of those that are there already need no
/// write then.
const WHOLE_BYTES: usize = 256 * 1024;
/// Messages stored at once.
const AT_ONCE: usize = 16;
/// Messages placed by one log entry.
const BATCH: usize = 64;
/// Log entries without a checkpoint that are left as they are.
const TAIL_EVENTS: usize = 64;

/// An import under way.
pub struct Pipeline<'a> {
    place: &'a Place,
    account: Arc<Account>,
    quotas: Quotas,
    bar: &'a ProgressBar,
    summary: &'a mut Summary,
    known: HashMap<MailboxId, Known>,
    mailbox: Option<(String, MailboxId)>,
    storing: FuturesOrdered<JoinHandle<Outcome>>,
    ready: Vec<Ready>,
}

/// A stored message that waits to be placed.
struct Ready {
    place: String,
    message: NewMessage,
}

/// What became of storing one message.
struct Outcome {
    place: String,
    flags: Flags,
    received: Timestamp,
    stored: sealpost_base::Result<Stored>,
}

/// A message that is being read.
enum Reading {
    Whole(Meta, BytesMut),
    /// Too large to be held: stored as it is read, and given up if it turns out to be there already.
    Large(Box<Large>),
    /// It failed; what is left of it does not matter.
    Lost,
}

struct Large {
    meta: Meta,
    ingest: Ingest,
    hash: Context,
    received: Timestamp,
}

impl<'a> Pipeline<'a> {
    /// Nothing imported yet.
    pub fn new(
        place: &'a Place,
        account: Arc<Account>,
        quotas: Quotas,
        bar: &'a ProgressBar,
        summary: &'a mut Summary,
    ) -> Self {
        Pipeline {
            place,
            account,
            quotas,
            bar,
            summary,
            known: HashMap::new(),
            mailbox: None,
            storing: FuturesOrdered::new(),
            ready: Vec::new(),
        }
    }

    /// Imports everything.
    ///
    /// # Errors
    /// If the store fails; a message that fails is counted and the rest goes on.
    pub async fn run(mut self, mut items: mpsc::Receiver<Item>) -> Result<()> {
        let mut reading = Reading::Lost;
        while let Some(item) = items.recv().await {
            match item {
                Item::Archive { mailbox } => self.enter(mailbox).await?,
                Item::Begin(meta) => reading = Reading::Whole(meta, BytesMut::new()),
                Item::Piece(piece) => reading = self.piece(reading, &piece).await?,
                Item::End => self.end(std::mem::replace(&mut reading, Reading::Lost)).await?,
                Item::Broken(reason) => match std::mem::replace(&mut reading, Reading::Lost) {
                    Reading::Whole(meta, _) => self.fail(meta.place, reason),
                    Reading::Large(large) => self.fail(large.meta.place, reason),
                    Reading::Lost => {}
                },
                Item::Failed { place, reason } => self.fail(place, reason),
                Item::Progress(bytes) => self.bar.set_position(bytes),
            }
        }
        self.flush().await?;
        self.fold().await;
        Ok(())
    }

    /// Many messages to an entry make a log that is short for so large an account and yet long to replay: it is folded
    /// into a checkpoint now rather than when the account is next in use.
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

    /// Makes the mailbox if it is not there, and turns to it.
    async fn enter(&mut self, name: String) -> Result<()> {
        self.flush().await?;
        let id = self.ensure(&name).await.with_context(|| format!("the mailbox {name}"))?;
        let state = self.account.state();
        self.known.entry(id).or_insert_with(|| Known::new(&state, id));
        drop(state);
        self.bar.set_message(name.clone());
        self.mailbox = Some((name, id));
        Ok(())
    }

    async fn ensure(&self, name: &str) -> Result<MailboxId> {
        let make = |state: &sealpost_account::AccountState| match state.mailbox_named(name) {
            Some(mailbox) if mailbox.link().is_some() => Err(Error::invalid(format!(
                "the mailbox {name} is shared: import into another one and move the messages"
            ))),
            Some(_) => Ok((Vec::new(), ())),
            None => {
                let mut events = ops::create_mailbox(state, name, Default::default())?;
                events.push(Event::Subscribed { name: name.to_owned(), on: true });
                Ok((events, ()))
            }
        };
        self.account.commit(make).await?;
        let made = self.account.state().mailbox_named(name).map(|m| m.id());
        Ok(made.ok_or_else(|| Error::retry(format!("the mailbox {name} was removed just now")))?)
    }

    async fn piece(&mut self, reading: Reading, piece: &[u8]) -> Result<Reading> {
        match reading {
            Reading::Whole(meta, mut bytes) if bytes.len() + piece.len() <= WHOLE_BYTES => {
                bytes.extend_from_slice(piece);
                Ok(Reading::Whole(meta, bytes))
            }
            Reading::Whole(meta, mut bytes) => {
                bytes.extend_from_slice(piece);
                let received = self.received(&meta, &bytes);
                let ingest = self.account.ingest().await?;
                let large = Large { meta, ingest, hash: Context::new(&SHA256), received };
                self.grow(Box::new(large), &bytes).await
            }
            Reading::Large(large) => self.grow(large, piece).await,
            Reading::Lost => Ok(Reading::Lost),
        }
    }

    async fn grow(&mut self, mut large: Box<Large>, piece: &[u8]) -> Result<Reading> {
        if large.ingest.size() + piece.len() as u64 > limits::MESSAGE_BYTES {
            self.fail(large.meta.place, format!("it is larger than {} bytes", limits::MESSAGE_BYTES));
            return Ok(Reading::Lost);
        }
        large.hash.update(piece);
        large.ingest.write(piece).await?;
        Ok(Reading::Large(large))
    }

    async fn end(&mut self, reading: Reading) -> Result<()> {
        match reading {
            Reading::Lost => Ok(()),
            Reading::Whole(meta, bytes) => {
                let received = self.received(&meta, &bytes);
                let digest = || {
                    let mut hash = Context::new(&SHA256);
                    hash.update(&bytes);
                    finish(hash)
                };
                if self.is_there(bytes.len() as u64, digest).await? {
                    return Ok(());
                }
                let account = self.account.clone();
                self.store(meta, received, async move {
                    let mut ingest = account.ingest().await?;
                    ingest.write(&bytes).await?;
                    ingest.finish().await
                })
                .await
            }
            Reading::Large(large) => {
                let Large { meta, ingest, hash, received } = *large;
                if self.is_there(ingest.size(), || finish(hash)).await? {
                    return Ok(());
                }
                self.store(meta, received, ingest.finish()).await
            }
        }
    }

    /// Whether the mailbox has the message already.
    async fn is_there(&mut self, size: u64, digest: impl FnOnce() -> Digest) -> Result<bool> {
        let known = self.mailbox.as_ref().and_then(|(_, id)| self.known.get_mut(id));
        let Some(known) = known.filter(|known| known.has_size(size)) else { return Ok(false) };
        let there = known.take(&self.account, size, &digest()).await?;
        self.summary.present += u64::from(there);
        Ok(there)
    }

    /// Stores a message on a task of its own, and places those that are stored by now.
    async fn store(
        &mut self,
        meta: Meta,
        received: Timestamp,
        store: impl Future<Output = sealpost_base::Result<Stored>> + Send + 'static,
    ) -> Result<()> {
        let (place, flags) = (meta.place, flags::flags(&meta.flags));
        let task = tokio::spawn(async move { Outcome { place, flags, received, stored: store.await } });
        self.storing.push_back(task);
        while self.storing.len() >= AT_ONCE {
            self.next_stored().await?;
        }
        Ok(())
    }

    async fn next_stored(&mut self) -> Result<()> {
        let Some(outcome) = self.storing.next().await else { return Ok(()) };
        let Outcome { place, flags, received, stored } =
            outcome.context("storing a message did not finish")?;
        match stored {
            Ok(stored) => self
                .ready
                .push(Ready { place, message: NewMessage { stored, flags: flags.into(), received } }),
            Err(e) if matches!(e.kind(), Kind::Invalid | Kind::Limit) => self.fail(place, e.to_string()),
            Err(e) => return Err(anyhow::Error::from(e).context(place)),
        }
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
        self.place_ready().await
    }

    /// Places what is stored, as one log entry; message by message if something about one of them is refused.
    async fn place_ready(&mut self) -> Result<()> {
        let ready = std::mem::take(&mut self.ready);
        let Some((name, _)) = self.mailbox.clone() else { return Ok(()) };
        if ready.is_empty() {
            return Ok(());
        }
        let count = ready.len() as u64;
        let messages = || ready.iter().map(|r| r.message.clone()).collect::<Vec<_>>();
        let over = self.over_quota(count, ready.iter().map(|r| r.message.stored.size()).sum());
        if !over {
            match self.append(&name, messages()).await {
                Ok(()) => {
                    self.imported(&name, count);
                    return Ok(());
                }
                Err(e) if !is_limit(&e) => return Err(e),
                Err(_) => {}
            }
        }
        for Ready { place, mut message } in ready {
            if self.over_quota(1, message.stored.size()) {
                self.fail(place, "the account's quota is used up".to_owned());
                continue;
            }
            let first = self.append(&name, vec![message.clone()]).await;
            let second = match first {
                Err(e) if is_limit(&e) && !message.flags.keywords.is_empty() => {
                    Arc::make_mut(&mut message.flags).keywords.clear();
                    self.summary.without_keywords += 1;
                    self.append(&name, vec![message]).await
                }
                first => first,
            };
            match second {
                Ok(()) => self.imported(&name, 1),
                Err(e) if is_limit(&e) => self.fail(place, e.to_string()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    async fn append(&mut self, name: &str, messages: Vec<NewMessage>) -> Result<()> {
        let id = match &self.mailbox {
            Some((_, id)) => *id,
            None => self.ensure(name).await?,
        };
        match self.account.append(id, messages.clone()).await {
            Err(e) if e.kind() == Kind::NotFound => {
                // Somebody deleted the mailbox meanwhile.
                let id = self.ensure(name).await?;
                self.mailbox = Some((name.to_owned(), id));
                self.account.append(id, messages).await?;
                Ok(())
            }
            placed => placed.map(|_| ()).map_err(anyhow::Error::from),
        }
    }

    fn imported(&mut self, mailbox: &str, count: u64) {
        self.summary.imported += count;
        *self.summary.mailboxes.entry(mailbox.to_owned()).or_default() += count;
    }

    /// Whether so many messages of so many octets would be more than the account may hold.
    fn over_quota(&self, messages: u64, octets: u64) -> bool {
        let used = sealpost_server::quota::usage(&self.account.state());
        self.quotas.exceeded(used, Usage::of_messages(messages, octets)).is_some()
    }

    /// The archive's date, the header's, the file's; now if there is none.
    fn received(&self, meta: &Meta, head: &[u8]) -> Timestamp {
        let header = || received::from_header(head);
        meta.received.or_else(header).or(meta.modified).unwrap_or_else(|| self.place.clock.now())
    }
}

fn is_limit(e: &anyhow::Error) -> bool {
    e.downcast_ref::<Error>().is_some_and(|e| matches!(e.kind(), Kind::Limit | Kind::Invalid))
}
