//! `sealpost archive list`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use super::remembered::Accounts;
use super::target::Format;
use crate::global::Global;

#[derive(Serialize)]
struct Shown {
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
        global.output().note("no account is remembered yet: `sealpost archive add` makes one");
    }
    for name in names {
        let account = accounts.get(&name)?;
        let shown = Shown {
            account: name,
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
    Ok(ExitCode::SUCCESS)
}
