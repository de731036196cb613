//! The client's side of the admin socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sealpost_base::Error;
use sealpost_server::admin::{Answer, Request, Stats, sockets};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const ANSWER_BYTES: u64 = 4 * 1024 * 1024;

/// A connection to a server's admin socket.
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the first server on the data directory `dir`.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn find(dir: &Path) -> Result<Self> {
        let mut denied = None;
        for path in sockets(dir) {
            match Self::connect(&path) {
                Ok(client) => return Ok(client),
                Err(e) if is_denied(&e) => denied = Some(e),
                // Nobody there, or what a server that was killed left behind.
                Err(_) => {}
            }
        }
        let none =
            || Error::not_found(format!("no server runs on {}; --dir names another", dir.display())).into();
        Err(denied.unwrap_or_else(none))
    }

    /// Connects to that socket.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(path: &Path) -> Result<Self> {
        let connect = || {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok::<_, std::io::Error>(stream)
        };
        let stream = connect().with_context(|| format!("no server answers at {}", path.display()))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// Asks.
    ///
    /// # Errors
    /// If the server does not answer, or does not understand.
    pub fn ask(&mut self, request: &Request) -> Result<Stats> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let gone = "the server has stopped, or does not answer";
        self.stream.get_mut().write_all(&line).context(gone)?;
        let mut answer = String::new();
        (&mut self.stream).take(ANSWER_BYTES).read_line(&mut answer).context(gone)?;
        if answer.is_empty() {
            bail!("the server has stopped");
        }
        match serde_json::from_str(&answer)
            .context("the server's answer is not understood; is it another version?")?
        {
            Answer::Stats(stats) => Ok(*stats),
            Answer::Error(why) => bail!("the server says: {why}"),
        }
    }
}

fn is_denied(error: &anyhow::Error) -> bool {
    let denied = std::io::ErrorKind::PermissionDenied;
    error.chain().any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == denied))
}
