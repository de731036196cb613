//! `--token-command`: a shell command that prints an OAuth 2.0 token.
//!
//! None of its processes outlives its use: they are a process group, in which a watcher waits for
//! the end of a pipe that this process holds. The pipe ends when the command has ended, at the time
//! limit, when the login is cancelled, and when this process ends in any way; then the whole group
//! ends. A group of its own cannot read from the terminal.

use std::pin::Pin;
use std::process::Stdio;
use std::time::Duration;

use sealpost_archive::client::{Credential, Credentials};
use sealpost_base::{Error, Result, limits};
use sealpost_imap::types::Secret;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;

/// A command that prints a token.
pub struct TokenCommand {
    command: String,
    timeout: Duration,
}

/// The timeout of such a command: it may need the user's browser.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Runs `$1`, and prints a NUL when it has ended, since background processes may hold its output
/// open. Processes that do not end on SIGTERM are killed a second later.
const WATCHED: &str = r#"
exec 3<&0 </dev/null
{ trap '' TERM; read -r _ <&3; kill -TERM 0; sleep 1; kill -KILL 0; } >/dev/null 2>&1 &
exec 3<&-
sh -c "$1"
status=$?
printf '\000'
exit $status
"#;

impl TokenCommand {
    /// This command.
    pub fn new(command: String) -> Self {
        TokenCommand { command, timeout: TIMEOUT }
    }

    /// What it prints, if it succeeds.
    async fn output(&self) -> Result<Vec<u8>> {
        let cannot = |e| failed("cannot be run").with_source(e);
        let mut command = Command::new("sh");
        command.args(["-c", WATCHED, "sh", &self.command]).process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(cannot)?;
        // The watcher waits for its end.
        let _pipe = child.stdin.take();
        let stdout = child.stdout.take().ok_or_else(|| Error::internal("a pipe that was just made"))?;
        let most = limits::ARCHIVE_TOKEN_BYTES;
        let mut printed = Vec::new();
        BufReader::new(stdout.take(most as u64 + 2)).read_until(0, &mut printed).await.map_err(cannot)?;
        printed.pop_if(|last| *last == 0);
        if printed.len() > most {
            return Err(failed(&format!("prints more than {most} bytes")));
        }
        let status = child.wait().await.map_err(cannot)?;
        if status.success() { Ok(printed) } else { Err(failed(&format!("failed: {status}"))) }
    }
}

fn failed(why: &str) -> Error {
    Error::denied(format!("the token command {why}"))
}

impl Credentials for TokenCommand {
    fn credential(&self) -> Pin<Box<dyn Future<Output = Result<Credential>> + Send + '_>> {
        Box::pin(async move {
            let too_long = |_| failed(&format!("takes longer than {} s", self.timeout.as_secs()));
            let printed = tokio::time::timeout(self.timeout, self.output()).await.map_err(too_long)??;
            match printed.split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii() {
                [] => Err(failed("prints no token in its first line")),
                line => Ok(Credential::Token(Secret::new(line.to_vec()))),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    async fn token(command: &str, timeout: u64) -> Result<Vec<u8>, String> {
        let command = TokenCommand { command: command.into(), timeout: Duration::from_secs(timeout) };
        match command.credential().await {
            Ok(Credential::Token(token)) => Ok(token.as_bytes().to_vec()),
            Ok(Credential::Password(_)) => Err("a password".into()),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Waits until the process whose number is in the file runs nothing any more.
    async fn ended(file: &Path) {
        let process = std::fs::read_to_string(file).unwrap();
        let running = format!("/proc/{}/cmdline", process.trim());
        let gone = async {
            while !std::fs::read(&running).unwrap_or_default().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it runs still");
    }

    #[tokio::test]
    async fn the_first_line_is_the_token() {
        assert_eq!(token("printf ' a.b \\nmore'", 60).await.unwrap(), b"a.b");
        assert_eq!(token("x=1; echo \"$x\"'2'", 60).await.unwrap(), b"12");
        assert!(token("cat", 60).await.unwrap_err().contains("prints no token"), "nothing is to be read");
        assert!(token("echo token; exit 3", 60).await.unwrap_err().contains("exit status: 3"));
        assert!(token("yes", 60).await.unwrap_err().contains("prints more than"));
    }

    #[tokio::test]
    async fn processes_of_a_token_command_end_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let command = |name: &str| {
            let file = path(name).display().to_string();
            format!("(trap '' TERM; sleep 600; :) & echo $! > '{file}'; echo token; wait")
        };
        assert!(token(&command("limit"), 1).await.unwrap_err().contains("longer than 1 s"));
        ended(&path("limit")).await;
        // It has ended, and what it left holds its output open.
        let left =
            format!("{{ trap '' TERM; sleep 600; }} & echo $! > '{}'; echo token", path("left").display());
        assert_eq!(token(&left, 60).await.unwrap(), b"token");
        ended(&path("left")).await;
        // The caller does not wait any more.
        let evicted =
            tokio::time::timeout(Duration::from_secs(1), async { token(&command("given up"), 60).await });
        assert!(evicted.await.is_err());
        ended(&path("given up")).await;
        // Too much is printed, by one that minds nothing.
        let minds_nothing = format!(
            "trap '' PIPE TERM; echo $$ > '{}'; while :; do echo a; done 2>/dev/null",
            path("much").display()
        );
        assert!(token(&minds_nothing, 60).await.unwrap_err().contains("prints more than"));
        ended(&path("much")).await;
    }
}
