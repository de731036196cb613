//! The mail transaction: the envelope, and the message so far (RFC 5321 §3.3).

use std::collections::HashMap;

use sealpost_base::{AccountId, Budget, Permit, limits};
use sealpost_directory::{Address, Outside, Quotas, Resolved};
use sealpost_smtp::types::{ForwardPath, Mail, Notify, OriginalRecipient, Rcpt, Reply};
use sealpost_submission::vacation::responder::Away;
use sealpost_vault::PublicKey;

use super::incoming::Incoming;
use super::replies;
use super::submitting::{Sender, Submitting};

/// From MAIL to the reply to the message.
pub(super) struct Transaction {
    pub(super) envelope: Envelope,
    /// The submitting account; a delivery has none.
    pub(super) sender: Option<Sender>,
    /// Set when the message begins.
    pub(super) message: Option<Message>,
}

/// A message that is arriving.
pub(super) enum Message {
    /// For local accounts.
    Delivery(Box<Incoming>),
    /// For the queue.
    Submission(Box<Submitting>),
}

/// The sender and the recipients.
pub(super) struct Envelope {
    pub(super) mail: Mail,
    /// The RCPTs that were accepted, in order; the same one may be there several times (RFC 2033 §4.2).
    pub(super) recipients: Vec<Recipient>,
    /// The accounts they lead to, each once.
    pub(super) accounts: Vec<Account>,
    known: HashMap<AccountId, usize>,
    /// Those that have, or have had, a vacation response.
    pub(super) away: Vec<Away>,
    /// The addresses of other servers that they lead to, each once.
    pub(super) outside: Vec<Outside>,
    known_outside: HashMap<Address, usize>,
    /// Memory that the recipients take, in bytes, about.
    bytes: usize,
    /// The permit for that memory.
    permits: Vec<Permit>,
}

/// The recipients of all transactions may take this part of the common budget.
const SHARE: usize = 8;
/// Bytes of a recipient's path besides its characters: allocations, and a vector that grows.
const PATH_BYTES: usize = 3 * 16 + size_of::<Recipient>();

/// Bytes of an address of another server besides its characters: it is kept in two spellings and as a key,
/// with the name of its alias.
const OUTSIDE_BYTES: usize = 512;

/// The budget of envelopes, of a server with that budget.
pub(super) fn envelopes(budget: &Budget) -> Budget {
    budget.share(budget.common() / SHARE)
}

/// One accepted RCPT.
pub(super) struct Recipient {
    pub(super) path: ForwardPath,
    /// NOTIFY: when the sender wants a report. For submission alone, as the next field.
    pub(super) notify: Option<Notify>,
    /// The address that its sender wrote first.
    pub(super) orcpt: Option<OriginalRecipient>,
    /// Indexes into the envelope's accounts.
    pub(super) accounts: Vec<usize>,
    /// The same for addresses of other servers.
    pub(super) outside: Vec<usize>,
}

/// The destination of one copy.
#[derive(Clone, Copy)]
pub(super) struct Account {
    pub(super) id: AccountId,
    pub(super) public: PublicKey,
    pub(super) quotas: Quotas,
}

impl Transaction {
    pub(super) fn new(mail: Mail, sender: Option<Sender>) -> Self {
        let envelope = Envelope {
            mail,
            recipients: Vec::new(),
            accounts: Vec::new(),
            known: HashMap::new(),
            away: Vec::new(),
            outside: Vec::new(),
            known_outside: HashMap::new(),
            bytes: 0,
            permits: Vec::new(),
        };
        Transaction { envelope, sender, message: None }
    }
}

impl Recipient {
    /// Whether it is the same RCPT.
    pub(super) fn is_of(&self, rcpt: &Rcpt) -> bool {
        self.path == rcpt.to && self.notify == rcpt.notify && self.orcpt == rcpt.orcpt
    }
}

