//! `sealpost alias`: addresses that lead to accounts, or to addresses of other servers.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use futures::StreamExt;
use sealpost_base::Error;
use sealpost_directory::{Address, Alias, AliasChange, AliasName, OutsideAddress, Targets};
use sealpost_mailformat::date::rfc3339;
use serde::Serialize;

use crate::data_dir::DataDir;
use crate::exit::{FAILED, named};
use crate::global::Global;
use crate::output::warn;

/// Arguments of `sealpost alias`.
#[derive(clap::Args)]
#[command(
    after_help = "An address with a tag (jane+lists@example.org) needs no alias: its mail goes to the \
                        address without the tag. Targets are accounts and aliases of this server, and \
                        addresses of other servers, which mail is forwarded to.\n
Examples:
  sealpost alias add info@example.org jane@example.org joe@example.org
  sealpost alias add info@example.org ann@example.org      adds a target
  sealpost alias set info@example.org ann@example.org      replaces all targets
  sealpost alias add @example.org jane@example.org         catch-all
  sealpost alias add info@example.org ann@example.com      forwards to another server
  sealpost alias remove info@example.org joe@example.org   removes a target
  sealpost alias remove info@example.org"
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create an alias, or add targets to an existing one
    #[command(after_help = "Example:
  sealpost alias add info@example.org jane@example.org")]
    Add(NamedTargets),
    /// Create an alias, or replace the targets of an existing one
    #[command(after_help = "Example:
  sealpost alias set info@example.org jane@example.org")]
    Set(NamedTargets),
    /// List the aliases
    #[command(after_help = "Example:
  sealpost alias list --json")]
    List,
    /// Remove an alias, or some of its targets
    #[command(after_help = "Examples:
  sealpost alias remove info@example.org joe@example.org
  sealpost alias remove info@example.org")]
    Remove {
        /// The address, or @DOMAIN
        alias: String,
        /// Remove only these targets [default: remove the alias]
        #[arg(value_name = "TARGET")]
        targets: Vec<String>,
    },
}

#[derive(clap::Args)]
struct NamedTargets {
    /// The address, or @DOMAIN for all addresses of a domain without an account or alias
    alias: String,
    /// Accounts, aliases or addresses of other servers that get its mail
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
}

#[derive(Serialize)]
struct AliasRow {
    alias: String,
    targets: Vec<String>,
    /// Those of them that are addresses of other servers.
    outside: Vec<String>,
    changed: String,
}

impl From<Alias> for AliasRow {
    fn from(alias: Alias) -> Self {
        AliasRow {
            alias: alias.name.to_string(),
            targets: texts(&alias.targets),
            outside: alias.targets.outside.iter().map(ToString::to_string).collect(),
            changed: rfc3339(alias.changed),
        }
    }
}

impl AliasRow {
    fn line(&self) -> String {
        let target = |target: &String| match self.outside.contains(target) {
            true => format!("{target} (another server)"),
            false => target.clone(),
        };
        let targets: Vec<String> = self.targets.iter().map(target).collect();
        format!("{} -> {}\n", self.alias, targets.join(", "))
    }
}

/// An alias in the list.
#[derive(Serialize)]
struct ListedAlias {
    #[serde(flatten)]
    shown: AliasRow,
    /// Whether mail for it arrives. Accounts may have been removed since it was made.
    works: bool,
}

impl ListedAlias {
    fn line(&self) -> String {
        match self.works {
            true => self.shown.line(),
            false => {
                format!("{} (leads to no account: its mail is rejected)\n", self.shown.line().trim_end())
            }
        }
    }
}

/// An alias that was changed.
#[derive(Serialize)]
struct Changed {
    #[serde(flatten)]
    shown: AliasRow,
    /// Targets that are new.
    added: Vec<String>,
    /// Targets that were there before and are no more.
    removed: Vec<String>,
}

impl From<AliasChange> for Changed {
    fn from(AliasChange { alias, added, removed }: AliasChange) -> Self {
        Changed { shown: alias.into(), added: texts(&added), removed: texts(&removed) }
    }
}

impl Changed {
    fn lines(&self) -> String {
        let mut lines = self.shown.line();
        if !self.removed.is_empty() {
            lines.push_str(&format!("no longer to {}\n", self.removed.join(", ")));
        }
        lines
    }
}

