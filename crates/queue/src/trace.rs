//! Traces a mail from its acceptance to its outcome, in the history and the log of a queue.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use sealpost_base::{AccountId, Result, Timestamp};
use sealpost_journal::Journal;
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::{AccountKeys, Store};

use crate::envelope::{Body, Mail};
use crate::event::{Batch, Event};
use crate::{MailId, history};

/// Events of one mail in a trace; a mail has some forty unless the operator acts on it.
const STEPS: usize = 1000;

/// Selects the mails to trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Traced {
    /// The mail of that id.
    Mail(MailId),
    /// Mails with that Message-ID, without its angle brackets.
    MessageId(String),
    /// Mails from or to that address, lower case; `@example.org` is every address of a domain.
    Address(String),
}

impl Traced {
    /// Reads the argument of the operator: `Q1f4`, `<id@host>`, or an address. A Message-ID without
    /// brackets looks like an address: [`Traced::matches`] takes an address for either. `<>` is the sender
    /// of reports.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        if let Ok(id) = text.parse() {
            return Traced::Mail(id);
        }
        if text == "<>" {
            return Traced::Address(String::new());
        }
        match text.strip_prefix('<').and_then(|text| text.strip_suffix('>')) {
            Some(id) => Traced::MessageId(id.to_owned()),
            None => Traced::Address(text.to_lowercase()),
        }
    }

    fn matches(&self, id: MailId, mail: &Mail) -> bool {
        let message_id = || mail.message_id.as_deref().map(bare);
        match self {
            Traced::Mail(wanted) => id == *wanted,
            Traced::MessageId(wanted) => message_id() == Some(wanted),
            Traced::Address(wanted) => {
                let is = |address: &str| {
                    let address = address.to_lowercase();
                    address == *wanted || wanted.starts_with('@') && address.ends_with(wanted)
                };
                let is_to = mail.recipients.iter().any(|recipient| is(&recipient.address));
                is(&mail.from) || is_to || message_id().is_some_and(|id| id.to_lowercase() == *wanted)
            }
        }
    }
}

/// A Message-ID without its angle brackets.
fn bare(id: &str) -> &str {
    let id = id.trim();
    id.strip_prefix('<').and_then(|id| id.strip_suffix('>')).unwrap_or(id)
}

/// The traced mails.
#[derive(Debug, Default)]
pub struct Trace {
    /// The mails, by id, in the order of acceptance.
    pub mails: BTreeMap<MailId, TracedMail>,
    /// Whether earlier mails match as well, and are left out.
    pub has_more: bool,
    /// The time of the earliest entry. Mail that was accepted before it is not found.
    pub since: Option<Timestamp>,
    /// Objects of the history that could not be read.
    pub unreadable: usize,
}

/// One mail.
#[derive(Clone)]
pub struct TracedMail {
    /// Its envelope, without header and body, and without recipients beyond the limit of the history.
    pub mail: Mail,
    /// What happened to it after it was accepted, in order.
    pub steps: Vec<(Timestamp, Event)>,
}

impl std::fmt::Debug for TracedMail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TracedMail({} steps)", self.steps.len())
    }
}

pub(crate) async fn trace(
    store: &Store,
    node: AccountId,
    mail_keys: &MailKeys,
    (journal, keys): (&Journal, &AccountKeys),
    wanted: &Traced,
    limit: usize,
) -> Result<Trace> {
    let mut trace = Trace::default();
    let (end, unreadable) =
        history::read(store, node, mail_keys, |batch| trace.take(batch, wanted, limit)).await?;
    trace.unreadable = unreadable;
    let places = history::places(journal, end, None).await?;
    let mut batches = std::pin::pin!(history::batches(journal, keys, &places));
    while let Some((_, batch)) = batches.try_next().await? {
        trace.take(batch, wanted, limit);
    }
    Ok(trace)
}

impl Trace {
    fn take(&mut self, batch: Batch, wanted: &Traced, limit: usize) {
        let at = batch.at;
        self.since.get_or_insert(at);
        let mut next = batch.first;
        for event in batch.events {
            let id = match &event {
                Event::Accepted(mail) => {
                    let id = next;
                    next = MailId(next.0 + 1);
                    if wanted.matches(id, mail) {
                        self.keep(id, mail, limit);
                    }
                    continue;
                }
                Event::Attempted(attempted) => attempted.mail,
                Event::Taken(taken) => taken.mail,
                Event::Held(held) => held.mail,
                Event::DelayReported(id)
                | Event::Released(id)
                | Event::Retried(id)
                | Event::Removed(id)
                | Event::Canceled(id) => *id,
                _ => continue,
            };
            if let Some(mail) = self.mails.get_mut(&id)
                && mail.steps.len() < STEPS
            {
                mail.steps.push((at, event));
            }
        }
    }

    fn keep(&mut self, id: MailId, mail: &Mail, limit: usize) {
        let mail = Mail { header: Vec::new(), body: Body::Inline(Vec::new()), ..mail.clone() };
        self.mails.insert(id, TracedMail { mail, steps: Vec::new() });
        if self.mails.len() > limit {
            self.mails.pop_first();
            self.has_more = true;
        }
    }
}
