//! The table of all metrics: `/metrics` and the list in the guide are made from it.

use super::family::{Family, View, Write};
use super::openmetrics::Kind;
use super::{Protocol, Verdict};

/// Everything there is, in pieces of a few KiB.
pub(super) fn pieces<'a>(view: &'a View<'a>) -> impl Iterator<Item = String> + 'a {
    FAMILIES.iter().flat_map(move |family| family.pieces(view))
}

/// The rows of the guide's table of metrics.
pub fn reference() -> String {
    let mut rows = String::from("| Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n");
    for family in FAMILIES {
        let suffix = match family.kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
        };
        let labels: Vec<_> = family.labels.split_whitespace().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels, help) = (family.name, family.kind.name(), labels.join(", "), family.help);
        rows.push_str(&format!("| `{name}{suffix}` | {kind} | {labels} | {help} |\n"));
    }
    rows
}

/// The states of IMAP sessions; those of SMTP and LMTP are `open`.
const STATES: [&str; 4] = ["anonymous", "authenticated", "selected", "idle"];

macro_rules! family {
    ($name:literal, $kind:ident, $unit:literal, $labels:literal, $help:literal, $write:expr) => {
        Family {
            name: $name,
            kind: Kind::$kind,
            unit: $unit,
            labels: $labels,
            help: $help,
            write: Write::Whole($write),
        }
    };
}

