//! [`stats`]: the state of the server at one moment.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::limits::ADMIN_ROWS;
use sealpost_session::Context;
use sealpost_session::sessions::{Live, SessionInfo, SessionState};

use super::protocol::{
    AccountStats, LoadedStats, LoginStats, MemoryStats, Order, ProcessStats, ProtocolStats, QueueStats,
    Request, SessionStats, Stats, StoreStats, VERSION,
};
use crate::metrics::{Process, Protocol};
use crate::sending::Sending;

/// The server as it is now.
pub fn stats(ctx: &Context, sending: Option<&Sending>, request: &Request) -> Stats {
    let (process, now) = (Process::read(), ctx.clock.monotonic());
    let (store, store_metrics) = (ctx.store.stats(), ctx.store.metrics());
    let logins = ctx.auth.metrics();
    let most = request.sessions.min(ADMIN_ROWS);
    let sessions = match request.order {
        Order::Busy => ctx.sessions.top(most, |live| (live.works(), live.bytes())),
        Order::Bytes => ctx.sessions.top(most, Live::bytes),
        // Equal ranks are in the order in which they began.
        Order::Age => ctx.sessions.top(most, |_| ()),
    };
    Stats {
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_ms: milliseconds(ctx.clock.now().since(ctx.started)),
        process: ProcessStats {
            resident: process.resident,
            peak: process.peak,
            cpu_ms: milliseconds(process.cpu),
            threads: process.threads,
            files: process.files,
            most_files: process.most_files,
        },
        memory: MemoryStats {
            total: ctx.budget.total() as u64,
            in_use: ctx.budget.in_use() as u64,
            waiting: ctx.budget.waiting() as u64,
        },
        protocols: Protocol::ALL.map(|protocol| of_protocol(ctx, protocol)).into(),
        logins: LoginStats {
            succeeded: logins.successes(),
            failed: logins.failures(),
            waiting: ctx.auth.checks_waiting() as u64,
            throttled: ctx.auth.held_back() as u64,
        },
        accounts: accounts(ctx, request.accounts.min(ADMIN_ROWS)),
        store: StoreStats {
            reads: store_metrics.reads.read().count(),
            commits: store.commits,
            fsyncs: store.fsyncs,
            bytes: store.bytes,
            failures: store_metrics.failures.read(),
        },
        queue: sending.map(queue),
        sessions: sessions.into_iter().map(|seen| session(seen, now)).collect(),
    }
}

fn queue(sending: &Sending) -> QueueStats {
    let (activity, metrics) = (sending.activity(), sending.runner_metrics());
    let mails = sending.depth().mails as u64;
    let held = sending.queue().state().all_held().map(|why| format!("on hold: {why}"));
    QueueStats {
        mails,
        oldest_ms: milliseconds(sending.oldest()),
        active: activity.active as u64,
        connections: activity.connections as u64,
        delivered: metrics.delivered.read() + metrics.relayed.read(),
        deferred: metrics.deferred.read(),
        failed: metrics.failed.read(),
        problem: sending.problem().or(held),
    }
}

fn of_protocol(ctx: &Context, protocol: Protocol) -> ProtocolStats {
    let (count, metrics) = (ctx.sessions.count(protocol), ctx.metrics.of(protocol));
    ProtocolStats {
        protocol: protocol.name().to_owned(),
        sessions: count.all,
        idle: count.states[3],
        accepted: metrics.accepted.read(),
        refused: metrics.refused.read(),
        commands: metrics.commands(),
        bytes_in: metrics.bytes_in.read(),
        bytes_out: metrics.bytes_out.read(),
        messages: metrics.messages.read(),
        deliveries: metrics.deliveries.read(),
    }
}

fn accounts(ctx: &Context, most: usize) -> AccountStats {
    let loaded = ctx.accounts.all_loaded();
    let mut sized: Vec<_> = loaded.iter().map(|account| (account.state().memory(), account)).collect();
    sized.sort_by_key(|(bytes, account)| (std::cmp::Reverse(*bytes), account.id()));
    let row = |(bytes, account): &(usize, &Arc<sealpost_account::Account>)| LoadedStats {
        id: account.id().to_string(),
        name: ctx.sessions.user_of(account.id()),
        bytes: *bytes as u64,
        messages: account.state().message_count() as u64,
    };
    let metrics = ctx.accounts.metrics();
    AccountStats {
        loaded: loaded.len() as u64,
        bytes: sized.iter().map(|(bytes, _)| *bytes as u64).sum(),
        loads: metrics.loads.read().count(),
        evictions: metrics.evictions.read(),
        largest: sized.iter().take(most).map(row).collect(),
    }
}

fn session(seen: SessionInfo, now: Duration) -> SessionStats {
    let state = match (seen.protocol, seen.state) {
        (Protocol::Imap | Protocol::Submission, SessionState::Anonymous) => "anonymous",
        (Protocol::Imap | Protocol::Submission, SessionState::Authenticated) => "authenticated",
        (Protocol::Imap | Protocol::Submission, SessionState::Selected) => "selected",
        (Protocol::Smtp | Protocol::Lmtp | Protocol::Http | Protocol::Jmap, _) => "open",
    };
    SessionStats {
        protocol: seen.protocol.name().to_owned(),
        user: seen.user,
        peer: seen.peer.map(|peer| peer.to_string()),
        tls: seen.tls,
        state: state.to_owned(),
        command: seen.command.map(str::to_owned),
        age_ms: milliseconds(now.saturating_sub(seen.since)),
        commands: seen.commands,
        bytes_in: seen.bytes_in,
        bytes_out: seen.bytes_out,
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
