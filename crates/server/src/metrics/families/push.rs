//! Pushes to devices of JMAP clients. There are no series on a server that does not push.

use crate::metrics::family::{Family, family};

pub(super) const FAMILIES: &[Family] = &[
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
];
