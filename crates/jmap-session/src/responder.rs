//! Sends a Response object while it is made.

use sealpost_base::limits::JMAP_SEND_BYTES;
use sealpost_jmap::id::AccountId;
use sealpost_jmap::response::OpenResponse;
use sealpost_jmap::{GivenId, MethodError, Problem, Request, ResponseWriter, State};
use serde::Serialize;

use crate::method::Failure;
use crate::user::User;

/// The client takes no more of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientGone;

/// Why a request has no complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiError {
    /// Nothing was sent; this is the response instead.
    Problem(Problem),
    /// The client is gone, or the caller's login is not valid any more: the rest of the response
    /// is missing, and the client must not take it for complete.
    Ended,
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        ApiError::Problem(problem)
    }
}

/// Where the bytes of a response go.
#[async_trait::async_trait]
pub trait ResponseSink: Send {
    /// Sends the next bytes; waits while the client is slow.
    ///
    /// # Errors
    /// If the client is gone.
    async fn send(&mut self, bytes: Vec<u8>) -> Result<(), ClientGone>;
}

/// The response to one request.
pub(crate) struct Responder<'a> {
    pub(crate) writer: ResponseWriter,
    out: Out<'a>,
}

/// The client, while the caller may have the response.
struct Out<'a> {
    user: &'a User,
    sink: &'a mut dyn ResponseSink,
    sent: u64,
}

impl<'a> Responder<'a> {
    pub(crate) fn new(request: &Request, user: &'a User, sink: &'a mut dyn ResponseSink) -> Self {
        Responder { writer: ResponseWriter::new(request), out: Out { user, sink, sent: 0 } }
    }

    /// Bytes made until now.
    pub(crate) fn made(&self) -> u64 {
        self.out.sent + self.writer.pending() as u64
    }

    /// One response, whole: for small ones.
    pub(crate) async fn respond(
        &mut self,
        name: &str,
        arguments: &(impl Serialize + Sync),
        call_id: &str,
    ) -> Result<(), ApiError> {
        self.writer.respond(name, arguments, call_id);
        self.flush().await
    }

    /// The error of a method.
    pub(crate) async fn error(&mut self, error: &MethodError, call_id: &str) -> Result<(), ApiError> {
        self.writer.error(error, call_id);
        self.flush().await
    }

    /// A response argument by argument, or item by item.
    pub(crate) fn open<'b>(&'b mut self, name: &'b str, call_id: &'b str) -> OpenResponder<'b, 'a> {
        OpenResponder { open: self.writer.open(name, call_id), out: &mut self.out }
    }

    /// The response of a /get (RFC 8620 §5.1), object by object.
    pub(crate) async fn respond_get<T: Serialize + Sync>(
        &mut self,
        name: &str,
        call_id: &str,
        (account, state): (&AccountId, &State),
        list: &[T],
        not_found: &[GivenId],
    ) -> Result<(), ApiError> {
        let mut response = self.open(name, call_id);
        response.argument("accountId", account).await?;
        response.argument("state", state).await?;
        response.array("list", list).await?;
        response.array("notFound", not_found).await?;
        response.close();
        Ok(())
    }

    /// Sends what there is.
    pub(crate) async fn finish(
        mut self,
        rest: impl FnOnce(ResponseWriter) -> Vec<u8>,
    ) -> Result<(), ApiError> {
        let rest = rest(self.writer);
        self.out.send(rest).await
    }

    async fn flush(&mut self) -> Result<(), ApiError> {
        if self.writer.pending() < JMAP_SEND_BYTES {
            return Ok(());
        }
        self.out.send(self.writer.take()).await
    }
}

/// A response that is being made.
pub(crate) struct OpenResponder<'b, 'a> {
    open: OpenResponse<'b>,
    out: &'b mut Out<'a>,
}

impl OpenResponder<'_, '_> {
    pub(crate) async fn argument(
        &mut self,
        name: &str,
        value: &(impl Serialize + Sync),
    ) -> Result<(), ApiError> {
        self.open.argument(name, value);
        self.flush().await
    }

    /// An array, which nothing is kept of while it is sent.
    pub(crate) async fn array<T: Serialize + Sync>(
        &mut self,
        name: &str,
        items: &[T],
    ) -> Result<(), ApiError> {
        self.open_array(name);
        for item in items {
            self.item(item).await?;
        }
        self.close_array();
        Ok(())
    }

    /// An array whose items are made one after another.
    pub(crate) fn open_array(&mut self, name: &str) {
        self.open.open_array(name);
    }

    /// One of its items.
    pub(crate) async fn item(&mut self, item: &(impl Serialize + Sync)) -> Result<(), ApiError> {
        self.open.item(item);
        self.flush().await
    }

    pub(crate) fn close_array(&mut self) {
        self.open.close_array();
    }

    /// An object whose members are made one after another.
    pub(crate) fn open_object(&mut self, name: &str) {
        self.open.open_object(name);
    }

    /// One of its members.
    pub(crate) async fn member(
        &mut self,
        name: &str,
        value: &(impl Serialize + Sync),
    ) -> Result<(), ApiError> {
        self.open.member(name, value);
        self.flush().await
    }

    pub(crate) fn close_object(&mut self) {
        self.open.close_object();
    }

    /// What the call ends with because of an error: another response, if nothing of this one was
    /// sent; else the request ends, as the client must not take what it has for complete.
    pub(crate) fn fail(self, failure: Failure) -> Failure {
        match failure {
            Failure::Method(_) if !self.open.abandon() => Failure::Ended(ApiError::Ended),
            failure => failure,
        }
    }

    pub(crate) fn close(self) {
        self.open.close();
    }

    async fn flush(&mut self) -> Result<(), ApiError> {
        if self.open.pending() < JMAP_SEND_BYTES {
            return Ok(());
        }
        let bytes = self.open.take();
        self.out.send(bytes).await
    }
}

impl Out<'_> {
    async fn send(&mut self, bytes: Vec<u8>) -> Result<(), ApiError> {
        self.sent += bytes.len() as u64;
        tokio::select! {
            sent = self.sink.send(bytes) => sent.map_err(|ClientGone| ApiError::Ended),
            () = self.user.standing.lost() => Err(ApiError::Ended),
        }
    }
}
