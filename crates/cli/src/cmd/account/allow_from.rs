//! `sealpost account allow-from`: as whom an account may send besides itself.

use std::process::ExitCode;

use anyhow::Result;
use sealpost_base::Error;
use serde::Serialize;

use super::name_args::NameArgs;
use crate::data_dir::DataDir;
use crate::exit::Usage;
use crate::global::Global;

/// Arguments of `sealpost account allow-from`.
#[derive(clap::Args)]
#[command(
    after_help = "An account may always send as itself, as itself with a tag (jane+lists@example.org), and as an alias \
                  that leads to it alone.\n
Examples:
  sealpost account allow-from jane@example.org info@example.org
  sealpost account allow-from jane@example.org @shop.example
  sealpost account allow-from jane@example.org info@example.org --remove
  sealpost account allow-from jane@example.org --list"
)]
pub(super) struct Args {
    #[command(flatten)]
    account: NameArgs,
    /// The address, or @DOMAIN for all addresses of a domain
    #[arg(value_name = "ADDRESS", required_unless_present = "list")]
    address: Option<String>,
    /// Withdraw the permission
    #[arg(long, requires = "address")]
    remove: bool,
    /// Print the allowed addresses
    #[arg(long, conflicts_with_all = ["address", "remove"])]
    list: bool,
}

#[derive(Serialize)]
struct Allowed {
    account: String,
    /// What it may send as, besides its own addresses.
    allowed: Vec<String>,
}

pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let is_change = args.address.is_some();
    let data_dir =
        if is_change { DataDir::open(global).await? } else { DataDir::open_to_read(global).await? };
    let name = data_dir.account_name(&args.account.name)?;
    let Some(address) = &args.address else {
        let record = data_dir.directory.get(&name).await?;
        let allowed = record.sending.map(|sending| sending.allowed().to_vec()).unwrap_or_default();
        let allowed = Allowed { account: name.to_string(), allowed };
        global.output().show(&allowed, |allowed| match allowed.allowed.is_empty() {
            true => format!("{} may send as itself and its aliases alone", allowed.account),
            false => allowed.allowed.join("\n"),
        })?;
        return Ok(ExitCode::SUCCESS);
    };
    let sender = data_dir.alias_name(address)?;
    // Other mail servers write it so; here it would be one address with a star.
    if let (Some(domain), false) = (sender.to_string().strip_prefix("*@"), args.remove) {
        return Err(Usage(format!("for all addresses of {domain} write @{domain}")).into());
    }
    let changed = data_dir.directory.update(&name, |record| {
        let changed = record.change_sending(|sending| match args.remove {
            true => Ok(sending.forbid(&sender)),
            false => sending.allow(&sender),
        })?;
        let allowed = record.sending.as_ref().map(|sending| sending.allowed().to_vec());
        Ok((record.id, changed, allowed.unwrap_or_default()))
    });
    let (id, changed, allowed) = changed.await?;
    if args.remove && !changed {
        return Err(Error::not_found(format!("{name} was not allowed to send as {sender}")).into());
    }
    data_dir.notify_record_changed(id).await;
    let done = Allowed { account: name.to_string(), allowed };
    global.output().done(&done, |_| match (args.remove, changed) {
        (true, _) => format!("{name} may send as {sender} no more"),
        (false, true) => format!("{name} may send as {sender}"),
        (false, false) => format!("{name} may send as {sender} already"),
    })?;
    Ok(ExitCode::SUCCESS)
}
