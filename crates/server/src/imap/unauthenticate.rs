//! UNAUTHENTICATE (RFC 8437): back to the not authenticated state on the same connection, for another user.

use sealpost_imap::types::Tag;

use super::connection::End;
use super::reply::Reply;
use super::session::Session;

impl Session {
    /// UNAUTHENTICATE. The mailbox is not expunged, nothing is told (RFC 8437 §3), and what belongs to the login goes
    /// with it: [`Session::anew`]. Never answered NO: a client may send its next login behind it without waiting.
    pub(super) async fn unauthenticate(&mut self, tag: &Tag) -> Result<(), End> {
        if self.user.is_none() {
            return self.complete(tag, Reply::bad("log in first"));
        }
        self.log.count("unauthenticated", 1);
        self.complete(tag, Reply::ok("UNAUTHENTICATE completed"))?;
        self.responses.connection.unauthenticated().await?;
        self.over = true;
        Ok(())
    }
}
