//! Email/query and Email/queryChanges (RFC 8621 §4.4, §4.5).

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value};

use super::header::HeaderProperty;
use super::keyword::Keyword;
use crate::date::UtcDate;
use crate::error::MethodError;
use crate::id::GivenId;
use crate::object::object;
use crate::read::{Fields, FromJson, Mismatch};
use crate::standard::{Condition, QueryChangesRequest, QueryRequest, SortKey};

object! {
    /// Which emails: all that are given must match (§4.4.1).
    pub struct EmailCondition {
        /// In this mailbox.
        in_mailbox: Option<GivenId> = "inMailbox" [optional],
        /// In some mailbox that is none of these.
        in_mailbox_other_than: Option<Vec<GivenId>> = "inMailboxOtherThan" [optional],
        /// Received before.
        before: Option<UtcDate> = "before" [optional],
        /// Received then or after.
        after: Option<UtcDate> = "after" [optional],
        /// Of at least so many bytes.
        min_size: Option<u64> = "minSize" [optional],
        /// Of fewer bytes.
        max_size: Option<u64> = "maxSize" [optional],
        /// All emails of the thread have it.
        all_in_thread_have_keyword: Option<Keyword> = "allInThreadHaveKeyword" [optional],
        /// An email of the thread has it.
        some_in_thread_have_keyword: Option<Keyword> = "someInThreadHaveKeyword" [optional],
        /// No email of the thread has it.
        none_in_thread_have_keyword: Option<Keyword> = "noneInThreadHaveKeyword" [optional],
        /// The email has it.
        has_keyword: Option<Keyword> = "hasKeyword" [optional],
        /// The email does not have it.
        not_keyword: Option<Keyword> = "notKeyword" [optional],
        /// With attachments, or without.
        has_attachment: Option<bool> = "hasAttachment" [optional],
        /// In addresses, subject or body.
        text: Option<String> = "text" [optional],
        /// In From.
        from: Option<String> = "from" [optional],
        /// In To.
        to: Option<String> = "to" [optional],
        /// In Cc.
        cc: Option<String> = "cc" [optional],
        /// In Bcc.
        bcc: Option<String> = "bcc" [optional],
        /// In Subject.
        subject: Option<String> = "subject" [optional],
        /// In the body.
        body: Option<String> = "body" [optional],
        /// With a header field.
        header: Option<HeaderCondition> = "header" [optional],
    }
}

impl Condition for EmailCondition {
    fn read(fields: &mut Fields) -> Result<Self, Mismatch> {
        EmailCondition::read(fields)
    }
}

/// A header field that must be there, and the text that must be in it, if one is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderCondition {
    /// The name of the field.
    pub name: String,
    /// What its value contains.
    pub text: Option<String>,
}

impl FromJson for HeaderCondition {
    fn expected() -> String {
        "an array of the name of a header field and, if wanted, a text".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let mut strings: Vec<String> = Vec::from_json(value)?;
        let text = if strings.len() == 2 { strings.pop() } else { None };
        let name = if strings.len() == 1 { strings.pop() } else { None };
        let is_name = |name: &String| HeaderProperty::new(name, super::HeaderForm::Raw, false).is_some();
        let name = name.filter(is_name);
        let name = name.ok_or_else(|| Mismatch::because(format!("expected {}", Self::expected())))?;
        Ok(HeaderCondition { name, text })
    }
}

impl Serialize for HeaderCondition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        list.serialize_element(&self.name)?;
        self.text.iter().try_for_each(|text| list.serialize_element(text))?;
        list.end()
    }
}

/// What emails are sorted by (§4.4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EmailSortKey {
    /// `receivedAt`.
    ReceivedAt,
    /// Bytes of the message.
    Size,
    /// Name or address of the first sender.
    From,
    /// Name or address of the first recipient.
    To,
    /// The base subject (RFC 5256 §2.1).
    Subject,
    /// `sentAt`.
    SentAt,
    /// Whether the email has a keyword.
    HasKeyword(Keyword),
    /// Whether all emails of its thread have a keyword.
    AllInThreadHaveKeyword(Keyword),
    /// Whether any email of its thread has a keyword.
    SomeInThreadHaveKeyword(Keyword),
}

