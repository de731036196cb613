//! COMPRESS=DEFLATE (RFC 4978). `docs/decisions/0018-compression.md` has its cost and its limits.

use sealpost_imap::types::{Atom, Code, Status};

use super::connection::{Connection, End};
use super::deflate::Compression;
use super::reply::{Failure, Reply};
use super::shared::ImapShared;

/// COMPRESS: returns the permit for compression. All bytes after the CRLF of the OK are compressed (RFC 4978
/// §3).
pub(super) async fn admit(
    shared: &ImapShared,
    connection: &Connection,
    algorithm: &Atom,
) -> Result<Compression, Failure> {
    if *algorithm != *"DEFLATE" {
        return Err(Reply::bad("only DEFLATE is supported").into());
    }
    // RFC 4978 §3: BAD, since DEFLATE is active on this layer.
    if connection.is_deflated() {
        let code = Atom::new("COMPRESSIONACTIVE").ok().map(|name| Code::Other(name, None));
        let text = "DEFLATE is already active".into();
        return Err(Reply { status: Status::Bad, code, text }.into());
    }
    let admitted = tokio::select! {
        admitted = shared.compressions.admit(&shared.ctx.budget) => admitted,
        () = shared.ctx.shutdown.wait() => return Err(End::Shutdown.into()),
    };
    let full = || Reply::no(Code::Limit, "too many compressed connections; continue without compression");
    Ok(admitted.ok_or_else(full)?)
}
