//! One authenticated caller.

use std::pin::pin;
use std::sync::Arc;

use sealpost_auth::Entered;
use sealpost_auth::fair_scheduler::{self, QueueHandle};
use sealpost_auth::standing::Standing;
use sealpost_base::limits::{HTTP_SMALL_MESSAGE_BYTES, JMAP_CONCURRENT_REQUESTS, JMAP_CONCURRENT_UPLOADS};
use sealpost_base::{AccountId, Error, Result};
use sealpost_jmap::blob::UploadResponse;
use sealpost_jmap::error::ProblemType;
use sealpost_jmap::session::Session;
use sealpost_jmap::websocket::{ClientMessage, RequestError};
use sealpost_jmap::{Problem, Request, State};

use crate::api_error::ApiError;
use crate::blob::{self, BlobDownload};
use crate::dispatch;
use crate::request_memory::{PacedSink, RequestPermit};
use crate::responder::ResponseSink;
use crate::session_object;
use crate::shared::{JmapShared, UnderWay};
use crate::shared_accounts;
use crate::state_changes::StateChanges;
use crate::upload::{self, UploadBody};
use crate::user::User;

/// An authenticated caller. Cheap to clone; it serves any number of requests while its login is valid.
#[derive(Clone)]
pub struct Caller(Arc<Parts>);

/// A request with the memory of its values.
pub struct ReadRequest {
    /// The request.
    pub request: Request,
    /// Its memory; `None` for a request that takes little and that no client sent.
    pub permit: Option<RequestPermit>,
}

impl From<Request> for ReadRequest {
    fn from(request: Request) -> Self {
        ReadRequest { request, permit: None }
    }
}

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

    /// Completes when the login may have ended. Cancel-safe.
    pub async fn lost(&self) {
        self.0.user.standing.lost().await;
    }

    /// Follows changes of the account from the client's state, or from now if `known` is `None`.
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
    ///
    /// # Errors
    /// What the store says.
    pub async fn session(&self, base_url: &str) -> Result<Session> {
        let work = pin!(shared_accounts::accounts(&self.0.user));
        let shared = fair_scheduler::run(&self.0.queue, work).await?;
        Ok(session_object::session(&self.0.user, &shared, base_url))
    }

    /// Opens a blob for download. `None` if the account has no such blob, or the caller has no such account.
    ///
    /// # Errors
    /// `Denied` if the login is no longer valid; store errors; `Corrupt` if the message is damaged.
    pub async fn download(&self, account: &str, blob: &str) -> Result<Option<BlobDownload>> {
        if !self.holds() {
            return Err(Error::denied("the login is not valid any more"));
        }
        let work = pin!(blob::download(&self.0.user, account, blob));
        fair_scheduler::run(&self.0.queue, work).await
    }

    /// Stores an upload while it arrives (RFC 8620 §6.1) in the account with that id, and returns the
    /// response. `media_type` comes from the client, and the response repeats it.
    ///
    /// # Errors
    /// `Problem` if the upload was refused or failed: no such account, too many bytes, too many concurrent
    /// uploads, a store error. `Ended` if the client did not send all bytes, or the login is no longer valid.
    /// The store keeps nothing of a failed upload.
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

    /// Parses a request of the caller. Waits for the memory of its values.
    ///
    /// # Errors
    /// The problem to send instead of a response.
    pub async fn read(&self, body: &[u8]) -> Result<ReadRequest, Problem> {
        let permit = self.0.user.shared.values.acquire(self.account(), body).await?;
        Ok(ReadRequest { request: Request::parse(body)?, permit: Some(permit) })
    }

    /// Parses a WebSocket message of the caller. Returns the message, or the error to send, and the memory of its
    /// values. A message that came without memory of its own does not wait for other requests of the user: a
    /// user may have many WebSockets with one each.
    pub async fn read_message(
        &self,
        text: &[u8],
    ) -> (Result<ClientMessage, RequestError>, Option<RequestPermit>) {
        let values = &self.0.user.shared.values;
        let acquired = match text.len() > HTTP_SMALL_MESSAGE_BYTES {
            true => values.acquire(self.account(), text).await,
            false => values.acquire_at_turn(self.account(), text).await,
        };
        match acquired {
            Ok(permit) => (ClientMessage::parse(text), Some(permit)),
            Err(problem) => (Err(RequestError::unread(text, problem)), None),
        }
    }

    /// Runs the calls of a request and sends the Response object.
    ///
    /// # Errors
    /// `Problem` if no call ran, else `Ended`.
    pub async fn api(
        &self,
        request: impl Into<ReadRequest>,
        out: &mut dyn ResponseSink,
    ) -> Result<(), ApiError> {
        let ReadRequest { request, permit } = request.into();
        let budget = &self.0.user.ctx().budget;
        if permit.as_ref().is_some_and(RequestPermit::is_large) {
            return self.run(request, &mut PacedSink::new(out, budget)).await;
        }
        self.run(request, out).await
    }

    async fn run(&self, request: Request, out: &mut dyn ResponseSink) -> Result<(), ApiError> {
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

/// The error for a login that is no longer valid.
fn lost() -> ApiError {
    Problem::new(ProblemType::About, 401, "the login is not valid any more").into()
}
