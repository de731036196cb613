//! IDLE (RFC 2177): reports every change to the client as it happens, until DONE.

use sealpost_imap::server::Event;

use super::connection::End;
use super::hibernate::KeepAlive;
use super::reply::{Outcome, Reply};
use super::session::Session;
use super::updates::UntaggedUpdates;

impl Session {
    /// IDLE. Without a selected mailbox it reports only what NOTIFY requested (RFC 5465 §4).
    pub(super) async fn idle(&mut self) -> Outcome {
        self.responses.connection.out().continuation("idling");
        self.responses.connection.expect_line();
        let deadline = self.responses.connection.idle_deadline();
        let mut keep_alive = KeepAlive::new(self.shared.ctx.settings.timeouts.imap_keep_alive);
        loop {
            let watchers = self.watchers();
            self.report_updates(&UntaggedUpdates::everything()).await?;
            if !self.responses.connection.out().is_empty() {
                keep_alive.said();
            }
            let event = self.next_or_notified(deadline, watchers, Some(&mut keep_alive)).await?;
            let Some(event) = event else { continue };
            // Changes that cannot be reported now are reported with the next command.
            if let Err(error) = Box::pin(self.wake()).await {
                tracing::warn!(user = self.user_name(), %error, "cannot report changes to a session yet");
            }
            match event {
                Event::Line(line) if line.eq_ignore_ascii_case(b"DONE") => {
                    return Ok(Reply::ok("IDLE completed"));
                }
                Event::Fatal { reason } => return Err(End::Fatal(reason).into()),
                Event::Bad { reason, .. } => return Err(Reply::bad(reason).into()),
                _ => return Err(Reply::bad("expected DONE").into()),
            }
        }
    }
}
