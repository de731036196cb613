//! Submissions as JMAP has them.

use std::collections::BTreeMap;

use sealpost_account::object_id::email_id_of;
use sealpost_account::submission::{
    Delivered, PathAddress, Progress, RecipientStatus, SubmissionRecord, Undo,
};
use sealpost_base::{ObjectId, SubmissionId};
use sealpost_jmap::GivenId;
use sealpost_jmap::date::UtcDate;
use sealpost_jmap::id::{self, BlobId, CreatedIds, ThreadId};
use sealpost_jmap::submission::{
    Delivered as Shown, DeliveryStatus, Displayed, EmailSubmission, Envelope, EnvelopeAddress, UndoStatus,
};

use crate::blob::BlobName;
use crate::identity;

/// The id of a submission: `S` and 32 hex digits.
pub(super) fn id_of(id: SubmissionId) -> id::SubmissionId {
    let text = format!("S{id}");
    id::SubmissionId::new(text).expect("hexadecimal digits are safe characters")
}

/// The submission that an id names; `None` if none can have it.
pub(super) fn submission_of(given: &GivenId, created: &CreatedIds) -> Option<SubmissionId> {
    let text = given.resolve(created)?.as_str();
    let id: SubmissionId = text.strip_prefix('S')?.parse().ok()?;
    (id_of(id).as_str() == text).then_some(id)
}

/// What clients see of a progress.
pub(super) fn undo_status(progress: Progress) -> UndoStatus {
    match progress.undo() {
        Undo::Pending => UndoStatus::Pending,
        Undo::Final => UndoStatus::Final,
        Undo::Canceled => UndoStatus::Canceled,
    }
}

/// A submission for a response.
pub(super) fn show(record: &SubmissionRecord) -> EmailSubmission {
    let submission = &record.submission;
    let statuses = submission.to.iter().zip(&record.recipients);
    let statuses = statuses.map(|(to, status)| (to.address.clone(), status_of(record.progress, status)));
    EmailSubmission {
        id: Some(id_of(submission.id)),
        identity_id: Some(identity::id_of(submission.identity).into()),
        email_id: Some(GivenId::from(email_id_of(submission.email))),
        thread_id: ThreadId::new(submission.thread.to_string()),
        envelope: Some(Some(Envelope {
            mail_from: address(&submission.from),
            rcpt_to: submission.to.iter().map(address).collect(),
        })),
        send_at: Some(UtcDate::new(submission.send_at)),
        undo_status: Some(undo_status(record.progress)),
        delivery_status: Some(Some(statuses.collect::<BTreeMap<_, _>>())),
        dsn_blob_ids: Some(record.reports.iter().flatten().filter_map(blob_of).collect()),
        // A receipt of a reader names a Message-ID at most, which nothing keeps.
        mdn_blob_ids: Some(Vec::new()),
    }
}

/// The blob of the message that the object first held.
fn blob_of(object: &ObjectId) -> Option<BlobId> {
    BlobName::of_message(*object).id()
}

fn address(path: &PathAddress) -> EnvelopeAddress {
    let parameters = path.parameters.as_ref().map(|all| all.iter().cloned().collect());
    EnvelopeAddress { email: path.address.clone(), parameters }
}

/// How far a recipient's mail got. Before the first reply, and where no server replies, the reply is one
/// that says the same (RFC 8621 §7).
fn status_of(progress: Progress, status: &RecipientStatus) -> DeliveryStatus {
    let is_waiting = status.delivered == Delivered::Queued;
    let (delivered, said) = match (progress, status.delivered) {
        (Progress::Canceled, Delivered::Queued) => (Shown::No, "550 5.7.0 Canceled by the sender"),
        (Progress::NeverQueued, Delivered::Queued) => (Shown::No, "550 5.3.0 The server did not queue it"),
        (_, Delivered::Queued) => (Shown::Queued, "250 2.1.5 Queued"),
        (_, Delivered::Yes) => (Shown::Yes, "250 2.1.5 Delivered"),
        (_, Delivered::No) => (Shown::No, "550 5.0.0 Not delivered"),
        (_, Delivered::Unknown) => (Shown::Unknown, "250 2.0.0 Accepted"),
    };
    let is_over = matches!(progress, Progress::Canceled | Progress::NeverQueued);
    let smtp_reply = match status.reply.is_empty() || is_waiting && is_over {
        true => said.to_owned(),
        false => status.reply.clone(),
    };
    DeliveryStatus { smtp_reply, delivered, displayed: Displayed::Unknown }
}
