//! Errors of one object in /set, /copy and /import (RFC 8620 §5.3, §5.4; RFC 8621 §2.5, §4.6,
//! §7.5).

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use crate::id::{BlobId, Id};
use crate::read::{Fields, FromJson, Mismatch, string_enum};

string_enum! {
    /// Why an object was not created, updated or destroyed.
    pub enum SetErrorType {
        /// Not allowed.
        Forbidden = "forbidden",
        /// Too many objects, or too large together.
        OverQuota = "overQuota",
        /// This object is too large.
        TooLarge = "tooLarge",
        /// Too many were created lately.
        RateLimit = "rateLimit",
        /// No such object.
        NotFound = "notFound",
        /// Not a valid PatchObject.
        InvalidPatch = "invalidPatch",
        /// The same call destroys the object.
        WillDestroy = "willDestroy",
        /// Properties are wrong; `properties` lists them.
        InvalidProperties = "invalidProperties",
        /// There is one object of the type, always.
        Singleton = "singleton",
        /// It is there already; `existingId` names it (RFC 8620 §5.4).
        AlreadyExists = "alreadyExists",
        /// The mailbox has children (RFC 8621 §2.5).
        MailboxHasChild = "mailboxHasChild",
        /// The mailbox has emails (RFC 8621 §2.5).
        MailboxHasEmail = "mailboxHasEmail",
        /// The address book has cards (RFC 9610 §2.3).
        AddressBookHasContents = "addressBookHasContents",
        /// Blobs do not exist; `notFound` lists them (RFC 8621 §4.6).
        BlobNotFound = "blobNotFound",
        /// More keywords than the server takes (RFC 8621 §4.6).
        TooManyKeywords = "tooManyKeywords",
        /// In more mailboxes than the server takes (RFC 8621 §4.6).
        TooManyMailboxes = "tooManyMailboxes",
        /// Not a message (RFC 8621 §4.8), or it cannot be sent, and `properties` says why (§7.5).
        InvalidEmail = "invalidEmail",
        /// More recipients than `maxRecipients` (RFC 8621 §7.5).
        TooManyRecipients = "tooManyRecipients",
        /// No recipients (RFC 8621 §7.5).
        NoRecipients = "noRecipients",
        /// `invalidRecipients` lists addresses that are none (RFC 8621 §7.5).
        InvalidRecipients = "invalidRecipients",
        /// The envelope's sender is not the user's (RFC 8621 §7.5).
        ForbiddenMailFrom = "forbiddenMailFrom",
        /// The header's sender is not the user's (RFC 8621 §6.3, §7.5).
        ForbiddenFrom = "forbiddenFrom",
        /// The user may not send this, now (RFC 8621 §7.5).
        ForbiddenToSend = "forbiddenToSend",
        /// It is too late to stop the message (RFC 8621 §7.5).
        CannotUnsend = "cannotUnsend",
        /// The email has `$mdnsent` already (RFC 9007 §2.1).
        MdnAlreadySent = "mdnAlreadySent",
    }
}

/// What a SetError carries beside type and description.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SetErrorDetail {
    /// Nothing.
    #[default]
    None,
    /// `properties` of `invalidProperties` and `invalidEmail`: all that are wrong.
    Properties(Vec<String>),
    /// `existingId` of `alreadyExists`.
    ExistingId(Id),
    /// `notFound` of `blobNotFound`.
    NotFound(Vec<BlobId>),
    /// `maxRecipients` of `tooManyRecipients`.
    MaxRecipients(u64),
    /// `invalidRecipients`.
    InvalidRecipients(Vec<String>),
    /// `maxSize` of `tooLarge` for a submission (RFC 8621 §7.5).
    MaxSize(u64),
}

/// The reason why one object was not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetError {
    /// The type.
    pub error: SetErrorType,
    /// What was wrong, for developers of clients.
    pub description: Option<String>,
    /// What else the type has.
    pub detail: SetErrorDetail,
}

impl SetError {
    /// With a description.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// With what the type has besides.
    #[must_use]
    pub fn with(mut self, detail: SetErrorDetail) -> Self {
        self.detail = detail;
        self
    }

    /// `invalidProperties`, with the properties that are wrong and why.
    pub fn invalid_properties(properties: Vec<String>, description: impl Into<String>) -> Self {
        let error = SetError::from(SetErrorType::InvalidProperties).describe(description);
        error.with(SetErrorDetail::Properties(properties))
    }
}

impl From<SetErrorType> for SetError {
    fn from(error: SetErrorType) -> Self {
        SetError { error, description: None, detail: SetErrorDetail::None }
    }
}

/// A property of the wrong type.
impl From<Mismatch> for SetError {
    fn from(wrong: Mismatch) -> Self {
        SetError::invalid_properties(vec![wrong.argument().to_owned()], wrong.to_string())
    }
}

impl Serialize for SetError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", &self.error)?;
        if let Some(description) = &self.description {
            map.serialize_entry("description", description)?;
        }
        match &self.detail {
            SetErrorDetail::None => {}
            SetErrorDetail::Properties(names) => map.serialize_entry("properties", names)?,
            SetErrorDetail::ExistingId(id) => map.serialize_entry("existingId", id)?,
            SetErrorDetail::NotFound(blobs) => map.serialize_entry("notFound", blobs)?,
            SetErrorDetail::MaxRecipients(most) => map.serialize_entry("maxRecipients", most)?,
            SetErrorDetail::InvalidRecipients(them) => map.serialize_entry("invalidRecipients", them)?,
            SetErrorDetail::MaxSize(most) => map.serialize_entry("maxSize", most)?,
        }
        map.end()
    }
}

impl FromJson for SetError {
    fn expected() -> String {
        "a SetError".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let mut fields = Fields::from_json(value)?;
        let error = fields.required("type")?;
        let detail = match error {
            SetErrorType::InvalidProperties | SetErrorType::InvalidEmail => {
                fields.optional("properties")?.map(SetErrorDetail::Properties)
            }
            SetErrorType::AlreadyExists => fields.optional("existingId")?.map(SetErrorDetail::ExistingId),
            SetErrorType::BlobNotFound => fields.optional("notFound")?.map(SetErrorDetail::NotFound),
            SetErrorType::TooManyRecipients => {
                fields.optional("maxRecipients")?.map(SetErrorDetail::MaxRecipients)
            }
            SetErrorType::InvalidRecipients => {
                fields.optional("invalidRecipients")?.map(SetErrorDetail::InvalidRecipients)
            }
            SetErrorType::TooLarge => fields.optional("maxSize")?.map(SetErrorDetail::MaxSize),
            _ => None,
        };
        let detail = detail.unwrap_or_default();
        Ok(SetError { error, description: fields.optional("description")?, detail })
    }
}
