//! The logs of accounts: entries appended, replayed and trimmed.

use crate::metrics::family::{Family, family};

pub(super) const FAMILIES: &[Family] = &[
    family!("sealpost_log_entries_appended", Counter, "", "", "Entries appended to logs.", |v, s| {
        s.number(&[], v.ctx.accounts.metrics().journal.appended.read());
    }),
    family!(
        "sealpost_log_append_conflicts",
        Counter,
        "",
        "",
        "Appends that conflicted with another writer and were repeated; no data is lost.",
        |v, s| {
            s.number(&[], v.ctx.accounts.metrics().journal.conflicts.read());
        }
    ),
    family!(
        "sealpost_store_went_back",
        Gauge,
        "",
        "",
        "Logs and records that end before what this node has seen of them: nothing is appended to them (sealpost store confirm-restore).",
        |v, s| {
            s.number(&[], v.ctx.watermarks.back() as u64);
        }
    ),
    family!(
        "sealpost_log_entries_replayed",
        Counter,
        "",
        "",
        "Entries read to load accounts or to catch up.",
        |v, s| {
            s.number(&[], v.ctx.accounts.metrics().journal.replayed.read());
        }
    ),
    family!(
        "sealpost_log_noise",
        Counter,
        "",
        "",
        "Objects in logs that this installation did not write, or that are damaged (sealpost check).",
        |v, s| {
            s.number(&[], v.ctx.accounts.metrics().journal.noise.read());
        }
    ),
    family!(
        "sealpost_log_entries_trimmed",
        Counter,
        "",
        "",
        "Entries trimmed because two checkpoints cover them.",
        |v, s| {
            s.number(&[], v.ctx.accounts.metrics().journal.trimmed.read());
        }
    ),
];
