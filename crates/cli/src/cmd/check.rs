//! `sealpost check`: reads everything back and says what is wrong.
//!
//! It only reads. It continues behind damage, and names the object in each report. Without an
//! account's password it checks everything that needs no key: the authentication of records, the
//! chain of the log, that every object is readable and complete, and data under the mail key:
//! queues and keys of domains. With it, everything: seals, checkpoints against the log, UID rules,
//! and structure and text of every message against its bytes. It works while the server runs:
//! objects that change meanwhile are checked again.

mod database;
mod log;
mod messages;
mod names;
mod objects;
mod owners;
mod queues;
mod records;
mod report;
mod state;
mod summaries;
mod unfit;
mod watermarks;

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Result;
use sealpost_account::{AccountState, newest_key};
use sealpost_base::AccountId;
use sealpost_directory::{AccountRecord, Secret};
use sealpost_journal::Journal;
use sealpost_vault::entry::LogKey;
use sealpost_vault::{AccountKeys, PublicKey, RootKey};

use self::log::Examined;
use self::report::{Finding, Location as At, Report, Trouble};
use super::account::unlock::{self, Accept, Unlocked};
use crate::data_dir::DataDir;
use crate::exit::FAILED;
use crate::global::Global;
use crate::secret::{self, PasswordArgs};

/// Arguments of `sealpost check`.
#[derive(clap::Args)]
#[command(
    after_help = "Without a password, check verifies the parts that need no key, and reports the rest as \
                        not checked. With a password, it tries it on every account. It \
                        counts objects without references, which are left by interrupted deliveries and \
                        removed later; they are no damage. Exit status 0 if no damage was found, else 1.\n
