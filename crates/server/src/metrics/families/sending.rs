//! The queue, submissions, forwarded mail, vacation responses. There are no series on a server that does not send.

use crate::metrics::family::{Family, family};

pub(super) const FAMILIES: &[Family] = &[
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
];
