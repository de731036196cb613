//! Blob/copy (RFC 8620 §6.3). A caller has one account, so source and destination are the same and ids do not
//! change.

use std::collections::BTreeMap;

use sealpost_jmap::blob::{BlobCopy, BlobCopyResponse};
use sealpost_jmap::error::{MethodErrorType, SetErrorType};
use sealpost_jmap::id::BlobId;
use sealpost_vault::message::READER_BYTES;
use serde_json::{Map, Value};

use crate::blob;
use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn copy(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let BlobCopy { from_account_id, account_id, blob_ids } = BlobCopy::from_arguments(arguments)?;
    scope.require(&account_id)?;
    if scope.require(&from_account_id).is_err() {
        return Err(MethodErrorType::FromAccountNotFound.into());
    }
    let mut response = BlobCopyResponse {
        from_account_id,
        account_id,
        copied: BTreeMap::new(),
        not_copied: BTreeMap::new(),
    };
    let _permit = scope.permit(READER_BYTES).await;
    for given in blob_ids {
        let id = given.resolve(&scope.created).cloned().map(BlobId::from);
        match id {
            Some(id) if blob::open(scope, &given).await?.is_some() => {
                response.copied.insert(id.clone(), id);
            }
            _ => drop(response.not_copied.insert(given, SetErrorType::NotFound.into())),
        }
    }
    responder.respond("Blob/copy", &response, call_id).await?;
    Ok(())
}
