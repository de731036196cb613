//! A submitted message that is arriving: the options of the client, and the outbox that takes it.
//!
//! The session reads a message to its end even if it is refused before; its bytes are dropped then.

use std::sync::Arc;

use sealpost_base::Timestamp;
use sealpost_directory::AccountRecord;
use sealpost_queue::envelope::{self, Notify, Ret, Source, TlsDemand};
use sealpost_queue::retry::MAX_HOLD;
use sealpost_smtp::types::{self, ForwardPath, Hold, Reply, ReversePath};
use sealpost_submission::outbox::{Accepted, Order, Refusal, Submission};

use super::replies;
use super::transaction::{Envelope, Recipient};

/// The facts of a submission that MAIL gives.
pub(super) struct Sender {
    /// The account as it is recorded now: its rights can change while the session lasts. A trusted client has
    /// none.
    pub(super) account: Option<Arc<AccountRecord>>,
    /// When the message may leave (RFC 4865).
    pub(super) release: Option<Timestamp>,
}

/// One message. Dropping it leaves nothing behind.
pub(super) struct Submitting {
    /// The id of the message in its Received field and in the log.
    pub(super) id: String,
    pub(super) sender: Option<Arc<AccountRecord>>,
    bytes: u64,
    /// Parts of it that were URLs.
    pub(super) urls: usize,
    submission: Option<Submission>,
    failure: Option<Reply>,
}

impl Submitting {
    /// A message that has begun.
    pub(super) fn new(id: String, sender: Option<Arc<AccountRecord>>, submission: Submission) -> Self {
        Submitting { id, sender, bytes: 0, urls: 0, submission: Some(submission), failure: None }
    }

    /// Bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Why the session will refuse the message, if that is known already.
    pub(super) fn failure(&self) -> Option<&Reply> {
        self.failure.as_ref()
    }

    /// Whether other sessions may have to wait for memory that this message holds.
    pub(super) fn holds_budget(&self) -> bool {
        self.submission.as_ref().is_some_and(Submission::holds_budget)
    }

    /// Refuses the message; the first reason stays.
    pub(super) fn refuse(&mut self, reply: Reply) {
        self.failure.get_or_insert(reply);
        self.submission = None;
    }

    /// Takes the next bytes.
    pub(super) async fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(submission) = &mut self.submission {
            let taken = submission.write(bytes).await;
            self.settle(taken);
        }
    }

    /// Acquires the memory for a message of any size.
    pub(super) async fn draw_memory(&mut self) {
        if let Some(submission) = &mut self.submission {
            let drawn = submission.draw_memory().await;
            self.settle(drawn);
        }
    }

    fn settle(&mut self, result: Result<(), Refusal>) {
        if let Err(refusal) = result {
            let reply = replies::submission(&refusal, self.sender.as_deref(), &self.id);
            self.refuse(reply);
        }
    }

    /// Completes the message, which is in the queue when this returns.
    pub(super) async fn finish(self) -> Result<Accepted, Reply> {
        match (self.failure, self.submission) {
            (None, Some(submission)) => submission
                .finish()
                .await
                .map_err(|refusal| replies::submission(&refusal, self.sender.as_deref(), &self.id)),
            (failure, _) => Err(failure.unwrap_or_else(replies::unfinished)),
        }
    }
}

/// The order for the outbox. `hostname` is the domain of a postmaster without one.
pub(super) fn order(envelope: &Envelope, sender: &Sender, trace: Vec<u8>, hostname: &str) -> Order {
    let mail = &envelope.mail;
    Order {
        account: sender.account.clone(),
        from: reverse_path(&mail.from),
        recipients: envelope.recipients.iter().map(|recipient| queued(recipient, hostname)).collect(),
        ret: mail.ret.map(|ret| match ret {
            types::Return::Full => Ret::Full,
            types::Return::Headers => Ret::Headers,
        }),
        envid: mail.envid.clone(),
        release: sender.release,
        tls: if mail.require_tls { TlsDemand::Require } else { TlsDemand::Policy },
        trace,
        source: Source::Submission,
    }
}

/// The reverse-path as the queue has it: empty for the null sender.
pub(super) fn reverse_path(from: &ReversePath) -> String {
    match from {
        ReversePath::Null => String::new(),
        ReversePath::Mailbox(mailbox) => mailbox.to_string(),
    }
}

fn queued(recipient: &Recipient, hostname: &str) -> envelope::Recipient {
    let address = match &recipient.path {
        ForwardPath::Postmaster => format!("postmaster@{hostname}"),
        ForwardPath::Mailbox(mailbox) => mailbox.to_string(),
    };
    let orcpt = recipient.orcpt.as_ref().map(|orcpt| format!("{};{}", orcpt.kind, orcpt.address));
    envelope::Recipient { address, notify: recipient.notify.map(notify), orcpt }
}

fn notify(notify: types::Notify) -> Notify {
    match notify {
        types::Notify::Never => Notify::NEVER,
        types::Notify::On { success, failure, delay } => {
            let asked = [(success, Notify::SUCCESS), (failure, Notify::FAILURE), (delay, Notify::DELAY)];
            asked
                .into_iter()
                .filter(|(is_asked, _)| *is_asked)
                .fold(Notify::NEVER, |all, (_, one)| all.and(one))
        }
    }
}

/// When a message may leave that is to be held.
///
/// # Errors
/// The reply if that is later than EHLO offers (RFC 4865 §5).
pub(super) fn release(hold: Option<Hold>, now: Timestamp) -> Result<Option<Timestamp>, Reply> {
    let release = match hold {
        None => return Ok(None),
        Some(Hold::For(seconds)) => now.after(std::time::Duration::from_secs(seconds.into())),
        Some(Hold::Until(seconds)) => Timestamp::from_seconds(seconds),
    };
    if release > now.after(MAX_HOLD) {
        return Err(replies::hold_too_long(MAX_HOLD.as_secs()));
    }
    Ok(Some(release))
}
