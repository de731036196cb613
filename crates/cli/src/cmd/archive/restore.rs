//! `sealpost archive restore`.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use sealpost_archive::push::restore;

use super::put::PutArgs;
use super::putting::{self, Putting};
use super::remembered::Accounts;
use super::server::ServerArgs;
use super::stop;
use super::target::{Format, SealedArgs, Target, end};
use crate::exit::Usage;
use crate::global::Global;

/// Arguments of `sealpost archive restore`.
#[derive(clap::Args)]
#[command(
    after_help = "What is in the copy and not on the server is put there, also what was deleted there since. Dates and flags are kept. A message that the folder has already, by its Message-ID or else by date, \
                  sender and subject, is not put there again, so a restore that was interrupted is simply run again.\n
Examples:
  sealpost archive restore work                             back to where it came from
  sealpost archive restore work --below Old --to new-account
  sealpost archive restore --from copy --format mbox --host imap.example.org --user jane --password-file secret"
)]
pub struct Args {
    /// The account whose copy it is
    #[arg(value_name = "ACCOUNT", conflicts_with = "from", required_unless_present = "from")]
    account: Option<String>,
    /// The account to put it into [default: the same]
    #[arg(long, value_name = "ACCOUNT", conflicts_with = "host")]
    to: Option<String>,
    /// Where the copy is
    #[arg(long, value_name = "DIR", requires = "format", help_heading = "Copy")]
    from: Option<PathBuf>,
    /// How the copy is kept
    #[arg(long, value_enum, requires = "from", help_heading = "Copy")]
    format: Option<Format>,
    #[command(flatten)]
    sealed: SealedArgs,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    put: PutArgs,
    /// Also what was put aside when the server gave its folder another UIDVALIDITY, into the folder that it was. `--folder` may
    /// name either
    #[arg(long)]
    put_aside: bool,
    /// Add to FILE which message got which UID, a line of JSON each
    /// [default: sealpost.restored in the copy; between accounts that are remembered, ACCOUNT.copy-TO.uids beside what is
    /// remembered of them]
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let stop = stop::on_signals()?;
    let accounts = Accounts::of(global)?;
    let (copy, directory) = match (&args.account, &args.from, args.format) {
        (_, Some(from), Some(format)) => {
            let target = Target { format, directory: from, sealed: &args.sealed, make: None };
            (target.open(global).await?, from.clone())
        }
        (Some(name), ..) => {
            let account = accounts.get(name)?;
            let sealed = account.sealed(&args.sealed);
            let target = account.target(&sealed, false);
            (target.open(global).await?, target.directory.to_owned())
        }
        _ => return Err(Usage("name an account, or a copy with --from and --format".into()).into()),
    };
    let place = match (args.server.place()?, args.to.as_ref().or(args.account.as_ref())) {
        (Some(place), _) => place,
        (None, Some(name)) => accounts.get(name)?.server,
        (None, None) => return Err(Usage("name where to, with --to or --host".into()).into()),
    };
    let server = place.server().await?;
    let between = args.account.as_ref().and_then(|name| {
        // Where another server is named, it is not said which account it would be of.
        let to = args.to.as_ref().or(Some(name)).filter(|_| args.server.host.is_none())?;
        Some(accounts.map(&format!("{name}.copy"), to))
    });
    let dry_run = args.put.dry_run;
    let (map, from) = match args.map.or(between) {
        Some(map) => {
            let from = args.from.as_ref().map(|from| from.display().to_string()).or(args.account);
            let from = from.unwrap_or_default();
            // Another account may have been given the name since.
            let owner = copy.clone();
            let owner = tokio::task::spawn_blocking(move || owner.source()).await??;
            (Some(map), owner.map_or(from.clone(), |owner| format!("{from}, the copy of {owner}")))
        }
        None => {
            let map = directory.join(MAP_FILE);
            // A copy that cannot be written has none; then it is waited for what an interrupted run may have sent.
            let usable = dry_run || File::options().append(true).create(true).open(&map).is_ok();
            (usable.then_some(map), "this copy".to_owned())
        }
    };
    let (mut options, chosen) = args.put.options(map.as_deref(), &from, &server.to_string(), stop)?;
    options.put_aside = args.put_aside;
    let restored = restore(copy.clone(), &server, &options, Arc::new(Putting::new(global.output()))).await;
    end(copy).await;
    putting::show(global, &restored?, dry_run, &chosen)
}

/// Where it is kept, in a copy, which message got which UID, and whether the last run into an account came to its end.
const MAP_FILE: &str = "sealpost.restored";
