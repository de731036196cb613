//! Message disposition notifications (RFC 9007): what a mail program says became of a message.

use std::collections::{BTreeMap, HashSet};

use sealpost_base::limits::{JMAP_GET_OBJECTS, JMAP_SET_OBJECTS};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{MethodError, SetError};
use crate::id::{AccountId, BlobId, CreationId, EmailId, GivenId};
use crate::object::object;
use crate::read::{Fields, string_enum};

string_enum! {
    /// Whether the user did it.
    pub enum ActionMode {
        /// The user did.
        Manual = "manual-action",
        /// The mail program did by itself.
        Automatic = "automatic-action",
    }
}

string_enum! {
    /// Whether the user sent the notification.
    pub enum SendingMode {
        /// The user allowed it.
        Manually = "mdn-sent-manually",
        /// The mail program did by itself.
        Automatically = "mdn-sent-automatically",
    }
}

string_enum! {
    /// What became of the message.
    pub enum DispositionType {
        /// It was deleted, and perhaps not read.
        Deleted = "deleted",
        /// It was sent on.
        Dispatched = "dispatched",
        /// It was shown to the user.
        Displayed = "displayed",
        /// It was processed without being shown.
        Processed = "processed",
    }
}

object! {
    /// What became of the message, and how (RFC 8098 §3.2.6).
    pub struct MdnDisposition {
        /// Who did it.
        action_mode: ActionMode = "actionMode" [required],
        /// Who sent the notification.
        sending_mode: SendingMode = "sendingMode" [required],
        /// What was done.
        disposition_type: DispositionType = "type" [required],
    }
}

object! {
    /// A notification.
    pub struct Mdn {
        /// The message it is about, if it is known.
        for_email_id: Option<EmailId> = "forEmailId" [nullable],
        /// Its subject.
        subject: Option<String> = "subject" [nullable],
        /// The text for people.
        text_body: Option<String> = "textBody" [nullable],
        /// Whether the message it is about is in it.
        include_original_message: bool = "includeOriginalMessage" [always false],
        /// The mail program.
        reporting_ua: Option<String> = "reportingUA" [nullable],
        /// What became of the message.
        disposition: MdnDisposition = "disposition" [required],
        /// The gateway that translated it.
        mdn_gateway: Option<String> = "mdnGateway" [nullable],
        /// The recipient as the sender wrote it.
        original_recipient: Option<String> = "originalRecipient" [nullable],
        /// The recipient.
        final_recipient: Option<String> = "finalRecipient" [nullable],
        /// The Message-ID of the message it is about, as it is written there.
        original_message_id: Option<String> = "originalMessageId" [nullable],
        /// What went wrong.
        error: Option<Vec<String>> = "error" [nullable],
        /// Fields that the specification does not have.
        extension_fields: Option<BTreeMap<String, String>> = "extensionFields" [nullable],
    }
}

/// Arguments of MDN/parse (§2.2).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MdnParse {
    /// The account.
    pub account_id: AccountId,
    /// The blobs, each once, at most [`JMAP_GET_OBJECTS`].
    pub blob_ids: Vec<GivenId>,
}

impl MdnParse {
    /// Reads the arguments.
    pub fn from_arguments(arguments: Map<String, Value>) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let account_id = crate::standard::account(&mut fields)?;
        let mut blob_ids: Vec<GivenId> = fields.required("blobIds")?;
        fields.finish()?;
        if blob_ids.len() > JMAP_GET_OBJECTS {
            return Err(MethodError::too_large("maxObjectsInGet", JMAP_GET_OBJECTS, blob_ids.len()));
        }
        let mut seen = HashSet::new();
        blob_ids.retain(|id| seen.insert(id.clone()));
        Ok(MdnParse { account_id, blob_ids })
    }
}

object! {
    /// The response to MDN/parse.
    pub struct MdnParseResponse {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// The notifications, by blob.
        parsed: BTreeMap<BlobId, Mdn> = "parsed" [null_if_empty],
        /// Blobs that are no notifications.
        not_parsable: Vec<BlobId> = "notParsable" [null_if_empty],
        /// Blobs that do not exist.
        not_found: Vec<GivenId> = "notFound" [null_if_empty],
    }
}

/// Arguments of MDN/send (§2.1).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MdnSend {
    /// The account.
    pub account_id: AccountId,
    /// The identity that sends.
    pub identity_id: GivenId,
    /// The notifications, as they came: what is wrong in one fails that one. At most
    /// [`JMAP_SET_OBJECTS`], with the next.
    pub send: BTreeMap<CreationId, Map<String, Value>>,
    /// Patches of the emails that they are about: by their ids, or by the creation ids of `send`.
    pub on_success_update_email: BTreeMap<GivenId, Map<String, Value>>,
}

impl MdnSend {
    /// Reads the arguments.
    pub fn from_arguments(arguments: Map<String, Value>) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let account_id = crate::standard::account(&mut fields)?;
        let identity_id = fields.required("identityId")?;
        let send: BTreeMap<CreationId, Map<String, Value>> = fields.required("send")?;
        let update: Option<BTreeMap<GivenId, Map<String, Value>>> =
            fields.optional("onSuccessUpdateEmail")?;
        fields.finish()?;
        let on_success_update_email = update.unwrap_or_default();
        let objects = send.len().max(on_success_update_email.len());
        if objects > JMAP_SET_OBJECTS {
            return Err(MethodError::too_large("maxObjectsInSet", JMAP_SET_OBJECTS, objects));
        }
        Ok(MdnSend { account_id, identity_id, send, on_success_update_email })
    }
}

/// What the server set in a notification that was sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SentMdn {
    /// The subject, if the client gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The recipient, if the client gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_recipient: Option<String>,
    /// The recipient as the sender wrote it, if the message says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_recipient: Option<String>,
    /// The Message-ID of the message, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_message_id: Option<String>,
    /// Whether the message is in it, if the client did not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_original_message: Option<bool>,
}

/// The response to MDN/send.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MdnSendResponse {
    /// The account.
    pub account_id: AccountId,
    /// Those that were sent, with what the server set; null if none was.
    pub sent: Option<BTreeMap<CreationId, SentMdn>>,
    /// Why others were not sent; null if all were.
    pub not_sent: Option<BTreeMap<CreationId, SetError>>,
}
