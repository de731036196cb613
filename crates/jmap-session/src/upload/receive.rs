//! An upload over HTTP (RFC 8620 §6.1), stored while it arrives.

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use sealpost_account::FinishedUpload;
use sealpost_base::limits::JMAP_UPLOAD_BYTES;
use sealpost_base::{Error, Kind};
use sealpost_jmap::Problem;
use sealpost_jmap::blob::UploadResponse;
use sealpost_jmap::capability::Capability;
use sealpost_jmap::error::ProblemType;
use sealpost_jmap::id::CreatedIds;

use super::refusal::too_many;
use crate::api_error::ApiError;
use crate::blob::upload_id;
use crate::scope::Scope;
use crate::user::User;

/// The request body ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyEnded;

/// The body of an upload, in pieces of any size.
pub type UploadBody<'a> = BoxStream<'a, Result<Bytes, BodyEnded>>;

/// Stores an upload in the account.
///
/// # Errors
/// `Problem` if it is not stored; `Ended` if the client does not send all bytes, or the login is no longer
/// valid.
pub(crate) async fn receive(
    user: &User,
    account: &str,
    media_type: &str,
    mut body: UploadBody<'_>,
) -> Result<UploadResponse, ApiError> {
    if !user.grants(Capability::Blob) {
        return Err(Problem::new(ProblemType::About, 403, "the login has no scope").into());
    }
    let opened = async {
        let mut scope = Scope::open(user, Vec::new(), CreatedIds::default()).await?;
        scope.select(Some(account)).await?;
        Ok(scope)
    };
    let scope = opened.await.map_err(|error| problem(&error))?;
    if scope.id().as_str() != account {
        return Err(Problem::new(ProblemType::About, 404, "there is no such account").into());
    }
    if scope.require_writable(scope.id()).is_err() {
        return Err(Problem::new(ProblemType::About, 403, "the account is read-only").into());
    }
    let mut upload = scope.account().upload().await.map_err(|error| problem(&error))?;
    loop {
        let piece = tokio::select! {
            piece = body.next() => piece,
            () = user.standing.lost() => return Err(ApiError::Ended),
        };
        let Some(piece) = piece else { break };
        let piece = piece.map_err(|BodyEnded| ApiError::Ended)?;
        if upload.size().saturating_add(piece.len() as u64) > JMAP_UPLOAD_BYTES {
            let detail = format!("an upload has at most {JMAP_UPLOAD_BYTES} bytes");
            return Err(Problem::new(ProblemType::Limit("maxSizeUpload"), 413, detail).into());
        }
        upload.write(&piece).await.map_err(|error| problem(&error))?;
    }
    let size = upload.size();
    let text = match scope.account().finish_upload(upload).await.map_err(|error| problem(&error))? {
        FinishedUpload::Kept(text) => text,
        FinishedUpload::TooMany => return Err(Problem::new(ProblemType::About, 429, too_many()).into()),
    };
    let (account_id, media_type) = (scope.id().clone(), media_type.to_owned());
    Ok(UploadResponse { account_id, blob_id: upload_id(scope.reach(), &text), media_type, size })
}

/// Logs a store error and returns the problem for the client.
fn problem(error: &Error) -> ApiError {
    tracing::warn!(%error, "an upload failed");
    let (status, detail) = match error.kind() {
        Kind::Denied => (401, "the login is not valid any more"),
        Kind::Retry | Kind::Conflict | Kind::Limit | Kind::Offloaded => {
            (503, "the server cannot store this now, try again later")
        }
        _ => (500, "the server failed to store this"),
    };
    Problem::new(ProblemType::About, status, detail).into()
}
