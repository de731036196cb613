//! Blob/get (RFC 9404 §4.2).

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use crate::error::MethodError;
use crate::id::{AccountId, BlobId, GivenId};
use crate::object::object;
use crate::read::{Fields, FromJson, Mismatch};
use crate::standard::{GetRequest, ObjectMap};

/// What may be asked of a blob.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BlobProperty {
    /// The id, which is always written.
    Id,
    /// Text if it is UTF-8, else base64.
    Data,
    /// Text, or null.
    AsText,
    /// Base64.
    AsBase64,
    /// A digest, by an algorithm in lowercase. Which ones there are is for the session.
    Digest(String),
    /// Bytes of the whole blob.
    Size,
}

impl BlobProperty {
    /// What `properties` is if it is omitted.
    pub const DEFAULTS: [BlobProperty; 2] = [BlobProperty::Data, BlobProperty::Size];
}

impl fmt::Display for BlobProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlobProperty::Id => f.write_str("id"),
            BlobProperty::Data => f.write_str("data"),
            BlobProperty::AsText => f.write_str("data:asText"),
            BlobProperty::AsBase64 => f.write_str("data:asBase64"),
            BlobProperty::Digest(algorithm) => write!(f, "digest:{algorithm}"),
            BlobProperty::Size => f.write_str("size"),
        }
    }
}

impl Serialize for BlobProperty {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromJson for BlobProperty {
    fn expected() -> String {
        "data, data:asText, data:asBase64, digest:… or size".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        Ok(match value.as_str() {
            Some("id") => BlobProperty::Id,
            Some("data") => BlobProperty::Data,
            Some("data:asText") => BlobProperty::AsText,
            Some("data:asBase64") => BlobProperty::AsBase64,
            Some("size") => BlobProperty::Size,
            Some(name) if name.strip_prefix("digest:").is_some_and(is_algorithm) => {
                BlobProperty::Digest(name["digest:".len()..].to_owned())
            }
            _ => return Err(Mismatch::new(Self::expected(), &value)),
        })
    }
}

fn is_algorithm(name: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&name.len()) && name.bytes().all(is_safe)
}

/// Arguments of Blob/get. Ids may be creation ids: there is no other way to name a blob that the
/// same request has uploaded.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobGet {
    /// Those of any /get; without properties, [`BlobProperty::DEFAULTS`].
    #[serde(flatten)]
    pub get: GetRequest<BlobProperty>,
    /// Where the wanted bytes begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// How many are wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
}

impl BlobGet {
    /// Reads the arguments. Without ids there is nothing to get: blobs cannot be listed.
    pub fn from_arguments(arguments: ObjectMap) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let get: GetRequest<BlobProperty> = GetRequest::read(&mut fields)?;
        let (offset, length) = (fields.optional("offset")?, fields.optional("length")?);
        fields.finish()?;
        if get.ids.is_none() {
            return Err(Mismatch::missing("an array of blob ids").within("ids").into());
        }
        Ok(BlobGet { get, offset, length })
    }
}

/// A blob, with what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobObject {
    /// Its id.
    pub id: BlobId,
    /// The wanted bytes as text; `Some(None)` if they are not UTF-8.
    pub as_text: Option<Option<String>>,
    /// The wanted bytes as base64.
    pub as_base64: Option<String>,
    /// Digests of the wanted bytes as base64, by algorithm.
    pub digests: BTreeMap<String, String>,
    /// Whether text was wanted of bytes that are not UTF-8.
    pub is_encoding_problem: bool,
    /// Whether bytes beyond the end were wanted.
    pub is_truncated: bool,
    /// Bytes of the whole blob.
    pub size: Option<u64>,
}

impl Serialize for BlobObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        self.as_text.iter().try_for_each(|text| map.serialize_entry("data:asText", text))?;
        self.as_base64.iter().try_for_each(|data| map.serialize_entry("data:asBase64", data))?;
        for (algorithm, digest) in &self.digests {
            map.serialize_entry(&format!("digest:{algorithm}"), digest)?;
        }
        if self.is_encoding_problem {
            map.serialize_entry("isEncodingProblem", &true)?;
        }
        if self.is_truncated {
            map.serialize_entry("isTruncated", &true)?;
        }
        self.size.iter().try_for_each(|size| map.serialize_entry("size", size))?;
        map.end()
    }
}

impl FromJson for BlobObject {
    fn expected() -> String {
        "an object (Blob)".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let Value::Object(members) = value else { return Err(Mismatch::new(Self::expected(), &value)) };
        let mut fields = Fields::from(members);
        let mut digests = BTreeMap::new();
        for name in fields.names_beginning("digest:") {
            digests.insert(name["digest:".len()..].to_owned(), fields.required(&name)?);
        }
        let blob = BlobObject {
            id: fields.required("id")?,
            as_text: fields.present("data:asText")?,
            as_base64: fields.present("data:asBase64")?,
            digests,
            is_encoding_problem: fields.defaulted("isEncodingProblem", false)?,
            is_truncated: fields.defaulted("isTruncated", false)?,
            size: fields.present("size")?,
        };
        fields.finish()?;
        Ok(blob)
    }
}

object! {
    /// The response to Blob/get. Blobs have no state.
    pub struct BlobGetResponse {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// The blobs.
        list: Vec<BlobObject> = "list" [required],
        /// Ids of no blob.
        not_found: Vec<GivenId> = "notFound" [or_empty],
    }
}
