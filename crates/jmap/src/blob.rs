//! Blobs: uploads and copies (RFC 8620 §6), and the methods of RFC 9404.

mod get;
mod lookup;
mod upload;

use std::collections::BTreeMap;

pub use get::{BlobGet, BlobGetResponse, BlobObject, BlobProperty};
pub use lookup::{BlobInfo, BlobLookup, BlobLookupResponse, LookupType};
use sealpost_base::limits::JMAP_GET_OBJECTS;
use serde::Serialize;
pub use upload::{BlobUpload, BlobUploadResponse, DataSource, UploadObject, UploadedBlob};

use crate::error::{MethodError, SetError};
use crate::id::{AccountId, BlobId, GivenId};
use crate::object::object;
use crate::read::Fields;
use crate::standard::ObjectMap;

object! {
    /// The response to an upload over HTTP (RFC 8620 §6.1).
    pub struct UploadResponse {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// The blob.
        blob_id: BlobId = "blobId" [required],
        /// The media type, as the client said.
        media_type: String = "type" [required],
        /// Its bytes.
        size: u64 = "size" [required],
    }
}

/// Arguments of Blob/copy (RFC 8620 §6.3).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobCopy {
    /// The account that has the blobs.
    pub from_account_id: AccountId,
    /// The account that gets them.
    pub account_id: AccountId,
    /// The blobs, at most [`JMAP_GET_OBJECTS`].
    pub blob_ids: Vec<GivenId>,
}

impl BlobCopy {
    /// Reads the arguments.
    pub fn from_arguments(arguments: ObjectMap) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let request = BlobCopy {
            from_account_id: crate::standard::from_account(&mut fields)?,
            account_id: crate::standard::account(&mut fields)?,
            blob_ids: fields.required("blobIds")?,
        };
        fields.finish()?;
        bounded(&request.blob_ids)?;
        Ok(request)
    }
}

fn bounded(ids: &[GivenId]) -> Result<(), MethodError> {
    if ids.len() > JMAP_GET_OBJECTS {
        return Err(MethodError::too_large("maxObjectsInGet", JMAP_GET_OBJECTS, ids.len()));
    }
    Ok(())
}

object! {
    /// The response to Blob/copy.
    pub struct BlobCopyResponse {
        /// The account that had the blobs.
        from_account_id: AccountId = "fromAccountId" [required],
        /// The account that got them.
        account_id: AccountId = "accountId" [required],
        /// Blobs there, by their ids here.
        copied: BTreeMap<BlobId, BlobId> = "copied" [null_if_empty],
        /// Why blobs were not copied.
        not_copied: BTreeMap<GivenId, SetError> = "notCopied" [null_if_empty],
    }
}
