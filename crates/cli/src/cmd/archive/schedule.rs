//! `sealpost archive schedule`: prints, installs nothing.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

use super::remembered::Accounts;
use super::target::Format;
use crate::config::Config;
use crate::exit::Usage;
use crate::global::Global;
use crate::output::warn;

/// Arguments of `sealpost archive schedule`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sealpost archive schedule work              says what to put where
  (crontab -l; sealpost archive schedule work --as cron) | crontab -")]
pub struct Args {
    /// The account to pull
    #[arg(value_name = "ACCOUNT")]
    account: String,
    /// For what
    #[arg(long = "as", value_enum, default_value_t)]
    form: Form,
    /// Minutes between two pulls
    #[arg(long, value_name = "MINUTES", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1440))]
    every: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A systemd service and timer of this user
    #[default]
    Systemd,
    /// A line for crontab
    Cron,
}

/// What to put where.
#[derive(Serialize)]
struct Schedule<'a> {
    account: &'a str,
    every_minutes: u32,
    text: &'a str,
}

/// Runs it.
pub fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let account = Accounts::of(global)?.get(&args.account)?;
    if account.server.password_file.is_none() && account.server.token_command.is_none() {
        warn(
            "sealpost: nobody can be asked for the server's password then: remember it with --password-file or --token-command",
        );
    }
    if account.format == Format::Sealpost && account.copy_password_file.is_none() {
        warn(
            "sealpost: nobody can be asked for the copy's password then: remember it with --copy-password-file",
        );
    }
    let program = std::env::current_exe().context("where this program is")?;
    let directory = std::path::absolute(Config::load(global)?.directory)?;
    let command = [
        &*program.to_string_lossy(),
        "--dir",
        &directory.to_string_lossy(),
        "archive",
        "pull",
        &args.account,
    ]
    .map(quoted)
    .join(" ");
    let text = match args.form {
        Form::Cron => cron(&command, args.every)?,
        Form::Systemd => systemd(&command, &args.account, args.every),
    };
    let schedule = Schedule { account: &args.account, every_minutes: args.every, text: &text };
    global.output().show(&schedule, |schedule| schedule.text.to_owned())?;
    Ok(ExitCode::SUCCESS)
}

fn cron(command: &str, every: u32) -> Result<String> {
    // What does not divide an hour, or a day, would come at uneven times.
    let when = match every {
        1440 => "0 4 * * *".into(),
        _ if every < 60 && 60 % every == 0 => format!("*/{every} * * * *"),
        _ if 1440 % every == 0 && every.is_multiple_of(60) => format!("0 */{} * * *", every / 60),
        _ => {
            let why = format!(
                "cron cannot do something every {every} minutes: take a part of an hour (10, 15, 20, 30), hours that are a part of a \
                 day (60, 120, 180, 240, 360, 480, 720), or --as systemd"
            );
            return Err(Usage(why).into());
        }
    };
    // `%` is a line end to cron.
    Ok(format!("{when} {}", command.replace('%', "\\%")))
}

fn systemd(command: &str, account: &str, every: u32) -> String {
    // `%` begins a specifier, `$` a variable.
    let command = command.replace('%', "%%").replace('$', "$$");
    let unit = unit(account);
    let timer = quoted(&format!("{unit}.timer"));
    format!(
        "# ~/.config/systemd/user/{unit}.service\n[Unit]\nDescription=Pull mail of {account}\n\
         \n[Service]\nType=oneshot\nExecStart={command}\n\
         # Interrupted, or the server cannot be reached: the next run goes on.\nSuccessExitStatus=75\n\
         \n# ~/.config/systemd/user/{unit}.timer\n[Unit]\nDescription=Pull mail of {account} \
         every {every} minutes\n\n[Timer]\nOnBootSec=2min\nOnUnitInactiveSec={every}min\nRandomizedDelaySec=30\n\
         \n[Install]\nWantedBy=timers.target\n\
         \n# then: systemctl --user daemon-reload && systemctl --user enable --now {timer}"
    )
}

/// What the units are called, without an ending: what cannot be in such a name is written as `systemd-escape` does.
fn unit(account: &str) -> String {
    let mut unit = "sealpost-archive-".to_owned();
    for byte in account.bytes() {
        match byte {
            b if b.is_ascii_alphanumeric() || b"._-@".contains(&b) => unit.push(b.into()),
            b => unit.push_str(&format!("\\x{b:02x}")),
        }
    }
    unit
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-@+:,=%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_cron() {
        assert_eq!(cron("a 50%", 15).unwrap(), "*/15 * * * * a 50\\%");
        assert_eq!(cron("a", 60).unwrap(), "0 */1 * * * a");
        assert_eq!(cron("a", 120).unwrap(), "0 */2 * * * a");
        assert_eq!(cron("a", 1440).unwrap(), "0 4 * * * a");
        for uneven in [7, 45, 90, 300, 1439] {
            assert!(cron("a", uneven).is_err(), "{uneven}");
        }
        assert_eq!(quoted("a b'c"), "'a b'\\''c'");
    }

    #[test]
    fn units_have_names_that_systemd_takes() {
        let text = systemd("pull", "jane+work@ü.example", 15);
        let unit = r"sealpost-archive-jane\x2bwork@\xc3\xbc.example";
        assert!(text.contains(&format!("/{unit}.service\n")) && text.contains(&format!("/{unit}.timer\n")));
        assert!(text.ends_with(&format!(" enable --now '{unit}.timer'")), "{text}");
        assert_eq!(super::unit("a.b-c_d@e"), "sealpost-archive-a.b-c_d@e");
    }
}
