//! The client's side of the admin socket.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sealpost_base::Error;
use sealpost_files::owner;
use sealpost_server::admin::{Answer, Request, Stats, sockets};

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The message for a server without an admin socket.
const STOPPED: &str = "the server has stopped";
/// The longest answer that is read.
const ANSWER_BYTES: u64 = 4 * 1024 * 1024;

/// A server that may stop and restart.
pub struct Source {
    /// Its admin socket; `None`: that of the first on the data directory.
    pub socket: Option<PathBuf>,
    /// The data directory.
    pub dir: PathBuf,
    client: Option<Client>,
}

impl Source {
    /// Connects.
    ///
    /// # Errors
    /// If there is no server.
    pub fn connect(socket: Option<PathBuf>, dir: PathBuf) -> Result<Self> {
        let mut source = Source { socket, dir, client: None };
        source.client()?;
        Ok(source)
    }

    /// Asks, and connects for it if the connection was lost.
    ///
    /// # Errors
    /// If there is no server, or it does not answer.
    pub fn ask(&mut self, request: &Request) -> Result<Stats> {
        let answer = self.client()?.ask(request);
        if answer.is_err() {
            self.client = None;
        }
        answer
    }

    fn client(&mut self) -> Result<&mut Client> {
        let client = match self.client.take() {
            Some(client) => client,
            None => match &self.socket {
                Some(path) => Client::connect(path)?,
                None => Client::find(&self.dir)?,
            },
        };
        Ok(self.client.insert(client))
    }
}

/// A connection to a server's admin socket.
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the first server on the data directory `dir`.
    ///
    /// # Errors
    /// `Retry` if there is none, which may be started later; `NotFound` if there is no such directory.
    pub fn find(dir: &Path) -> Result<Self> {
        let mut denied = None;
        for path in sockets(dir) {
            match Self::connect(&path) {
                Ok(client) => return Ok(client),
                Err(e) if is_denied(&e) => denied = Some(e),
                // No server, or the socket of a killed one.
                Err(_) => {}
            }
        }
        let none = || match dir.is_dir() {
            true => Error::retry(format!("no server runs on {}; --dir names another", dir.display())).into(),
            false => {
                Error::not_found(format!("there is no data directory {}; --dir names another", dir.display()))
                    .into()
            }
        };
        Err(denied.unwrap_or_else(none))
    }

    /// Connects to that socket.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(path: &Path) -> Result<Self> {
        let connect = || {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            Ok::<_, std::io::Error>(stream)
        };
        let stream = connect().map_err(|e| owner::explained(path, e));
        let stream = stream.with_context(|| format!("no server answers at {}", path.display()))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// Asks.
    ///
    /// # Errors
    /// If the server does not answer, or does not understand.
    pub fn ask(&mut self, request: &Request) -> Result<Stats> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let mut answer = String::new();
        let mut talk = || {
            self.stream.get_mut().write_all(&line)?;
            (&mut self.stream).take(ANSWER_BYTES).read_line(&mut answer)
        };
        match talk() {
            Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                bail!(STOPPED)
            }
            Ok(0) => bail!(STOPPED),
            Err(e) => return Err(e).context("the server does not answer"),
            Ok(_) => {}
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
    error.chain().any(owner::is_denied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealpost_server::admin::Order;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_stopped_server_is_reported_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("admin.sock");
        let stats: Stats = serde_json::from_str(include_str!("sample.json")).unwrap();
        let answer = serde_json::to_string(&Answer::Stats(Box::new(stats.clone()))).unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        let (go_away, gone) = std::sync::mpsc::channel::<()>();
        let server = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                BufReader::new(stream.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
                writeln!(stream, "{answer}").unwrap();
                gone.recv().unwrap();
            }
        });
        let mut source = Source::connect(Some(socket), PathBuf::new()).unwrap();
        let request = Request::stats(1, Order::Busy, 1);
        assert_eq!(source.ask(&request).unwrap(), stats);
        go_away.send(()).unwrap();
        // The socket may still take the question of a server that is about to go.
        assert_eq!(source.ask(&request).unwrap_err().to_string(), STOPPED);
        assert_eq!(source.ask(&request).unwrap(), stats);
        go_away.send(()).unwrap();
        server.join().unwrap();
        assert!(source.ask(&request).is_err() && source.ask(&request).unwrap_err().to_string() != STOPPED);
    }
}
