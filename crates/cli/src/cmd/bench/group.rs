//! A server started by a command of the user, and its child processes: a process group of its own,
//! ended together.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use sealpost_base::{Clock, SystemClock};
use tokio::process::{Child, Command};

/// How long its processes may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// How often to look whether they have.
const LOOK: Duration = Duration::from_millis(10);

/// Ended when dropped: SIGTERM, then SIGKILL for the rest after [`GRACE`].
pub struct Group {
    /// What the command became.
    pub child: Child,
    /// Its process id, which is the group's.
    pub leader: Pid,
}

impl Group {
    /// Runs a shell command; what it prints can be read.
    pub fn start(command: &str) -> io::Result<Self> {
        let child = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        Ok(Group { child, leader: pid.ok_or(io::ErrorKind::NotFound)? })
    }

    /// Sends it a signal and waits; whether all are gone.
    #[allow(
        clippy::disallowed_methods,
        reason = "a drop cannot wait in any other way, and nobody tells of a group's end"
    )]
    fn end(&mut self, signal: Signal) -> bool {
        let _ = kill_process_group(self.leader, signal);
        let clock = SystemClock::new();
        let until = clock.monotonic() + GRACE;
        while clock.monotonic() < until {
            // The leader exists until its exit status is read.
            let _ = self.child.try_wait();
            if test_kill_process_group(self.leader).is_err() {
                return true;
            }
            std::thread::sleep(LOOK);
        }
        false
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.end(Signal::TERM) {
            self.end(Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt, BufReader};

    #[tokio::test]
    async fn processes_of_a_server_end_with_it_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let ended = dir.path().join("ended");
        // The shell launches a daemon, and cleans up on SIGTERM. The daemon is a fork that does not
        // exec: one that does has no command line for a moment, as if it had ended.
        let script = format!(
            "sh -c 'trap \"echo ended > {}; exit\" TERM; (sleep 600; :) & echo $!; wait'",
            ended.display()
        );
        let mut group = Group::start(&script).unwrap();
        let mut lines = BufReader::new(group.child.stdout.take().unwrap()).lines();
        let daemon = lines.next_line().await.unwrap().unwrap();
        let running = format!("/proc/{daemon}/cmdline");
        assert!(!std::fs::read(&running).unwrap().is_empty());
        drop(group);
        assert_eq!(std::fs::read_to_string(ended).unwrap(), "ended\n");
        // The parent may take a moment to reap it; it has ended.
        assert!(std::fs::read(&running).unwrap_or_default().is_empty());
    }
}
