//! Submissions (RFC 8621 §7).

mod envelope;
mod query;

use std::collections::BTreeMap;

pub use envelope::{Envelope, EnvelopeAddress};
pub use query::{SubmissionCondition, SubmissionQuery, SubmissionQueryChanges, SubmissionSortKey};
use sealpost_base::limits::JMAP_SET_OBJECTS;
use serde::Serialize;

use crate::data_type::{all_wrong, data_type};
use crate::date::UtcDate;
use crate::error::{MethodError, SetError};
use crate::id::{BlobId, GivenId, SubmissionId, ThreadId};
use crate::object::object;
use crate::read::{Fields, Mismatch, string_enum};
use crate::standard::{
    ChangesRequest, ChangesResponse, GetRequest, GetResponse, ObjectMap, SetRequest, SetResponse,
};

string_enum! {
    /// Whether a submission can be canceled.
    pub enum UndoStatus {
        /// Perhaps.
        Pending = "pending",
        /// No: it is on its way to a recipient.
        Final = "final",
        /// It was.
        Canceled = "canceled",
    }
}

string_enum! {
    /// Whether a recipient has the message.
    pub enum Delivered {
        /// It is in the queue.
        Queued = "queued",
        /// It is in the recipient's store.
        Yes = "yes",
        /// It will never be.
        No = "no",
        /// Another server has it.
        Unknown = "unknown",
    }
}

string_enum! {
    /// Whether a recipient has seen the message.
    pub enum Displayed {
        /// Not known.
        Unknown = "unknown",
        /// The recipient's client says so.
        Yes = "yes",
    }
}

object! {
    /// How far a recipient's mail got.
    pub struct DeliveryStatus {
        /// The last SMTP reply, in one line.
        smtp_reply: String = "smtpReply" [required],
        /// Whether the recipient has it.
        delivered: Delivered = "delivered" [required],
        /// Whether the recipient has seen it.
        displayed: Displayed = "displayed" [required],
    }
}

data_type! {
    /// An email that is sent to recipients.
    pub struct EmailSubmission, SubmissionProperty {
        /// Its id.
        id: SubmissionId = Id "id" [server_set],
        /// The identity that sends.
        identity_id: GivenId = IdentityId "identityId" [immutable],
        /// The email.
        email_id: GivenId = EmailId "emailId" [immutable],
        /// The thread of the email.
        thread_id: ThreadId = ThreadId "threadId" [server_set],
        /// Sender and recipients for SMTP; none is made from the email.
        envelope: Option<Envelope> = Envelope "envelope" [immutable],
        /// When it is or was released.
        send_at: UtcDate = SendAt "sendAt" [server_set],
        /// Whether it can be canceled; set to `canceled` to do it.
        undo_status: UndoStatus = UndoStatus "undoStatus" [settable],
        /// How far each recipient's mail got, by address.
        delivery_status: Option<BTreeMap<String, DeliveryStatus>> = DeliveryStatus "deliveryStatus" [server_set],
        /// Delivery reports, oldest first.
        dsn_blob_ids: Vec<BlobId> = DsnBlobIds "dsnBlobIds" [server_set],
        /// Notices of reading, oldest first.
        mdn_blob_ids: Vec<BlobId> = MdnBlobIds "mdnBlobIds" [server_set],
    }
}

impl EmailSubmission {
    /// A submission of `create` of EmailSubmission/set, with identity and email.
    pub fn new(object: ObjectMap) -> Result<Self, SetError> {
        let submission = EmailSubmission::for_create(object)?;
        let mut wrong = Vec::new();
        if submission.identity_id.is_none() {
            wrong.push(Mismatch::missing("an id").within("identityId"));
        }
        if submission.email_id.is_none() {
            wrong.push(Mismatch::missing("an id").within("emailId"));
        }
        if submission.undo_status.is_some() {
            wrong.push(Mismatch::because("set by the server when it is created").within("undoStatus"));
        }
        match all_wrong(&wrong) {
            Some(error) => Err(error),
            None => Ok(submission),
        }
    }
}

/// Arguments of EmailSubmission/set (§7.5).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubmissionSet {
    /// Those of any /set.
    #[serde(flatten)]
    pub set: SetRequest,
    /// Patches of the emails of submissions that were changed, for
    /// [`crate::patch::PatchObject::new`]; at most [`JMAP_SET_OBJECTS`] with the next.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub on_success_update_email: BTreeMap<GivenId, ObjectMap>,
    /// Submissions that were changed whose emails are destroyed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on_success_destroy_email: Vec<GivenId>,
}

impl SubmissionSet {
    /// Reads the arguments.
    pub fn from_arguments(arguments: ObjectMap) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let set = SetRequest::read(&mut fields)?;
        let update: Option<BTreeMap<GivenId, ObjectMap>> = fields.optional("onSuccessUpdateEmail")?;
        let destroy: Option<Vec<GivenId>> = fields.optional("onSuccessDestroyEmail")?;
        fields.finish()?;
        let (update, destroy) = (update.unwrap_or_default(), destroy.unwrap_or_default());
        let emails = update.len() + destroy.len();
        if emails > JMAP_SET_OBJECTS {
            return Err(MethodError::too_large("maxObjectsInSet", JMAP_SET_OBJECTS, emails));
        }
        Ok(SubmissionSet { set, on_success_update_email: update, on_success_destroy_email: destroy })
    }
}

/// Arguments of EmailSubmission/get (§7.1).
pub type SubmissionGet = GetRequest<SubmissionProperty>;
/// The response to EmailSubmission/get.
pub type SubmissionGetResponse = GetResponse<EmailSubmission>;
/// Arguments of EmailSubmission/changes (§7.2).
pub type SubmissionChanges = ChangesRequest;
/// The response to EmailSubmission/changes.
pub type SubmissionChangesResponse = ChangesResponse;
/// The response to EmailSubmission/set.
pub type SubmissionSetResponse = SetResponse<EmailSubmission>;
