//! `sealpost archive stats`: from the backup itself, without a connection to the server.

use std::process::ExitCode;

use anyhow::Result;
use indicatif::HumanCount;
use sealpost_archive::backup::BackupFolder;
use serde::Serialize;

use super::found;
use super::pull::BodyReport;
use super::remembered::{Accounts, status_of};
use super::target::{Format, SealedArgs, Target, format_of, print_notices};
use crate::exit::Usage;
use crate::global::Global;
use crate::output::counted;

/// Arguments of `sealpost archive stats`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sealpost archive stats work
  sealpost archive stats --from ~/mail/work --json")]
pub struct Args {
    /// Remembered accounts [default: all]
    #[arg(value_name = "ACCOUNT", conflicts_with = "from")]
    accounts: Vec<String>,
    /// The directory of a backup
    #[arg(long, value_name = "DIR")]
    from: Option<std::path::PathBuf>,
    /// The format of the backup [default: detected]
    #[arg(long, value_enum, requires = "from")]
    format: Option<Format>,
    #[command(flatten)]
    sealed: SealedArgs,
}

#[derive(Serialize, Default)]
struct Stats {
    account: String,
    /// Whether there is a backup. Another program's files are none before the first pull.
    pulled: bool,
    messages: u64,
    /// Messages that the server no longer has.
    gone: u64,
    /// How many bodies there are, in a sealed backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    bodies: Option<BodyReport>,
    folders: Vec<Folder>,
    /// Of folders that the server has given another UIDVALIDITY: not counted in `messages`.
    superseded: Vec<Folder>,
}

#[derive(Serialize)]
struct Folder {
    name: String,
    uidvalidity: u32,
    messages: u64,
    gone: u64,
    complete: bool,
    /// Whether a pull has been there; otherwise another program says how many messages there are.
    pulled: bool,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    if let Some(from) = &args.from {
        let format = format_of(args.format, from)?;
        let target = Target { format, directory: from, sealed: &args.sealed, make: None };
        let stats = read_stats(from.display().to_string(), &target, global).await?;
        global.output().show(&stats, Stats::text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let accounts = Accounts::of(global)?;
    let names = if args.accounts.is_empty() { accounts.names()? } else { args.accounts };
    if names.is_empty() {
        return Err(Usage("no account is remembered; name a backup with --from".into()).into());
    }
    let mut worst = 0;
    for name in &names {
        let found = remembered(name, &accounts, &args.sealed, global).await;
        let shown = found.and_then(|stats| Ok(global.output().show(&stats, Stats::text).map(|()| 0)?));
        worst = worst.max(status_of(name, names.len(), shown)?);
    }
    Ok(ExitCode::from(worst))
}

async fn remembered(name: &str, accounts: &Accounts, said: &SealedArgs, global: &Global) -> Result<Stats> {
    let account = accounts.get(name)?;
    if found::format(&account.into)?.is_none() {
        return Ok(Stats { account: name.to_owned(), ..Stats::default() });
    }
    let sealed = account.sealed(said);
    read_stats(name.to_owned(), &account.target(&sealed, false), global).await
}

/// What the backup says.
async fn read_stats(account: String, target: &Target<'_>, global: &Global) -> Result<Stats> {
    let copy = target.open(global).await?;
    print_notices(&*copy);
    let read = move || {
        let folder = |kept: BackupFolder| {
            let foreign_size = copy.foreign_size(&kept.name)?;
            Ok::<_, sealpost_base::Error>(Folder {
                name: kept.name.to_string(),
                uidvalidity: kept.identity.uidvalidity,
                messages: foreign_size.map_or(kept.messages, |(messages, _)| messages),
                gone: kept.gone,
                complete: kept.resume.whole,
                pulled: foreign_size.is_none(),
            })
        };
        let folders: Vec<_> = copy.folders()?.into_iter().map(folder).collect::<Result<_, _>>()?;
        let superseded: Vec<_> = copy.superseded()?.into_iter().map(folder).collect::<Result<_, _>>()?;
        Ok::<_, sealpost_base::Error>((folders, superseded, copy.bodies()?))
    };
    let (mut folders, superseded, bodies) = tokio::task::spawn_blocking(read).await??;
    folders.sort_by(|a, b| a.name.cmp(&b.name));
    let sum = |of: fn(&Folder) -> u64| folders.iter().map(of).sum();
    Ok(Stats {
        account,
        pulled: folders.is_empty() || folders.iter().any(|folder| folder.pulled),
        messages: sum(|f| f.messages),
        gone: sum(|f| f.gone),
        bodies: bodies.as_ref().map(BodyReport::of),
        folders,
        superseded,
    })
}

impl Stats {
    fn text(&self) -> String {
        let messages = counted(self.messages, "message", "messages");
        let mut text = match (self.pulled, self.folders.is_empty()) {
            (true, _) => format!("{}: {messages}", self.account),
            (false, true) => format!("{}: not pulled yet", self.account),
            (false, false) => format!(
                "{}: not pulled yet; the files of another program have {messages}, which the first pull takes over",
                self.account
            ),
        };
        if self.gone > 0 {
            text.push_str(&format!(", and {} that the server no longer has", HumanCount(self.gone)));
        }
        if let Some(bodies) = &self.bodies {
            text.push_str(&bodies.text());
        }
        for folder in &self.folders {
            let mark = match (folder.pulled, folder.complete) {
                (true, true) => "",
                (true, false) => "  (incomplete: pull again)",
                (false, _) => "  (not pulled yet)",
            };
            let messages = HumanCount(folder.messages + folder.gone).to_string();
            text.push_str(&format!("\n{messages:>10}  {}{mark}", folder.name));
        }
        for folder in &self.superseded {
            let messages = HumanCount(folder.messages + folder.gone).to_string();
            let mark = "superseded: `restore --include-superseded` restores it";
            text.push_str(&format!("\n{messages:>10}  {}  ({mark})", folder.name));
        }
        text
    }
}
