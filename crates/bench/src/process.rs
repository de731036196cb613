//! The resource use of a server's processes, from `/proc`: CPU time and memory of a process and all
//! its descendants.
//!
//! CPU time includes children that have ended and were waited for, so that a server that forks per
//! connection is measured completely. Memory is the proportional set size (shared pages counted
//! once) summed over the processes, and the kernel's high-water mark of the resident set for a
//! single one.

mod sampler;
mod snapshot;

use std::fs;
use std::time::Duration;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::time::{ClockId, clock_gettime};

pub use sampler::{Every, Mark, Sampler, Use};
use snapshot::{Stat, snapshot};

/// A process and its descendants.
#[derive(Debug, Clone, Copy)]
pub struct Tree {
    root: u32,
}

/// The data in `/proc/PID/stat` of a process, or of several together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// CPU seconds used so far, user and system, ended children included.
    pub cpu_seconds: f64,
    /// Resident set size in bytes.
    pub rss_bytes: u64,
    /// Threads.
    pub threads: u32,
    /// Live processes.
    pub processes: u32,
}

impl Tree {
    /// The tree below process `root`.
    pub fn new(root: u32) -> Self {
        Tree { root }
    }

    /// The process at its root.
    pub fn root(&self) -> u32 {
        self.root
    }

    /// All live process ids of the tree.
    pub fn pids(&self) -> Vec<u32> {
        self.sample().0
    }

    /// The present use of its processes, together.
    pub fn usage(&self) -> Usage {
        self.sample().1
    }

    /// Both, from one read.
    fn sample(&self) -> (Vec<u32>, Usage) {
        let add = |sum: Usage, (_, one): (u32, Usage)| Usage {
            cpu_seconds: sum.cpu_seconds + one.cpu_seconds,
            rss_bytes: sum.rss_bytes + one.rss_bytes,
            threads: sum.threads + one.threads,
            processes: sum.processes + one.processes,
        };
        let all = self.processes();
        let alive = all.iter().filter(|(_, usage)| usage.processes > 0).map(|(pid, _)| *pid).collect();
        (alive, all.into_iter().fold(Usage::default(), add))
    }

    /// CPU seconds used so far, user and system, ended children included.
    pub fn cpu_seconds(&self) -> f64 {
        self.usage().cpu_seconds
    }

    /// Bytes of memory now: proportional set sizes, summed. The kernel walks every page table for it.
    pub fn proportional_bytes(&self) -> u64 {
        proportional_bytes(&self.pids())
    }

    /// Open file descriptors, where permissions allow counting them.
    pub fn files(&self) -> Option<u32> {
        files(&self.pids())
    }

    /// The highest resident set size, in bytes, of the root process since [`Tree::reset_peak`].
    pub fn peak_bytes(&self) -> u64 {
        field(&format!("/proc/{}/status", self.root), "VmHWM:")
    }

    /// What files have of the resident set of the root process now, in bytes: above all its program.
    pub fn file_bytes(&self) -> u64 {
        field(&format!("/proc/{}/status", self.root), "RssFile:")
    }

    /// Resets the kernel's high-water marks. False where that is not permitted.
    pub fn reset_peak(&self) -> bool {
        self.pids().iter().all(|pid| fs::write(format!("/proc/{pid}/clear_refs"), "5").is_ok())
    }

    /// The root and its descendants, including zombies.
    fn processes(&self) -> Vec<(u32, Usage)> {
        let mut pids = || {
            let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
        };
        snapshot(self.root, &mut pids, &mut stat)
    }
}

/// Proportional set sizes of these processes, summed.
fn proportional_bytes(pids: &[u32]) -> u64 {
    pids.iter().map(|pid| field(&format!("/proc/{pid}/smaps_rollup"), "Pss:")).sum()
}

/// Open file descriptors of those among these processes whose descriptors can be counted.
fn files(pids: &[u32]) -> Option<u32> {
    let count = |pid: &u32| fs::read_dir(format!("/proc/{pid}/fd")).ok().map(Iterator::count);
    let counts: Vec<usize> = pids.iter().filter_map(count).collect();
    if counts.is_empty() { None } else { u32::try_from(counts.iter().sum::<usize>()).ok() }
}

/// CPU time this process has used so far.
pub fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// How long this thread was runnable and waited for a processor, in all; zero where the kernel does
/// not count that.
pub fn own_waits() -> Duration {
    // proc(5): time on a processor, time waiting for one, both in nanoseconds, and how often it
    // ran.
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').nth(1).and_then(|waited| waited.parse().ok()).unwrap_or(0))
}

/// The parent, and the use. Fields after the command's closing parenthesis: state (3), ppid, …,
/// utime (14), stime, cutime, cstime (17), …, num_threads (20), …, rss (24), as proc_pid_stat(5)
/// counts them. A zombie has used CPU time and uses nothing else.
fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text[text.rfind(')')? + 2..].split(' ').collect();
    let number = |nth: usize| fields.get(nth - 3)?.parse::<u64>().ok();
    let ticks = number(14)? + number(15)? + number(16)? + number(17)?;
    let threads = u32::try_from(number(20)?).ok()?;
    // The first thread may have ended before others, which still run.
    let ended = matches!(fields.first()?, &"Z" | &"X") && threads <= 1;
    let usage = Usage {
        cpu_seconds: ticks as f64 / clock_ticks_per_second() as f64,
        rss_bytes: number(24)? * page_size() as u64,
        threads: if ended { 0 } else { threads },
        processes: u32::from(!ended),
    };
    Some(Stat { parent: u32::try_from(number(4)?).ok()?, usage })
}

/// A `Name:  123 kB` field, in bytes; 0 when the process has gone.
fn field(path: &str, name: &str) -> u64 {
    let Ok(text) = fs::read_to_string(path) else { return 0 };
    let kilobytes =
        text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    kilobytes.unwrap_or(0u64) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let tree = Tree::new(std::process::id());
        let usage = tree.usage();
        assert!(tree.peak_bytes() > 100_000);
        assert!(tree.proportional_bytes() > 100_000);
        assert!(usage.rss_bytes > 100_000 && usage.threads > 0 && usage.processes >= 1, "{usage:?}");
        assert!(tree.files().unwrap() >= 3);
        assert!(own_cpu() > Duration::ZERO);
    }

    #[test]
    fn children_belong_to_the_tree() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pids = Tree::new(std::process::id()).pids();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(pids.contains(&child.id()), "{pids:?}");
    }

    #[test]
    fn a_process_that_is_gone_uses_nothing() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(Tree::new(child.id()).usage(), Usage::default());
    }
}
