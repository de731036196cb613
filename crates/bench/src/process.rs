//! What a server's processes use, read from `/proc`: CPU time and memory of a process and all its descendants.
//!
//! CPU time counts children that have ended and were waited for, so that a server that forks per connection is
//! measured whole. Memory is the proportional set size (shared pages counted once) summed over the processes, and the
//! kernel's own high-water mark of the resident set for a single one.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Clock ticks per second of `/proc/PID/stat` (`USER_HZ`, 100 on every Linux we run on).
const TICKS_PER_SECOND: f64 = 100.0;

/// A process and its descendants.
#[derive(Debug, Clone, Copy)]
pub struct Tree {
    root: u32,
}

struct Stat {
    parent: u32,
    ticks: u64,
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

    /// All process ids of the tree that live now.
    pub fn pids(&self) -> Vec<u32> {
        let all = stats();
        let mut found = vec![self.root];
        let mut next = 0;
        while next < found.len() {
            let parent = found[next];
            found.extend(all.iter().filter(|(_, stat)| stat.parent == parent).map(|(pid, _)| *pid));
            next += 1;
        }
        found.retain(|pid| all.contains_key(pid));
        found
    }

    /// CPU seconds used so far, user and system, ended children included.
    pub fn cpu_seconds(&self) -> f64 {
        let pids = self.pids();
        let ticks: u64 = pids.iter().filter_map(|pid| stat(*pid)).map(|stat| stat.ticks).sum();
        ticks as f64 / TICKS_PER_SECOND
    }

    /// Bytes of memory now: proportional set sizes, summed.
    pub fn proportional_bytes(&self) -> u64 {
        self.pids().iter().map(|pid| field(&format!("/proc/{pid}/smaps_rollup"), "Pss:")).sum()
    }

    /// The highest resident set size, in bytes, of the root process since [`Tree::reset_peak`].
    pub fn peak_bytes(&self) -> u64 {
        field(&format!("/proc/{}/status", self.root), "VmHWM:")
    }

    /// Starts the kernel's high-water marks anew. False where that is not permitted.
    pub fn reset_peak(&self) -> bool {
        self.pids().iter().all(|pid| fs::write(format!("/proc/{pid}/clear_refs"), "5").is_ok())
    }
}

/// Watches a tree's memory until it is stopped.
pub struct Sampler {
    peak: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    tree: Tree,
    single: bool,
}

impl Sampler {
    /// Begins to sample, every 10 ms, on the current runtime.
    pub fn start(tree: Tree) -> Self {
        let single = tree.pids().len() == 1 && tree.reset_peak();
        let (peak, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        if !single {
            let (peak, stop) = (peak.clone(), stop.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    peak.fetch_max(tree.proportional_bytes(), Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            });
        }
        Sampler { peak, stop, tree, single }
    }

    /// The highest memory seen, in bytes: exact for a single process, sampled for several.
    pub fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        if self.single {
            return self.tree.peak_bytes();
        }
        self.peak.fetch_max(self.tree.proportional_bytes(), Ordering::Relaxed);
        self.peak.load(Ordering::Relaxed)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn stats() -> HashMap<u32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

/// Fields after the command's closing parenthesis: state, ppid (4), …, utime (14), stime, cutime, cstime (17).
fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text[text.rfind(')')? + 2..].split(' ').collect();
    let number = |nth: usize| fields.get(nth - 3)?.parse::<u64>().ok();
    let ticks = number(14)? + number(15)? + number(16)? + number(17)?;
    Some(Stat { parent: u32::try_from(number(4)?).ok()?, ticks })
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
    fn this_process_has_memory() {
        let tree = Tree::new(std::process::id());
        assert!(tree.peak_bytes() > 100_000);
        assert!(tree.proportional_bytes() > 100_000);
        assert!(tree.cpu_seconds() >= 0.0);
    }
}
