//! Blob/copy (RFC 8620 §6.3): between the caller's own account and those of other owners. An upload
//! gets another id, as all uploads of a caller are kept in the same place; any other blob becomes an
//! upload.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use sealpost_account::FinishedUpload;
use sealpost_base::limits::JMAP_UPLOAD_BYTES;
use sealpost_jmap::blob::{BlobCopy, BlobCopyResponse};
use sealpost_jmap::error::{MethodErrorType, SetErrorType};
use sealpost_jmap::id::BlobId;
use sealpost_jmap::{GivenId, SetError};
use sealpost_vault::message::READER_BYTES;
use serde_json::{Map, Value};

use super::refusal::over_quota;
use crate::blob::{self, BlobBase, BlobName, upload_id};
use crate::method::{Failure, Outcome};
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn copy(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let BlobCopy { from_account_id, account_id, blob_ids } = BlobCopy::from_arguments(arguments)?;
    scope.require_writable(&account_id)?;
    let from = scope.of_account(&from_account_id).await?;
    let from = from.ok_or(MethodErrorType::FromAccountNotFound)?;
    let mut response = BlobCopyResponse {
        from_account_id,
        account_id,
        copied: BTreeMap::new(),
        not_copied: BTreeMap::new(),
    };
    let _permit = scope.permit(READER_BYTES).await;
    for given in blob_ids {
        let id = given.resolve(&scope.created).cloned().map(BlobId::from);
        match copy_one(scope, &from, &given).await? {
            Ok(copied) => drop(id.map(|id| response.copied.insert(id, copied))),
            Err(error) => drop(response.not_copied.insert(given, error)),
        }
    }
    responder.respond("Blob/copy", &response, call_id).await?;
    Ok(())
}

/// The id of a blob in the account of `scope`.
async fn copy_one(
    scope: &Scope<'_>,
    from: &Scope<'_>,
    given: &GivenId,
) -> Result<Result<BlobId, SetError>, Failure> {
    let id = given.resolve(&scope.created).cloned().map(BlobId::from);
    let (Some(id), Some(blob)) = (id, blob::open(from, given).await?) else {
        return Ok(Err(SetErrorType::NotFound.into()));
    };
    if from.id() == scope.id() {
        return Ok(Ok(id));
    }
    if let Some(BlobName { base, steps }) = BlobName::parse(id.as_str())
        && let Some(text) = base.upload_for(from.reach())
    {
        let base = BlobBase::upload(scope.reach(), text);
        let id = BlobName { base, steps }.id();
        return Ok(id.ok_or_else(|| SetErrorType::TooLarge.into()));
    }
    if blob.size() > JMAP_UPLOAD_BYTES {
        let why = format!("a blob has at most {JMAP_UPLOAD_BYTES} bytes");
        return Ok(Err(SetError::from(SetErrorType::TooLarge).describe(why)));
    }
    let mut upload = scope.account().upload().await?;
    let mut bytes = blob.bytes(0..blob.size()).await?;
    while let Some(piece) = bytes.try_next().await? {
        upload.write(&piece).await?;
    }
    Ok(match scope.account().finish_upload(upload).await? {
        FinishedUpload::Kept(text) => Ok(upload_id(scope.reach(), &text)),
        FinishedUpload::TooMany => Err(over_quota()),
    })
}
