//! Long searches for a caller; a search ends when the login ends.

use sealpost_jmap::MethodError;
use sealpost_jmap::error::MethodErrorType;
use sealpost_search::{Failure as SearchFailure, Progress};

use crate::api_error::ApiError;
use crate::method::Failure;
use crate::scope::Scope;
use crate::user::User;

/// The caller of a search.
pub(crate) struct CallerProgress<'a>(&'a User);

/// The caller's login is no longer valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoginLost;

impl<'a> CallerProgress<'a> {
    pub(crate) fn new(scope: &'a Scope<'_>) -> Self {
        CallerProgress(scope.user())
    }

    async fn unless_lost<T: Send>(&self, work: impl Future<Output = T> + Send) -> Result<T, LoginLost> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.0.standing.lost() => Err(LoginLost),
        }
    }
}

impl Progress for CallerProgress<'_> {
    type Interruption = LoginLost;

    async fn await_with_progress<T: Send>(
        &mut self,
        work: impl Future<Output = T> + Send,
    ) -> Result<T, LoginLost> {
        self.unless_lost(work).await
    }

    async fn acquire_with_progress<T: Send>(
        &mut self,
        work: impl Future<Output = T> + Send,
    ) -> Result<T, LoginLost> {
        self.unless_lost(work).await
    }

    async fn report_progress(&mut self, _: usize, _: usize) -> Result<(), LoginLost> {
        Ok(())
    }

    async fn yield_or_shutdown(&mut self) -> Result<(), LoginLost> {
        tokio::task::yield_now().await;
        if self.0.standing.holds() { Ok(()) } else { Err(LoginLost) }
    }
}

/// Why a query has no response. A query that is too large is `unsupportedFilter`, so that clients suggest a
/// simpler search (RFC 8620 §5.5).
pub(crate) fn query_failure(failure: SearchFailure<LoginLost>) -> Failure {
    match failure {
        SearchFailure::Interrupted(LoginLost) => Failure::Ended(ApiError::Ended),
        SearchFailure::Error(error) if error.kind() == sealpost_base::Kind::Limit => {
            Failure::Method(MethodError::from(MethodErrorType::UnsupportedFilter).describe(error.to_string()))
        }
        SearchFailure::Error(error) => error.into(),
    }
}
