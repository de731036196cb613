//! The store: requests, caches, commits, damage; and the clock, on which removal depends.

use crate::metrics::family::{Family, family};

pub(super) const FAMILIES: &[Family] = &[
    family!(
        "sealpost_store_seconds",
        Histogram,
        "seconds",
        "operation",
        "Time to `read`, `write` (until durable) and `delete` objects, including queues.",
        |v, s| {
            let metrics = v.ctx.store.metrics();
            s.times(&[("operation", "read")], &metrics.reads);
            s.times(&[("operation", "write")], &metrics.writes);
            s.times(&[("operation", "delete")], &metrics.deletes);
        }
    ),
    family!("sealpost_store_failures", Counter, "", "", "Failed store operations.", |v, s| {
        s.number(&[], v.ctx.store.metrics().failures.read());
    }),
    family!(
        "sealpost_store_damage",
        Counter,
        "",
        "",
        "Signs of damage in the local store's database. The store is read-only until `sealpost store repair`.",
        |v, s| {
            s.number(&[], v.ctx.store.metrics().damage.read());
        }
    ),
    family!(
        "sealpost_store_disk_full",
        Gauge,
        "",
        "",
        "1 while the disk of the local store is full: mail gets a temporary error, and the reserve is for removing.",
        |v, s| {
            s.number(&[], v.ctx.store.is_disk_full().into());
        }
    ),
    family!(
        "sealpost_clock_doubted",
        Gauge,
        "",
        "",
        "1 while the clock is far past the newest known time: no data is deleted until it is set or confirmed.",
        |v, s| {
            s.number(&[], v.ctx.clock_watch.is_doubted().into());
        }
    ),
    family!(
        "sealpost_store_requests",
        Counter,
        "",
        "",
        "Requests to a remote store; a page of a listing and a part of an upload count as one each.",
        |v, s| {
            s.number(&[], v.ctx.store.metrics().requests.read());
        }
    ),
    family!(
        "sealpost_store_retries",
        Counter,
        "",
        "",
        "Requests to a remote store that repeated a failed one.",
        |v, s| {
            s.number(&[], v.ctx.store.metrics().retries.read());
        }
    ),
    family!(
        "sealpost_store_cache_reads",
        Counter,
        "",
        "result",
        "Reads of messages, index segments and checkpoints from the cache of a remote store (`hit`), or from the store (`miss`).",
        |v, s| {
            s.number(&[("result", "hit")], v.ctx.store.metrics().cache_hits.read());
            s.number(&[("result", "miss")], v.ctx.store.metrics().cache_misses.read());
        }
    ),
    family!(
        "sealpost_store_commit_seconds",
        Histogram,
        "seconds",
        "",
        "Time of local store transactions, including the sync.",
        |v, s| {
            s.times(&[], &v.ctx.store.metrics().commits);
        }
    ),
    family!(
        "sealpost_store_commit_jobs",
        Histogram,
        "",
        "",
        "Writes and removals in one transaction.",
        |v, s| {
            s.counts(&[], &v.ctx.store.metrics().commit_jobs);
        }
    ),
    family!(
        "sealpost_store_fsyncs",
        Counter,
        "",
        "",
        "Syncs: one for each transaction, two for each object that is a file.",
        |v, s| {
            s.number(&[], v.store.fsyncs);
        }
    ),
    family!("sealpost_store_objects_written", Counter, "", "", "Objects written.", |v, s| s
        .number(&[], v.store.objects)),
    family!(
        "sealpost_store_written_bytes",
        Counter,
        "bytes",
        "",
        "Bytes of written objects, sealed.",
        |v, s| s.number(&[], v.store.bytes)
    ),
    family!(
        "sealpost_store_wal_checkpoints",
        Counter,
        "",
        "",
        "Checkpoints of the local store's write-ahead log into its database.",
        |v, s| {
            s.number(&[], v.ctx.store.metrics().wal_checkpoints.read());
        }
    ),
];
