//! Blob/upload (RFC 9404 §4.1).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealpost_base::limits::{JMAP_DATA_SOURCES, JMAP_SET_OBJECTS};
use serde::Serialize;
use serde_json::Value;

use crate::error::{MethodError, SetError};
use crate::id::{AccountId, BlobId, CreationId, GivenId};
use crate::object::object;
use crate::read::{Fields, FromJson, Mismatch};
use crate::standard::ObjectMap;
use crate::state::State;

/// Arguments of Blob/upload.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobUpload {
    /// The account.
    pub account_id: AccountId,
    /// New blobs, for [`UploadObject::new`]; at most [`JMAP_SET_OBJECTS`].
    pub create: BTreeMap<CreationId, ObjectMap>,
}

impl BlobUpload {
    /// Reads the arguments.
    pub fn from_arguments(arguments: ObjectMap) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let account_id = crate::standard::account(&mut fields)?;
        let create: BTreeMap<CreationId, ObjectMap> = fields.required("create")?;
        fields.finish()?;
        if create.len() > JMAP_SET_OBJECTS {
            return Err(MethodError::too_large("maxObjectsInSet", JMAP_SET_OBJECTS, create.len()));
        }
        Ok(BlobUpload { account_id, create })
    }
}

/// Bytes of a new blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataSource {
    /// These.
    Bytes(Vec<u8>),
    /// Some of another blob.
    Blob {
        /// The blob; it may be created earlier in the request.
        id: GivenId,
        /// Where they begin.
        offset: u64,
        /// How many; `None` for all that follow.
        length: Option<u64>,
    },
}

impl FromJson for DataSource {
    fn expected() -> String {
        "an object with data:asText, data:asBase64 or blobId".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let Value::Object(members) = value else { return Err(Mismatch::new(Self::expected(), &value)) };
        let mut fields = Fields::from(members);
        let text: Option<String> = fields.optional("data:asText")?;
        let base64: Option<String> = fields.optional("data:asBase64")?;
        let blob: Option<GivenId> = fields.optional("blobId")?;
        let source = match (text, base64, blob) {
            (Some(text), None, None) => DataSource::Bytes(text.into_bytes()),
            (None, Some(base64), None) => {
                let bytes = STANDARD.decode(base64);
                let bytes = bytes.map_err(|error| Mismatch::because(format!("not base64: {error}")));
                DataSource::Bytes(bytes.map_err(|wrong| wrong.within("data:asBase64"))?)
            }
            (None, None, Some(id)) => {
                let offset: Option<u64> = fields.optional("offset")?;
                DataSource::Blob { id, offset: offset.unwrap_or(0), length: fields.optional("length")? }
            }
            _ => return Err(Mismatch::because(format!("expected {}, and one of them", Self::expected()))),
        };
        fields.finish()?;
        Ok(source)
    }
}

/// A blob to create: the sources one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadObject {
    /// At most [`JMAP_DATA_SOURCES`]; none for an empty blob.
    pub data: Vec<DataSource>,
    /// The media type, if the client says one.
    pub media_type: Option<String>,
}

impl UploadObject {
    /// Reads one of [`BlobUpload::create`].
    pub fn new(object: ObjectMap) -> Result<Self, SetError> {
        let mut fields = Fields::from(object);
        let sources: Vec<Value> = fields.required("data")?;
        let media_type = fields.optional("type")?;
        fields.finish()?;
        if sources.len() > JMAP_DATA_SOURCES {
            return Err(Mismatch::because(format!("more than {JMAP_DATA_SOURCES} sources"))
                .within("data")
                .into());
        }
        let data = Vec::from_json(Value::Array(sources)).map_err(|wrong: Mismatch| wrong.within("data"))?;
        Ok(UploadObject { data, media_type })
    }
}

object! {
    /// A new blob.
    pub struct UploadedBlob {
        /// Its id.
        id: BlobId = "id" [required],
        /// The media type, if it is known.
        media_type: Option<String> = "type" [nullable],
        /// Its bytes.
        size: u64 = "size" [required],
    }
}

object! {
    /// The response to Blob/upload. Blobs have no state.
    pub struct BlobUploadResponse {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// Always `None`.
        old_state: Option<State> = "oldState" [nullable],
        /// New blobs.
        created: BTreeMap<CreationId, UploadedBlob> = "created" [null_if_empty],
        /// Why blobs were not created.
        not_created: BTreeMap<CreationId, SetError> = "notCreated" [null_if_empty],
    }
}
