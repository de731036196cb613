//! `sealpost domain`: the keys that sign a domain's mail, and the DNS records that it needs.
//!
//! Which domains mail is received for follows from accounts and aliases alone; a domain that is
//! added here gets keys, and its mail is signed once it has an account or alias.

mod check;
mod plan;
mod records;
mod rotate;
mod spf;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use futures::StreamExt;
use sealpost_dns::DnsName;
use sealpost_mailformat::date::rfc3339;
use sealpost_submission::domain_keys::{KEY_OVERLAP, KeyInfo, Stage};
use serde::Serialize;

use self::plan::Plan;
use crate::data_dir::DataDir;
use crate::exit::Usage;
use crate::global::Global;
use crate::output::{counted, warn};
use crate::queues::{domain_keys, domain_keys_or_make};

/// Arguments of `sealpost domain`.
#[derive(clap::Args)]
#[command(after_help = "A domain is served here as soon as an account or an alias is in it. Its mail is \
                        signed once `domain add` has made its keys.\n
Examples:
  sealpost domain add example.org
  sealpost domain check example.org
  sealpost domain rotate example.org")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the keys of a domain, and print the DNS records to publish
    #[command(after_help = "Examples:
  sealpost domain add example.org
  sealpost domain add example.org --zone >> example.org.zone")]
    Add(DomainArgs),
    /// List the domains: those that are served, and those that have keys
    #[command(after_help = "Example:
  sealpost domain list --json")]
    List,
    /// Print the keys of a domain, and the DNS records to publish
    #[command(after_help = "Examples:
  sealpost domain show example.org
  sealpost domain show example.org --zone")]
    Show(DomainArgs),
    /// Compare the DNS records of a domain with the required ones
    Check(check::Args),
    /// Replace the keys of a domain: run it twice, before and after publishing the new records
    Rotate(rotate::Args),
    /// Remove the keys of a domain: its mail is no longer signed
    #[command(after_help = "Accounts and aliases of the domain stay.\n
Example:
  sealpost domain remove example.org")]
    Remove {
        /// The domain
        #[arg(value_name = "DOMAIN")]
        domain: String,
    },
}

#[derive(clap::Args)]
struct DomainArgs {
    /// The domain, such as example.org
    #[arg(value_name = "DOMAIN")]
    domain: String,
    /// Print only the lines of a zone file
    #[arg(long)]
    zone: bool,
}

/// Runs it.
///
/// # Errors
/// As the command says.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    match args.command {
        Command::Add(args) => add(args, global).await,
        Command::List => list(global).await,
        Command::Show(args) => show(args, global).await,
        Command::Check(args) => check::run(args, global).await,
        Command::Rotate(args) => rotate::run(args, global).await,
        Command::Remove { domain } => remove(&domain, global).await,
    }
}

/// As long as the longest selector of a key.
const LONGEST_SELECTOR: &str = "ed25519-20261127abcd";

/// The domain that a command line names.
fn name(domain: &str) -> Result<DnsName> {
    // RFC 5321 §4.1.2.
    let is_label = |label: &str| {
        let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        label.bytes().all(is_allowed) && !label.starts_with('-') && !label.ends_with('-')
    };
    // An address of a host is no domain.
    let is_number = |label: &str| label.bytes().all(|b| b.is_ascii_digit());
    let is_domain = |name: &DnsName| {
        let text = name.as_str();
        text.split('.').all(is_label) && text.rsplit_once('.').is_some_and(|(_, last)| !is_number(last))
    };
    let wrong = || Usage(format!("{domain:?} is not a domain such as example.org"));
    let name = DnsName::new(domain.trim()).filter(is_domain).ok_or_else(wrong)?;
    if records::key_name(&name, LONGEST_SELECTOR).is_none() {
        let why = "is too long: the records of its keys could not have names";
        return Err(Usage(format!("{name} {why}")).into());
    }
    Ok(name)
}

/// A key as it is shown.
#[derive(Serialize)]
pub(super) struct KeyRow {
    selector: String,
    algorithm: &'static str,
    /// `waiting`, `signing` or `retired`.
    stage: &'static str,
    since: String,
    /// Until when its record stays in DNS, if it signs no more.
    publish_until: Option<String>,
}

impl From<&KeyInfo> for KeyRow {
    fn from(key: &KeyInfo) -> Self {
        let (stage, since) = match key.stage {
            Stage::Waiting(since) => ("waiting", since),
            Stage::Signing(since) => ("signing", since),
            Stage::Retired(since) => ("retired", since),
        };
        let publish_until = (stage == "retired").then(|| rfc3339(since.after(KEY_OVERLAP)));
        let (selector, algorithm) = (key.selector.clone(), key.algorithm.name());
        KeyRow { selector, algorithm, stage, since: rfc3339(since), publish_until }
    }
}

impl KeyRow {
    fn line(&self) -> String {
        let what = match (self.stage, &self.publish_until) {
            ("signing", _) => format!("signs since {}", self.since),
            ("waiting", _) => {
                "waits until its record is published: run `sealpost domain rotate` then".to_owned()
            }
            (_, Some(until)) => format!("signs no more; its record may go after {until}"),
            (_, None) => self.stage.to_owned(),
        };
        format!("  {}  {}  {what}\n", self.selector, self.algorithm)
    }
}

