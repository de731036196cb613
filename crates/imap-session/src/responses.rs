//! How a session speaks to its client: the connection, the dialect that the client chose, and how
//! far the command at hand is, for a client that waits for it.

use sealpost_imap::write::Writer;

use super::connection::{Connection, End};
use super::dialect::Dialect;
use super::progress::{Progress, Reporter};

/// Where a command writes its responses.
pub(super) struct Responses {
    pub(super) connection: Connection,
    /// The extensions that ENABLE switched on.
    pub(super) dialect: Dialect,
    /// The progress of the current command.
    pub(super) progress: Progress,
}

impl Responses {
    /// Over a connection of a client that has enabled nothing.
    pub(super) fn new(connection: Connection) -> Self {
        Responses { connection, dialect: Dialect::default(), progress: Progress::none() }
    }

    /// Where responses are written; see that they are sent ([`Responses::relieve`]) after each.
    pub(super) fn out(&mut self) -> &mut Writer {
        self.connection.out()
    }

    /// Sends pending output, if it is large.
    pub(super) fn relieve(&mut self) -> impl Future<Output = Result<(), End>> {
        self.connection.relieve()
    }

    /// Waits for `work`, and reports progress to the client meanwhile.
    pub(super) fn await_with_progress<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = Result<T, End>> {
        self.progress.during(&mut self.connection, work)
    }

    /// Notes that `done` of `goal` steps of the command are done; sends a report if it is due.
    pub(super) async fn report_progress(&mut self, done: usize, goal: usize) -> Result<(), End> {
        self.progress.reach(done, goal);
        self.progress.tell_if_due(&mut self.connection).await
    }

    /// Reports to the client the progress of work done outside of the session.
    pub(super) fn reporter(&mut self) -> Reporter<'_> {
        Reporter { connection: &mut self.connection, progress: &mut self.progress }
    }
}