Examples:
  sealpost check
  sealpost check --account jane@example.org
  sealpost check --json --password-file jane.password --account jane@example.org"
)]
pub struct Args {
    /// Check this account; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    account: Vec<String>,
    #[command(flatten)]
    password: PasswordArgs,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open_to_read(global).await?;
    let secret = match (&args.password.password_file, args.password.password_stdin) {
        (Some(path), _) => Some(secret::from_file(path)?),
        (None, true) => Some(secret::from_stdin()?),
        (None, false) => None,
    };
    let mut report = Report::new(global.output(), data_dir.clock.clone());
    database::check(&data_dir, args.account.is_empty(), &mut report).await?;
    let records = wanted(&data_dir, &args.account, &mut report).await?;
    for record in &records {
        report.begin(&record.name.to_string());
        let unlocked = open(record, secret.as_ref(), &args).await?;
        if let Some(unlocked) = &unlocked {
            authentic(&data_dir, record, unlocked, &mut report).await;
        }
        account(&data_dir, record, unlocked.map(|unlocked| unlocked.root), &mut report).await?;
    }
    if args.account.is_empty() {
        beside_accounts(&data_dir, &records, &mut report).await?;
        queues::check(&data_dir, &mut report).await?;
        owners::check(&data_dir, &mut report);
        let marks = data_dir.store.survey_append_modes(&data_dir.key).await;
        for (path, why) in report.note(At::Account, marks).unwrap_or_default() {
            report.found(At::Object(path), why);
        }
    }
    watermarks::check(&data_dir, &records, args.account.is_empty(), &mut report).await?;
    let sound = report.finish()?;
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// What there is that belongs to none of these accounts.
async fn beside_accounts(data_dir: &DataDir, records: &[AccountRecord], report: &mut Report) -> Result<()> {
    let mut ids: BTreeSet<_> = records.iter().map(|record| record.id).collect();
    let shares = report.note(At::Account, data_dir.directory.shares().await);
    ids.extend(shares.unwrap_or_default().iter().map(|share| share.share));
    objects::unclaimed(data_dir, &ids, report).await
}

/// The records of the accounts to check; all records and aliases are checked on the way if all accounts are.
async fn wanted(data_dir: &DataDir, names: &[String], report: &mut Report) -> Result<Vec<AccountRecord>> {
    if names.is_empty() {
        return records::all(data_dir, report).await;
    }
    let mut records = Vec::new();
    for name in names {
        let name = data_dir.account_name(name)?;
        let record = data_dir.directory.get(&name).await?;
        records::withdrawn_copies(data_dir, &record, report).await;
        records.push(record);
        report.totals.records += 1;
    }
    Ok(records)
}

/// The account's key, if a password opens it. Prompts if the account was named.
async fn open(record: &AccountRecord, secret: Option<&Secret>, args: &Args) -> Result<Option<Unlocked>> {
    let named = !args.account.is_empty();
    let secret = match secret {
        Some(secret) => secret.clone(),
        None if named && std::io::stdin().is_terminal() => {
            secret::prompt(format!("Password of {}", record.name), secret::PASSWORD_FILE).await?
        }
        None => return Ok(None),
    };
    let unlocked = unlock::open(record, secret, Accept::Login).await?;
    if unlocked.is_none() && named {
        let why = format!("wrong password for {}", record.name);
        return Err(sealpost_base::Error::denied(why).into());
    }
    Ok(unlocked)
}

/// Names what of a record a process without the account's key has changed, and counts slots of
/// which nothing tells that.
async fn authentic(data_dir: &DataDir, record: &AccountRecord, unlocked: &Unlocked, report: &mut Report) {
    for forgery in unlocked.forgeries(record) {
        let remedy =
            "a process that has server.key did that: sealpost server key rotate, then sealpost account rekey";
        report.found(At::Account, format!("{forgery}; {remedy}"));
    }
    report.note(At::Account, data_dir.directory.check_slot_list(record, &unlocked.root).await);
    let unverified = record.unverified(&unlocked.root).filter(|slot| !slot.has_tag()).count();
    report.totals.unverified_slots += unverified as u64;
}

/// An account and its shared mailboxes: the keys of those are in the account.
async fn account(
    data_dir: &DataDir,
    record: &AccountRecord,
    root: Option<RootKey>,
    report: &mut Report,
) -> Result<()> {
    report.totals.accounts += 1;
    let name = record.name.to_string();
    let own_keys = root.as_ref().map(|root| AccountKeys::derive(root, record.id));
    let own = Log { name: name.clone(), id: record.id, public: record.public, is_account: true, root };
    let state = log_of(data_dir, own, report).await?;
    report.totals.unlocked += u64::from(state.is_some());
    let Some(shares) = report.note(At::Account, data_dir.directory.shares_of(record.id).await) else {
        return Ok(());
    };
    for share in shares {
        let links = state.iter().flat_map(|state| {
            let linked = state.links().map(|(mailbox, link)| (mailbox.name().to_owned(), link.clone()));
            linked.chain(state.unlinked_shares().map(|link| ("deleted".to_owned(), link)))
        });
        let link = links.into_iter().find(|(_, link)| link.share == share.share);
        let mailbox = match &link {
            Some((mailbox, _)) => mailbox.clone(),
            None => share.share.to_string(),
        };
        let name = format!("{name}, shared mailbox {mailbox}");
        report.begin(&name);
        report.totals.shares += 1;
        let root = match (&link, &state, &own_keys) {
            (Some((_, link)), Some(state), Some(keys)) => {
                let known = state.share_root(link);
                let later = report.note(At::Account, newest_key(&share, record.id, keys, &known)).flatten();
                Some(later.unwrap_or(known))
            }
            _ => None,
        };
        let log = Log { name, id: share.share, public: share.public, is_account: false, root };
        log_of(data_dir, log, report).await?;
    }
    Ok(())
}

/// A log to check: an account's or a share's.
struct Log {
    name: String,
    id: AccountId,
    /// What is recorded of its key.
    public: PublicKey,
    /// It belongs to an account whose record was checked already.
    is_account: bool,
    root: Option<RootKey>,
}

/// Checks a log and its messages; its state, if there is a key.
async fn log_of(data_dir: &DataDir, log: Log, report: &mut Report) -> Result<Option<AccountState>> {
    let keys = log.root.as_ref().map(|root| AccountKeys::derive(root, log.id));
    let journal =
        Journal::new(data_dir.store.clone(), log.id, &LogKey::of(&data_dir.key), data_dir.random.clone());
    let examined = log::examine(data_dir, &journal, keys.as_ref()).await;
    let Some(Examined { findings, counts, state }) = report.note(At::Account, examined) else {
        return Ok(None);
    };
    let is_unread = findings.iter().any(Finding::is_unread);
    report.take(findings);
    report.totals.log_entries += counts.entries;
    report.totals.checkpoints += counts.checkpoints;
    report.totals.chunks += counts.chunks;
    let (keys, state) = match (keys, state) {
        (Some(keys), Some(state)) => (keys, state),
        (Some(_), None) => {
            report.found(
                At::Account,
                match is_unread {
                    true => Trouble::unread("not opened: parts of its log or its checkpoints cannot be read"),
                    false => {
                        "the remaining log entries and checkpoints are not enough to load the account".into()
                    }
                },
            );
            objects::sealed(data_dir, log.id, report).await?;
            return Ok(None);
        }
        (None, _) => {
            report.sealed(&log.name);
            summaries::check(data_dir, log.id, None, report).await?;
            objects::sealed(data_dir, log.id, report).await?;
            return Ok(None);
        }
    };
    if keys.public() != log.public && !log.is_account {
        report.found(At::Account, "the record has another public key than the shared mailbox");
    }
    state::check(&state, report);
    let missing = messages::check(data_dir, log.id, &state, report).await?;
    objects::orphans(data_dir, log.id, &state, report).await?;
    summaries::check(data_dir, log.id, Some((&keys, &state)), report).await?;
    if missing.is_empty() {
        return Ok(Some(state));
    }
    // The server may have removed expired messages during the check: then they are not in the
    // account any more either.
    let now = log::examine(data_dir, &journal, Some(&keys)).await.ok().and_then(|again| again.state);
    messages::report_missing(log.id, &missing, now.as_ref().unwrap_or(&state), report);
    Ok(Some(state))
}

#[cfg(test)]
mod tests;
