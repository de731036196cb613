//! Blob/upload (RFC 9404 §4.1): creates blobs from bytes in the request and from other blobs.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use sealpost_account::FinishedUpload;
use sealpost_base::Error;
use sealpost_base::limits::JMAP_UPLOAD_BYTES;
use sealpost_jmap::blob::{BlobUpload, BlobUploadResponse, DataSource, UploadObject, UploadedBlob};
use sealpost_jmap::error::{MethodErrorType, SetErrorDetail, SetErrorType};
use sealpost_jmap::id::{BlobId, CreationId};
use sealpost_jmap::{GivenId, SetError};
use sealpost_vault::message::READER_BYTES;
use serde_json::{Map, Value};

use super::refusal::over_quota;
use crate::blob::{self, upload_id};
use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::Scope;

/// Why a blob was not created.
enum Refused {
    Object(SetError),
    Server(Error),
}

impl From<SetError> for Refused {
    fn from(error: SetError) -> Self {
        Refused::Object(error)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused::Server(error)
    }
}

pub(crate) async fn create(
    scope: &mut Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let BlobUpload { account_id, create } = BlobUpload::from_arguments(arguments)?;
    scope.require_writable(&account_id)?;
    let mut response = BlobUploadResponse {
        account_id,
        old_state: None,
        created: BTreeMap::new(),
        not_created: BTreeMap::new(),
    };
    let mut blobs = Vec::new();
    for (creation, object) in create {
        match UploadObject::new(object) {
            Ok(object) => blobs.push((creation, object)),
            Err(error) => drop(response.not_created.insert(creation, error)),
        }
    }
    let _permit = scope.permit(READER_BYTES).await;
    for (creation, object) in sources_first(blobs) {
        match store(scope, object).await {
            Ok(blob) => {
                scope.created.insert(creation.clone(), blob.id.clone().into());
                response.created.insert(creation, blob);
            }
            Err(Refused::Object(error)) => drop(response.not_created.insert(creation, error)),
            Err(Refused::Server(error)) => {
                tracing::error!(%error, "a blob could not be stored");
                return Err(MethodErrorType::ServerPartialFail.into());
            }
        }
    }
    responder.respond("Blob/upload", &response, call_id).await?;
    Ok(())
}

/// Moves each blob behind the sources that the same call creates. Circles stay in order: their sources are
/// not found.
fn sources_first(mut left: Vec<(CreationId, UploadObject)>) -> Vec<(CreationId, UploadObject)> {
    let mut sorted = Vec::new();
    loop {
        let waiting: Vec<CreationId> = left.iter().map(|(creation, _)| creation.clone()).collect();
        let (ready, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, object)| {
            object.data.iter().all(|source| match source {
                DataSource::Blob { id: GivenId::Created(creation), .. } => {
                    waiting.binary_search(creation).is_err()
                }
                _ => true,
            })
        });
        if ready.is_empty() {
            sorted.extend(rest);
            return sorted;
        }
        sorted.extend(ready);
        left = rest;
    }
}

async fn store(scope: &Scope<'_>, object: UploadObject) -> Result<UploadedBlob, Refused> {
    let UploadObject { data, media_type } = object;
    let mut upload = scope.account().upload().await?;
    for source in data {
        match source {
            DataSource::Bytes(bytes) => {
                check_size(upload.size(), bytes.len() as u64)?;
                upload.write(&bytes).await?;
            }
            DataSource::Blob { id, offset, length } => {
                let Some(blob) = blob::open(scope, &id).await? else {
                    let missing = id.resolve(&scope.created).cloned().map(BlobId::from);
                    let error = SetError::from(SetErrorType::BlobNotFound);
                    return Err(error.with(SetErrorDetail::NotFound(missing.into_iter().collect())).into());
                };
                let left = blob.size().checked_sub(offset);
                let length = length.or(left).filter(|length| left.is_some_and(|left| *length <= left));
                let Some(length) = length else {
                    // RFC 9404 §4.1: refuse a range beyond the end.
                    let why = format!("{id} has {} bytes", blob.size());
                    return Err(SetError::invalid_properties(vec!["data".to_owned()], why).into());
                };
                check_size(upload.size(), length)?;
                let mut bytes = blob.bytes(offset..offset + length).await?;
                while let Some(piece) = bytes.try_next().await? {
                    upload.write(&piece).await?;
                }
            }
        }
    }
    let size = upload.size();
    let text = match scope.account().finish_upload(upload).await? {
        FinishedUpload::Kept(text) => text,
        FinishedUpload::TooMany => return Err(over_quota().into()),
    };
    Ok(UploadedBlob { id: upload_id(scope.reach(), &text), media_type, size })
}

fn check_size(size: u64, more: u64) -> Result<(), SetError> {
    match size.saturating_add(more) <= JMAP_UPLOAD_BYTES {
        true => Ok(()),
        false => {
            let why = format!("a blob has at most {JMAP_UPLOAD_BYTES} bytes");
            Err(SetError::from(SetErrorType::TooLarge).describe(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, sources: &[&str]) -> (CreationId, UploadObject) {
        let source =
            |id: &&str| DataSource::Blob { id: GivenId::from((*id).to_owned()), offset: 0, length: None };
        let object = UploadObject { data: sources.iter().map(source).collect(), media_type: None };
        (CreationId::new(name).unwrap(), object)
    }

    #[test]
    fn blobs_come_behind_those_they_are_made_of() {
        let blobs =
            vec![of("a", &["#c", "#b"]), of("b", &["#c"]), of("c", &["#other", "Bx"]), of("d", &["#d"])];
        let sorted: Vec<String> =
            sources_first(blobs).into_iter().map(|(creation, _)| creation.to_string()).collect();
        assert_eq!(sorted, ["c", "b", "a", "d"]);
    }
}
