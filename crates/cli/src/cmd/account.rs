//! `sealpost account`: the accounts of this server, and the secrets that open them.
//!
//! A change of a secret first opens the account with another one: the operator has no way around
//! its owner's key, and neither has this command.

mod allow_from;
mod app_password;
mod done;
mod limit;
mod name_args;
mod passwd;
mod purge;
mod quota;
mod recovery;
mod rekey;
mod repair;
mod undelete;
pub(super) mod unlock;
mod vacation;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use futures::StreamExt;
use sealpost_directory::{AccountRecord, NewAccount, Role};
use sealpost_mailformat::date::rfc3339;
use serde::Serialize;

use self::done::Done;
use self::name_args::NameArgs;
use super::alias;
use crate::data_dir::DataDir;
use crate::exit::{FAILED, Usage};
use crate::global::Global;
use crate::output::{counted, warn};
use crate::secret::PasswordArgs;

/// Arguments of `sealpost account`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sealpost account add jane@example.org
  sealpost account passwd jane@example.org
  sealpost account recovery jane@example.org
  sealpost account app-password add jane@example.org \"Jane's phone\"")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create an account
    Add(AddArgs),
    /// List the accounts, and removed ones in their grace period
    #[command(after_help = "Example:
  sealpost account list --json")]
    List,
    /// Show one account
    #[command(after_help = "Example:
  sealpost account show jane@example.org")]
    Show(NameArgs),
    /// Change a password; mail, app passwords and the recovery code stay as they are
    Passwd(passwd::Args),
    /// Make a new root key for future mail, so that old backups open no later mail
    Rekey(rekey::Args),
    /// Show or change the quota of an account
    Quota(quota::Args),
    /// Allow an account to send as other addresses than its own
    AllowFrom(allow_from::Args),
    /// Show or change to how many recipients an account may send
    Limit(limit::Args),
    /// Show or change the vacation response of an account
    Vacation(vacation::Args),
    /// Suspend an account: logins fail and sessions end, but its mail still arrives
    #[command(after_help = "Example:
  sealpost account suspend jane@example.org")]
    Suspend(NameArgs),
    /// Accept logins to a suspended account again
    #[command(after_help = "Example:
  sealpost account resume jane@example.org")]
    Resume(NameArgs),
    /// Remove an account; `undelete` brings it back within the grace period
    #[command(after_help = "Example:
  sealpost account remove jane@example.org")]
    Remove(NameArgs),
    /// Delete a removed account permanently, before its grace period ends
    Purge(purge::Args),
    /// Bring back a removed account, or an account's expunged messages
    Undelete(undelete::Args),
    /// Repair an account whose log has lost an entry
    Repair(repair::Args),
    /// Create, list and revoke app passwords
    AppPassword(app_password::Args),
    /// Create a recovery code, which can set a new password if the old one is forgotten
    Recovery(recovery::Args),
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sealpost account add jane@example.org
  sealpost account add jane@example.org --quota 5GiB --password-file jane.password")]
struct AddArgs {
    #[command(flatten)]
    account: NameArgs,
    /// Limit on the mail in it, such as 500MB or 5GiB [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    quota: Option<u64>,
    /// Make it an administrator's account, with rights to manage other accounts
    #[arg(long)]
    admin: bool,
    #[command(flatten)]
    password: PasswordArgs,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    match args.command {
        Command::Add(args) => add(args, global).await,
        Command::List => list(global).await,
        Command::Show(args) => show(args, global).await,
        Command::Passwd(args) => passwd::run(args, global).await,
        Command::Rekey(args) => rekey::run(args, global).await,
        Command::Quota(args) => quota::run(args, global).await,
        Command::AllowFrom(args) => allow_from::run(args, global).await,
        Command::Limit(args) => limit::run(args, global).await,
        Command::Vacation(args) => vacation::run(args, global).await,
        Command::Suspend(args) => suspend(args, global).await,
        Command::Resume(args) => resume(args, global).await,
        Command::Remove(args) => remove(args, global).await,
        Command::Purge(args) => purge::run(args, global).await,
        Command::Undelete(args) => undelete::run(args, global).await,
        Command::Repair(args) => repair::run(args, global).await,
        Command::AppPassword(args) => app_password::run(args, global).await,
        Command::Recovery(args) => recovery::run(args, global).await,
    }
}

