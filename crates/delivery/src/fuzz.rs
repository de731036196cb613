//! Entry functions for fuzzing: they take any bytes.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use sealpost_base::limits::STS_POLICY_BYTES;

use crate::sts::fetch;

/// A web server's response to the request for a policy, and the end of the connection.
///
/// # Panics
/// If more is taken than a policy may have.
pub fn policy_response(data: &[u8]) -> Option<Vec<u8>> {
    let mut stream = tokio::io::join(data, tokio::io::sink());
    let mut response = pin!(fetch::response(&mut stream));
    match response.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(body) => {
            assert!(body.as_ref().is_none_or(|body| body.len() <= STS_POLICY_BYTES));
            body
        }
        // Bytes in memory are there at once.
        Poll::Pending => None,
    }
}
