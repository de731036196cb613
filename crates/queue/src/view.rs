//! [`QueueView`]: reads a queue that another process runs. It appends nothing.

use std::sync::{Arc, Mutex, PoisonError};

use futures::TryStreamExt;
use sealpost_base::{AccountId, Clock, Error, Position, Random, Result};
use sealpost_journal::{Content, Journal};
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::queue::QueueObject;
use sealpost_vault::{AccountKeys, Store};

use crate::MailId;
use crate::envelope::Mail;
use crate::event::{Batch, Event, Outcome};
use crate::history;
use crate::log::read_state;
use crate::request::BOUNCED;
use crate::state::{Place, Row, State};
use crate::trace::{self, Trace, Traced};

/// Changed mails that the result of a request names.
const FIRST_MAILS: usize = 100;

/// A queue as it was a moment ago.
pub struct QueueView {
    store: Store,
    node: AccountId,
    mail_keys: MailKeys,
    keys: AccountKeys,
    journal: Journal,
    state: State,
    /// The entry that was read last. Neighbouring mails are mostly in the same entry.
    last: Mutex<Option<(Position, Arc<Batch>)>>,
}

/// The result of a request, by the log.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct HandledRequest {
    /// Mails that were changed.
    pub mails: u64,
    /// The first of these mails.
    pub first: Vec<MailId>,
    /// Rules that were added or withdrawn.
    pub rules: u64,
}

impl HandledRequest {
    fn take(&mut self, event: &Event) {
        let mail = match event {
            Event::Held(held) if held.rule == 0 => held.mail,
            Event::Released(mail) | Event::Retried(mail) | Event::Removed(mail) | Event::Canceled(mail) => {
                *mail
            }
            Event::Attempted(attempted) if attempted.outcomes.iter().any(is_bounce) => attempted.mail,
            Event::RuleAdded(_) | Event::RuleRemoved(_) => {
                self.rules += 1;
                return;
            }
            _ => return,
        };
        // Recipients of one mail may fail in several steps.
        if self.first.last() == Some(&mail) {
            return;
        }
        self.mails += 1;
        if self.first.len() < FIRST_MAILS {
            self.first.push(mail);
        }
    }
}

/// Whether the operator made the recipient fail.
fn is_bounce((_, outcome): &(u16, Outcome)) -> bool {
    matches!(outcome, Outcome::Failed(failure) if failure.status == BOUNCED)
}

impl QueueView {
    /// Reads the log of the queue of `node`.
    ///
    /// # Errors
    /// `Corrupt` if the log cannot be read; errors of the store.
    pub async fn open(
        store: Store,
        node: AccountId,
        log_key: &LogKey,
        mail_keys: MailKeys,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self> {
        let journal = Journal::of_queue(store.clone(), node, log_key, random).timed(clock);
        let state = read_state(&journal, &mail_keys.queue(node)).await?;
        Ok(Self::of(store, node, mail_keys, journal, state))
    }

    /// A view of a state that was read before.
    pub(crate) fn of(
        store: Store,
        node: AccountId,
        mail_keys: MailKeys,
        journal: Journal,
        state: State,
    ) -> Self {
        let keys = mail_keys.queue(node);
        QueueView { store, node, mail_keys, keys, journal, state, last: Mutex::default() }
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// A queued mail.
    ///
    /// # Errors
    /// `NotFound` if it is not queued; `Corrupt` if it is damaged; errors of the store.
    pub async fn read(&self, id: MailId) -> Result<Mail> {
        let gone = || Error::not_found(format!("{id} is not in the queue"));
        let row: &Row = self.state.rows().get(id).ok_or_else(gone)?;
        let read = match row.place {
            Place::Entry(position, number) => self.read_entry(position, usize::from(number)).await,
            Place::Segment(number, start, length) => {
                let segment = self.state.segment(number).ok_or_else(gone)?;
                let range = u64::from(start)..u64::from(start) + u64::from(length);
                let known = (segment.object, &segment.key, segment.layout);
                let bytes = QueueObject::Segment.read_whole(&self.store, self.node, known, range).await?;
                minicbor::decode(&bytes)
                    .map_err(|e| Error::corrupt("a mail in a segment cannot be read").with_source(e))
            }
        };
        read.map_err(|e| e.context(format!("mail {id}")))
    }

    async fn read_entry(&self, position: Position, number: usize) -> Result<Mail> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let batch = match last {
            Some((at, batch)) if at == position => batch,
            _ => {
                let entry = self.journal.entry(&self.keys, position).await?;
                let Content::Plain(_, plain) = entry.content else {
                    return Err(Error::corrupt(format!("log entry {position} cannot be opened")));
                };
                let batch = Arc::new(Batch::decode(&plain)?);
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((position, batch.clone()));
                batch
            }
        };
        match batch.events.get(number) {
            Some(Event::Accepted(mail)) => Ok((**mail).clone()),
            _ => Err(Error::corrupt(format!("log entry {position} does not have the mail"))),
        }
    }

    /// The result of the request of that name, from the entries behind `since`; `None` if the writer has
    /// not handled it.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn handled(&self, request: &str, since: Position) -> Result<Option<HandledRequest>> {
        let places = history::places(&self.journal, since, None).await?;
        let mut batches = std::pin::pin!(history::batches(&self.journal, &self.keys, &places));
        let mut done = HandledRequest::default();
        while let Some((_, batch)) = batches.try_next().await? {
            for event in &batch.events {
                match event {
                    Event::Handled(name) if name == request => return Ok(Some(done)),
                    // The events before belong to another request.
                    Event::Handled(_) => done = HandledRequest::default(),
                    event => done.take(event),
                }
            }
        }
        Ok(None)
    }

    /// Traces the mails that `wanted` selects, the last `limit` of them.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn trace(&self, wanted: &Traced, limit: usize) -> Result<Trace> {
        trace::trace(&self.store, self.node, &self.mail_keys, (&self.journal, &self.keys), wanted, limit)
            .await
    }
}
