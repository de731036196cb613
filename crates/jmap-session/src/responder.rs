//! Streams a Response object while the methods make it.

use sealpost_base::limits::JMAP_SEND_BYTES;
use sealpost_jmap::id::AccountId;
use sealpost_jmap::response::OpenResponse;
use sealpost_jmap::{GivenId, MethodError, Request, ResponseWriter, State};
use serde::Serialize;

use crate::api_error::ApiError;
use crate::method::Failure;
use crate::user::User;

/// The client's connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientGone;

/// The destination of a response's bytes.
#[async_trait::async_trait]
pub trait ResponseSink: Send {
    /// Sends the next bytes; waits while the client is slow.
    ///
    /// # Errors
    /// If the client has disconnected.
    async fn send(&mut self, bytes: Vec<u8>) -> Result<(), ClientGone>;
}

/// The response to one request.
pub(crate) struct Responder<'a> {
    pub(crate) writer: ResponseWriter,
    out: Out<'a>,
}

/// The client, as long as the caller's login is valid.
struct Out<'a> {
    user: &'a User,
    sink: &'a mut dyn ResponseSink,
    sent: u64,
}

impl<'a> Responder<'a> {
    pub(crate) fn new(request: &Request, user: &'a User, sink: &'a mut dyn ResponseSink) -> Self {
        Responder { writer: ResponseWriter::new(request), out: Out { user, sink, sent: 0 } }
    }

    /// The number of bytes made so far.
    pub(crate) fn made(&self) -> u64 {
        self.out.sent + self.writer.pending() as u64
    }

    /// Writes a small response as a whole.
    pub(crate) async fn respond(
        &mut self,
        name: &str,
        arguments: &(impl Serialize + Sync),
        call_id: &str,
    ) -> Result<(), ApiError> {
        self.writer.respond(name, arguments, call_id);
        self.flush().await
    }

    /// Writes a method error.
    pub(crate) async fn error(&mut self, error: &MethodError, call_id: &str) -> Result<(), ApiError> {
        self.writer.error(error, call_id);
        self.flush().await
    }

    /// Starts a response that is written argument by argument, or item by item.
    pub(crate) fn open<'b>(&'b mut self, name: &'b str, call_id: &'b str) -> OpenResponder<'b, 'a> {
        OpenResponder { open: self.writer.open(name, call_id), out: &mut self.out }
    }

    /// Writes the response of a /get (RFC 8620 §5.1), object by object.
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

    /// Sends the buffered bytes and ends the response.
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

/// A response in progress.
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

    /// Writes an array; sent items take no memory.
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

    /// Starts an array whose items follow one by one.
    pub(crate) fn open_array(&mut self, name: &str) {
        self.open.open_array(name);
    }

    /// Writes an item of the array.
    pub(crate) async fn item(&mut self, item: &(impl Serialize + Sync)) -> Result<(), ApiError> {
        self.open.item(item);
        self.flush().await
    }

    pub(crate) fn close_array(&mut self) {
        self.open.close_array();
    }

    /// Starts an object whose members follow one by one.
    pub(crate) fn open_object(&mut self, name: &str) {
        self.open.open_object(name);
    }

    /// Writes a member of the object.
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

    /// How the call ends after an error: with another response, if the client has received nothing of this
    /// one. Otherwise the request ends, so that the client does not take the partial response for a complete
    /// one.
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