async fn add(args: DomainArgs, global: &Global) -> Result<ExitCode> {
    let domain = name(&args.domain)?;
    let data_dir = DataDir::open_or_make(global).await?;
    let keys = domain_keys_or_make(&data_dir).await?;
    let made = keys.create(domain.as_str(), data_dir.clock.now(), &data_dir.random).await?;
    if !data_dir.directory.serves(domain.as_str()).await? {
        global.output().note(format_args!(
            "no account or alias is in {domain} yet: mail for it is refused, and none is sent, until there is \
             one: sealpost account add NAME@{domain}"
        ));
    }
    print_plan(&Plan::of(&data_dir, &domain, &made)?, &args, global)
}

async fn show(args: DomainArgs, global: &Global) -> Result<ExitCode> {
    let domain = name(&args.domain)?;
    let data_dir = DataDir::open_to_read(global).await?;
    let keys = match domain_keys(&data_dir)? {
        Some(keys) => keys.list(domain.as_str()).await?,
        None => Vec::new(),
    };
    if keys.is_empty() {
        global.output().note(format_args!(
            "{domain} has no keys, so its mail is not signed: sealpost domain add {domain} makes them"
        ));
    }
    print_plan(&Plan::of(&data_dir, &domain, &keys)?, &args, global)
}

fn print_plan(plan: &Plan, args: &DomainArgs, global: &Global) -> Result<ExitCode> {
    if let Some(warning) = &plan.warning {
        warn(format_args!("sealpost: {warning}"));
    }
    global.output().show(plan, |plan| if args.zone { plan.zone() } else { plan.lines() })?;
    Ok(ExitCode::SUCCESS)
}

/// A domain in the list.
#[derive(Serialize, Default)]
struct DomainRow {
    domain: String,
    accounts: u64,
    aliases: u64,
    keys: Vec<KeyRow>,
    /// Why its keys cannot be listed.
    problem: Option<String>,
}

impl DomainRow {
    fn line(&self) -> String {
        let signing = self.keys.iter().filter(|key| key.stage == "signing").count();
        let waiting = self.keys.iter().filter(|key| key.stage == "waiting").count();
        let mut keys = match (&self.problem, signing) {
            (Some(problem), _) => problem.clone(),
            (None, 0) => "its mail is not signed".to_owned(),
            (None, signing) => format!("signed with {}", counted(signing as u64, "key", "keys")),
        };
        if waiting > 0 {
            keys.push_str(&format!(", {} waiting", counted(waiting as u64, "key", "keys")));
        }
        let served = match (self.accounts, self.aliases) {
            (0, 0) => "no accounts, not served".to_owned(),
            (accounts, 0) => counted(accounts, "account", "accounts"),
            (accounts, aliases) => format!(
                "{}, {}",
                counted(accounts, "account", "accounts"),
                counted(aliases, "alias", "aliases")
            ),
        };
        format!("{}: {served}; {keys}\n", self.domain)
    }
}

/// The domains of accounts and aliases, with how many each has.
async fn served(data_dir: &DataDir) -> Result<BTreeMap<String, (u64, u64)>> {
    let mut served = BTreeMap::<String, (u64, u64)>::new();
    let mut accounts = data_dir.directory.list();
    while let Some(record) = accounts.next().await {
        match record {
            Ok(record) if record.is_active() => {
                served.entry(record.name.address().domain().to_owned()).or_default().0 += 1;
            }
            Ok(_) => {}
            Err(e) => warn(format_args!("sealpost: {e}")),
        }
    }
    let mut aliases = data_dir.directory.aliases();
    while let Some(alias) = aliases.next().await {
        match alias {
            Ok(alias) => {
                let name = alias.name.to_string();
                let domain = name.rsplit_once('@').map_or(name.as_str(), |(_, domain)| domain);
                served.entry(domain.to_owned()).or_default().1 += 1;
            }
            Err(e) => warn(format_args!("sealpost: {e}")),
        }
    }
    Ok(served)
}

async fn list(global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open_to_read(global).await?;
    let mut rows = BTreeMap::<String, DomainRow>::new();
    for (domain, (accounts, aliases)) in served(&data_dir).await? {
        // Accounts have their domains as people write them, keys as DNS does.
        let domain = DnsName::new(&domain).map_or(domain, |name| name.to_string());
        let row = rows.entry(domain).or_default();
        (row.accounts, row.aliases) = (accounts, aliases);
    }
    if let Some(keys) = domain_keys(&data_dir)? {
        for domain in keys.domains().await? {
            let row = rows.entry(domain.to_string()).or_default();
            match keys.list(domain.as_str()).await {
                Ok(keys) => row.keys = keys.iter().map(KeyRow::from).collect(),
                Err(e) => row.problem = Some(e.to_string()),
            }
        }
    }
    let named = rows.into_iter().map(|(domain, row)| DomainRow { domain, ..row });
    let rows: Vec<DomainRow> = named.collect();
    global.output().show(&rows, |rows| rows.iter().map(DomainRow::line).collect())?;
    Ok(ExitCode::SUCCESS)
}

async fn remove(domain: &str, global: &Global) -> Result<ExitCode> {
    #[derive(Serialize)]
    struct Removed {
        domain: String,
        done: &'static str,
    }
    let domain = name(domain)?;
    let data_dir = DataDir::open(global).await?;
    let none = || sealpost_base::Error::not_found(format!("{domain} has no keys"));
    let keys = domain_keys(&data_dir)?.ok_or_else(none)?;
    keys.remove(domain.as_str()).await?;
    let removed = Removed { domain: domain.to_string(), done: "removed" };
    global.output().done(&removed, |removed| {
        format!(
            "removed the keys of {}: its mail is no longer signed, within a minute; leave their DNS records for a \
             week, for mail that is on its way",
            removed.domain
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
