//! Message disposition notifications (RFC 9007): what a mail program says became of a message.

use std::collections::{BTreeMap, HashSet};

use sealpost_base::limits::JMAP_GET_OBJECTS;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::MethodError;
use crate::id::{AccountId, BlobId, EmailId, GivenId};
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
