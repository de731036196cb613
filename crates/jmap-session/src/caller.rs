//! One authenticated caller.

use std::pin::pin;
use std::sync::Arc;

use sealpost_auth::Entered;
use sealpost_auth::fair_scheduler::{self, QueueHandle};
use sealpost_auth::standing::Standing;
use sealpost_base::limits::{JMAP_CONCURRENT_REQUESTS, JMAP_CONCURRENT_UPLOADS};
use sealpost_base::{AccountId, Error, Result};
use sealpost_jmap::blob::UploadResponse;
use sealpost_jmap::error::ProblemType;
use sealpost_jmap::session::Session;
use sealpost_jmap::{Problem, Request, State};

use crate::blob::{self, BlobDownload};
use crate::dispatch;
use crate::responder::{ApiError, ResponseSink};
use crate::session_object;
use crate::shared::{JmapShared, UnderWay};
use crate::state_changes::StateChanges;
use crate::upload::{self, UploadBody};
use crate::user::User;

/// One authenticated caller: cheap to clone, and good for any number of requests while its login is
/// valid.
#[derive(Clone)]
pub struct Caller(Arc<Parts>);

struct Parts {
    user: User,
    queue: QueueHandle,
    under_way: Arc<UnderWay>,
}

impl Caller {
    pub(crate) fn new(shared: Arc<JmapShared>, entered: &Entered, standing: Standing) -> Self {
        let (record, root, scopes) = (&entered.record, entered.root.clone(), entered.scopes);
        let queue = QueueHandle::default();
        queue.take(shared.ctx.scheduler.of(record.id));
        let under_way = shared.under_way(record.id);
        let name = record.name.as_str().to_owned();
        let user = User { shared, id: record.id, name, root, scopes, standing };
        Caller(Arc::new(Parts { user, queue, under_way }))
    }

    /// The caller's account.
    pub fn account(&self) -> AccountId {
        self.0.user.id
    }

    /// The account's name.
    pub fn name(&self) -> &str {
        &self.0.user.name
    }

    /// Whether the login is still valid.
    pub fn holds(&self) -> bool {
        self.0.user.standing.holds()
    }

    /// Waits until it may not be. Cancel-safe.
    pub async fn lost(&self) {
        self.0.user.standing.lost().await;
    }

    /// Changes of the account after the state that the client knows, or from now on.
    ///
    /// # Errors
    /// Store errors.
    pub async fn follow(&self, known: Option<&State>) -> Result<StateChanges> {
        StateChanges::begin(self.clone(), known).await
    }

    pub(crate) fn user(&self) -> &User {
        &self.0.user
    }

    pub(crate) fn queue(&self) -> &QueueHandle {
        &self.0.queue
    }

    /// The Session object (RFC 8620 §2); `base_url` is the server's, without a slash at its end.
    pub fn session(&self, base_url: &str) -> Session {
        session_object::session(&self.0.user, base_url)
    }

    /// A blob to download; `None` if there is none with that id in that account, or the caller has
    /// no such account.
    ///
    /// # Errors
    /// `Denied` if the login is not valid any more; what the store says; `Corrupt` if the message
    /// is damaged.
    pub async fn download(&self, account: &str, blob: &str) -> Result<Option<BlobDownload>> {
        if !self.holds() {
            return Err(Error::denied("the login is not valid any more"));
        }
        let work = pin!(blob::download(&self.0.user, account, blob));
        fair_scheduler::run(&self.0.queue, work).await
    }

    /// Stores an upload while it arrives (RFC 8620 §6.1), for the account of that id; the response
    /// to it. `media_type` is what the client says, and given back.
    ///
    /// # Errors
    /// `Problem` if it is not stored: there is no such account, it has too many bytes, too many
    /// uploads are under way, the store failed. `Ended` if the client did not send all of it, or
    /// the login is not valid any more. Nothing is left of it then.
    pub async fn upload(
        &self,
        account: &str,
        media_type: &str,
        body: UploadBody<'_>,
    ) -> Result<UploadResponse, ApiError> {
        if !self.holds() {
            return Err(lost());
        }
        let Ok(_permit) = self.0.under_way.uploads.try_acquire() else {
            let detail = format!("More than {JMAP_CONCURRENT_UPLOADS} uploads of this user are under way.");
            return Err(Problem::limit("maxConcurrentUpload", detail).into());
        };
        let work = pin!(upload::receive(&self.0.user, account, media_type, body));
        fair_scheduler::run(&self.0.queue, work).await
    }

    /// Runs the calls of a request, and sends the Response object.
    ///
    /// # Errors
    /// `Problem` if nothing was run, else `Ended`.
    pub async fn api(&self, request: Request, out: &mut dyn ResponseSink) -> Result<(), ApiError> {
        if !self.holds() {
            return Err(lost());
        }
        let Ok(_permit) = self.0.under_way.requests.try_acquire() else {
            let detail = format!("More than {JMAP_CONCURRENT_REQUESTS} requests of this user are under way.");
            return Err(Problem::limit("maxConcurrentRequests", detail).into());
        };
        let work = pin!(dispatch::run(&self.0.user, request, out));
        fair_scheduler::run(&self.0.queue, work).await
    }
}

/// The login is not valid any more.
fn lost() -> ApiError {
    Problem::new(ProblemType::About, 401, "the login is not valid any more").into()
}