fn texts(targets: &Targets) -> Vec<String> {
    targets.texts().map(str::to_owned).collect()
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    match args.command {
        Command::Add(args) => add(args, global).await,
        Command::Set(args) => set(args, global).await,
        Command::List => list(global).await,
        Command::Remove { alias, targets } => remove(&alias, &targets, global).await,
    }
}

async fn add(args: NamedTargets, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open(global).await?;
    let (name, targets) = (data_dir.alias_name(&args.alias)?, targets(&data_dir, &args.targets).await?);
    show(global, data_dir.directory.add_to_alias(&name, targets).await?)
}

async fn set(args: NamedTargets, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open(global).await?;
    let (name, targets) = (data_dir.alias_name(&args.alias)?, targets(&data_dir, &args.targets).await?);
    show(global, data_dir.directory.set_alias(&name, targets).await?)
}

/// Targets to add; those of other servers only if this one sends.
async fn targets(data_dir: &DataDir, texts: &[String]) -> Result<Targets> {
    let targets = data_dir.directory.targets(texts).await.map_err(named)?;
    if let Some(outside) = targets.outside.first()
        && !data_dir.settings.sends()
    {
        let domain = outside.canonical().domain();
        let why = format!(
            "{outside} is not of this server ({domain} has no account or alias here), and this server forwards no \
             mail because sending is off: set sending.enabled = \"on\""
        );
        return Err(Error::not_found(why).into());
    }
    Ok(targets)
}

fn addresses(data_dir: &DataDir, targets: &[String]) -> Result<Vec<Address>> {
    targets.iter().map(|target| Ok(data_dir.account_name(target)?.into())).collect()
}

fn show(global: &Global, change: AliasChange) -> Result<ExitCode> {
    if change.added.is_empty() && change.removed.is_empty() {
        global.output().note("nothing has changed");
    }
    if !change.added.outside.is_empty() {
        let outside: Vec<&str> = change.added.outside.iter().map(OutsideAddress::as_str).collect();
        let note = format!(
            "mail for {} leaves this server: it is forwarded to {}",
            change.alias.name,
            outside.join(", ")
        );
        global.output().note(&note);
    }
    global.output().done(&Changed::from(change), Changed::lines)?;
    Ok(ExitCode::SUCCESS)
}

async fn list(global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open_to_read(global).await?;
    let mut aliases = data_dir.directory.aliases();
    let (mut listed, mut code) = (Vec::new(), ExitCode::SUCCESS);
    while let Some(alias) = aliases.next().await {
        let looked = match alias {
            Ok(alias) => data_dir.directory.leads_anywhere(&alias).await.map(|works| (alias, works)),
            Err(e) => Err(e),
        };
        match looked {
            Ok((alias, works)) => listed.push(ListedAlias { shown: alias.into(), works }),
            Err(e) => {
                warn(format_args!("sealpost: {e}"));
                code = ExitCode::from(FAILED);
            }
        }
    }
    global.output().show(&listed, |listed| listed.iter().map(ListedAlias::line).collect())?;
    Ok(code)
}

async fn remove(alias: &str, targets: &[String], global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open(global).await?;
    let name = data_dir.alias_name(alias)?;
    if !targets.is_empty() {
        return show(
            global,
            data_dir.directory.take_from_alias(&name, &addresses(&data_dir, targets)?).await?,
        );
    }
    data_dir.directory.remove_alias(&name).await?;
    #[derive(Serialize)]
    struct Removed {
        alias: String,
        done: &'static str,
        /// Aliases whose mail is refused now.
        useless_aliases: Vec<String>,
    }
    let useless_aliases = match &name {
        AliasName::Address(address) => useless_without(&data_dir, address).await?,
        AliasName::CatchAll(_) => Vec::new(),
    };
    let removed = Removed { alias: name.to_string(), done: "removed", useless_aliases };
    global.output().done(&removed, |r| format!("removed the alias {}", r.alias))?;
    Ok(ExitCode::SUCCESS)
}

/// Removes `gone`, a removed account, from aliases that lead to no other one; reports it.
pub(super) async fn useless_without(data_dir: &DataDir, gone: &Address) -> Result<Vec<String>> {
    let left = data_dir.directory.aliases_left_without(gone).await?;
    let names: Vec<String> = left.iter().map(|alias| alias.name.to_string()).collect();
    if !names.is_empty() {
        warn(format_args!(
            "sealpost: mail for {} is now rejected, because the alias leads to no account",
            names.join(", ")
        ));
    }
    Ok(names)
}
