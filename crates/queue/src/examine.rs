//! Verifies a queue for `sealpost check`: its log, checkpoints, history, and each queued mail. It only
//! reads, reports damage, and continues behind it.

use std::sync::Arc;

use futures::TryStreamExt;
use sealpost_base::{AccountId, Clock, Error, Kind, Position, Random, Result};
use sealpost_journal::{Content, EntryName, Journal, Read, Tail};
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::queue::QueueObject;
use sealpost_vault::{AccountKeys, Store};

use crate::envelope::Body;
use crate::event::Batch;
use crate::log::read_state;
use crate::state::Place;
use crate::{MailId, QueueView, State, history};

/// Damaged mails that a report names; after so many the examination ends.
const PROBLEMS: usize = 10_000;

/// The result.
#[derive(Default)]
pub struct Examined {
    /// Entries of the log that were read.
    pub entries: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Queued mails.
    pub mails: u64,
    /// Each damaged object, and its error.
    pub problems: Vec<(String, Error)>,
}

/// A mail that is not where the log placed it when the log was read.
struct Lost {
    mail: MailId,
    place: Place,
    error: Error,
}

struct Examiner {
    store: Store,
    node: AccountId,
    mail_keys: MailKeys,
    keys: AccountKeys,
    journal: Journal,
}

/// Reads all of the queue of `node`. An object that its writer removes meanwhile does not count as missing.
///
/// # Errors
/// Errors of the store, if it cannot list the objects.
pub async fn examine(
    store: Store,
    node: AccountId,
    log_key: &LogKey,
    mail_keys: MailKeys,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
) -> Result<Examined> {
    let journal = Journal::of_queue(store.clone(), node, log_key, random).timed(clock);
    let keys = mail_keys.queue(node);
    let examiner = Examiner { store, node, mail_keys, keys, journal };
    let mut found = Examined::default();
    examiner.examine_log(&mut found).await?;
    examiner.examine_checkpoints(&mut found).await?;
    let history = history::examine(&examiner.store, node, &examiner.mail_keys).await?;
    found.problems.extend(history);
    match read_state(&examiner.journal, &examiner.keys).await {
        Ok(state) => examiner.examine_mails(state, &mut found).await?,
        Err(e) => found.problems.push((format!("queue/{node}/log"), e)),
    }
    Ok(found)
}

impl Examiner {
    async fn examine_log(&self, found: &mut Examined) -> Result<()> {
        let places = history::places(&self.journal, Position::ZERO, None).await?;
        let first = places.first().map_or(Position::ZERO, |place| place.position);
        let known = Tail { position: Position(first.0.saturating_sub(1)), ..Tail::EMPTY };
        let mut entries = std::pin::pin!(self.journal.entries(&self.keys, known, &places));
        while let Some(read) = entries.try_next().await? {
            let wrong = |position, why: &str| {
                let path = self.journal.path(&EntryName::plain(position));
                (path, Error::corrupt(format!("log entry {position} of the queue {why}")))
            };
            match read {
                Read::Entry(entry) => {
                    found.entries += 1;
                    match entry.content {
                        Content::Plain(_, plain) => {
                            if let Err(e) = Batch::decode(&plain) {
                                let path = self.journal.path(&EntryName::plain(entry.position));
                                found.problems.push((path, e));
                            }
                        }
                        Content::Sealed(why) => {
                            let why = format!("cannot be opened: {why}");
                            found.problems.push(wrong(entry.position, &why));
                        }
                        Content::Renumbering(_) => {}
                    }
                }
                Read::Damaged(position) => found.problems.push(wrong(position, "is damaged")),
                Read::Noise(position) => {
                    found.problems.push(wrong(position, "is none that a node of this installation wrote"));
                }
                Read::Gone(position) if self.journal.is_trimmed(position).await? => {}
                Read::Gone(position) => found.problems.push(wrong(position, "is missing")),
            }
        }
        Ok(())
    }

    async fn examine_checkpoints(&self, found: &mut Examined) -> Result<()> {
        for position in self.journal.checkpoints().await? {
            found.checkpoints += 1;
            if let Err((name, e)) = self.examine_checkpoint(position).await
                && self.journal.checkpoints().await?.contains(&position)
            {
                let path = format!("queue/{}/snap/{:016x}{name}", self.node, position.0);
                found.problems.push((path, e.context(format!("checkpoint {position} of the queue"))));
            }
        }
        Ok(())
    }

    /// Reads a checkpoint back; if it cannot be read, the name of the chunk's object and why.
    async fn examine_checkpoint(&self, position: Position) -> std::result::Result<(), (String, Error)> {
        let checkpoint = self.journal.checkpoint(&self.keys, position).await;
        let checkpoint = checkpoint.map_err(|e| (String::new(), e))?;
        let mut state = State::default();
        for chunk in &checkpoint.chunks {
            let bytes = self.journal.chunk(&self.keys, position, chunk).await;
            let restored = bytes.and_then(|bytes| state.restore(&chunk.name, &bytes));
            restored.map_err(|e| (format!("/{}", chunk.file_name()), e))?;
        }
        Ok(())
    }

    async fn examine_mails(&self, state: State, found: &mut Examined) -> Result<()> {
        let (store, keys, journal) = (self.store.clone(), self.mail_keys.clone(), self.journal.clone());
        let view = QueueView::of(store, self.node, keys, journal, state);
        let mut lost = Vec::new();
        for (mail, row) in view.state().rows().from(MailId(0)) {
            found.mails += 1;
            match self.examine_mail(&view, mail).await {
                Ok(()) => {}
                Err(error) if error.kind() == Kind::NotFound => {
                    lost.push(Lost { mail, place: row.place, error });
                }
                Err(error) => found.problems.push((self.path(view.state(), row.place), error)),
            }
            if found.problems.len() + lost.len() >= PROBLEMS {
                break;
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        // A mail that was sent or carried elsewhere meanwhile is not lost.
        let now = read_state(&self.journal, &self.keys).await?;
        let is_there = |lost: &Lost| now.rows().get(lost.mail).is_some_and(|row| row.place == lost.place);
        for lost in lost.into_iter().filter(is_there) {
            let why = format!("mail {} is lost", lost.mail);
            found.problems.push((self.path(&now, lost.place), Error::corrupt(why).with_source(lost.error)));
        }
        Ok(())
    }

    /// Reads a mail, and its body to the end.
    async fn examine_mail(&self, view: &QueueView, id: MailId) -> Result<()> {
        let mail = view.read(id).await?;
        let Body::Object(body) = &mail.body else { return Ok(()) };
        let known = (body.object, &body.key, body.layout);
        let path = QueueObject::Body.path(self.node, body.object);
        let mut pieces = QueueObject::Body.read(&self.store, self.node, known, 0..u64::MAX);
        let of_body = |e: Error| e.context(format!("{path}, the body of mail {id}"));
        while pieces.try_next().await.map_err(of_body)?.is_some() {}
        Ok(())
    }

    /// The object that a mail is in.
    fn path(&self, state: &State, place: Place) -> String {
        match place {
            Place::Entry(position, _) => self.journal.path(&EntryName::plain(position)),
            Place::Segment(number, ..) => {
                let object = state.segment(number).map(|segment| segment.object);
                object.map_or_else(String::new, |object| QueueObject::Segment.path(self.node, object))
            }
        }
    }
}
