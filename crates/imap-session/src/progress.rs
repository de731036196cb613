//! INPROGRESS (RFC 9585): reports the progress of a long command to its client.
//!
//! The first report comes after ten seconds, and later ones every ten seconds (RFC 9585 §4 asks for
//! restraint). Every wait within a command uses [`Responses::await_with_progress`]; loops call
//! [`Responses::report_progress`]. Reports are sent only between responses.

use std::pin::Pin;
use std::time::Duration;

use sealpost_imap::types::{Atom, Code, Status, Tag};
use tokio::time::{Instant, timeout};

use super::connection::{Connection, End};

/// The time before the first report and between reports.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// How long a permit is kept for a client that does not take the progress report before it.
const HELD: Duration = Duration::from_secs(5);

/// The progress of the current command.
#[derive(Debug)]
pub(super) struct Progress {
    /// `None` between commands.
    tag: Option<Tag>,
    next: Instant,
    done: usize,
    goal: usize,
}

impl Progress {
    /// The state between commands.
    pub(super) fn none() -> Self {
        Progress { tag: None, next: Instant::now(), done: 0, goal: 0 }
    }

    /// The state of a new command with that tag.
    pub(super) fn of(tag: &Tag) -> Self {
        Progress { tag: Some(tag.clone()), next: Instant::now() + INTERVAL, done: 0, goal: 0 }
    }

    /// Notes progress. It never decreases, and the goal never changes (RFC 9585 §4).
    pub(super) fn reach(&mut self, done: usize, goal: usize) {
        if self.goal == 0 {
            self.goal = goal;
        }
        self.done = self.done.max(done);
    }

    /// Waits for `work`, and reports progress to the client meanwhile.
    ///
    /// # Errors
    /// If the report cannot be sent; `work` is then dropped.
    pub(super) async fn during<T>(
        &mut self,
        connection: &mut Connection,
        work: impl Future<Output = T>,
    ) -> Result<T, End> {
        // A slow client is served as long as it takes some bytes within the write timeout.
        self.during_with(connection, work, Duration::MAX).await
    }

    async fn during_with<T>(
        &mut self,
        connection: &mut Connection,
        work: impl Future<Output = T>,
        interval: Duration,
    ) -> Result<T, End> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                finished = &mut work => return Ok(finished),
                () = tokio::time::sleep_until(self.next) => {}
            }
            if let Some(finished) = beside(work.as_mut(), self.report(connection), interval).await? {
                return Ok(finished);
            }
        }
    }

    /// Sends a report if it is due.
    pub(super) async fn report_if_due(&mut self, connection: &mut Connection) -> Result<(), End> {
        if Instant::now() >= self.next { self.report(connection).await } else { Ok(()) }
    }

    async fn report(&mut self, connection: &mut Connection) -> Result<(), End> {
        self.next = Instant::now() + INTERVAL;
        let Some(tag) = &self.tag else { return Ok(()) };
        let code = Atom::new("INPROGRESS").ok().map(|name| Code::Other(name, Some(self.details(tag))));
        connection.out().status(None, Status::Ok, code.as_ref(), "still working on it");
        connection.flush().await
    }

    /// `"(" inprogress-tag SP inprogress-state ")"` (RFC 9585 §5). A goal exceeds the progress; an unknown
    /// one is NIL.
    fn details(&self, tag: &Tag) -> String {
        match (self.done, self.goal) {
            (0, 0) => format!("(\"{tag}\" NIL NIL)"),
            (done, 0) => format!("(\"{tag}\" {done} NIL)"),
            (done, goal) => format!("(\"{tag}\" {} {goal})", done.min(goal - 1)),
        }
    }
}

/// Sends a report while `work` runs. Others may wait for resources that it holds, and the client may be
/// stalled. Returns the result of `work` if that completes first.
///
/// # Errors
/// If the report cannot be sent, or the client does not take it within `interval` after `work`.
async fn beside<T>(
    work: Pin<&mut impl Future<Output = T>>,
    reporting: impl Future<Output = Result<(), End>>,
    interval: Duration,
) -> Result<Option<T>, End> {
    tokio::pin!(reporting);
    tokio::select! {
        biased;
        reported = &mut reporting => reported.map(|()| None),
        finished = work => match timeout(interval, reporting).await {
            Ok(reported) => reported.map(|()| Some(finished)),
            Err(_) => Err(End::Timeout),
        },
    }
}

/// Lets long work outside the session report progress to the session's client.
pub(super) struct Reporter<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) progress: &'a mut Progress,
}

impl sealpost_search::Progress for Reporter<'_> {
    type Interruption = End;

    async fn await_with_progress<T: Send>(&mut self, work: impl Future<Output = T> + Send) -> Result<T, End> {
        self.progress.during(self.connection, work).await
    }

    async fn acquire_with_progress<T: Send>(
        &mut self,
        work: impl Future<Output = T> + Send,
    ) -> Result<T, End> {
        self.progress.during_with(self.connection, work, HELD).await
    }

    async fn report_progress(&mut self, done: usize, goal: usize) -> Result<(), End> {
        self.progress.reach(done, goal);
        self.progress.report_if_due(self.connection).await
    }

    async fn yield_or_shutdown(&mut self) -> Result<(), End> {
        tokio::task::yield_now().await;
        if self.connection.is_stopping() { Err(End::Shutdown) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::sync::{Semaphore, oneshot};

    use super::*;

    #[tokio::test]
    async fn a_stalled_client_does_not_delay_the_work() {
        let (taken, reported) = oneshot::channel();
        let work = async move { taken.send(()).is_ok() };
        let reporting = async { reported.await.map_err(|_| End::Crowded) };
        tokio::pin!(work);
        let finished =
            beside(work.as_mut(), reporting, Duration::MAX).now_or_never().expect("the work does not wait");
        assert!(matches!(finished, Ok(Some(true))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_client_does_not_keep_a_permit_for_long() {
        let turns = Semaphore::new(1);
        let work = turns.acquire();
        tokio::pin!(work);
        let ended = beside(work.as_mut(), std::future::pending(), HELD).await;
        assert!(matches!(ended, Err(End::Timeout)));
        assert_eq!(turns.available_permits(), 1);
    }

    #[test]
    fn a_client_that_takes_the_report_keeps_waiting() {
        tokio::pin!(let work = std::future::pending::<()>(););
        let finished = beside(work.as_mut(), async { Ok(()) }, HELD).now_or_never();
        assert!(matches!(finished, Some(Ok(None))));
    }

    #[tokio::test(start_paused = true)]
    async fn details_keep_to_the_grammar() {
        let tag = Tag::new("A001").unwrap();
        let mut progress = Progress::of(&tag);
        assert_eq!(progress.details(&tag), "(\"A001\" NIL NIL)");
        progress.done = 175;
        assert_eq!(progress.details(&tag), "(\"A001\" 175 NIL)");
        progress.reach(100, 1000);
        assert_eq!(progress.details(&tag), "(\"A001\" 175 1000)", "it never goes back");
        progress.reach(1000, 2000);
        assert_eq!(progress.details(&tag), "(\"A001\" 999 1000)", "a goal is not reached before the end");
    }
}
