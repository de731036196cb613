//! The machine a run was made on.

use std::fs;

use serde::{Deserialize, Serialize};

/// The description of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model.
    #[serde(default)]
    pub processor: String,
    /// Processors online.
    #[serde(default)]
    pub cores: u32,
    /// Bytes of memory.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Distribution.
    #[serde(default)]
    pub system: String,
    /// Kernel version.
    #[serde(default)]
    pub kernel: String,
    /// Microseconds of one small durable write on the disk used, if that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fsync_us: Option<u64>,
}

impl Machine {
    /// This machine.
    pub fn describe() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let processors = read("/proc/cpuinfo");
        let models = || processors.lines().filter_map(|line| line.strip_prefix("model name"));
        let model = models().next().unwrap_or_default().trim_start_matches([' ', '\t', ':']);
        let cores = processors.lines().filter(|line| line.starts_with("processor")).count();
        let kilobytes = read("/proc/meminfo").split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok());
        let release = read("/etc/os-release");
        let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("Linux");
        Machine {
            processor: model.trim().to_owned(),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            memory_bytes: kilobytes.unwrap_or(0) * 1024,
            system: system.trim_matches('"').to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            fsync_us: None,
        }
    }

    /// As one line.
    pub fn line(&self) -> String {
        let gibibytes = self.memory_bytes as f64 / 1_073_741_824.0;
        let kernel = self.kernel.split('-').next().unwrap_or_default();
        let fsync = self.fsync_us.map(|us| format!("; a durable 4 KiB write takes {us} µs there"));
        let (cores, processor, system) = (self.cores, &self.processor, &self.system);
        format!(
            "{cores} cores of {processor}, {gibibytes:.0} GiB, {system}, Linux {kernel}{}",
            fsync.unwrap_or_default()
        )
    }
}
