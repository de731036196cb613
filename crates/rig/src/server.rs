//! Servers under test: Sealpost, with a special configuration if necessary, or Dovecot. Every check
//! runs against either.

mod configured;
mod dovecot;

use std::path::Path;

use anyhow::Result;
pub use sealpost_bench::server::{
    Endpoint, PASSWORD, Ready, STOP_TIMEOUT, Sealpost, Server, Start, signal, start, start_apart,
};

pub use configured::Configured;
pub use dovecot::Dovecot;

/// The server that a check runs against.
#[derive(Debug, Clone)]
pub enum Target {
    /// Sealpost.
    Sealpost(Sealpost),
    /// Dovecot.
    Dovecot(Dovecot),
}

impl Target {
    /// Starts it, like [`start`].
    pub async fn start(&self, dir: &Path, accounts: &[String]) -> Result<Server> {
        match self {
            Target::Sealpost(sealpost) => start(sealpost, dir, accounts).await,
            Target::Dovecot(dovecot) => start(dovecot, dir, accounts).await,
        }
    }

    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Target::Sealpost(sealpost) => sealpost.name(),
            Target::Dovecot(dovecot) => dovecot.name(),
        }
    }

    /// Its version, as it states it.
    pub fn version(&self) -> String {
        match self {
            Target::Sealpost(sealpost) => sealpost.version(),
            Target::Dovecot(dovecot) => dovecot.version(),
        }
    }

    /// Imports a Maildir, like [`Start::import`].
    pub fn import(&self, dir: &Path, account: &str, mailbox: &str, maildir: &Path) -> Result<()> {
        match self {
            Target::Sealpost(sealpost) => sealpost.import(dir, account, mailbox, maildir),
            Target::Dovecot(dovecot) => dovecot.import(dir, account, mailbox, maildir),
        }
    }
}
