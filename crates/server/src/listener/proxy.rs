//! The PROXY protocol, versions 1 and 2 (HAProxy, `doc/proxy-protocol.txt`): a balancer that makes
//! connections of its own says at the beginning of each whose it is.
//!
//! A header is read only from configured balancers, and required from them: guessing whether there
//! is a header would let any client claim any address (§2). No byte behind the header is read here:
//! it is the client's.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

pub(crate) mod fuzz;
mod header;

use header::{Header, parse};

pub(crate) use header::Said;

/// How long a balancer may take to say it: one packet may be lost on the way (§3).
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a header from the beginning of a connection, and nothing behind it.
///
/// # Errors
/// `InvalidData` if there is none; `UnexpectedEof`; `TimedOut`; what the connection says.
pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Said> {
    timeout(TIMEOUT, whole(from)).await.map_err(|_| ErrorKind::TimedOut)?
}

async fn whole(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Said> {
    let mut header = Vec::new();
    loop {
        let had = header.len();
        match parse(&header).ok_or(ErrorKind::InvalidData)? {
            Header::Says(said) => return Ok(said),
            Header::Wants(more) => header.resize(had + more, 0),
        }
        from.read_exact(&mut header[had..]).await?;
    }
}