impl EmailSortKey {
    /// All properties, as `emailQuerySortOptions` lists them.
    pub const PROPERTIES: [&str; 9] = [
        "receivedAt",
        "size",
        "from",
        "to",
        "subject",
        "sentAt",
        "hasKeyword",
        "allInThreadHaveKeyword",
        "someInThreadHaveKeyword",
    ];

    fn property(&self) -> &'static str {
        match self {
            EmailSortKey::ReceivedAt => "receivedAt",
            EmailSortKey::Size => "size",
            EmailSortKey::From => "from",
            EmailSortKey::To => "to",
            EmailSortKey::Subject => "subject",
            EmailSortKey::SentAt => "sentAt",
            EmailSortKey::HasKeyword(_) => "hasKeyword",
            EmailSortKey::AllInThreadHaveKeyword(_) => "allInThreadHaveKeyword",
            EmailSortKey::SomeInThreadHaveKeyword(_) => "someInThreadHaveKeyword",
        }
    }

    fn keyword(&self) -> Option<&Keyword> {
        match self {
            EmailSortKey::HasKeyword(keyword)
            | EmailSortKey::AllInThreadHaveKeyword(keyword)
            | EmailSortKey::SomeInThreadHaveKeyword(keyword) => Some(keyword),
            _ => None,
        }
    }
}

impl SortKey for EmailSortKey {
    fn read(property: &str, fields: &mut Fields) -> Result<Option<Self>, Mismatch> {
        Ok(Some(match property {
            "receivedAt" => EmailSortKey::ReceivedAt,
            "size" => EmailSortKey::Size,
            "from" => EmailSortKey::From,
            "to" => EmailSortKey::To,
            "subject" => EmailSortKey::Subject,
            "sentAt" => EmailSortKey::SentAt,
            "hasKeyword" => EmailSortKey::HasKeyword(fields.required("keyword")?),
            "allInThreadHaveKeyword" => EmailSortKey::AllInThreadHaveKeyword(fields.required("keyword")?),
            "someInThreadHaveKeyword" => EmailSortKey::SomeInThreadHaveKeyword(fields.required("keyword")?),
            _ => return Ok(None),
        }))
    }

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("property", self.property())?;
        self.keyword().iter().try_for_each(|keyword| map.serialize_entry("keyword", keyword))
    }
}

/// Arguments of Email/query.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EmailQuery {
    /// Those of any /query.
    #[serde(flatten)]
    pub query: QueryRequest<EmailCondition, EmailSortKey>,
    /// Whether only the first email of each thread is wanted (§4.4.3).
    #[serde(skip_serializing_if = "crate::standard::is_default")]
    pub collapse_threads: bool,
}

impl EmailQuery {
    /// Reads the arguments.
    pub fn from_arguments(arguments: Map<String, Value>) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let query = QueryRequest::read(&mut fields)?;
        let collapse_threads = fields.defaulted("collapseThreads", false)?;
        fields.finish()?;
        Ok(EmailQuery { query, collapse_threads })
    }
}

/// Arguments of Email/queryChanges.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EmailQueryChanges {
    /// Those of any /queryChanges.
    #[serde(flatten)]
    pub changes: QueryChangesRequest<EmailCondition, EmailSortKey>,
    /// As in the query.
    #[serde(skip_serializing_if = "crate::standard::is_default")]
    pub collapse_threads: bool,
}

impl EmailQueryChanges {
    /// Reads the arguments.
    pub fn from_arguments(arguments: Map<String, Value>) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let changes = QueryChangesRequest::read(&mut fields)?;
        let collapse_threads = fields.defaulted("collapseThreads", false)?;
        fields.finish()?;
        Ok(EmailQueryChanges { changes, collapse_threads })
    }
}
