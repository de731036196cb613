//! Creates a submission: the message streams from the account into the queue.
//!
//! Everything is checked and stored first. Then the account records the submission, and then the queue takes
//! the mail: nothing is sent that has no record. These two steps go on if the client hangs up.

use std::sync::Arc;

use futures::TryStreamExt;
use sealpost_account::identity::Identity;
use sealpost_account::submission::{Submission, SubmissionRecord, submission_bytes};
use sealpost_account::{Account, AccountState, Event, Message, ThreadId};
use sealpost_base::{Error, IdentityId, Kind, ObjectId, Position, Result, SubmissionId, Timestamp, limits};
use sealpost_directory::AccountRecord;
use sealpost_jmap::SetError;
use sealpost_jmap::error::SetErrorType;
use sealpost_jmap::standard::ObjectMap;
use sealpost_jmap::submission::EmailSubmission;
use sealpost_mailbox::account_changes::at_once;
use sealpost_mailbox::emails::Email;
use sealpost_mime::header::date;
use sealpost_queue::envelope::{MailSubmission, Source, TlsDemand};
use sealpost_submission::header::Collector;
use sealpost_submission::outbox::{Order, Outbox, ReadySubmission, Refusal, Submission as OutboxSubmission};

use super::envelope;
use super::refused::{Refused, invalid_property};
use crate::blob::Blob;
use crate::identity::list::identity_of;
use crate::record_state::{RecordChanges, failure_of};
use crate::scope::Scope;

/// Makes the submission that a client asks for; its record.
pub(super) async fn create(
    scope: &Scope<'_>,
    changes: &mut RecordChanges,
    account: &Arc<AccountRecord>,
    object: ObjectMap,
) -> Result<SubmissionRecord, Refused> {
    let given = EmailSubmission::new(object)?;
    let Some(outbox) = scope.user().shared.outbox.clone() else {
        return Err(SetError::from(SetErrorType::ForbiddenToSend).describe("sending is off").into());
    };
    if !account.lets_in() {
        let error = SetError::from(SetErrorType::ForbiddenToSend);
        return Err(error.describe("the account is suspended").into());
    }
    let (identity_id, identity) = identity(scope, &given).await?;
    let source = SourceEmail::find(scope, &given).await?;
    let ctx = scope.user().ctx();
    let now = ctx.clock.now();
    let envelope = match given.envelope.flatten() {
        Some(envelope) => envelope,
        None => {
            let of_header = |header: &[u8]| envelope::of_header(header, &identity.email);
            source.header(scope, of_header).await??
        }
    };
    let checked = envelope::check(&outbox, account, envelope, now).await?;
    let submission = Submission {
        id: SubmissionId::random(&*ctx.random),
        identity: identity_id,
        email: source.object,
        thread: source.thread,
        from: checked.from,
        to: checked.to,
        send_at: checked.mail.release.map_or(now, |release| release.max(now)),
        queue: outbox.queue().node(),
    };
    check_room(scope, &submission).await?;
    let order = Order {
        account: Some(account.clone()),
        from: submission.from.address.clone(),
        recipients: checked.recipients,
        ret: checked.mail.ret,
        envid: checked.mail.envid,
        release: checked.mail.release,
        tls: TlsDemand::Policy,
        trace: received_field(&ctx.hostname, submission.id, now),
        source: Source::Submission,
    };
    let ready = stream(&outbox, order, &source).await?;
    hand_over(scope, changes, account, (submission, ready)).await
}

/// The identity that sends.
async fn identity(scope: &Scope<'_>, given: &EmailSubmission) -> Result<(IdentityId, Identity), Refused> {
    let id = given.identity_id.as_ref().and_then(|given| identity_of(given, &scope.created));
    let found = scope.own_state(|state| Some((id?, state.identities().get(id?)?.clone()))).await?;
    Ok(found.ok_or_else(|| no_such("identityId"))?)
}

fn no_such(property: &str) -> SetError {
    invalid_property(property, "there is no such object")
}

/// The email that is sent.
pub(crate) struct SourceEmail {
    pub(crate) object: ObjectId,
    pub(crate) thread: ThreadId,
    blob: Blob,
}

impl SourceEmail {
    async fn find(scope: &Scope<'_>, given: &EmailSubmission) -> Result<Self, Refused> {
        let id = given.email_id.as_ref().and_then(|given| given.resolve(&scope.created));
        let object = id.and_then(|id| sealpost_account::object_id::object_of(id.as_str()));
        let object = object.ok_or_else(|| no_such("emailId"))?;
        Ok(Self::of(scope, object).await?.ok_or_else(|| no_such("emailId"))?)
    }

    /// The email that this object first held, if the account has it.
    pub(crate) async fn of(scope: &Scope<'_>, object: ObjectId) -> Result<Option<Self>> {
        let logs = scope.logs().await?;
        let found = at_once(&logs, |states| {
            let email = Email::find(states, object)?;
            let message: Message = email.message(states)?;
            Some((email.thread, email.stored.0, message))
        })
        .await?;
        let Some((thread, log, message)) = found else { return Ok(None) };
        let account: Option<&Arc<Account>> = logs.iter().find(|account| account.id() == log);
        let blob = account.map(|account| Blob::message(account.clone(), message));
        Ok(blob.map(|blob| SourceEmail { object, thread, blob }))
    }

    /// Shows its header, as far as one may be sent. Nothing is kept of it.
    pub(crate) async fn header<T>(
        &self,
        scope: &Scope<'_>,
        look: impl FnOnce(&[u8]) -> T + Send,
    ) -> Result<T, Refused> {
        let most = self.blob.size().min(limits::SUBMISSION_HEADER_BYTES as u64);
        let _permit = scope.permit(2 * limits::SUBMISSION_HEADER_BYTES.min(self.blob.size() as usize)).await;
        let bytes = self.blob.read(0..most).await?;
        let mut collector = Collector::default();
        collector.push(&bytes).map_err(Refusal::Header)?;
        Ok(look(&collector.finish().0))
    }

