//! COMPRESS=DEFLATE (RFC 4978). What it costs, and its bound: `docs/decisions/0018-compression.md`.

use sealpost_imap::types::{Atom, Code, Status, Tag};

use super::connection::End;
use super::reply::Reply;
use super::session::Session;

impl Session {
    /// COMPRESS. Everything behind the CRLF of its OK is compressed (RFC 4978 §3).
    pub(super) async fn compress(&mut self, tag: &Tag, algorithm: &Atom) -> Result<(), End> {
        if self.user.is_none() {
            return self.complete(tag, Reply::bad("log in first"));
        }
        if *algorithm != *"DEFLATE" {
            return self.complete(tag, Reply::bad("only DEFLATE is known"));
        }
        // RFC 4978 §3: BAD, as it is no other layer that compresses.
        if self.responses.connection.is_deflated() {
            let code = Atom::new("COMPRESSIONACTIVE").ok().map(|name| Code::Other(name, None));
            let text = "DEFLATE is active already".into();
            return self.complete(tag, Reply { status: Status::Bad, code, text });
        }
        let admitted = tokio::select! {
            admitted = self.ctx.compressions.admit(&self.ctx.budget) => admitted,
            () = self.ctx.shutdown.wait() => return Err(End::Shutdown),
        };
        let Some(compression) = admitted else {
            let reply = Reply::no(Code::Limit, "too many connections are compressed, go on without");
            return self.complete(tag, reply);
        };
        self.log.count("compressed", 1);
        self.complete(tag, Reply::ok("DEFLATE active"))?;
        self.responses.connection.start_deflate(&self.ctx.compressions, compression).await
    }
}
