//! Handlers that are functions.

use std::sync::Arc;

use futures::future::BoxFuture;
use sealpost_http::{Handler, Request, Response};

/// A handler that is one function over what its routes share.
pub(super) struct Endpoint<T, F>(pub(super) Arc<T>, pub(super) F);

impl<T, F, A> Handler for Endpoint<T, F>
where
    T: Send + Sync,
    F: Fn(Arc<T>, Request) -> A + Send + Sync,
    A: Future<Output = Response> + Send + 'static,
{
    fn handle(&self, request: Request) -> BoxFuture<'static, Response> {
        Box::pin((self.1)(self.0.clone(), request))
    }
}
