//! What `restore` and `migrate` say, and the map of UIDs.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::{Context, Result};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use sealpost_archive::push::{FolderReport, Observer, Report};
use serde::Serialize;

use crate::exit::{FAILED, TEMPORARY};
use crate::global::Global;
use crate::output::{Output, warn};

/// Shows how it goes, and keeps the map.
pub struct Putting {
    bar: ProgressBar,
    map: Option<Mutex<BufWriter<File>>>,
}

impl Putting {
    /// A bar at a terminal. `map`: where to add which message got which UID.
    ///
    /// # Errors
    /// If the map cannot be written.
    pub fn new(output: Output, map: Option<&Path>) -> Result<Self> {
        let bar = if output.is_json() || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            ProgressBar::new(0)
        };
        let style = ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len}  {per_sec}  {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let open = |path: &Path| {
            let file = File::options().append(true).create(true).open(path);
            file.with_context(|| format!("the map {}", path.display()))
        };
        let map = map.map(open).transpose()?.map(|file| Mutex::new(BufWriter::new(file)));
        Ok(Putting { bar, map })
    }

    fn flush(&self) {
        if let Some(map) = &self.map
            && let Err(e) = map.lock().unwrap_or_else(|e| e.into_inner()).flush()
        {
            warn(format_args!("sealpost: the map of UIDs cannot be written: {e}"));
        }
    }
}

impl Observer for Putting {
    fn begins(&self, folder: &str, messages: u64) {
        self.bar.inc_length(messages);
        self.bar.set_message(folder.to_owned());
    }

    fn put(&self, folder: &str, uid: u32, there: Option<(u32, u32)>) {
        self.bar.inc(1);
        if let (Some(map), Some((uidvalidity, there))) = (&self.map, there) {
            let line = serde_json::json!({
                "folder": folder, "uid": uid, "uidvalidity": uidvalidity, "there": there
            });
            // Told at the end, when it is flushed.
            let _ = writeln!(map.lock().unwrap_or_else(|e| e.into_inner()), "{line}");
        }
    }

    fn ended(&self, folder: &FolderReport) {
        self.flush();
        self.bar.suspend(|| {
            if let Some(error) = &folder.error {
                warn(format_args!("sealpost: {}: {error}", folder.name));
            }
            for (uid, why) in &folder.failed {
                warn(format_args!("sealpost: {}, UID {uid}: {why}", folder.name));
            }
        });
    }
}

#[derive(Serialize)]
struct Summary {
    put: u64,
    there: u64,
    failed: u64,
    interrupted: bool,
    folders: Vec<Folder>,
}

#[derive(Serialize)]
struct Folder {
    name: String,
    put: u64,
    there: u64,
    failed: usize,
    error: Option<String>,
}

/// Says what was done, with the exit status.
///
/// # Errors
/// If nobody reads it.
pub fn show(global: &Global, report: &Report, dry_run: bool) -> Result<ExitCode> {
    let folders: Vec<Folder> = report
        .folders
        .iter()
        .map(|folder| Folder {
            name: folder.name.clone(),
            put: folder.put,
            there: folder.there,
            failed: folder.failed.len(),
            error: folder.error.clone(),
        })
        .collect();
    let summary = Summary {
        put: folders.iter().map(|f| f.put).sum(),
        there: folders.iter().map(|f| f.there).sum(),
        failed: folders.iter().map(|f| f.failed as u64).sum(),
        interrupted: report.interrupted,
        folders,
    };
    global.output().show(&summary, |s| {
        let verb = if dry_run { "would put" } else { "put" };
        let mut text = format!(
            "{verb} {} messages there; {} were there already; {} failed",
            HumanCount(s.put),
            HumanCount(s.there),
            HumanCount(s.failed)
        );
        for folder in s.folders.iter().filter(|folder| folder.put > 0) {
            text.push_str(&format!("\n{:>10}  {}", HumanCount(folder.put).to_string(), folder.name));
        }
        text
    })?;
    let bad = summary.failed > 0 || summary.folders.iter().any(|folder| folder.error.is_some());
    Ok(match (report.interrupted, bad) {
        (true, _) => ExitCode::from(TEMPORARY),
        (false, true) => ExitCode::from(FAILED),
        (false, false) => ExitCode::SUCCESS,
    })
}