/// An account as it is shown.
#[derive(Serialize)]
struct AccountRow {
    account: String,
    id: String,
    role: &'static str,
    quota: Option<u64>,
    quota_messages: Option<u64>,
    quota_mailboxes: Option<u64>,
    quota_annotations: Option<u64>,
    created: String,
    suspended: Option<String>,
    removed: Option<String>,
    app_passwords: usize,
    recovery: bool,
    /// What it may send as, besides its own addresses.
    allowed_from: Vec<String>,
    /// Recipients in an hour and in a day, where they are not those of the configuration.
    limit_hour: Option<u32>,
    limit_day: Option<u32>,
}

impl From<&AccountRecord> for AccountRow {
    fn from(record: &AccountRecord) -> Self {
        let sending = record.sending.as_deref();
        AccountRow {
            account: record.name.to_string(),
            id: record.id.to_string(),
            role: match record.role {
                Role::User => "user",
                Role::Admin => "admin",
            },
            quota: record.quota,
            quota_messages: record.quota_messages,
            quota_mailboxes: record.quota_mailboxes,
            quota_annotations: record.quota_annotations,
            created: rfc3339(record.created),
            suspended: record.suspended.map(rfc3339),
            removed: record.removed.map(rfc3339),
            app_passwords: record.app_passwords().count(),
            recovery: record.has_recovery(),
            allowed_from: sending.map(|sending| sending.allowed().to_vec()).unwrap_or_default(),
            limit_hour: sending.and_then(|sending| sending.hour),
            limit_day: sending.and_then(|sending| sending.day),
        }
    }
}

impl AccountRow {
    fn lines(&self) -> String {
        let count = |limit: Option<u64>, one, many| limit.map(|limit| counted(limit, one, many));
        let limits = [
            self.quota.map(super::stats::bytes),
            count(self.quota_messages, "message", "messages"),
            count(self.quota_mailboxes, "mailbox", "mailboxes"),
            self.quota_annotations.map(|limit| format!("{} of metadata", super::stats::bytes(limit))),
        ];
        let limits: Vec<String> = limits.into_iter().flatten().collect();
        let quota = if limits.is_empty() { "none".to_owned() } else { limits.join(", ") };
        let line = |name, at: &Option<String>| {
            at.as_ref().map(|at| format!("\n{name:<14} {at}")).unwrap_or_default()
        };
        let (suspended, removed) = (line("suspended", &self.suspended), line("removed", &self.removed));
        let allowed = (!self.allowed_from.is_empty()).then(|| self.allowed_from.join(", "));
        let limits = [(self.limit_hour, "an hour"), (self.limit_day, "a day")];
        let limits =
            limits.iter().filter_map(|(limit, time)| limit.map(|n| format!("{n} recipients in {time}")));
        let limits = limits.collect::<Vec<_>>().join(", ");
        let limits = (!limits.is_empty()).then_some(limits);
        let (allowed, limits) = (line("may send as", &allowed), line("sends to", &limits));
        format!(
            "account        {}\nid             {}\nrole           {}\nquota          {quota}\ncreated        {}\n\
             app passwords  {}\nrecovery       {}{allowed}{limits}{suspended}{removed}",
            self.account,
            self.id,
            self.role,
            self.created,
            self.app_passwords,
            if self.recovery { "a code was made" } else { "no code was made" },
        )
    }
}

async fn add(args: AddArgs, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open_or_make(global).await?;
    let name = data_dir.account_name(&args.account.name)?;
    let password = args.password.new_one(&format!("New password of {name}")).await?;
    let role = if args.admin { Role::Admin } else { Role::User };
    let new = NewAccount { password, quota: args.quota, role };
    let (record, _) = data_dir.directory.create(&name, new).await?;
    global
        .output()
        .done(&AccountRow::from(&record), |shown| format!("created the account {}", shown.account))?;
    Ok(ExitCode::SUCCESS)
}

