//! Email/import and Email/copy (RFC 8621 §4.7, §4.8).

use std::collections::BTreeMap;

use sealpost_base::limits::JMAP_SET_OBJECTS;
use serde::Serialize;

use super::keyword::Keyword;
use super::object::Email;
use crate::data_type::all_wrong;
use crate::date::UtcDate;
use crate::error::{MethodError, SetError};
use crate::id::{AccountId, CreationId, GivenId};
use crate::object::object;
use crate::read::{Fields, Mismatch};
use crate::standard::ObjectMap;
use crate::state::State;
use crate::true_set::TrueSet;

/// Arguments of Email/import.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EmailImportRequest {
    /// The account.
    pub account_id: AccountId,
    /// The state that its emails must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_in_state: Option<State>,
    /// What to import, for [`EmailImport::new`]; at most [`JMAP_SET_OBJECTS`].
    pub emails: BTreeMap<CreationId, ObjectMap>,
}

impl EmailImportRequest {
    /// Reads the arguments.
    pub fn from_arguments(arguments: ObjectMap) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let account_id = crate::standard::account(&mut fields)?;
        let if_in_state = fields.optional("ifInState")?;
        let emails: BTreeMap<CreationId, ObjectMap> = fields.required("emails")?;
        fields.finish()?;
        if emails.len() > JMAP_SET_OBJECTS {
            return Err(MethodError::too_large("maxObjectsInSet", JMAP_SET_OBJECTS, emails.len()));
        }
        Ok(EmailImportRequest { account_id, if_in_state, emails })
    }
}

object! {
    /// The response to Email/import.
    pub struct EmailImportResponse {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// The state before, if it is known.
        old_state: Option<State> = "oldState" [nullable],
        /// The state now.
        new_state: State = "newState" [required],
        /// Id, blob, thread and size of new emails.
        created: BTreeMap<CreationId, Email> = "created" [null_if_empty],
        /// Why emails were not imported.
        not_created: BTreeMap<CreationId, SetError> = "notCreated" [null_if_empty],
    }
}

object! {
    /// A message to import.
    pub struct EmailImport {
        /// The message.
        blob_id: GivenId = "blobId" [required],
        /// The mailboxes it goes to; at least one.
        mailbox_ids: TrueSet<GivenId> = "mailboxIds" [required],
        /// Its keywords.
        keywords: TrueSet<Keyword> = "keywords" [default TrueSet::default()],
        /// When it was received, if that is not in the message.
        received_at: Option<UtcDate> = "receivedAt" [optional],
    }
}

impl EmailImport {
    /// Reads one of [`EmailImportRequest::emails`].
    pub fn new(object: ObjectMap) -> Result<Self, SetError> {
        let mut fields = Fields::from(object);
        let import = EmailImport::read(&mut fields)?;
        fields.finish()?;
        if import.mailbox_ids.0.is_empty() {
            return Err(Mismatch::because("expected at least one mailbox").within("mailboxIds").into());
        }
        Ok(import)
    }
}

/// A copy of an email of another account: what is not given is as in the original.
#[derive(Debug, Clone, PartialEq)]
pub struct EmailCopy {
    /// The original.
    pub id: GivenId,
    /// The mailboxes that the copy goes to; at least one.
    pub mailbox_ids: TrueSet<GivenId>,
    /// Its keywords.
    pub keywords: Option<TrueSet<Keyword>>,
    /// When it was received.
    pub received_at: Option<UtcDate>,
}

impl EmailCopy {
    /// Reads one of `create` of Email/copy. Mailboxes of the original are in the other account, so
    /// `mailboxIds` must be there.
    pub fn new(object: ObjectMap) -> Result<Self, SetError> {
        let mut fields = Fields::from(object);
        let copy = EmailCopy {
            id: fields.required("id")?,
            mailbox_ids: fields.required("mailboxIds")?,
            keywords: fields.present("keywords")?,
            received_at: fields.present("receivedAt")?,
        };
        let mut wrong = Vec::new();
        if copy.mailbox_ids.0.is_empty() {
            wrong.push(Mismatch::because("expected at least one mailbox").within("mailboxIds"));
        }
        while let Some((name, _)) = fields.pop() {
            wrong.push(Mismatch::because("cannot be set in a copy").within(&name));
        }
        match all_wrong(&wrong) {
            Some(error) => Err(error),
            None => Ok(copy),
        }
    }
}
