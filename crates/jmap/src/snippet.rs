//! Search snippets (RFC 8621 §5).

use sealpost_base::limits::JMAP_GET_OBJECTS;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::email::EmailCondition;
use crate::error::MethodError;
use crate::id::{AccountId, EmailId, GivenId};
use crate::object::object;
use crate::read::Fields;
use crate::standard::Filter;

object! {
    /// Where an email has the text of a filter, as HTML.
    pub struct SearchSnippet {
        /// The email.
        email_id: EmailId = "emailId" [required],
        /// Its subject with matches in `<mark>`, if there are some.
        subject: Option<String> = "subject" [nullable],
        /// A part of its body with matches in `<mark>`, if there are some; at most 255 bytes.
        preview: Option<String> = "preview" [nullable],
    }
}

/// Arguments of SearchSnippet/get (§5.1).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SnippetGet {
    /// The account.
    pub account_id: AccountId,
    /// The filter of the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter<EmailCondition>>,
    /// The emails, at most [`JMAP_GET_OBJECTS`].
    pub email_ids: Vec<GivenId>,
}

impl SnippetGet {
    /// Reads the arguments.
    pub fn from_arguments(arguments: Map<String, Value>) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let account_id = crate::standard::account(&mut fields)?;
        let filter = Filter::read(&mut fields)?;
        let email_ids: Vec<GivenId> = fields.required("emailIds")?;
        fields.finish()?;
        if email_ids.len() > JMAP_GET_OBJECTS {
            return Err(MethodError::too_large("maxObjectsInGet", JMAP_GET_OBJECTS, email_ids.len()));
        }
        Ok(SnippetGet { account_id, filter, email_ids })
    }
}

object! {
    /// The response to SearchSnippet/get.
    pub struct SnippetGetResponse {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// The snippets.
        list: Vec<SearchSnippet> = "list" [required],
        /// Ids of no email.
        not_found: Vec<GivenId> = "notFound" [null_if_empty],
    }
}
