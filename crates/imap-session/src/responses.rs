//! The output side of a session: the connection, the client's dialect, and the progress of the current
//! command.

use sealpost_imap::write::Writer;

use super::connection::{Connection, End};
use super::dialect::Dialect;
use super::progress::{Progress, Reporter};

/// The destination of a command's responses.
pub(super) struct Responses {
    pub(super) connection: Connection,
    /// The enabled extensions.
    pub(super) dialect: Dialect,
    /// The progress of the current command.
    pub(super) progress: Progress,
}

impl Responses {
    /// On a connection whose client has enabled nothing.
    pub(super) fn new(connection: Connection) -> Self {
        Responses { connection, dialect: Dialect::default(), progress: Progress::none() }
    }

    /// The writer of responses; call [`Responses::relieve`] after each response.
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

    /// Notes that `done` of `goal` steps of the command are complete; sends a report if it is due.
    pub(super) async fn report_progress(&mut self, done: usize, goal: usize) -> Result<(), End> {
        self.progress.reach(done, goal);
        self.progress.report_if_due(&mut self.connection).await
    }

    /// A reporter of progress for work outside the session.
    pub(super) fn reporter(&mut self) -> Reporter<'_> {
        Reporter { connection: &mut self.connection, progress: &mut self.progress }
    }
}
