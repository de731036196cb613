//! IDLE (RFC 2177): the client is told of every change as it happens, until it says DONE.

use sealpost_imap::server::Event;
use sealpost_imap::types::Status;
use tokio::time::Instant;

use super::connection::End;
use super::reply::{Outcome, Reply};
use super::session::Session;
use super::tell::Telling;

impl Session {
    /// IDLE. Without a selected mailbox nothing is told but what NOTIFY asked for (RFC 5465 §4).
    pub(super) async fn idle(&mut self) -> Outcome {
        self.account()?;
        self.connection.out().continuation("idling");
        self.connection.expect_line();
        let deadline = self.connection.idle_deadline();
        let keep_alive = self.ctx.settings.timeouts.imap_keep_alive;
        let mut silent_until = Instant::now() + keep_alive;
        loop {
            let rung = self.rung();
            self.tell(&Telling::everything()).await?;
            let silent = self.connection.out().is_empty();
            if silent && !keep_alive.is_zero() && Instant::now() >= silent_until {
                // RFC 2177 §3: untagged responses may come at any time. Routers forget connections that say nothing.
                self.connection.out().status(None, Status::Ok, None, "Still here");
                silent_until = Instant::now() + keep_alive;
            } else if !silent {
                silent_until = Instant::now() + keep_alive;
            }
            let wake = async {
                tokio::select! {
                    () = rung => {}
                    () = tokio::time::sleep_until(silent_until), if !keep_alive.is_zero() => {}
                }
            };
            match self.connection.next_unless(deadline, wake).await? {
                None => {}
                Some(Event::Line(line)) if line.eq_ignore_ascii_case(b"DONE") => {
                    return Ok(Reply::ok("IDLE completed"));
                }
                Some(Event::Fatal { reason }) => return Err(End::Fatal(reason).into()),
                Some(Event::Bad { reason, .. }) => return Err(Reply::bad(reason).into()),
                Some(_) => return Err(Reply::bad("expected DONE").into()),
            }
        }
    }
}
