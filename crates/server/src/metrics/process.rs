//! What the system knows of this process.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// This process as the system sees it. What the system does not tell is zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Process {
    /// Memory in use, in bytes: what is in RAM.
    pub resident: u64,
    /// Addresses in use, in bytes.
    pub size: u64,
    /// The most that was in RAM, in bytes.
    pub peak: u64,
    /// Processor time used, by itself and by the kernel for it.
    pub cpu: Duration,
    /// Threads.
    pub threads: u64,
    /// Open files, sockets among them.
    pub files: u64,
    /// How many it may open.
    pub most_files: u64,
}

impl Process {
    /// As it is now. Reads a few files of `/proc`, which takes as long as there are open files.
    pub fn read() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let files = std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64);
        Process {
            resident: field("VmRSS") * 1024,
            size: field("VmSize") * 1024,
            peak: field("VmHWM") * 1024,
            cpu: Duration::new(cpu.tv_sec.try_into().unwrap_or(0), cpu.tv_nsec.try_into().unwrap_or(0)),
            threads: field("Threads"),
            // One of them is open for counting.
            files: files.saturating_sub(1),
            most_files: getrlimit(Resource::Nofile).current.unwrap_or(0),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_all_of_it() {
        let process = Process::read();
        assert!(process.resident > 0 && process.size >= process.resident && process.peak >= process.resident);
        assert!(process.threads > 0 && process.files > 0 && process.most_files > 0);
        let before = process.files;
        let _file = std::fs::File::open("/proc/self/status").unwrap();
        // Other tests run beside this one and have files too.
        assert!(Process::read().files > 0 && before > 0);
    }
}
