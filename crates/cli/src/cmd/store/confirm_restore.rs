//! `sealpost store confirm-restore`: what this node has seen of the store does not count any more.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use sealpost_account::{Watermarks, watermarks};
use serde::Serialize;

use crate::global::Global;
use crate::place::Place;

/// Arguments of `sealpost store confirm-restore`.
#[derive(clap::Args)]
#[command(
    after_help = "Each node remembers, in the file `watermarks` of its data directory, how far logs and records had come. If the store has \
                  less, objects were removed, and the node refuses to continue from there. After a backup was restored this is as it should be: \
                  run this on each node. A server that runs notices within a minute."
)]
pub struct Args {}

#[derive(Serialize)]
struct Confirmed {
    file: PathBuf,
    /// Logs and records that it says something of.
    logs: usize,
    records: usize,
}

/// Does it.
pub async fn run(_: Args, global: &Global) -> Result<ExitCode> {
    let place = Place::open(global).await?;
    let (logs, records) = (place.watermarks.logs().len(), place.watermarks.records().len());
    let (file, key) = (place.dir.join(watermarks::FILE), place.key.clone());
    let path = file.clone();
    tokio::task::spawn_blocking(move || Watermarks::confirm(&path, &key)).await??;
    global.output().done(&Confirmed { file, logs, records }, |done| {
        format!(
            "{}: what this node had seen is forgotten: the ends of {} logs and the versions of {} records",
            done.file.display(),
            done.logs,
            done.records
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
