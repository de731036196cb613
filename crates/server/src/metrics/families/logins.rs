//! Logins, their failures and the login cache.

use crate::metrics::family::{Family, family};

pub(super) const FAMILIES: &[Family] = &[
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
];
