//! `sealpost account app-password`: app passwords, one for each program, which can be revoked one by
//! one; and with them the OAuth grants and web logins of the account, which its owner has made.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use sealpost_base::Error;
use sealpost_directory::{AccountName, AccountRecord, AppPassword};
use sealpost_mailformat::date::rfc3339;
use sealpost_vault::slot::{SlotId, SlotKind};
use serde::Serialize;

use super::name_args::NameArgs;
use super::unlock::{Accept, unlock};
use crate::data_dir::DataDir;
use crate::exit::Usage;
use crate::global::Global;
use crate::secret::PasswordArgs;

/// Arguments of `sealpost account app-password`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sealpost account app-password add jane@example.org \"Jane's phone\"
  sealpost account app-password list jane@example.org
  sealpost account app-password revoke jane@example.org \"Jane's phone\"")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create an app password and print it; it is never shown again
    #[command(after_help = "Example:
  sealpost account app-password add jane@example.org \"Jane's phone\"")]
    Add {
        #[command(flatten)]
        account: NameArgs,
        /// A label, such as the name of the device
        label: String,
        #[command(flatten)]
        password: PasswordArgs,
    },
    /// List the app passwords, OAuth grants and web logins, without their secrets
    #[command(after_help = "Example:
  sealpost account app-password list jane@example.org")]
    List(NameArgs),
    /// Revoke an app password, OAuth grant or web login: logins with it fail from now on
    #[command(after_help = "Example:
  sealpost account app-password revoke jane@example.org \"Jane's phone\"")]
    Revoke {
        #[command(flatten)]
        account: NameArgs,
        /// Its id or its label, as `list` shows them
        app_password: String,
    },
}

/// An app password, OAuth grant or web login as it is shown.
#[derive(Serialize)]
struct ListRow {
    id: String,
    kind: &'static str,
    label: String,
    created: Option<String>,
    /// To a day for a web login, to an access token for a grant; not known of an app password.
    last_used: Option<String>,
    /// The secret, when it was just made.
    #[serde(skip_serializing_if = "Option::is_none")]
    app_password: Option<String>,
}

impl ListRow {
    fn new(info: AppPassword, app_password: Option<String>) -> Self {
        let (created, kind) = (info.created.map(rfc3339), kind(info.kind));
        // What a browser or a client calls itself comes from outside.
        let label = info.label.replace(char::is_control, "?");
        ListRow { id: info.id.to_string(), kind, label, created, last_used: None, app_password }
    }

    fn line(&self) -> String {
        let (created, used) = (self.created.as_deref(), self.last_used.as_deref());
        let (created, used) = (created.unwrap_or("-"), used.unwrap_or("-"));
        format!("{}  {:12}  {created}  {used}  {}\n", self.id, self.kind, self.label)
    }
}

fn kind(kind: SlotKind) -> &'static str {
    match kind {
        SlotKind::Grant => "oauth-grant",
        SlotKind::WebLogin => "web-login",
        SlotKind::Token | SlotKind::Password | SlotKind::Recovery => "app-password",
    }
}

/// The record of an account, also of a removed one: it can be brought back with all its logins.
async fn of_any(data_dir: &DataDir, name: &AccountName) -> Result<AccountRecord> {
    let found = data_dir.directory.find_to_end_login(name).await?;
    Ok(found.ok_or_else(|| Error::not_found(format!("there is no account {name}")))?)
}

/// What the account has, with the last use of each where it is written down.
async fn listed(data_dir: &DataDir, record: &AccountRecord) -> Result<Vec<ListRow>> {
    let mut rows = Vec::new();
    for info in record.revocable() {
        let used = match info.kind {
            SlotKind::Token => None,
            _ => data_dir.directory.login_use(record.id, info.id).await?,
        };
        let last_used = used.map(|used| rfc3339(used.used));
        rows.push(ListRow { last_used, ..ListRow::new(info, None) });
    }
    Ok(rows)
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = match args.command {
        Command::List(_) => DataDir::open_to_read(global).await?,
        Command::Add { .. } | Command::Revoke { .. } => DataDir::open(global).await?,
    };
    match args.command {
        Command::Add { account, label, password } => {
            let (record, root) = unlock(&data_dir, &account.name, &password, Accept::Password).await?;
            let (info, secret) = data_dir.directory.add_app_password(&record.name, &root, &label).await?;
            let shown = ListRow::new(info, Some(secret.to_string()));
            global.output().note(format_args!(
                "app password for {}; it is shown only once, and mail programs take it in place of the password:",
                record.name
            ));
            global.output().show(&shown, |shown| shown.app_password.clone().unwrap_or_default())?;
        }
        Command::List(account) => {
            let name = data_dir.account_name(&account.name)?;
            let record = of_any(&data_dir, &name).await?;
            let shown = listed(&data_dir, &record).await?;
            global.output().show(&shown, |shown| shown.iter().map(ListRow::line).collect())?;
        }
        Command::Revoke { account, app_password } => {
            let name = data_dir.account_name(&account.name)?;
            let record = of_any(&data_dir, &name).await?;
            let info = find(&record, &app_password)?;
            data_dir.directory.revoke_app_password(&name, info.id).await?;
            data_dir.notify_record_changed(record.id).await;
            global
                .output()
                .done(&ListRow::new(info, None), |t| format!("revoked {} ({}) of {name}", t.id, t.label))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The app password, grant or web login of that id, or else the only one of that label.
fn find(record: &AccountRecord, wanted: &str) -> Result<AppPassword> {
    if let Some(found) = record.revocable().find(|info| same(info.id, wanted)) {
        return Ok(found);
    }
    let mut labelled = record.revocable().filter(|info| info.label == wanted);
    match (labelled.next(), labelled.next()) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => Err(Usage(format!("several have the label {wanted:?}; give the id")).into()),
        (None, _) => Err(Error::not_found(format!(
            "{} has no app password {wanted:?}; `sealpost account app-password list {0}` lists them",
            record.name
        ))
        .into()),
    }
}

fn same(id: SlotId, text: &str) -> bool {
    id.to_string().eq_ignore_ascii_case(text)
}
