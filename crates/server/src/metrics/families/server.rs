//! The process: version, CPU, memory, bugs, its log.

use crate::metrics::family::{Family, family};

pub(super) const FAMILIES: &[Family] = &[
    family!("sealpost_build_info", Gauge, "", "version", "The version that runs; the value is 1.", |_, s| {
        s.value(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    }),
    family!("process_cpu_seconds", Counter, "seconds", "", "CPU time used, user and system.", |v, s| {
        s.value(&[], v.process.cpu.as_secs_f64());
    }),
    family!("process_resident_memory_bytes", Gauge, "bytes", "", "Resident memory.", |v, s| {
        s.number(&[], v.process.resident);
    }),
    family!("process_resident_memory_peak_bytes", Gauge, "bytes", "", "Peak resident memory.", |v, s| {
        s.number(&[], v.process.peak);
    }),
    family!("process_virtual_memory_bytes", Gauge, "bytes", "", "Virtual address space.", |v, s| {
        s.number(&[], v.process.size);
    }),
    family!("process_threads", Gauge, "", "", "Threads.", |v, s| s.number(&[], v.process.threads)),
    family!("process_open_fds", Gauge, "", "", "Open file descriptors, including connections.", |v, s| {
        s.number(&[], v.process.files);
    }),
    family!("process_max_fds", Gauge, "", "", "Limit of open file descriptors.", |v, s| s
        .number(&[], v.process.most_files)),
    family!(
        "process_start_time_seconds",
        Gauge,
        "seconds",
        "",
        "Start time of the server, in seconds since 1970.",
        |v, s| {
            s.value(&[], v.ctx.started.0 as f64 / 1000.0);
        }
    ),
    family!(
        "sealpost_memory_budget_bytes",
        Gauge,
        "bytes",
        "",
        "The memory budget for requests: the part of `memory` for work.",
        |v, s| {
            s.number(&[], v.ctx.budget.total() as u64);
        }
    ),
    family!(
        "sealpost_memory_in_use_bytes",
        Gauge,
        "bytes",
        "",
        "How much of the budget is in use.",
        |v, s| {
            s.number(&[], v.ctx.budget.in_use() as u64);
        }
    ),
    family!(
        "sealpost_memory_waiters",
        Gauge,
        "",
        "",
        "Requests that wait for memory of the budget.",
        |v, s| {
            s.number(&[], v.ctx.budget.waiting() as u64);
        }
    ),
    family!(
        "sealpost_panics",
        Counter,
        "",
        "",
        "Bugs that ended a session or a background task; the log names the location. Other sessions continue.",
        |v, s| {
            s.number(&[], v.ctx.metrics.panics.read());
        }
    ),
    family!(
        "sealpost_errors",
        Counter,
        "",
        "",
        "Errors: damaged objects or bugs. The log has each of them once an hour; this counts all.",
        |v, s| {
            s.number(&[], v.ctx.metrics.log().map_or(0, |log| log.errors.read()));
        }
    ),
    family!(
        "sealpost_log_lines_repeated",
        Counter,
        "",
        "",
        "Errors and warnings left out of the log: the same error was logged within the hour, or too many of the kind.",
        |v, s| {
            s.number(&[], v.ctx.metrics.log().map_or(0, |log| log.repeated.read()));
        }
    ),
    family!(
        "sealpost_log_lines_lost",
        Counter,
        "",
        "",
        "Log lines dropped because standard error was full or too slow.",
        |v, s| {
            s.number(&[], v.ctx.metrics.log().map_or(0, |log| log.lost.read()));
        }
    ),
];
