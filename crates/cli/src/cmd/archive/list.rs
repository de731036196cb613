//! `sealpost archive list`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use super::remembered::{Accounts, status_of};
use super::target::Format;
use crate::global::Global;

#[derive(Serialize)]
struct BackupRow {
    account: String,
    user: String,
    host: String,
    port: u16,
    format: Format,
    into: PathBuf,
}

/// Runs it.
pub fn run(global: &Global) -> Result<ExitCode> {
    let accounts = Accounts::of(global)?;
    let names = accounts.names()?;
    if names.is_empty() {
        global.output().note("no account is remembered: add one with `sealpost archive add`");
    }
    let mut worst = 0;
    for name in &names {
        let account = match accounts.get(name) {
            Ok(account) => account,
            Err(e) => {
                worst = worst.max(status_of(name, names.len(), Err(e))?);
                continue;
            }
        };
        let shown = BackupRow {
            account: name.clone(),
            user: account.server.user,
            host: account.server.host,
            port: account.server.port,
            format: account.format,
            into: account.into,
        };
        global.output().show(&shown, |s| {
            format!("{:<20} {} at {} port {} in {}", s.account, s.user, s.host, s.port, s.into.display())
        })?;
    }
    Ok(ExitCode::from(worst))
}
