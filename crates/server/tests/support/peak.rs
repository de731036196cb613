//! How much memory a test took, for tests that are alone in their process.

/// The most memory this process ever had, in bytes.
pub fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Measures from what it has now.
#[allow(dead_code, reason = "shared with tests that take little before they begin")]
pub fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}