impl Message {
    /// Why the session will refuse it, if that is known already.
    pub(super) fn failure(&self) -> Option<&Reply> {
        match self {
            Message::Delivery(incoming) => incoming.failure(),
            Message::Submission(submitting) => submitting.failure(),
        }
    }

    /// Whether other sessions may have to wait for memory that it holds.
    pub(super) fn holds_budget(&self) -> bool {
        match self {
            Message::Delivery(incoming) => incoming.holds_budget(),
            Message::Submission(submitting) => submitting.holds_budget(),
        }
    }

    /// Refuses it; the first reason stays.
    pub(super) fn refuse(&mut self, reply: Reply) {
        match self {
            Message::Delivery(incoming) => incoming.refuse(reply),
            Message::Submission(submitting) => submitting.refuse(reply),
        }
    }
}

impl Envelope {
    /// The index of an account.
    pub(super) fn index_of(&self, id: AccountId) -> Option<usize> {
        self.known.get(&id).copied()
    }

    /// Adds a recipient that leads to what is in `resolved`; a submitted message leads to none here.
    ///
    /// # Errors
    /// A temporary reply: the client offers the recipient again in another transaction.
    pub(super) fn add(&mut self, rcpt: Rcpt, resolved: Resolved, budget: &Budget) -> Result<(), Reply> {
        let new =
            resolved.recipients.iter().filter(|recipient| !self.known.contains_key(&recipient.id)).count();
        let new_outside = resolved.outside.iter();
        let new_outside: Vec<_> =
            new_outside.filter(|to| !self.known_outside.contains_key(to.address.canonical())).collect();
        let is_crowded = self.outside.len() + new_outside.len() > limits::SMTP_FORWARDS;
        if is_crowded || self.accounts.len() + new > limits::SMTP_ACCOUNTS {
            return Err(replies::too_many_recipients());
        }
        let links = (resolved.recipients.len() + resolved.outside.len()) * size_of::<usize>();
        let of_outside = |to: &&Outside| OUTSIDE_BYTES + 3 * to.address.as_str().len();
        let outside: usize = new_outside.iter().map(of_outside).sum();
        let away = resolved.recipients.iter().filter(|recipient| recipient.vacation.is_some());
        let away: usize = away.map(|recipient| size_of::<Away>() + recipient.name.as_str().len()).sum();
        let accounts = new * (size_of::<Account>() + size_of::<(AccountId, usize)>()) + away;
        let Rcpt { to: path, notify, orcpt } = rcpt;
        let text =
            path.to_string().len() + orcpt.as_ref().map_or(0, |orcpt| orcpt.kind.len() + orcpt.address.len());
        let bytes = self.bytes + size_of::<Recipient>() + PATH_BYTES + text + links + accounts + outside;
        // Do not wait: a session that holds memory for an envelope must not wait for more of it.
        while bytes > limits::SMTP_ENVELOPE_FREE_BYTES + self.permits.iter().map(Permit::bytes).sum::<usize>()
        {
            match budget.try_acquire(limits::SMTP_ENVELOPE_STEP_BYTES) {
                Some(permit) => self.permits.push(permit),
                None => return Err(replies::no_memory()),
            }
        }
        self.bytes = bytes;
        let accounts = resolved.recipients.into_iter().map(|recipient| {
            *self.known.entry(recipient.id).or_insert_with(|| {
                let (id, public, quotas) = (recipient.id, recipient.public, recipient.quotas);
                self.accounts.push(Account { id, public, quotas });
                self.away.extend(recipient.vacation.map(|mark| Away { id, name: recipient.name, mark }));
                self.accounts.len() - 1
            })
        });
        let accounts = accounts.collect();
        let outside = resolved.outside.into_iter().map(|to| {
            *self.known_outside.entry(to.address.canonical().clone()).or_insert_with(|| {
                self.outside.push(to);
                self.outside.len() - 1
            })
        });
        let outside = outside.collect();
        self.recipients.push(Recipient { path, notify, orcpt, accounts, outside });
        Ok(())
    }
}
