//! Email/get and Email/parse (RFC 8621 §4.2, §4.9).

use std::collections::BTreeMap;

use sealpost_base::limits::{JMAP_GET_OBJECTS, JMAP_HEADER_PROPERTIES, JMAP_PROPERTIES};
use serde::Serialize;
use serde_json::{Map, Value};

use super::body::BodyProperty;
use super::object::{Email, EmailProperty};
use crate::error::MethodError;
use crate::id::{AccountId, BlobId, GivenId};
use crate::object::object;
use crate::read::{Fields, Mismatch};
use crate::standard::{GetRequest, is_default};

/// Which texts of the body are wanted, and what of its parts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BodyOptions {
    /// Properties of each part; [`BodyProperty::defaults`] if it is omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_properties: Option<Vec<BodyProperty>>,
    /// Texts of `textBody`.
    #[serde(skip_serializing_if = "is_default")]
    pub fetch_text_body_values: bool,
    /// Texts of `htmlBody`.
    #[serde(rename = "fetchHTMLBodyValues", skip_serializing_if = "is_default")]
    pub fetch_html_body_values: bool,
    /// Texts of all parts of type text.
    #[serde(skip_serializing_if = "is_default")]
    pub fetch_all_body_values: bool,
    /// The most bytes of one text; 0 for no limit.
    #[serde(skip_serializing_if = "is_default")]
    pub max_body_value_bytes: u64,
}

impl BodyOptions {
    fn read(fields: &mut Fields) -> Result<Self, Mismatch> {
        let options = BodyOptions {
            body_properties: fields.present("bodyProperties")?,
            fetch_text_body_values: fields.defaulted("fetchTextBodyValues", false)?,
            fetch_html_body_values: fields.defaulted("fetchHTMLBodyValues", false)?,
            fetch_all_body_values: fields.defaulted("fetchAllBodyValues", false)?,
            max_body_value_bytes: fields.defaulted("maxBodyValueBytes", 0)?,
        };
        let properties = options.body_properties.as_deref().unwrap_or_default();
        let headers = properties.iter().filter(|property| matches!(property, BodyProperty::Header(_)));
        bounded("bodyProperties", properties.len(), headers.count())?;
        Ok(options)
    }
}

fn bounded(name: &str, properties: usize, headers: usize) -> Result<(), Mismatch> {
    if properties > JMAP_PROPERTIES {
        return Err(Mismatch::because(format!("more than {JMAP_PROPERTIES}")).within(name));
    }
    if headers > JMAP_HEADER_PROPERTIES {
        let why = format!("more than {JMAP_HEADER_PROPERTIES} header properties");
        return Err(Mismatch::because(why).within(name));
    }
    Ok(())
}

fn bounded_properties(properties: Option<&Vec<EmailProperty>>) -> Result<(), Mismatch> {
    let properties = properties.map(Vec::as_slice).unwrap_or_default();
    let headers = properties.iter().filter(|property| matches!(property, EmailProperty::Header(_)));
    bounded("properties", properties.len(), headers.count())
}

/// Arguments of Email/get.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EmailGet {
    /// Those of any /get; without properties, [`EmailProperty::get_defaults`].
    #[serde(flatten)]
    pub get: GetRequest<EmailProperty>,
    /// What is wanted of the body.
    #[serde(flatten)]
    pub body: BodyOptions,
}

impl EmailGet {
    /// Reads the arguments.
    pub fn from_arguments(arguments: Map<String, Value>) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let request = EmailGet { get: GetRequest::read(&mut fields)?, body: BodyOptions::read(&mut fields)? };
        fields.finish()?;
        bounded_properties(request.get.properties.as_ref())?;
        Ok(request)
    }
}

/// Arguments of Email/parse.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EmailParse {
    /// The account.
    pub account_id: AccountId,
    /// The blobs, at most [`JMAP_GET_OBJECTS`].
    pub blob_ids: Vec<GivenId>,
    /// What is wanted; [`EmailProperty::parse_defaults`] if it is omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<Vec<EmailProperty>>,
    /// What is wanted of the body.
    #[serde(flatten)]
    pub body: BodyOptions,
}

impl EmailParse {
    /// Reads the arguments.
    pub fn from_arguments(arguments: Map<String, Value>) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let request = EmailParse {
            account_id: crate::standard::account(&mut fields)?,
            blob_ids: fields.required("blobIds")?,
            properties: fields.optional("properties")?,
            body: BodyOptions::read(&mut fields)?,
        };
        fields.finish()?;
        bounded_properties(request.properties.as_ref())?;
        if request.blob_ids.len() > JMAP_GET_OBJECTS {
            return Err(MethodError::too_large("maxObjectsInGet", JMAP_GET_OBJECTS, request.blob_ids.len()));
        }
        Ok(request)
    }
}

object! {
    /// The response to Email/parse.
    pub struct EmailParseResponse {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// The emails, by blob.
        parsed: BTreeMap<BlobId, Email> = "parsed" [null_if_empty],
        /// Blobs that are no messages.
        not_parsable: Vec<BlobId> = "notParsable" [null_if_empty],
        /// Blobs that do not exist.
        not_found: Vec<GivenId> = "notFound" [null_if_empty],
    }
}
