//! `sealpost alias`: addresses that lead to accounts.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use futures::StreamExt;
use sealpost_account::directory::{Address, Alias, AliasName};
use sealpost_archive::date::rfc3339;
use sealpost_base::Kind;
use serde::Serialize;

use crate::exit::FAILED;
use crate::global::Global;
use crate::output::warn;
use crate::place::Place;

/// Arguments of `sealpost alias`.
#[derive(clap::Args)]
#[command(
    after_help = "An address with a tag (jane+lists@example.org) needs no alias: its mail goes to the address \
                        without the tag.\n
Examples:
  sealpost alias add info@example.org jane@example.org joe@example.org
  sealpost alias add @example.org jane@example.org     everything nobody else answers to
  sealpost alias remove info@example.org"
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make an alias, or give one that exists other targets
    Add {
        /// The address, or @DOMAIN for all addresses of a domain that nothing else answers to
        alias: String,
        /// Where its mail goes: accounts, or other aliases
        #[arg(required = true, value_name = "TARGET")]
        targets: Vec<String>,
    },
    /// List the aliases
    List,
    /// Remove an alias
    Remove {
        /// The address, or @DOMAIN
        alias: String,
    },
}

#[derive(Serialize)]
struct Shown {
    alias: String,
    targets: Vec<String>,
    changed: String,
}

impl From<Alias> for Shown {
    fn from(alias: Alias) -> Self {
        let targets = alias.targets.iter().map(ToString::to_string).collect();
        Shown { alias: alias.name.to_string(), targets, changed: rfc3339(alias.changed) }
    }
}

impl Shown {
    fn line(&self) -> String {
        format!("{} -> {}\n", self.alias, self.targets.join(", "))
    }
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    match args.command {
        Command::Add { alias, targets } => add(&alias, &targets, global).await,
        Command::List => list(global).await,
        Command::Remove { alias } => remove(&alias, global).await,
    }
}

async fn add(alias: &str, targets: &[String], global: &Global) -> Result<ExitCode> {
    let place = Place::open(global).await?;
    let name = name(&place, alias)?;
    let targets: Vec<Address> = targets
        .iter()
        .map(|target| Ok(place.directory.account_name(target)?.address().clone()))
        .collect::<Result<_>>()?;
    let alias = place.directory.set_alias(&name, &targets).await?;
    for target in &alias.targets {
        // Allowed, because the account may be made later; but most often a mistake in typing.
        if let Err(e) = place.directory.resolve(target.as_str()).await
            && e.kind() == Kind::NotFound
        {
            warn(format_args!("sealpost: {target} leads to no account here yet"));
        }
    }
    global.output().show(&Shown::from(alias), Shown::line)?;
    Ok(ExitCode::SUCCESS)
}

async fn list(global: &Global) -> Result<ExitCode> {
    let place = Place::open_to_read(global).await?;
    let mut aliases = place.directory.aliases();
    let (mut shown, mut code) = (Vec::new(), ExitCode::SUCCESS);
    while let Some(alias) = aliases.next().await {
        match alias {
            Ok(alias) => shown.push(Shown::from(alias)),
            Err(e) => {
                warn(format_args!("sealpost: {e}"));
                code = ExitCode::from(FAILED);
            }
        }
    }
    global.output().show(&shown, |shown| shown.iter().map(Shown::line).collect())?;
    Ok(code)
}

async fn remove(alias: &str, global: &Global) -> Result<ExitCode> {
    let place = Place::open(global).await?;
    let name = name(&place, alias)?;
    place.directory.remove_alias(&name).await?;
    #[derive(Serialize)]
    struct Removed {
        alias: String,
        done: &'static str,
    }
    let removed = Removed { alias: name.to_string(), done: "removed" };
    global.output().show(&removed, |r| format!("removed the alias {}", r.alias))?;
    Ok(ExitCode::SUCCESS)
}

/// As typed; without a domain, an address of this host.
fn name(place: &Place, text: &str) -> Result<AliasName> {
    if text.contains('@') {
        return Ok(AliasName::parse(text)?);
    }
    Ok(AliasName::Address(place.directory.account_name(text)?.address().clone()))
}
