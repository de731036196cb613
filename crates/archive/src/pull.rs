//! Bringing a backup up to date with its server, and nothing the other way.
//!
//! One LIST with STATUS says which folders changed ([`plan`]). A few connections share these
//! folders; each brings what is known in step ([`sync`]) and then fetches what is missing in a
//! pipeline that never runs dry ([`fetch`]), several connections together where a folder is huge. A
//! thread for each folder writes ([`writer`]): it commits every few thousand messages, so that many
//! share a sync, and a crash loses only what came since.
//!
//! An error of one message affects that message alone, an error of one folder that folder alone; a
//! lost connection is made again and work continues where it was ([`worker`]).

mod batches;
mod env;
mod fetch;
mod folder_task;
pub(crate) mod gmail;
mod ids;
mod incoming;
mod plan;
mod report;
mod returning;
mod reunite;
mod shared;
mod sync;
mod work;
mod worker;
mod worker_scaling;
mod writer;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use sealpost_base::Result;

use crate::backup::{Backup, BodyCounts, EvictBodies, FolderName, ownership};
use crate::blocking::blocking;
use crate::client::{ListedMailbox, Server};
use ids::Ids;
use shared::Shared;

pub use env::{Options, Tools};
pub use gmail::once as folders;
pub use plan::{Plan, PlanOptions, Reason, plan};
pub use report::{Failure, FolderReport, Observer, Report, Silent};

/// Brings `backup` up to date with `server`.
///
/// # Errors
/// Errors that prevent a start: the login, the list of folders; `Conflict` if the backup is of
/// another account's mail. Later errors are in the report, also the backup's if it cannot be
/// written.
pub async fn pull(
    server: &Server,
    backup: Arc<dyn Backup>,
    options: &Options,
    tools: &Tools,
) -> Result<Report> {
    let began = tools.clock.monotonic();
    let (connection, listing) = worker::begin(server, tools).await?;
    let kept = {
        let (backup, source) = (backup.clone(), server.source());
        let (renamed, look) = (options.source_renamed, options.dry_run);
        blocking(move || {
            ownership::claim(&*backup, &source, renamed, look)?;
            backup.folders()
        })
        .await?
    };
    let ids = Ids::of(&listing.folders, &kept);
    let listed = listing.folders.iter().filter(|found| found.selectable);
    let listed: HashSet<String> = listed.map(|found| found.name.as_str().to_owned()).collect();
    let left_out: Vec<FolderReport> = listing.left_out.into_iter().map(FolderReport::left_out).collect();
    let mut found = gmail::once(connection.capabilities(), listing.folders, &*options.wanted);
    ids.strip(&mut found);
    let plan_options = PlanOptions {
        condstore: connection.capabilities().condstore(),
        delete: options.delete,
        restored: &options.restored,
        again: &options.again,
    };
    let plans = plan(&found, &kept, &plan_options);
    let selectable = found.iter().filter(|found| found.selectable).count();
    let mut report = Report { folders: selectable as u64, ..Report::default() };
    let planned = |found: &ListedMailbox| plans.iter().any(|plan| plan.found.name == found.name);
    let unchanged: Vec<FolderName> = found
        .iter()
        .filter(|found| found.selectable && !planned(found))
        .map(|found| found.name.clone())
        .collect();
    if options.dry_run {
        report.bodies = evict_bodies(&backup, unchanged, options, tools).await?;
        report.of = plans.iter().map(FolderReport::planned).chain(left_out).collect();
        connection.logout().await;
        return Ok(report);
    }
    let what = (plans, ids, listed);
    let shared = Arc::new(Shared::new(server.clone(), backup.clone(), options.clone(), tools.clone(), what));
    worker::run(&shared, connection).await;
    report.interrupted = *tools.stop.borrow();
    shared.complete(&mut report);
    report.of.extend(left_out);
    if report.broken.is_none() && !report.interrupted {
        shared.restored_is_read(&report).await;
        match evict_bodies(&backup, unchanged, options, tools).await {
            Ok(bodies) => report.bodies = bodies,
            Err(e) => report.broken = Some(e),
        }
        report.interrupted = *tools.stop.borrow();
    }
    report.elapsed = tools.clock.monotonic().saturating_sub(began);
    Ok(report)
}

/// Has the backup evict bodies, if it is above its limit: of folders that were looked at now, or
/// did not change.
async fn evict_bodies(
    backup: &Arc<dyn Backup>,
    in_step: Vec<FolderName>,
    options: &Options,
    tools: &Tools,
) -> Result<Option<BodyCounts>> {
    let (backup, tools, dry_run) = (backup.clone(), tools.clone(), options.dry_run);
    blocking(move || {
        backup.evict_bodies(&EvictBodies {
            in_step: &in_step,
            dry_run,
            stop: &|| *tools.stop.borrow(),
            progress: &|messages, bytes| tools.observer.evicted(messages, bytes),
        })
    })
    .await
}
