//! The resource use of a server's processes at one moment.

use serde::{Deserialize, Serialize};

/// The server's processes at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the run against this server began.
    pub at: f64,
    /// CPU seconds used so far, also by ended children.
    pub cpu_seconds: f64,
    /// Resident set sizes, summed.
    pub rss_bytes: u64,
    /// Proportional set sizes, summed: shared pages count once. Sampled less often than the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_bytes: Option<u64>,
    /// Threads.
    #[serde(default)]
    pub threads: u32,
    /// Open file descriptors, where permissions allow counting them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u32>,
    /// Processes.
    #[serde(default)]
    pub processes: u32,
}
