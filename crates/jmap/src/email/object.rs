//! The Email object and its properties (RFC 8621 §4.1).

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::body::{EmailBodyPart, EmailBodyValue};
use super::header::{self, EmailAddress, EmailHeader, HeaderProperties, HeaderProperty, property_or_header};
use super::keyword::Keyword;
use crate::data_type::data_type;
use crate::date::{Date, UtcDate};
use crate::id::{BlobId, EmailId, GivenId, ThreadId};
use crate::read::{Fields, FromJson, Mismatch};
use crate::true_set::TrueSet;

data_type! {
    /// The properties of an email, but for header properties. What an email of the store always has
    /// is nullable too, as Email/parse has none (§4.9).
    pub struct EmailFields, EmailField {
        /// Its id.
        id: Option<EmailId> = Id "id" [server_set],
        /// The message.
        blob_id: BlobId = BlobId "blobId" [server_set],
        /// The thread it is in.
        thread_id: Option<ThreadId> = ThreadId "threadId" [server_set],
        /// The mailboxes it is in.
        mailbox_ids: Option<TrueSet<GivenId>> = MailboxIds "mailboxIds" [settable],
        /// Its keywords.
        keywords: Option<TrueSet<Keyword>> = Keywords "keywords" [settable default Some(TrueSet::default())],
        /// Bytes of the message.
        size: u64 = Size "size" [server_set],
        /// When it was received.
        received_at: Option<UtcDate> = ReceivedAt "receivedAt" [immutable],
        /// All header fields, in their order.
        headers: Vec<EmailHeader> = Headers "headers" [server_set],
        /// Message-ID.
        message_id: Option<Vec<String>> = MessageId "messageId" [immutable],
        /// In-Reply-To.
        in_reply_to: Option<Vec<String>> = InReplyTo "inReplyTo" [immutable],
        /// References.
        references: Option<Vec<String>> = References "references" [immutable],
        /// Sender.
        sender: Option<Vec<EmailAddress>> = Sender "sender" [immutable],
        /// From.
        from: Option<Vec<EmailAddress>> = From "from" [immutable],
        /// To.
        to: Option<Vec<EmailAddress>> = To "to" [immutable],
        /// Cc.
        cc: Option<Vec<EmailAddress>> = Cc "cc" [immutable],
        /// Bcc.
        bcc: Option<Vec<EmailAddress>> = Bcc "bcc" [immutable],
        /// Reply-To.
        reply_to: Option<Vec<EmailAddress>> = ReplyTo "replyTo" [immutable],
        /// Subject.
        subject: Option<String> = Subject "subject" [immutable],
        /// Date.
        sent_at: Option<Date> = SentAt "sentAt" [immutable],
        /// The tree of parts.
        body_structure: EmailBodyPart = BodyStructure "bodyStructure" [immutable],
        /// Whether there is a part to download.
        has_attachment: bool = HasAttachment "hasAttachment" [server_set],
        /// The beginning of the text, at most 256 characters.
        preview: String = Preview "preview" [server_set],
        /// Texts of parts, by part id.
        body_values: BTreeMap<String, EmailBodyValue> = BodyValues "bodyValues" [immutable],
        /// Parts to show as the body, plain text preferred.
        text_body: Vec<EmailBodyPart> = TextBody "textBody" [immutable],
        /// Parts to show as the body, HTML preferred.
        html_body: Vec<EmailBodyPart> = HtmlBody "htmlBody" [immutable],
        /// The other parts.
        attachments: Vec<EmailBodyPart> = Attachments "attachments" [immutable],
    }
}

property_or_header! {
    /// A property of an Email.
    pub enum EmailProperty of EmailField
}

impl EmailField {
    /// The header field that a convenience property is (§4.1.3), if it is one.
    pub fn header_field(self) -> Option<&'static str> {
        Some(match self {
            EmailField::MessageId => "Message-ID",
            EmailField::InReplyTo => "In-Reply-To",
            EmailField::References => "References",
            EmailField::Sender => "Sender",
            EmailField::From => "From",
            EmailField::To => "To",
            EmailField::Cc => "Cc",
            EmailField::Bcc => "Bcc",
            EmailField::ReplyTo => "Reply-To",
            EmailField::Subject => "Subject",
            EmailField::SentAt => "Date",
            _ => return None,
        })
    }

    /// Whether it is of the store, not of the message (§4.1.1).
    pub fn is_metadata(self) -> bool {
        use EmailField::*;
        matches!(self, Id | BlobId | ThreadId | MailboxIds | Keywords | Size | ReceivedAt)
    }
}

impl EmailProperty {
    /// What `properties` of Email/get is if it is omitted (§4.2).
    pub fn get_defaults() -> Vec<EmailProperty> {
        let omitted = [EmailField::Headers, EmailField::BodyStructure];
        let fields = EmailField::ALL.iter().filter(|field| !omitted.contains(field));
        fields.map(|field| EmailProperty::Field(*field)).collect()
    }

    /// What `properties` of Email/parse is if it is omitted (§4.9).
    pub fn parse_defaults() -> Vec<EmailProperty> {
        let is_metadata = |property: &EmailProperty| match property {
            EmailProperty::Field(field) => field.is_metadata(),
            EmailProperty::Header(_) => false,
        };
        Self::get_defaults().into_iter().filter(|property| !is_metadata(property)).collect()
    }
}

/// An email, with the properties that were asked for or given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Email {
    /// Its properties.
    pub fields: EmailFields,
    /// Its header properties.
    pub header_properties: HeaderProperties,
}

impl Email {
    /// All members of an object; what is wrong goes into `wrong`.
    pub(super) fn take(fields: &mut Fields, wrong: &mut Vec<Mismatch>) -> Self {
        let header_properties = header::take(fields, wrong);
        Email { fields: EmailFields::take(fields, wrong), header_properties }
    }
}

impl FromJson for Email {
    fn expected() -> String {
        "an object (Email)".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let Value::Object(members) = value else { return Err(Mismatch::new(Self::expected(), &value)) };
        let mut fields = Fields::from(members);
        let mut wrong = Vec::new();
        let email = Email::take(&mut fields, &mut wrong);
        match wrong.into_iter().next() {
            Some(wrong) => Err(wrong),
            None => fields.finish().map(|()| email),
        }
    }
}

impl Serialize for Email {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.fields.write(&mut map)?;
        header::write(&self.header_properties, &mut map)?;
        map.end()
    }
}
