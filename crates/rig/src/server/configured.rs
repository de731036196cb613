//! Sealpost with a special configuration, and under a kernel limit.

use std::path::Path;

use anyhow::Result;
use sealpost_bench::server::{Ready, Sealpost, Start};
use tokio::process::{Child, Command};

/// Sealpost with a special configuration.
#[derive(Debug, Clone)]
pub struct Configured {
    /// The binary; its memory setting is ignored.
    pub sealpost: Sealpost,
    /// The configuration file.
    pub lines: String,
    /// A hard kernel limit on its private writable memory, in MiB: an allocation beyond it fails,
    /// and ends the server. A limit on address space would count memory that the allocator and the
    /// threads' stacks only reserve.
    pub data_limit_mib: Option<u64>,
}

impl Start for Configured {
    fn name(&self) -> &'static str {
        self.sealpost.name()
    }

    fn version(&self) -> String {
        self.sealpost.version()
    }

    fn command(&self, dir: &Path, accounts: &[String]) -> Result<Command> {
        let config = dir.with_extension("toml");
        let mut command = Sealpost { memory: None, ..self.sealpost.clone() }.command(dir, accounts)?;
        std::fs::write(&config, &self.lines)?;
        command.arg("--config").arg(config);
        let Some(mib) = self.data_limit_mib else { return Ok(command) };
        let mut limited = Command::new("sh");
        limited.arg("-c").arg(format!("ulimit -d {} && exec \"$0\" \"$@\"", mib * 1024));
        limited.arg(command.as_std().get_program()).args(command.as_std().get_args());
        Ok(limited)
    }

    async fn ready(&self, child: &mut Child, dir: &Path) -> Result<Ready> {
        self.sealpost.ready(child, dir).await
    }

    fn import(&self, dir: &Path, account: &str, mailbox: &str, maildir: &Path) -> Result<()> {
        self.sealpost.import(dir, account, mailbox, maildir)
    }
}
