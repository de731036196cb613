//! COMPRESS=DEFLATE (RFC 4978). Its cost and its bound: `docs/decisions/0018-compression.md`.

use sealpost_imap::types::{Atom, Code, Status};

use super::connection::{Connection, End};
use super::deflate::Compression;
use super::reply::{Failure, Reply};
use super::shared::ImapShared;

/// COMPRESS: what its OK is followed by. Everything behind the CRLF of that is compressed (RFC 4978 §3).
pub(super) async fn admit(
    shared: &ImapShared,
    connection: &Connection,
    algorithm: &Atom,
) -> Result<Compression, Failure> {
    if *algorithm != *"DEFLATE" {
        return Err(Reply::bad("only DEFLATE is known").into());
    }
    // RFC 4978 §3: BAD, as it is no other layer that compresses.
    if connection.is_deflated() {
        let code = Atom::new("COMPRESSIONACTIVE").ok().map(|name| Code::Other(name, None));
        let text = "DEFLATE is active already".into();
        return Err(Reply { status: Status::Bad, code, text }.into());
    }
    let admitted = tokio::select! {
        admitted = shared.compressions.admit(&shared.ctx.budget) => admitted,
        () = shared.ctx.shutdown.wait() => return Err(End::Shutdown.into()),
    };
    let full = || Reply::no(Code::Limit, "too many connections are compressed, go on without");
    Ok(admitted.ok_or_else(full)?)
}
