//! Sealpost, through `sealpost try --json`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::{PASSWORD, Ready, Start};

/// The `sealpost` binary at a path.
#[derive(Debug, Clone)]
pub struct Sealpost {
    /// The binary.
    pub path: PathBuf,
    /// The memory limit, as in its configuration; by default that of a trial, which is small.
    pub memory: Option<&'static str>,
}

impl Start for Sealpost {
    fn name(&self) -> &'static str {
        "Sealpost"
    }

    fn version(&self) -> String {
        let output = std::process::Command::new(&self.path).arg("--version").output();
        output.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default()
    }

    fn command(&self, dir: &Path, accounts: &[String]) -> Result<Command> {
        std::fs::create_dir_all(dir)?;
        let password_file = dir.with_extension("password");
        std::fs::write(&password_file, format!("{PASSWORD}\n"))?;
        let mut command = Command::new(&self.path);
        command.args(["try", "--json", "--ports", "free", "--no-samples", "--dir"]).arg(dir);
        if let Some(memory) = self.memory {
            let config = dir.with_extension("toml");
            // All clients come from one address; the memory decides how many there can be.
            let connections = "[connections]\ntotal = 10000\nper_address = 10000\n";
            // A client submits as quickly as it can.
            let sending = "[sending]\nrecipients_per_hour = 1000000000\nrecipients_per_day = 1000000000\n";
            std::fs::write(&config, format!("memory = \"{memory}\"\n{connections}{sending}"))?;
            command.arg("--config").arg(config);
        }
        for account in accounts {
            command.args(["--account", account]);
        }
        command.arg("--password-file").arg(password_file);
        Ok(command)
    }

    async fn ready(&self, child: &mut Child, _dir: &Path) -> Result<Ready> {
        let stdout = child.stdout.take().context("no pipe from the server")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = lines.next_line().await?.context("the server ended before it was ready")?;
        // Later output must not fill the pipe and block the server.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        serde_json::from_str(&line).with_context(|| format!("not the line of JSON we expect: {line}"))
    }

    fn import(&self, dir: &Path, account: &str, mailbox: &str, maildir: &Path) -> Result<()> {
        let mut command = std::process::Command::new(&self.path);
        command.args(["import", "--account", account, "--mailbox", mailbox, "--dir"]).arg(dir);
        command.arg("--password-file").arg(dir.with_extension("password")).arg(maildir);
        let output = command.output().context("sealpost import")?;
        anyhow::ensure!(output.status.success(), "import: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

impl Sealpost {
    /// Runs `sealpost check` on a directory that no server has open.
    pub fn check(&self, dir: &Path) -> Result<std::process::Output> {
        let mut command = std::process::Command::new(&self.path);
        command.arg("check").arg("--dir").arg(dir).arg("--password-file").arg(dir.with_extension("password"));
        command.output().context("sealpost check")
    }

    /// Runs `sealpost export` of one account to a Maildir; returns its output, and its peak
    /// resident set in MiB as GNU `time` measures it, where that is installed.
    pub fn export(
        &self,
        dir: &Path,
        account: &str,
        to: &Path,
    ) -> Result<(std::process::Output, Option<u64>)> {
        let time = Path::new("/usr/bin/time");
        let mut command = if time.exists() {
            let mut command = std::process::Command::new(time);
            command.args(["-f", "peak-kilobytes %M"]).arg(&self.path);
            command
        } else {
            std::process::Command::new(&self.path)
        };
        command.args(["export", "--format", "maildir", "--crlf", "--account", account, "--dir"]).arg(dir);
        command.arg("--password-file").arg(dir.with_extension("password")).arg(to);
        let output = command.output().context("sealpost export")?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let kilobytes =
            text.lines().find_map(|line| line.strip_prefix("peak-kilobytes ")?.parse::<u64>().ok());
        Ok((output, kilobytes.map(|kb| kb / 1024)))
    }
}
