//! `sealpost archive restore`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use sealpost_archive::backup::Backup;
use sealpost_archive::push::{MapFile, restore};
use sealpost_archive::restored::RECORD_FILE;
use sealpost_files::owner;

use super::put::PutArgs;
use super::putting::{self, Putting};
use super::record;
use super::remembered::Accounts;
use super::server::ServerArgs;
use super::stop;
use super::target::{Format, SealedArgs, Target, end, format_of};
use crate::exit::Usage;
use crate::global::Global;

/// Arguments of `sealpost archive restore`.
#[derive(clap::Args)]
#[command(
    after_help = "Copies to the server the messages of the backup that it does not have, also those deleted \
                        there since, with dates and flags. It skips messages that the folder has already, \
                        by Message-ID, or else by date, sender and subject; run it again to continue \
                        after an interruption.\n
Examples:
  sealpost archive restore work                             to the server it came from
  sealpost archive restore work --prefix Old --to new-account
  sealpost archive restore --from copy --host imap.example.org --user jane --password-file secret"
)]
pub struct Args {
    /// The remembered account whose copy is restored
    #[arg(value_name = "ACCOUNT", conflicts_with = "from", required_unless_present = "from")]
    account: Option<String>,
    /// The remembered account to restore to [default: the same]
    #[arg(long, value_name = "ACCOUNT", conflicts_with = "host")]
    to: Option<String>,
    /// The directory of the backup
    #[arg(long, value_name = "DIR", help_heading = "Backup")]
    from: Option<PathBuf>,
    /// The format of the backup [default: detected]
    #[arg(long, value_enum, requires = "from", help_heading = "Backup")]
    format: Option<Format>,
    #[command(flatten)]
    sealed: SealedArgs,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    put: PutArgs,
    /// Also restore superseded folders, those whose UIDVALIDITY changed, into their original
    /// folder. `--folder` may name either
    #[arg(long)]
    include_superseded: bool,
    /// Append the new UID of each message to FILE, one line of JSON each, in addition to
    /// sealpost.restored in the backup, which pulls read
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let stop = stop::on_signals()?;
    let accounts = Accounts::of(global)?;
    let (copy, directory) = match (&args.account, &args.from) {
        (_, Some(from)) => {
            let format = format_of(args.format, from)?;
            let target = Target { format, directory: from, sealed: &args.sealed, make: None };
            (target.open(global).await?, from.clone())
        }
        (Some(name), None) => {
            let account = accounts.get(name)?;
            let sealed = account.sealed(&args.sealed);
            let target = account.target(&sealed, false);
            (target.open(global).await?, target.directory.to_owned())
        }
        _ => return Err(Usage("give an account, or a backup with --from".into()).into()),
    };
    let place = match (args.server.place()?, args.to.as_ref().or(args.account.as_ref())) {
        (Some(place), _) => place,
        (None, Some(name)) => accounts.get(name)?.server,
        (None, None) => return Err(Usage("give the destination with --to or --host".into()).into()),
    };
    let server = place.server().await?;
    let named = args.account.as_ref().map(|name| (&accounts, &**name));
    let restored = record::of_copy(&copy, &directory, named).await?;
    let dry_run = args.put.dry_run;
    let maps = Maps::of(&copy, &directory, &args, &accounts).await?;
    let (mut options, chosen) = args.put.options(&maps.files(), &server.to_string(), stop)?;
    options.include_superseded = args.include_superseded;
    options.restored = restored;
    let restored = restore(copy.clone(), &server, &options, Arc::new(Putting::new(global.output()))).await;
    end(copy).await;
    putting::show(global, &restored?, dry_run, &chosen)
}

/// Where it is kept which message got which UID, and whether the last run into an account came to its end.
struct Maps {
    /// Paths, what the backup is called there, and whether to add to it.
    files: Vec<(PathBuf, String, bool)>,
}

impl Maps {
    /// In the backup, in what `--map` names, and, of earlier versions, beside what is remembered of accounts.
    async fn of(copy: &Arc<dyn Backup>, directory: &Path, args: &Args, accounts: &Accounts) -> Result<Self> {
        let owner = copy.clone();
        let owner = tokio::task::spawn_blocking(move || owner.source()).await??;
        let mut files = Vec::new();
        let named = match (&args.account, &args.from) {
            (Some(name), _) => name.clone(),
            (None, from) => from.as_ref().map_or_else(String::new, |from| from.display().to_string()),
        };
        for file in args.account.iter().flat_map(|name| record::earlier(accounts, name, owner.as_ref())) {
            files.push((file.path, file.from.unwrap_or_default(), false));
        }
        if let Some(map) = &args.map {
            // Another account may have been given the name since.
            let called = owner.as_ref().map_or(named.clone(), |owner| record::called(&named, owner));
            files.push((map.clone(), called, !args.put.dry_run));
        }
        let record = directory.join(RECORD_FILE);
        // A backup that cannot be written has none; then it is waited for what an interrupted run
        // may have sent.
        let usable = || owner::append_or_create(&record).is_ok();
        if args.put.dry_run || usable() {
            files.push((record, "this copy".to_owned(), !args.put.dry_run));
        }
        Ok(Maps { files })
    }

    fn files(&self) -> Vec<MapFile<'_>> {
        self.files.iter().map(|(path, from, write)| MapFile { path, from, write: *write }).collect()
    }
}
