//! Periodic work of a server: certificates, removed accounts, the spool, idle accounts, watermarks.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::Timestamp;
use sealpost_directory::RecordsMaintained;
use sealpost_session::Context;

use crate::blocking::blocking;
use crate::tls::Tls;

/// How often the server checks its certificate and removes expired logins.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_secs(60);

/// How often the server unloads idle accounts.
const UNLOAD_PERIOD: Duration = Duration::from_secs(5);

/// How often the server saves the watermarks of this node.
const WATERMARKS_PERIOD: Duration = Duration::from_secs(15);

/// Age beyond which a spooled message belongs to no running delivery.
const SPOOL_AGE: Duration = Duration::from_secs(24 * 3600);

/// Periods of housekeeping between two warnings of an expired certificate.
const DAY_PERIODS: u64 = 24 * 60;

/// Periods of housekeeping between two deletions of accounts whose retention period is over.
const RETIREMENT_PERIODS: u64 = 60;

/// Runs the work of every [`HOUSEKEEPING_PERIOD`], until the server stops.
pub(crate) async fn keep_house(ctx: Arc<Context>, tls: Option<Arc<Tls>>) {
    if !ctx.clock_watch.is_doubted() {
        sweep_spool(&ctx).await;
    }
    for minute in 0u64.. {
        if minute.is_multiple_of(RETIREMENT_PERIODS) {
            maintain_records(&ctx).await;
        }
        tokio::select! {
            () = ctx.shutdown.wait() => return,
            () = tokio::time::sleep(HOUSEKEEPING_PERIOD) => {}
        }
        watch_clock(&ctx, None).await;
        ctx.failed_logins.sweep();
        let Some(tls) = tls.clone() else { continue };
        if minute % DAY_PERIODS == DAY_PERIODS - 1
            && let Some(wrong) = tls.out_of_date(ctx.clock.now())
        {
            tracing::warn!("{wrong}");
        }
        match blocking(move || tls.reload_if_changed()).await {
            Ok(true) => tracing::info!("the certificate was replaced"),
            Ok(false) => {}
            Err(e) => {
                tracing::warn!(error = %e, "the certificate changed but cannot be used; the old one stays")
            }
        }
    }
}

/// Unloads idle accounts, until the server stops.
pub(crate) async fn evict_idle(ctx: Arc<Context>) {
    loop {
        tokio::select! {
            () = ctx.shutdown.wait() => return,
            () = tokio::time::sleep(UNLOAD_PERIOD) => {}
        }
        ctx.auth.sweep();
        ctx.accounts.evict_idle();
        sealpost_vault::wipe_scratch();
    }
}

/// Saves the watermarks every [`WATERMARKS_PERIOD`], until the server stops. A node that is killed
/// forgets no more than that.
pub(crate) async fn save_watermarks(ctx: Arc<Context>) {
    loop {
        tokio::select! {
            () = ctx.shutdown.wait() => return,
            () = tokio::time::sleep(WATERMARKS_PERIOD) => save(&ctx).await,
        }
    }
}

/// Saves the watermarks of this node.
pub(crate) async fn save(ctx: &Context) {
    let watermarks = ctx.watermarks.clone();
    if let Err(e) = blocking(move || watermarks.save()).await {
        tracing::warn!(error = %e, "cannot write the watermarks of this node");
    }
}

/// Checks the clock against the last time that the server ran; `begins` is the time of the last write
/// to the store, at the start of the server. Nothing is deleted permanently while the clock is
/// doubted.
pub(crate) async fn watch_clock(ctx: &Context, begins: Option<Option<Timestamp>>) {
    let (watch, now) = (ctx.clock_watch.clone(), ctx.clock.now());
    let look = move || match begins {
        Some(written) => watch.begin(now, written),
        None => watch.look(now),
    };
    let is_believed = tokio::task::spawn_blocking(look).await.unwrap_or(false);
    ctx.accounts.remove_for_good(is_believed);
}

/// Deletes removed accounts whose retention period is over, unless the clock is doubted, and copies
/// of withdrawn passwords and app passwords that killed processes left.
pub(crate) async fn maintain_records(ctx: &Context) {
    let is_believed = !ctx.clock_watch.is_doubted();
    let removed_before = is_believed.then(|| before(ctx.clock.now(), ctx.settings.retention));
    match ctx.directory.maintain_records(removed_before).await {
        Ok(RecordsMaintained { deleted, finished, expired }) => {
            if expired > 0 {
                tracing::info!(expired, "removed OAuth grants and web logins that were unused for too long");
            }
            if deleted > 0 {
                tracing::info!(accounts = deleted, "removed accounts were deleted permanently");
            }
            if finished > 0 {
                let accounts = finished;
                tracing::info!(
                    accounts,
                    "copies of withdrawn secrets were removed: a change was interrupted"
                );
            }
        }
        Err(e) => tracing::warn!(error = %e, "cannot look for removed accounts and withdrawn secrets"),
    }
    match ctx.store.erase_left_slots().await {
        Ok(0) => {}
        Ok(files) => {
            tracing::info!(files, "files of removed account records were erased: a process was killed")
        }
        Err(e) => tracing::warn!(error = %e, "cannot look for files of removed account records"),
    }
}

async fn sweep_spool(ctx: &Context) {
    // The key of a spooled message dies with its server; another running server has none that old.
    match sealpost_vault::spool::sweep(&ctx.store, before(ctx.clock.now(), SPOOL_AGE)).await {
        Ok(0) => {}
        Ok(objects) => tracing::info!(objects, "spooled messages of an earlier run were removed"),
        Err(e) => tracing::warn!(error = %e, "cannot look for spooled messages of an earlier run"),
    }
}

fn before(now: Timestamp, by: Duration) -> Timestamp {
    Timestamp(now.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
