//! What `restore`, `migrate` and `mirror` say.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use indicatif::{HumanCount, ProgressBar};
use sealpost_archive::push::{FolderReport, Observer, Report};
use serde::Serialize;

use super::folders::Chosen;
use super::progress::style;
use crate::global::Global;
use crate::output::{Output, counted, warn};

/// Shows the progress.
pub struct Putting {
    bar: ProgressBar,
    output: Output,
}

impl Putting {
    /// A bar at a terminal.
    pub fn new(output: Output) -> Self {
        let bar = if output.shows_progress() { ProgressBar::new(0) } else { ProgressBar::hidden() };
        bar.set_style(style("{spinner} {msg:30!}  {wide_bar} {human_pos}/{human_len}  {rate}{left}"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Putting { bar, output }
    }
}

impl Observer for Putting {
    fn comparing(&self, folder: &str) {
        self.bar.set_message(format!("comparing {folder}"));
    }

    fn begins(&self, folder: &str, messages: u64) {
        self.bar.inc_length(messages);
        self.bar.set_message(folder.to_owned());
    }

    fn put(&self) {
        self.bar.inc(1);
    }

    fn waits(&self, text: &str) {
        if !self.output.is_quiet() {
            self.note(text);
        }
    }

    fn note(&self, text: &str) {
        self.bar.suspend(|| warn(format_args!("sealpost: {text}")));
    }

    fn ended(&self, folder: &FolderReport) {
        self.bar.suspend(|| {
            if folder.without_keywords > 0 {
                let name = &folder.name;
                let n = counted(folder.without_keywords, "message was", "messages were");
                warn(format_args!(
                    "sealpost: {name}: {n} copied without keywords, which \
                                   the server rejects"
                ));
            }
            if let Some(error) = &folder.error {
                warn(format_args!("sealpost: {}: {error}", folder.name));
            }
            for (uid, why) in &folder.failed {
                warn(format_args!("sealpost: {}, UID {uid}: {why}", folder.name));
            }
            let more = folder.failures - folder.failed.len() as u64;
            if more > 0 {
                warn(format_args!("sealpost: {}: and {more} more", folder.name));
            }
        });
    }
}

#[derive(Serialize)]
struct Summary {
    put: u64,
    there: u64,
    flags: u64,
    removed: u64,
    failed: u64,
    interrupted: bool,
    reconnects: u64,
    folders: Vec<Folder>,
}

#[derive(Serialize)]
struct Folder {
    name: String,
    /// Its name at the destination, if that is known.
    to: Option<String>,
    put: u64,
    there: u64,
    flags: u64,
    /// Messages that were put there without their keywords, with which they were refused.
    without_keywords: u64,
    removed: u64,
    failed: u64,
    error: Option<String>,
}

/// Says what was done, with the exit status.
///
/// # Errors
/// If standard output is closed; `NotFound` if the run succeeded and a named folder does not exist.
pub fn show(global: &Global, report: &Report, dry_run: bool, chosen: &Chosen) -> Result<ExitCode> {
    let folders: Vec<Folder> = report
        .folders
        .iter()
        .map(|folder| Folder {
            name: folder.name.clone(),
            to: folder.to.clone(),
            put: folder.put,
            there: folder.there,
            flags: folder.flags,
            without_keywords: folder.without_keywords,
            removed: folder.removed,
            failed: folder.failures,
            error: folder.error.clone(),
        })
        .collect();
    let summary = Summary {
        put: folders.iter().map(|f| f.put).sum(),
        there: folders.iter().map(|f| f.there).sum(),
        flags: folders.iter().map(|f| f.flags).sum(),
        removed: folders.iter().map(|f| f.removed).sum(),
        failed: folders.iter().map(|f| f.failed).sum(),
        interrupted: report.interrupted,
        reconnects: report.reconnects,
        folders,
    };
    let bad = summary.failed > 0 || summary.folders.iter().any(|folder| folder.error.is_some());
    let text = |s: &Summary| {
        let verb = if dry_run { "would put" } else { "put" };
        let mut text = format!(
            "{verb} {} there; {} there already; {} failed",
            counted(s.put, "message", "messages"),
            counted(s.there, "was", "were"),
            HumanCount(s.failed)
        );
        if s.flags + s.removed > 0 {
            let verbs = if dry_run { ("would change", "remove") } else { ("changed", "removed") };
            let (flags, removed) = (HumanCount(s.flags), HumanCount(s.removed));
            text.push_str(&format!("; {} the flags of {flags} there, {} {removed}", verbs.0, verbs.1));
        }
        if s.interrupted {
            text.push_str("; interrupted: run the command again to continue");
        }
        for folder in s.folders.iter().filter(|folder| folder.put > 0) {
            text.push_str(&format!("\n{:>10}  {}", HumanCount(folder.put).to_string(), folder.name));
        }
        text
    };
    global.output().outcome(!bad && !report.interrupted, &summary, text)?;
    Ok(ExitCode::from(chosen.status(report.interrupted, !bad)?))
}
