//! `sealpost server key`: the key that authenticates records, and how it is replaced.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Subcommand;
use sealpost_base::AccountId;
use sealpost_directory::Directory;
use sealpost_directory::{Watermarks, watermarks};
use sealpost_journal::Journal;
use sealpost_vault::entry::LogKey;
use sealpost_vault::server_key::{Role, ServerKeys};
use serde::Serialize;

use crate::config::Config;
use crate::data_dir::{DataDir, KEY_FILE};
use crate::global::Global;
use crate::output::counted;
use crate::queues::queue_store;
use crate::store::StoreConfig;

/// Arguments of `sealpost server`.
#[derive(clap::Args)]
#[command(after_help = "Example:
  sealpost server key list")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The key file `server.key`
    Key(KeyArgs),
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sealpost server key list
  sealpost server key rotate")]
struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Subcommand)]
enum KeyCommand {
    /// List the keys by their ids
    #[command(after_help = "Example:
  sealpost server key list")]
    List,
    /// Replace the current key by a new one, and authenticate all records with it
    Rotate(RotateArgs),
}

#[derive(clap::Args)]
#[command(
    after_help = "On one node: stop the server, rotate, start the server. After an interruption, run the \
                        command again.\n
On several nodes:
  1. On one node, run rotate --prepare. Copy server.key to all nodes and restart each: they accept
     both keys.
  2. On the same node, run rotate. Copy server.key to all nodes and restart each.
  3. When all nodes have restarted, run rotate --finish on the same node: entries that a node still
     writes under the old key do not count. Copy server.key to all nodes and restart each: from then
     on the old key authenticates nothing new.\n
Keep the last server.key in the backup. Authorized URLs (URLAUTH) stop working with the key that made them.\n
Examples:
  sealpost server key rotate
  sealpost server key rotate --prepare"
)]
struct RotateArgs {
    /// Create the next key without using it yet
    #[arg(long, conflicts_with = "finish")]
    prepare: bool,
    /// Stop accepting the old key for records, once all nodes have the new one
    #[arg(long)]
    finish: bool,
}

#[derive(Serialize)]
struct Key {
    id: String,
    role: &'static str,
}

#[derive(Serialize)]
struct Keys {
    keys: Vec<Key>,
}

#[derive(Serialize)]
struct Rotated {
    keys: Vec<Key>,
    /// Records that there are, and those that were written again.
    records: u64,
    again: u64,
    /// Objects of logs that continue to count under the older keys.
    vouched_for: u64,
    /// What is to be done next.
    next: &'static str,
}

/// Does it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let Command::Key(args) = args.command;
    match args.command {
        KeyCommand::List => {
            let data_dir = DataDir::open_to_read(global).await?;
            global.output().done(&Keys { keys: listed(&data_dir.key) }, |keys| text(&keys.keys))?;
        }
        KeyCommand::Rotate(args) => rotate(&args, global).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn rotate(args: &RotateArgs, global: &Global) -> Result<()> {
    let data_dir = DataDir::open(global).await?;
    let mut keys = data_dir.key.clone();
    // Other nodes use the prepared key: they must have the new configuration before the old key is
    // retired.
    let one_by_one = args.prepare || keys.next().is_some() || (keys.is_rotating() && !args.finish);
    if args.prepare {
        keys = keys.with_next(&*data_dir.random)?;
        keep(&data_dir, &keys).await?;
        let next = "copy server.key to all nodes, restart each, and run `sealpost server key rotate` here";
        return report(global, &keys, Default::default(), 0, next);
    }
    if !args.finish && !keys.is_rotating() {
        keys = keys.with_next(&*data_dir.random)?.rotated();
        // Before anything is written under it.
        keep(&data_dir, &keys).await?;
    }
    let (clock, random) = (data_dir.clock.clone(), data_dir.random.clone());
    let directory = Directory::new(data_dir.store.clone(), keys.clone(), clock, random);
    // Under the new keys, and once for all records: those of the place are under the keys of before.
    let seen = Watermarks::load(&data_dir.dir.join(watermarks::FILE), &keys)?;
    let directory = directory.with_watermarks(seen.clone());
    let done = directory.authenticate_again().await?;
    config_store(global)?.authenticate(&data_dir.store, &keys, &seen).await?;
    tokio::task::spawn_blocking(move || seen.save()).await??;
    if one_by_one && !args.finish {
        let next = "copy server.key to all nodes, restart each, and then run `sealpost server key rotate --finish` here";
        return report(global, &keys, done, 0, next);
    }
    // While they still count for all existing objects.
    let vouched_for = vouch(&data_dir, &keys).await?;
    keys = keys.settled();
    keep(&data_dir, &keys).await?;
    let next = "keep server.key in the backup, and copy it to all nodes; start them";
    report(global, &keys, done, vouched_for, next)
}

/// What the configuration says of the store.
fn config_store(global: &Global) -> Result<StoreConfig> {
    Ok(Config::load(global)?.store)
}

/// Records which objects of all logs are under older keys, so that nothing else under them counts
/// from now on.
async fn vouch(data_dir: &DataDir, keys: &ServerKeys) -> Result<u64> {
    let (key, mut objects) = (LogKey::of(keys), 0);
    for id in data_dir.store.names_below("acct").await? {
        // Other objects with such a name belong to no account, and `sealpost check` reports them.
        let Ok(account) = id.parse::<AccountId>() else { continue };
        let journal = Journal::new(data_dir.store.clone(), account, &key, data_dir.random.clone());
        objects += journal.attest().await.with_context(|| format!("the log of acct/{id}"))? as u64;
    }
    let queues = queue_store(data_dir).await?;
    for id in queues.names_below("queue").await? {
        let Ok(node) = id.parse::<AccountId>() else { continue };
        let journal = Journal::of_queue(queues.clone(), node, &key, data_dir.random.clone());
        objects += journal.attest().await.with_context(|| format!("the log of queue/{id}"))? as u64;
    }
    Ok(objects)
}

/// Puts the keys in the place of those of before, and what this node has seen under the new one.
async fn keep(data_dir: &DataDir, keys: &ServerKeys) -> Result<()> {
    let (dir, keys, random) = (data_dir.dir.clone(), keys.clone(), data_dir.random.clone());
    let kept = tokio::task::spawn_blocking(move || {
        let seen = Watermarks::load(&dir.join(watermarks::FILE), &keys)?;
        keys.replace(&dir.join(KEY_FILE), &*random)?;
        seen.rewrite()
    });
    Ok(kept.await??)
}

fn report(
    global: &Global,
    keys: &ServerKeys,
    done: sealpost_directory::Authenticated,
    vouched_for: u64,
    next: &'static str,
) -> Result<()> {
    let (keys, records, again) = (listed(keys), done.records, done.again);
    let rotated = Rotated { keys, records, again, vouched_for, next };
    global.output().done(&rotated, |rotated| {
        let Rotated { keys, again, next, .. } = rotated;
        let again = counted(*again, "record was", "records were");
        format!("{}\n{again} authenticated again.\nNext: {next}", text(keys))
    })?;
    Ok(())
}

fn listed(keys: &ServerKeys) -> Vec<Key> {
    let current = std::iter::once((Role::Current, keys.current()));
    let all = current.chain(keys.older());
    all.map(|(role, key)| Key { id: key.id().to_string(), role: role_name(role) }).collect()
}

fn text(keys: &[Key]) -> String {
    keys.iter().map(|key| format!("{}  {}", key.id, key.role)).collect::<Vec<_>>().join("\n")
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Current => "current",
        Role::Next => "next",
        Role::Older => "older",
        Role::Retired => "retired",
    }
}