const FAMILIES: &[Family] = &[
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
        "sealpost_connections_accepted",
        Counter,
        "",
        "protocol",
        "Connections that became sessions.",
        |v, s| {
            s.each_protocol(v, |p| &p.accepted);
        }
    ),
    family!(
        "sealpost_connections_refused",
        Counter,
        "",
        "protocol",
        "Connections rejected with a temporary error.",
        |v, s| {
            s.each_protocol(v, |p| &p.refused);
        }
    ),
    family!(
        "sealpost_http_requests_rejected",
        Counter,
        "",
        "protocol",
        "Sessions that ended because the client sent HTTP: a browser on the wrong port.",
        |v, s| {
            s.each_protocol(v, |p| &p.http);
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
    family!(
        "sealpost_sessions",
        Gauge,
        "",
        "protocol state",
        "Open sessions. The states of IMAP are `anonymous`, `authenticated`, `selected` and `idle`; of other protocols, `open`.",
        |v, s| {
            for (protocol, count) in Protocol::ALL.into_iter().zip(&v.sessions) {
                match protocol {
                    Protocol::Imap => {
                        for (state, n) in STATES.iter().zip(count.states) {
                            s.number(&[("protocol", protocol.name()), ("state", state)], n);
                        }
                    }
                    _ => s.number(&[("protocol", protocol.name()), ("state", "open")], count.all),
                }
            }
        }
    ),
    family!(
        "sealpost_received_bytes",
        Counter,
        "bytes",
        "protocol",
        "Bytes received from clients, without TLS.",
        |v, s| {
            s.each_protocol(v, |p| &p.bytes_in);
        }
    ),
    family!(
        "sealpost_sent_bytes",
        Counter,
        "bytes",
        "protocol",
        "Bytes sent to clients, without TLS.",
        |v, s| {
            s.each_protocol(v, |p| &p.bytes_out);
        }
    ),
    Family {
        name: "sealpost_commands",
        kind: Kind::Counter,
        unit: "",
        labels: "protocol command result",
        help: "Completed commands. `ok`: OK, or a reply 2xx; `no`: NO, or 4xx; `bad`: BAD, or 5xx. A command has a series after its first use.",
        write: Write::Commands(|protocol, command, v, s| {
            let command = super::Command::from_u8(command);
            let Some(metrics) = v.ctx.metrics.of(protocol).command(command) else { return };
            if metrics.verdicts.iter().all(|counter| counter.read() == 0) {
                return;
            }
            for verdict in Verdict::ALL {
                let labels = [
                    ("protocol", protocol.name()),
                    ("command", protocol.name_of(command)),
                    ("result", verdict.name()),
                ];
                s.number(&labels, metrics.verdict(verdict).read());
            }
        }),
    },
    Family {
        name: "sealpost_command_seconds",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: "protocol command",
        help: "Time of commands, until the reply is complete, including data transferred meanwhile. `DATA` and `BDAT`: from the last byte of the message to the first reply. IDLE is not included.",
        write: Write::Commands(|protocol, command, v, s| {
            let command = super::Command::from_u8(command);
            let Some(metrics) = v.ctx.metrics.of(protocol).command(command) else { return };
            if metrics.time.read().count() > 0 {
                let labels = [("protocol", protocol.name()), ("command", protocol.name_of(command))];
                s.times(&labels, &metrics.time);
            }
        }),
    },
    family!(
        "sealpost_messages_received",
        Counter,
        "",
        "protocol",
        "Messages accepted for at least one recipient.",
        |v, s| {
            s.each_receiving(v, |p| &p.messages);
        }
    ),
    family!(
        "sealpost_messages_received_bytes",
        Counter,
        "bytes",
        "protocol",
        "Bytes of accepted messages.",
        |v, s| {
            s.each_receiving(v, |p| &p.message_bytes);
        }
    ),
    family!(
        "sealpost_messages_refused",
        Counter,
        "",
        "protocol",
        "Messages rejected after they were received.",
        |v, s| {
            s.each_receiving(v, |p| &p.messages_refused);
        }
    ),
    family!(
        "sealpost_deliveries",
        Counter,
        "",
        "protocol",
        "Deliveries: recipients of accepted messages.",
        |v, s| {
            s.each_receiving(v, |p| &p.deliveries);
        }
    ),
    family!(
        "sealpost_push_subscriptions",
        Gauge,
        "",
        "",
        "Push subscriptions of JMAP clients that this node knows. All series of pushes are missing on a server that does not push.",
        |v, s| {
            if let Some(push) = v.push {
                s.number(&[], push.known() as u64);
            }
        }
    ),
    family!(
        "sealpost_push_waiting",
        Gauge,
        "",
        "",
        "Push subscriptions that wait for a push, or for the second after one to end.",
        |v, s| {
            if let Some(push) = v.push {
                s.number(&[], push.waiting() as u64);
            }
        }
    ),
    family!(
        "sealpost_push_sent",
        Counter,
        "",
        "kind",
        "Messages that push services took: a `change` of an account, or the `verification` of a new subscription.",
        |v, s| {
            if let Some(push) = v.push {
                s.number(&[("kind", "change")], push.metrics().sent.read());
                s.number(&[("kind", "verification")], push.metrics().verifications.read());
            }
        }
    ),
    family!(
        "sealpost_push_failed",
        Counter,
        "",
        "",
        "Requests to push services that failed, each attempt counted.",
        |v, s| {
            if let Some(push) = v.push {
                s.number(&[], push.metrics().failed.read());
            }
        }
    ),
    family!(
        "sealpost_push_dropped",
        Counter,
        "",
        "",
        "Pushes that were dropped after failures. The device finds the changes when it next looks.",
        |v, s| {
            if let Some(push) = v.push {
                s.number(&[], push.metrics().dropped.read());
            }
        }
    ),
    family!(
        "sealpost_push_removed",
        Counter,
        "",
        "",
        "Push subscriptions that ended because the push service no longer knows them, or their login is gone.",
        |v, s| {
            if let Some(push) = v.push {
                s.number(&[], push.metrics().removed.read());
            }
        }
    ),
    family!(
        "sealpost_queue_mails",
        Gauge,
        "",
        "",
        "Queued mails that this node sends. All series of the queue are missing on a server that does not send.",
        |v, s| {
            if let Some(sending) = v.sending {
                s.number(&[], sending.depth().mails as u64);
            }
        }
    ),
    family!(
        "sealpost_queue_oldest_seconds",
        Gauge,
        "seconds",
        "",
        "Age of the oldest queued mail.",
        |v, s| {
            if let Some(sending) = v.sending {
                s.value(&[], sending.oldest().as_secs_f64());
            }
        }
    ),
    family!(
        "sealpost_queue_memory_bytes",
        Gauge,
        "bytes",
        "",
        "Memory of the rows of queued mails.",
        |v, s| {
            if let Some(sending) = v.sending {
                s.number(&[], sending.depth().heap_bytes as u64);
            }
        }
    ),
    family!(
        "sealpost_queue_on_hold",
        Gauge,
        "",
        "",
        "1 if the whole queue is on hold, as after a restore; else 0.",
        |v, s| {
            if let Some(sending) = v.sending {
                let is_held = sending.queue().state().all_held().is_some();
                s.number(&[], u64::from(is_held));
            }
        }
    ),
    family!(
        "sealpost_queue_stopped",
        Gauge,
        "",
        "",
        "1 if the queue has stopped and takes no mail; /healthz says why.",
        |v, s| {
            if let Some(sending) = v.sending {
                s.number(&[], u64::from(sending.problem().is_some()));
            }
        }
    ),
    family!(
        "sealpost_queue_active",
        Gauge,
        "",
        "",
        "Mails that are being sent, or wait for a connection.",
        |v, s| {
            if let Some(sending) = v.sending {
                s.number(&[], sending.activity().active as u64);
            }
        }
    ),
    family!(
        "sealpost_queue_connections",
        Gauge,
        "",
        "",
        "Open connections to other servers, and deliveries into accounts.",
        |v, s| {
            if let Some(sending) = v.sending {
                s.number(&[], sending.activity().connections as u64);
            }
        }
    ),
    family!(
        "sealpost_queue_site_waiting",
        Gauge,
        "",
        "site",
        "Deliveries that wait for a connection, by site: the names of a destination's mail servers, or `local`. Only the 20 busiest sites.",
        |v, s| {
            for load in &v.sites.busiest {
                s.number(&[("site", &load.site)], load.waiting as u64);
            }
        }
    ),
    family!(
        "sealpost_queue_site_connections",
        Gauge,
        "",
        "site",
        "Open connections by site. Only the 20 busiest sites.",
        |v, s| {
            for load in &v.sites.busiest {
                s.number(&[("site", &load.site)], load.connections as u64);
            }
        }
    ),
    family!(
        "sealpost_queue_sites_suspended",
        Gauge,
        "",
        "",
        "Sites that are not tried for now, because connections to them failed repeatedly.",
        |v, s| {
            if v.sending.is_some() {
                s.number(&[], v.sites.suspended as u64);
            }
        }
    ),
    family!(
        "sealpost_queue_adopted",
        Gauge,
        "",
        "",
        "Queues of lost nodes that this one sends; the other series count their mail too.",
        |v, s| {
            if let Some(sending) = v.sending {
                s.number(&[], sending.adopted() as u64);
            }
        }
    ),
    family!(
        "sealpost_submissions_refused",
        Counter,
        "",
        "reason",
        "Senders, recipients and messages of users that were rejected: the account has reached its sending `limit`, or may not send as that `sender`.",
        |v, s| {
            if let Some(sending) = v.sending {
                let metrics = sending.outbox().metrics();
                s.number(&[("reason", "limit")], metrics.limited.read());
                s.number(&[("reason", "sender")], metrics.wrong_senders.read());
            }
        }
    ),
    family!(
        "sealpost_forwards",
        Counter,
        "",
        "outcome",
        "Messages for aliases that lead to other servers: `accepted` into the queue, beyond the hourly `limit` of an alias, or refused because they had come back (`loop`).",
        |v, s| {
            if let Some(sending) = v.sending {
                let metrics = sending.outbox().forwarder().metrics();
                s.number(&[("outcome", "accepted")], metrics.accepted.read());
                s.number(&[("outcome", "limit")], metrics.limited.read());
                s.number(&[("outcome", "loop")], metrics.looped.read());
            }
        }
    ),
    family!(
        "sealpost_vacation_responses",
        Counter,
        "",
        "outcome",
        "Delivered mail and vacation responses: `sent` into the queue, none because the account has replied too often (`limit`), none because too much mail waited or the store failed (`dropped`).",
        |v, s| {
            if let Some(sending) = v.sending {
                let metrics = sending.outbox().vacation().metrics();
                s.number(&[("outcome", "sent")], metrics.sent.read());
                s.number(&[("outcome", "limit")], metrics.limited.read());
                s.number(&[("outcome", "dropped")], metrics.dropped.read());
            }
        }
    ),
    family!(
        "sealpost_queue_recipients",
        Counter,
        "",
        "outcome",
        "Outcomes of attempts, by recipient: `delivered`, `relayed` to a server that does not report, `deferred` to a later attempt, `failed` permanently.",
        |v, s| {
            if let Some(sending) = v.sending {
                let m = sending.runner_metrics();
                let all = [("delivered", &m.delivered), ("relayed", &m.relayed), ("deferred", &m.deferred)];
                for (outcome, counter) in all.into_iter().chain([("failed", &m.failed)]) {
                    s.number(&[("outcome", outcome)], counter.read());
                }
            }
        }
    ),
    family!("sealpost_queue_connects", Counter, "", "", "Connections that were opened or tried.", |v, s| {
        if let Some(sending) = v.sending {
            s.number(&[], sending.runner_metrics().connections.read());
        }
    }),
    family!(
        "sealpost_queue_connect_failures",
        Counter,
        "",
        "",
        "Connections that could not be opened, or not be secured as policy requires.",
        |v, s| {
            if let Some(sending) = v.sending {
                s.number(&[], sending.runner_metrics().connection_failures.read());
            }
        }
    ),
    family!(
        "sealpost_queue_local_deliveries",
        Counter,
        "",
        "",
        "Queued mails that were delivered into accounts of this server.",
        |v, s| {
            if let Some(sending) = v.sending {
                s.number(&[], sending.metrics().local.read());
            }
        }
    ),
    family!(
        "sealpost_queue_relayed_tls",
        Counter,
        "",
        "mode",
        "Mails that other servers took, by what secured the connection: `none`, `opportunistic`, `mta-sts`, `dane`, or `required` by the sender or a route.",
        |v, s| {
            if let Some(sending) = v.sending {
                for (mode, mails) in sending.metrics().tls() {
                    s.number(&[("mode", mode)], mails);
                }
            }
        }
    ),
    family!(
        "sealpost_queue_tls_failures",
        Counter,
        "",
        "",
        "TLS sessions with other servers that failed, also where the mail then went without.",
        |v, s| {
            if let Some(sending) = v.sending {
                s.number(&[], sending.metrics().tls_failures.read());
            }
        }
    ),
    family!(
        "sealpost_queue_delivery_seconds",
        Histogram,
        "seconds",
        "",
        "Time from acceptance to delivery, by recipient.",
        |v, s| {
            if let Some(sending) = v.sending {
                s.times(&[], &sending.runner_metrics().age);
            }
        }
    ),
    family!(
        "sealpost_logins",
        Counter,
        "",
        "slot",
        "Successful logins, by the kind of slot that opened the account: a `password`, a `token` (app password), a `recovery` code, an OAuth `grant` or a `web_login`.",
        |v, s| {
            let slots = ["password", "token", "recovery", "grant", "web_login"];
            for (slot, counter) in slots.iter().zip(&v.ctx.auth.metrics().entered) {
                s.number(&[("slot", slot)], counter.read());
            }
        }
    ),
    family!(
        "sealpost_login_failures",
        Counter,
        "",
        "reason",
        "Failed logins: wrong `credentials`, too many waiting (`busy`), no reply from the store (`unavailable`), the account is `suspended`, the OAuth token or web login has `expired` or was revoked, or the token is not for this (`scope`).",
        |v, s| {
            let reasons = ["credentials", "busy", "unavailable", "suspended", "expired", "scope"];
            for (reason, counter) in reasons.iter().zip(&v.ctx.auth.metrics().denied) {
                s.number(&[("reason", reason)], counter.read());
            }
        }
    ),
    family!(
        "sealpost_login_failures_unlogged",
        Counter,
        "",
        "",
        "Failed logins without a log line of their own, because there were too many.",
        |v, s| {
            s.number(&[], v.ctx.failed_logins.unlogged());
        }
    ),
    family!(
        "sealpost_login_cache_hits",
        Counter,
        "",
        "",
        "Logins answered from the login cache, without a password check.",
        |v, s| {
            s.number(&[], v.ctx.auth.metrics().remembered.read());
        }
    ),
    family!("sealpost_login_cache_entries", Gauge, "", "", "Entries in the login cache.", |v, s| {
        s.number(&[], v.ctx.auth.remembered() as u64);
    }),
    family!(
        "sealpost_logins_throttled",
        Counter,
        "",
        "",
        "Logins delayed because of earlier failures.",
        |v, s| {
            s.number(&[], v.ctx.auth.metrics().held_back.read());
        }
    ),
    family!(
        "sealpost_logins_waiting",
        Gauge,
        "",
        "reason",
        "Waiting logins: for a password check (`check`), or because of earlier failures (`throttle`).",
        |v, s| {
            s.number(&[("reason", "check")], v.ctx.auth.checks_waiting() as u64);
            s.number(&[("reason", "throttle")], v.ctx.auth.held_back() as u64);
        }
    ),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_their_units_and_come_once() {
        let mut seen = std::collections::BTreeSet::new();
        for family in FAMILIES {
            assert!(seen.insert(family.name), "{}", family.name);
            assert!(family.name.ends_with(family.unit), "{}", family.name);
            assert!(!family.name.ends_with("_total") && !family.help.is_empty(), "{}", family.name);
        }
    }
}
