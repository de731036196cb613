//! Loaded accounts, their caches and checkpoints.

use crate::metrics::family::{Family, family};

pub(super) const FAMILIES: &[Family] = &[
    family!("sealpost_accounts_loaded", Gauge, "", "", "Loaded accounts and shared mailboxes.", |v, s| {
        s.number(&[], v.loaded.0 as u64);
    }),
    family!(
        "sealpost_accounts_loaded_bytes",
        Gauge,
        "bytes",
        "",
        "Approximate memory of the loaded accounts.",
        |v, s| {
            s.number(&[], v.loaded.1 as u64);
        }
    ),
    family!(
        "sealpost_account_load_seconds",
        Histogram,
        "seconds",
        "",
        "Time to load an account: its checkpoint and the log after it.",
        |v, s| {
            s.times(&[], &v.ctx.accounts.metrics().loads);
        }
    ),
    family!(
        "sealpost_account_load_events",
        Histogram,
        "",
        "",
        "Events replayed after the checkpoint when an account is loaded.",
        |v, s| {
            s.counts(&[], &v.ctx.accounts.metrics().load_events);
        }
    ),
    family!("sealpost_account_evictions", Counter, "", "", "Accounts evicted from memory.", |v, s| {
        s.number(&[], v.ctx.accounts.metrics().evictions.read());
    }),
    family!(
        "sealpost_cache_reads",
        Counter,
        "",
        "cache result",
        "Reads from caches of messages in memory: found (`hit`) or not (`miss`).",
        |v, s| {
            for (cache, counts) in v.ctx.accounts.cache_counts() {
                s.number(&[("cache", cache), ("result", "hit")], counts.hits);
                s.number(&[("cache", cache), ("result", "miss")], counts.misses);
            }
        }
    ),
    family!(
        "sealpost_cache_bytes",
        Gauge,
        "bytes",
        "cache",
        "Memory that each of these caches takes.",
        |v, s| {
            for (cache, counts) in v.ctx.accounts.cache_counts() {
                s.number(&[("cache", cache)], counts.bytes as u64);
            }
        }
    ),
    family!(
        "sealpost_checkpoint_seconds",
        Histogram,
        "seconds",
        "",
        "Time to write a checkpoint of an account, until it is durable.",
        |v, s| {
            s.times(&[], &v.ctx.accounts.metrics().checkpoints);
        }
    ),
    family!("sealpost_checkpoint_events", Histogram, "", "", "Events between two checkpoints.", |v, s| {
        s.counts(&[], &v.ctx.accounts.metrics().checkpoint_events);
    }),
];
