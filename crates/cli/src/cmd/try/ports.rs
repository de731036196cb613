//! Which ports a trial listens on: fixed ones that need no privilege, or any that are free.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::Result;
use clap::ValueEnum;
use sealpost_base::Error;
use sealpost_server::settings::Listen;

/// Which ports to listen on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Ports {
    /// IMAP 1143, IMAP with TLS 1993, SMTP 1025, SMTP with TLS 1465, submission 1587, submission with
    /// TLS 1466, LMTP 2424, HTTP 1080
    #[default]
    Default,
    /// Any free ports
    Free,
}

const IMAP: u16 = 1143;
const IMAPS: u16 = 1993;
const SMTP: u16 = 1025;
const SMTPS: u16 = 1465;
const SUBMISSION: u16 = 1587;
const SUBMISSIONS: u16 = 1466;
const LMTP: u16 = 2424;
const HTTP: u16 = 1080;

impl Ports {
    /// Where to listen: on this machine alone.
    pub fn listen(self) -> Listen {
        let at = |port| {
            let port = if self == Ports::Free { 0 } else { port };
            vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))]
        };
        Listen {
            smtp: at(SMTP),
            smtps: at(SMTPS),
            submission: at(SUBMISSION),
            submissions: at(SUBMISSIONS),
            lmtp: at(LMTP),
            imap: at(IMAP),
            imaps: at(IMAPS),
            http: at(HTTP),
            ..Listen::default()
        }
    }

    /// Finds out before anything is done whether another program has the ports.
    ///
    /// # Errors
    /// `Retry`, naming every port that is taken, and what can be done.
    pub fn check_free(self) -> Result<()> {
        let listen = self.listen();
        let submission = [listen.submission, listen.submissions].concat();
        let others = [listen.lmtp, listen.http].concat();
        let all = [listen.imap, listen.imaps, listen.smtp, listen.smtps, submission, others].concat();
        let taken: Vec<_> = all
            .iter()
            .filter(|address| is_in_use(address))
            .map(|address| address.port().to_string())
            .collect();
        if taken.is_empty() {
            return Ok(());
        }
        let (ports, are) = if taken.len() == 1 { ("port", "is") } else { ("ports", "are") };
        let taken = taken.join(", ");
        Err(Error::retry(format!(
            "the {ports} {taken} of {} {are} taken, perhaps by another `sealpost try`; stop that, or add \
             `--ports free` to take others",
            Ipv4Addr::LOCALHOST
        ))
        .into())
    }
}

fn is_in_use(address: &SocketAddr) -> bool {
    TcpListener::bind(address).is_err_and(|e| e.kind() == ErrorKind::AddrInUse)
}

/// Adds the remedy if another process took a port in the meantime.
pub fn explain(error: anyhow::Error, ports: Ports) -> anyhow::Error {
    let hint = if ports == Ports::Default {
        "the server does not start (`--ports free` takes other ports)"
    } else {
        "the server does not start"
    };
    error.context(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_noticed() {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(is_in_use(&other.local_addr().unwrap()));
        assert!(Ports::Free.check_free().is_ok());
    }
}
