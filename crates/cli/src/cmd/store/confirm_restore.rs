//! `sealpost store confirm-restore`: what this node has seen of the store does not count any more.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use sealpost_directory::{Watermarks, watermarks};
use serde::Serialize;

use crate::data_dir::DataDir;
use crate::global::Global;
use crate::output::counted;

/// Arguments of `sealpost store confirm-restore`.
#[derive(clap::Args)]
#[command(
    after_help = "Each node records the ends of logs and the versions of records in the file watermarks of its \
                        data directory. If the store has less than that, the node refuses to write. After \
                        you restore a backup, run this command on each node; a running server notices within \
                        a minute.\n
Example:
  sealpost store confirm-restore --config /etc/sealpost.toml"
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
    let data_dir = DataDir::open(global).await?;
    let (logs, records) = (data_dir.watermarks.logs().len(), data_dir.watermarks.records().len());
    let (file, key) = (data_dir.dir.join(watermarks::FILE), data_dir.key.clone());
    let path = file.clone();
    tokio::task::spawn_blocking(move || Watermarks::confirm(&path, &key)).await??;
    global.output().done(&Confirmed { file, logs, records }, |done| {
        format!(
            "{}: what this node had seen is forgotten: the ends of {} and the versions of {}",
            done.file.display(),
            counted(done.logs, "log", "logs"),
            counted(done.records, "record", "records")
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
