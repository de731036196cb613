//! `sealpost store confirm-clock`: the operator says that the clock is right.

use std::process::ExitCode;

use anyhow::{Context, Result};
use sealpost_mailformat::date::rfc3339;
use sealpost_server::clock_watch;
use serde::Serialize;

use crate::data_dir::DataDir;
use crate::global::Global;

/// Arguments of `sealpost store confirm-clock`.
#[derive(clap::Args)]
#[command(after_help = "If the clock is more than 30 days past the newest time that the server knows, the \
                        server deletes nothing permanently, because a wrong clock would end every grace \
                        period. If the clock is wrong, set it. If it is right, and the server was off for \
                        so long, run this command; a running server notices within a minute. On several \
                        nodes, run it on each.\n
Examples:
  sealpost store confirm-clock --config /etc/sealpost.toml")]
pub struct Args {}

#[derive(Serialize)]
struct Confirmed {
    now: String,
    noted: Option<String>,
}

/// Runs it.
pub async fn run(_: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open_to_read(global).await?;
    let (dir, now) = (data_dir.dir.clone(), data_dir.clock.now());
    let noted = clock_watch::noted_in(&dir).map(rfc3339);
    clock_watch::confirm(&dir, now).with_context(|| format!("the data directory {}", dir.display()))?;
    let confirmed = Confirmed { now: rfc3339(now), noted };
    global.output().done(&confirmed, |Confirmed { now, noted }| match noted {
        Some(noted) => format!("it is {now}; the time was noted last at {noted}"),
        None => format!("it is {now}; the time was never noted before"),
    })?;
    Ok(ExitCode::SUCCESS)
}
