//! `sealpost stats`: how much there is, counted from the store itself.

use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use indicatif::HumanBytes;
use sealpost_base::AccountId;
use serde::Serialize;

use super::account::unlock::{Accept, unlock};
use crate::data_dir::DataDir;
use crate::global::Global;
use crate::output::{counted, warn};
use crate::secret::PasswordArgs;

/// Arguments of `sealpost stats`.
#[derive(clap::Args)]
#[command(after_help = "Without a password, stats counts objects and their sizes. With --account and its \
                        password, it also counts mailboxes and messages.\n
Examples:
  sealpost stats
  sealpost stats --account jane@example.org
  sealpost stats --json | jq .kinds.messages.bytes")]
pub struct Args {
    /// Open this account and count its mailboxes and messages
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    #[command(flatten)]
    password: PasswordArgs,
}

/// Objects of one kind.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Count {
    objects: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Stats {
    dir: String,
    accounts: usize,
    removed_accounts: usize,
    aliases: usize,
    /// What the store holds, by kind.
    kinds: BTreeMap<&'static str, Count>,
    total: Count,
    per_account: Vec<AccountStats>,
    /// Transactions that this command itself committed: 0 unless it made the directory.
    commits: u64,
}

#[derive(Default, Serialize)]
struct AccountStats {
    account: String,
    id: String,
    /// Entries of the log that are kept (those before the last two checkpoints are not).
    log_entries: u64,
    /// The position of the last entry: how many there ever were.
    log_position: u64,
    checkpoints: u64,
    message_objects: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mailboxes: Option<Vec<MailboxStats>>,
    /// Messages, each counted once, expunged ones that are still kept included.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expunged: Option<usize>,
}

#[derive(Serialize)]
struct MailboxStats {
    name: String,
    messages: usize,
    unseen: usize,
    bytes: u64,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open_to_read(global).await?;
    let mut stats = count(&data_dir).await?;
    if let Some(name) = &args.account {
        let (record, root) = unlock(&data_dir, name, &args.password, Accept::Login).await?;
        let accounts = data_dir.accounts();
        let account = accounts.open(record.id, &root).await?;
        let mailbox = |name: &str, m: &sealpost_account::Mailbox| MailboxStats {
            name: name.to_owned(),
            messages: m.len(),
            unseen: m.unseen(),
            bytes: m.bytes(),
        };
        let mut mailboxes = Vec::new();
        let names: Vec<_> = account.state().mailboxes().map(|m| (m.id(), m.name().to_owned())).collect();
        for (id, name) in names {
            let link = account.state().link(id).cloned();
            match link {
                None => mailboxes.extend(account.state().mailbox(id).map(|m| mailbox(&name, m))),
                // Others' mailboxes are theirs to count.
                Some(link) if link.owner.is_some() => {}
                Some(link) => {
                    let share = accounts.open_share(&account, &link).await?;
                    mailboxes.push(mailbox(&name, share.state().inbox()));
                }
            }
        }
        let state = account.state();
        let id = record.id.to_string();
        if let Some(counted) = stats.per_account.iter_mut().find(|a| a.id == id) {
            counted.mailboxes = Some(mailboxes);
            counted.messages = Some(state.message_count());
            counted.expunged = Some(state.tombstone_count());
        }
    }
    global.output().show(&stats, text)?;
    Ok(ExitCode::SUCCESS)
}

async fn count(data_dir: &DataDir) -> Result<Stats> {
    let (mut accounts, mut removed_accounts) = (0, 0);
    let mut by_id: HashMap<AccountId, AccountStats> = HashMap::new();
    let mut records = data_dir.directory.list();
    while let Some(record) = records.next().await {
        match record {
            Ok(record) => {
                accounts += usize::from(record.is_active());
                removed_accounts += usize::from(!record.is_active());
                let (account, id) = (record.name.to_string(), record.id.to_string());
                by_id.insert(record.id, AccountStats { account, id, ..AccountStats::default() });
            }
            Err(e) => warn(format_args!("sealpost: {e}")),
        }
    }
    // What is in a shared mailbox's log counts for its owner.
    let shares = data_dir.directory.shares().await.unwrap_or_else(|e| {
        warn(format_args!("sealpost: {e}"));
        Vec::new()
    });
    let owners: HashMap<AccountId, AccountId> = shares.iter().map(|s| (s.share, s.owner)).collect();
    let mut kinds: BTreeMap<&'static str, Count> = BTreeMap::new();
    let mut total = Count::default();
    for prefix in ["server", "accounts", "aliases", "shares", "usage", "vacations", "logins", "acct", "spool"]
    {
        let mut listed = data_dir.store.list(prefix, None);
        while let Some(object) = listed.try_next().await? {
            let kind = tally(&object.path, object.size, &owners, &mut by_id);
            for count in [kinds.entry(kind).or_default(), &mut total] {
                count.objects += 1;
                count.bytes += object.size;
            }
        }
    }
    let mut per_account: Vec<_> = by_id.into_values().collect();
    per_account.sort_by(|a, b| a.account.cmp(&b.account));
    let aliases = data_dir.directory.aliases().filter(|a| std::future::ready(a.is_ok())).count().await;
    let (dir, commits) = (data_dir.dir.display().to_string(), data_dir.store.stats().commits);
    Ok(Stats { dir, accounts, removed_accounts, aliases, kinds, total, per_account, commits })
}

