//! Emails (RFC 8621 §4).

mod body;
mod create;
mod get;
mod header;
mod import;
mod keyword;
mod object;
mod query;
mod update;
mod words;

pub use body::{BodyField, BodyPartFields, BodyProperty, EmailBodyPart, EmailBodyValue};
pub use create::for_create;
pub use get::{BodyOptions, EmailGet, EmailParse, EmailParseResponse};
pub use header::{
    EmailAddress, EmailAddressGroup, EmailHeader, HeaderFieldValue, HeaderForm, HeaderProperty, HeaderValue,
};
pub use import::{EmailCopy, EmailImport, EmailImportRequest, EmailImportResponse};
pub use keyword::Keyword;
pub use object::{Email, EmailField, EmailFields, EmailProperty};
pub use query::{EmailCondition, EmailQuery, EmailQueryChanges, EmailSortKey, HeaderCondition};
pub use update::EmailUpdate;
pub use words::words;

use crate::standard::{CopyResponse, GetResponse, SetResponse};

/// The response to Email/get (§4.2).
pub type EmailGetResponse = GetResponse<Email>;
/// The response to Email/set (§4.6).
pub type EmailSetResponse = SetResponse<Email>;
/// The response to Email/copy (§4.7).
pub type EmailCopyResponse = CopyResponse<Email>;