async fn list(global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open_to_read(global).await?;
    let mut records = data_dir.directory.list();
    let (mut shown, mut code) = (Vec::new(), ExitCode::SUCCESS);
    while let Some(record) = records.next().await {
        match record {
            Ok(record) => shown.push(AccountRow::from(&record)),
            Err(e) => {
                warn(format_args!("sealpost: {e}"));
                code = ExitCode::from(FAILED);
            }
        }
    }
    global.output().show(&shown, |shown| {
        let line = |account: &AccountRow| match (&account.removed, &account.suspended) {
            (Some(at), _) => format!("{} (removed {at})\n", account.account),
            (None, Some(at)) => format!("{} (suspended {at})\n", account.account),
            (None, None) => format!("{}\n", account.account),
        };
        shown.iter().map(line).collect()
    })?;
    Ok(code)
}

async fn show(args: NameArgs, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open_to_read(global).await?;
    let name = data_dir.account_name(&args.name)?;
    let record = data_dir.directory.get(&name).await?;
    global.output().show(&AccountRow::from(&record), AccountRow::lines)?;
    Ok(ExitCode::SUCCESS)
}

async fn suspend(args: NameArgs, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open(global).await?;
    let name = data_dir.account_name(&args.name)?;
    let account = data_dir.directory.get(&name).await?;
    let was_suspended = account.suspended.is_some();
    let since = rfc3339(data_dir.directory.suspend(&name).await?);
    data_dir.notify_record_changed(account.id).await;
    let done = Done { account: name.to_string(), done: "suspended" };
    global.output().done(&done, |_| match was_suspended {
        true => format!("{name} is suspended already, {since}"),
        false => {
            format!("suspended {name}: logins fail, sessions end within a minute, but its mail still arrives")
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn resume(args: NameArgs, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open(global).await?;
    let name = data_dir.account_name(&args.name)?;
    let account = data_dir.directory.get(&name).await?.id;
    let since = data_dir.directory.resume(&name).await?.map(rfc3339);
    data_dir.notify_record_changed(account).await;
    let done = Done { account: name.to_string(), done: "resumed" };
    global.output().done(&done, |_| match since {
        Some(since) => format!("{name} can log in again; it was suspended {since}"),
        None => format!("{name} was not suspended"),
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn remove(args: NameArgs, global: &Global) -> Result<ExitCode> {
    #[derive(Serialize)]
    struct Removed {
        #[serde(flatten)]
        done: Done,
        /// Aliases whose mail is refused now.
        useless_aliases: Vec<String>,
    }
    let data_dir = DataDir::open(global).await?;
    let name = data_dir.account_name(&args.name)?;
    let account = data_dir.directory.get(&name).await?.id;
    data_dir.freeing_directory()?.remove(&name).await?;
    data_dir.notify_record_changed(account).await;
    let days = data_dir.settings.retention.as_secs() / 86_400;
    let useless_aliases = alias::useless_without(&data_dir, name.address()).await?;
    let removed = Removed { done: Done { account: name.to_string(), done: "removed" }, useless_aliases };
    global.output().done(&removed, |_| {
        format!("removed {name}; for {days} days `sealpost account undelete {name}` brings it back")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A number of bytes: digits, and `k`, `M`, `G` or `T` (thousands) or `Ki` and so on (1024), with
/// or without `B`.
fn size(text: &str) -> Result<u64> {
    let wrong = || Usage(format!("{text:?} is not a size such as 500MB or 5GiB"));
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().trim_end_matches(['b', 'B']).to_ascii_lowercase();
    let (letter, base) = match unit.strip_suffix('i') {
        Some(letter) => (letter, 1024u64),
        None => (unit.as_str(), 1000),
    };
    let power = match letter {
        "" if base == 1000 => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(wrong().into()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|n| n.checked_mul(base.pow(power)));
    bytes.ok_or_else(|| wrong().into())
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes() {
        for (text, bytes) in [("0", 0), ("12", 12), ("500MB", 500_000_000), ("5GiB", 5 << 30), ("1k", 1000)] {
            assert_eq!(size(text).unwrap(), bytes, "{text}");
        }
        for text in ["", "GB", "-1", "1.5G", "5 parsecs", "99999999999T", "3i"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