/// What kind of object that is; counts it for its account too.
fn tally(
    path: &str,
    size: u64,
    owners: &HashMap<AccountId, AccountId>,
    by_id: &mut HashMap<AccountId, AccountStats>,
) -> &'static str {
    let mut parts = path.split('/');
    match parts.next() {
        Some("acct") => {}
        Some("accounts") => return "account_records",
        Some("aliases") => return "aliases",
        Some("usage") => return "usage_records",
        Some("logins") => return "login_records",
        Some("shares") => return "share_records",
        Some("vacations") => return "vacation_records",
        Some("spool") => return "spool",
        _ => return "other",
    }
    let id = parts.next().and_then(|id| id.parse::<AccountId>().ok());
    let owner = id.and_then(|id| owners.get(&id).copied());
    let account = owner.or(id).and_then(|id| by_id.get_mut(&id));
    let mut unknown = AccountStats::default();
    let account = account.unwrap_or(&mut unknown);
    account.bytes += size;
    match (parts.next(), parts.next()) {
        (Some("log"), Some(position)) => {
            account.log_entries += 1;
            let position = u64::from_str_radix(position, 16).unwrap_or(0);
            if owner.is_none() {
                account.log_position = account.log_position.max(position);
            }
            "log"
        }
        (Some("manifest"), name) => {
            // Marks and ballots have longer names.
            account.checkpoints += u64::from(name.is_some_and(|name| name.len() == 16));
            "checkpoints"
        }
        (Some("snap"), _) => "checkpoints",
        (Some("msg"), _) => {
            account.message_objects += 1;
            "messages"
        }
        (Some("thin"), _) => {
            account.message_objects += 1;
            "messages_without_bodies"
        }
        (Some("idx" | "pack"), _) => "index",
        _ => "other",
    }
}

/// `1.5 MiB`.
pub(super) fn bytes(n: u64) -> String {
    HumanBytes(n).to_string()
}

fn text(stats: &Stats) -> String {
    let mut out = format!(
        "{}: {} ({} removed), {}, {}, {}\n",
        stats.dir,
        counted(stats.accounts, "account", "accounts"),
        stats.removed_accounts,
        counted(stats.aliases, "alias", "aliases"),
        counted(stats.total.objects, "object", "objects"),
        bytes(stats.total.bytes)
    );
    for (kind, count) in &stats.kinds {
        let kind = kind.replace('_', " ");
        let noun = if count.objects == 1 { "object" } else { "objects" };
        out.push_str(&format!("  {kind:<16}{:>10} {noun:<7}  {:>12}\n", count.objects, bytes(count.bytes)));
    }
    for a in &stats.per_account {
        out.push_str(&format!(
            "{}: {}, {} in all; log at {}, {} kept, {}\n",
            a.account,
            counted(a.message_objects, "message object", "message objects"),
            bytes(a.bytes),
            a.log_position,
            counted(a.log_entries, "entry", "entries"),
            counted(a.checkpoints, "checkpoint", "checkpoints")
        ));
        for m in a.mailboxes.iter().flatten() {
            let size = bytes(m.bytes);
            out.push_str(&format!(
                "  {:<30}{:>8} messages, {:>6} unseen  {size:>12}\n",
                m.name, m.messages, m.unseen
            ));
        }
        if let (Some(messages), Some(expunged)) = (a.messages, a.expunged) {
            out.push_str(&format!(
                "  {}; {expunged} of these expunged and in the grace period\n",
                counted(messages, "message", "messages")
            ));
        }
    }
    out
}
