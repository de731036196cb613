//! The C library's allocator, configured to return memory ([decision
//! 25](../../../docs/decisions/0025-allocator.md)).
//!
//! glibc is configured by variables that it reads when a process starts, before any code of ours;
//! calling it later would be `unsafe`. So a server that was started without them executes itself
//! again, once, at once and as the same process.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Two heaps instead of eight for each core. Free memory at the end of a heap is returned from 2
/// MiB on, which is more than one read takes, and blocks above a size always. The sizes must be
/// fixed: otherwise they grow, up to 64 and 32 MiB, with every large block that is freed.
const TUNING: [(&str, &str); 2] = [("MALLOC_ARENA_MAX", "2"), ("MALLOC_TRIM_THRESHOLD_", "2097152")];
/// From which size on blocks go back always.
const MAPPED: &str = "MALLOC_MMAP_THRESHOLD_";
/// Set in a process that was started again. A program with file capabilities is not shown the
/// variables above, and must not try for ever.
const STARTED_AGAIN: &str = "SEALPOST_STARTED_AGAIN";
/// The other configuration of glibc: if it is set, it is left alone.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Where messages are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Files: the same memory is used for one window after the other.
    Files,
    /// A bucket: what comes from each connection is put together elsewhere, and the time of a
    /// request is long.
    Bucket,
}

impl Reading {
    fn mapped(self) -> (&'static str, &'static str) {
        match self {
            Reading::Files => (MAPPED, "1048576"),
            Reading::Bucket => (MAPPED, "262144"),
        }
    }
}

/// Starts this program again with what is missing in its environment; returns if nothing is.
///
/// # Errors
/// If it cannot be started again. It runs well as it is, and keeps more memory than it uses.
pub fn tune(reading: Reading) -> io::Result<()> {
    let missing = missing(reading, |name| env::var_os(name).is_some());
    if !cfg!(all(target_os = "linux", target_env = "gnu")) || missing.is_empty() {
        return Ok(());
    }
    let mut args = env::args_os();
    let name = args.next();
    let mut again = Command::new(env::current_exe()?);
    again.arg0(name.as_deref().unwrap_or(OsStr::new("sealpost"))).args(args);
    Err(again.envs(missing).env(STARTED_AGAIN, "1").exec())
}

/// What is not set and should be. What is set stays.
fn missing(reading: Reading, is_set: impl Fn(&str) -> bool) -> Vec<(&'static str, &'static str)> {
    if is_set(STARTED_AGAIN) || is_set(TUNABLES) {
        return Vec::new();
    }
    TUNING.into_iter().chain([reading.mapped()]).filter(|(name, _)| !is_set(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_missing_settings_and_keeps_those_of_the_environment() {
        let [arenas, trim] = TUNING;
        assert_eq!(missing(Reading::Files, |_| false), [arenas, trim, (MAPPED, "1048576")]);
        assert_eq!(missing(Reading::Bucket, |_| false), [arenas, trim, (MAPPED, "262144")]);
        assert_eq!(missing(Reading::Bucket, |name| name == MAPPED), [arenas, trim]);
        assert_eq!(missing(Reading::Files, |name| name == arenas.0), [trim, (MAPPED, "1048576")]);
        assert_eq!(missing(Reading::Files, |name| name.starts_with("MALLOC_")), []);
    }

    #[test]
    fn it_restarts_once_unless_the_variable_is_set() {
        assert_eq!(missing(Reading::Files, |name| name == STARTED_AGAIN), []);
        assert_eq!(missing(Reading::Bucket, |name| name == TUNABLES), []);
    }
}
