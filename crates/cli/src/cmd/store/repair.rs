//! `sealpost store repair`: makes the database of a local store sound again.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use sealpost_vault::Store;
use sealpost_vault::store::{Remedy, Repaired};
use serde::Serialize;

use crate::config::Config;
use crate::exit::{FAILED, Usage};
use crate::global::Global;
use crate::output::counted;

/// Objects that the text names.
const SHOWN: usize = 20;

/// Arguments of `sealpost store repair`.
#[derive(clap::Args)]
#[command(after_help = "Repairs the database of a local store (objects.sqlite) after `sealpost check` has \
                        reported damage. Stop the server and all other commands first. The command \
                        rebuilds damaged indexes. If that is not enough, it copies all readable rows into \
                        a new database, checks it, and exchanges the two; the old one is kept beside it \
                        and needs as much disk space again. Exit status 0 if nothing is lost, 1 if \
                        objects are lost or could not be repaired, 3 if there is no store, 75 if another \
                        process has it open.\n
Examples:
  sealpost store repair
  sealpost store repair --config /etc/sealpost.toml --json")]
pub struct Args {
    /// The directory of the store [default: that of the configuration]
    #[arg(value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

#[derive(Serialize)]
struct Done {
    store: String,
    /// `none`, `reindexed` or `salvaged`.
    remedy: &'static str,
    damage: Vec<String>,
    objects: u64,
    lost_count: u64,
    lost: Vec<String>,
    moved: Vec<Moved>,
    kept: Option<PathBuf>,
}

/// An object whose path another one had already.
#[derive(Serialize)]
struct Moved {
    path: String,
    to: String,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let config = Config::load(global)?;
    let directory = match &args.directory {
        Some(directory) => Some(directory.clone()),
        None => config.store.directory(&config.directory),
    };
    let Some(directory) = directory else {
        let why =
            "the store is a bucket: it has no database to repair (sealpost check names damaged objects)";
        return Err(Usage(why.into()).into());
    };
    let shown = directory.display().to_string();
    let repaired = Store::repair(&directory).await.map_err(crate::exit::in_use);
    let done = Done::new(shown.clone(), repaired.with_context(|| format!("the store {shown}"))?);
    let sound = done.lost_count == 0;
    global.output().outcome(sound, &done, Done::to_text)?;
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

impl Done {
    fn new(store: String, repaired: Repaired) -> Self {
        let Repaired { damage, remedy, objects, lost, lost_count, moved, kept } = repaired;
        Done {
            store,
            remedy: match remedy {
                Remedy::None => "none",
                Remedy::Reindexed => "reindexed",
                Remedy::Salvaged => "salvaged",
            },
            damage,
            objects,
            lost_count,
            lost,
            moved: moved.into_iter().map(|(path, to)| Moved { path, to }).collect(),
            kept,
        }
    }

    fn to_text(&self) -> String {
        let Done { store, .. } = self;
        let objects = counted(self.objects, "object", "objects");
        let mut text = String::new();
        for line in &self.damage {
            text.push_str(&format!("found: {line}\n"));
        }
        text.push_str(&match self.remedy {
            "none" => format!("{store}: the database is sound ({objects}); nothing was changed"),
            "reindexed" => format!("{store}: rebuilt the indexes; nothing is missing of {objects}"),
            _ => format!("{store}: copied {objects} into a new database"),
        });
        if let Some(kept) = &self.kept {
            text.push_str(&format!(
                "\nthe old one is {}; remove it when sealpost check is content and a backup was made",
                kept.display()
            ));
        }
        for Moved { path, to } in self.moved.iter().take(SHOWN) {
            text.push_str(&format!("\nthere were two objects {path}: the later one is {to} now"));
        }
        for path in self.lost.iter().take(SHOWN) {
            text.push_str(&format!("\nlost: {path}"));
        }
        if self.lost_count > 0 {
            let more = self.lost_count.saturating_sub(SHOWN.min(self.lost.len()) as u64);
            let more = if more > 0 { format!("\n… and {more} more") } else { String::new() };
            text.push_str(&format!(
                "{more}\n{} lost: restore from a backup with sealpost backup BACKUP STORE",
                counted(self.lost_count, "object is", "objects are")
            ));
        }
        if self.remedy != "none" {
            text.push_str("\nnext: sealpost check, with the passwords that you have");
        }
        text
    }
}