    /// All of it, at the end of what a submission has.
    pub(crate) async fn copy_into(&self, submission: &mut OutboxSubmission) -> Result<(), Refused> {
        let size = self.blob.size();
        if submission.size() + size > limits::SMTP_HEAD_BYTES as u64 {
            // Before the message is read, which holds memory too: no message waits for another one then.
            submission.draw_memory().await?;
        }
        let mut pieces = self.blob.bytes(0..size).await?;
        let mut read = 0;
        while let Some(piece) = pieces.try_next().await? {
            read += piece.len() as u64;
            submission.write(&piece).await?;
        }
        if read != size {
            return Err(Error::new(Kind::Corrupt, "a message is shorter than it should be").into());
        }
        Ok(())
    }
}

/// Refuses a submission whose record has no room, before anything is written.
async fn check_room(scope: &Scope<'_>, submission: &Submission) -> Result<(), Refused> {
    let bytes = submission_bytes(submission);
    let has_room = scope.own_state(|state| state.superfluous_submissions(bytes).is_some()).await?;
    if has_room { Ok(()) } else { Err(no_room().into()) }
}

fn no_room() -> SetError {
    let text =
        format!("the account has {} submissions under way, or too many bytes of them", limits::SUBMISSIONS);
    SetError::from(SetErrorType::OverQuota).describe(text)
}

/// The Received field. It says nothing of the client, as that of SMTP submission.
pub(crate) fn received_field(hostname: &str, id: SubmissionId, now: Timestamp) -> Vec<u8> {
    let date = date::format(now.seconds(), 0);
    format!("Received: by {hostname}\r\n\tid {id};\r\n\t{date}\r\n").into_bytes()
}

/// The message on its way into the queue, up to the last step.
async fn stream(outbox: &Outbox, order: Order, source: &SourceEmail) -> Result<ReadySubmission, Refused> {
    if source.blob.size() > outbox.message_size() {
        return Err(Refusal::TooLarge(outbox.message_size()).into());
    }
    let mut submission = outbox.begin(order);
    source.copy_into(&mut submission).await?;
    Ok(submission.ready().await?)
}

/// How handing over ended.
enum HandedOver {
    /// The queue has it; when a record had changed last before, and where this one was made.
    Done((Position, Position), Box<SubmissionRecord>),
    /// There is no room for the record, or the state is not the wanted one.
    NotRecorded(Error),
    /// The queue refused it; its record is gone again.
    Refused(Refusal),
    /// It was recorded, and whether the queue has it is not known.
    Unknown(Error),
}

/// The account records the submission, and then the queue takes it.
async fn hand_over(
    scope: &Scope<'_>,
    changes: &mut RecordChanges,
    account: &AccountRecord,
    (submission, ready): (Submission, ReadySubmission),
) -> Result<SubmissionRecord, Refused> {
    let (log, name, expected) =
        (scope.account().clone(), account.name.as_str().to_owned(), changes.expected());
    // A task of its own: a client that hangs up leaves no record without a mail.
    let task = tokio::spawn(async move { record_and_queue(&log, name, expected, submission, ready).await });
    let ended = task.await.map_err(|_| Error::internal("a submission ended because of a bug"))?;
    match ended {
        HandedOver::Done((changed, position), record) => {
            changes.wrote(changed, position);
            Ok(*record)
        }
        HandedOver::NotRecorded(error) if error.kind() == Kind::Limit => Err(no_room().into()),
        HandedOver::NotRecorded(error) => {
            let state = scope.account().state();
            Err(failure_of(error, changes, &state, |state| state.submissions().changed()).into())
        }
        HandedOver::Refused(refusal) => Err(refusal.into()),
        HandedOver::Unknown(error) => {
            tracing::error!(%error, "it is not known whether the queue has a submission");
            Err(crate::method::Failure::from(sealpost_jmap::error::MethodErrorType::ServerPartialFail).into())
        }
    }
}

async fn record_and_queue(
    log: &Account,
    name: String,
    expected: Option<Position>,
    submission: Submission,
    ready: ReadySubmission,
) -> HandedOver {
    let id = submission.id;
    let decide = |state: &AccountState| {
        let changed = state.submissions().changed();
        if expected.is_some_and(|expected| expected != changed) {
            return Err(Error::conflict("the state has changed"));
        }
        if state.superfluous_submissions(submission_bytes(&submission)).is_none() {
            return Err(Error::limit("too many submissions of the account are under way"));
        }
        Ok((vec![Event::Submitted { submission: submission.clone() }], changed))
    };
    let positions = match log.commit(decide).await {
        Ok(committed) => (committed.value, committed.position),
        Err(error) => return HandedOver::NotRecorded(error),
    };
    let record = log.state().submissions().get(id).cloned();
    match ready.accept(Some(MailSubmission { id, account: name })).await {
        Ok(_) => match record {
            Some(record) => HandedOver::Done(positions, Box::new(record)),
            None => HandedOver::Unknown(Error::internal("the record of a submission is gone")),
        },
        // The queue may have it all the same.
        Err(Refusal::Store(error)) if error.kind() != Kind::Limit => HandedOver::Unknown(error),
        Err(refusal) => {
            let remove = |_: &AccountState| Ok((vec![Event::SubmissionRemoved { submission: id }], ()));
            if let Err(error) = log.commit(remove).await {
                tracing::warn!(%error, "the record of a refused submission stays until it counts as canceled");
            }
            HandedOver::Refused(refusal)
        }
    }
}
