//! `sealpost archive schedule`: prints, installs nothing.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

use super::remembered::{Accounts, Remembered};
use super::target::Format;
use crate::config::Config;
use crate::exit::Usage;
use crate::global::Global;
use crate::output::warn;
use crate::shell::quoted;

/// Arguments of `sealpost archive schedule`.
#[derive(clap::Args)]
#[command(after_help = "The pull prints nothing if all goes well.\n
Examples:
  sealpost archive schedule                   one systemd timer for all accounts, with instructions
  (crontab -l; sealpost archive schedule --as cron) | crontab -")]
pub struct Args {
    /// The accounts to pull [default: all remembered accounts]
    #[arg(value_name = "ACCOUNT")]
    accounts: Vec<String>,
    /// The scheduler
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
    /// None: all that are remembered.
    accounts: &'a [String],
    every_minutes: u32,
    text: &'a str,
}

/// Runs it.
pub fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let accounts = Accounts::of(global)?;
    let names = if args.accounts.is_empty() { accounts.names()? } else { args.accounts.clone() };
    if names.is_empty() {
        return Err(Usage("no account is remembered: add one with `sealpost archive add`".into()).into());
    }
    for name in &names {
        warn_of(name, &accounts.get(name)?);
    }
    let program = std::env::current_exe().context("where this program is")?;
    let config = Config::load(global)?;
    let directory = std::path::absolute(&config.directory)?;
    let file = config.file.as_ref().filter(|_| config.is_named());
    let file = file.map(|file| std::path::absolute(&file.path)).transpose()?;
    let (program, directory) = (program.to_string_lossy(), directory.to_string_lossy());
    let file = file.as_deref().map(Path::to_string_lossy);
    let mut words = vec![&*program, "--quiet"];
    words.extend(file.as_deref().into_iter().flat_map(|file| ["--config", file]));
    words.extend(["--dir", &*directory, "archive", "pull"]);
    words.extend(args.accounts.iter().map(|name| &**name));
    let command = words.into_iter().map(quoted).collect::<Vec<_>>().join(" ");
    let text = match args.form {
        Form::Cron => cron(&command, args.every)?,
        Form::Systemd => systemd(&command, &args.accounts, args.every),
    };
    let schedule = Schedule { accounts: &args.accounts, every_minutes: args.every, text: &text };
    global.output().show(&schedule, |schedule| schedule.text.to_owned())?;
    Ok(ExitCode::SUCCESS)
}

/// Reports the secrets that a timer cannot prompt for.
fn warn_of(name: &str, account: &Remembered) {
    if account.server.password_file.is_none() && account.server.token_command.is_none() {
        warn(format_args!(
            "sealpost: {name}: a scheduled pull cannot prompt for the server's password: add the account with \
             --password-file or --token-command"
        ));
    }
    if account.format == Format::Sealpost && account.copy_password_file.is_none() {
        warn(format_args!(
            "sealpost: {name}: a scheduled pull cannot prompt for the backup's password: add the account with \
             --copy-password-file"
        ));
    }
}

fn cron(command: &str, every: u32) -> Result<String> {
    // What does not divide an hour, or a day, would come at uneven times.
    let when = match every {
        1440 => "0 4 * * *".into(),
        _ if every < 60 && 60 % every == 0 => format!("*/{every} * * * *"),
        _ if 1440 % every == 0 && every.is_multiple_of(60) => format!("0 */{} * * *", every / 60),
        _ => {
            let why = format!(
                "cron cannot run a command every {every} minutes: use 10, 15, 20, 30, 60, 120, 180, 240, 360, \
                 480 or 720 minutes, or --as systemd"
            );
            return Err(Usage(why).into());
        }
    };
    // `%` is a line end to cron.
    Ok(format!("{when} {}", command.replace('%', "\\%")))
}

fn systemd(command: &str, accounts: &[String], every: u32) -> String {
    // `%` begins a specifier, `$` a variable.
    let command = command.replace('%', "%%").replace('$', "$$");
    let unit = unit(accounts);
    let whose = if accounts.is_empty() { "all archived accounts".to_owned() } else { accounts.join(", ") };
    let timer = quoted(&format!("{unit}.timer"));
    format!(
        "# ~/.config/systemd/user/{unit}.service\n[Unit]\nDescription=Pull mail of {whose}\n\
         \n[Service]\nType=oneshot\nExecStart={command}\n\
         # Interrupted, or the server cannot be reached: the next run continues.\nSuccessExitStatus=75\n\
         \n# ~/.config/systemd/user/{unit}.timer\n[Unit]\nDescription=Pull mail of {whose} \
         every {every} minutes\n\n[Timer]\nOnBootSec=2min\nOnUnitInactiveSec={every}min\nRandomizedDelaySec=30\n\
         \n[Install]\nWantedBy=timers.target\n\
         \n# then: systemctl --user daemon-reload && systemctl --user enable --now {timer}"
    )
}

/// What the units are called, without an ending: what cannot be in such a name is written as
/// `systemd-escape` does.
fn unit(accounts: &[String]) -> String {
    let mut unit = "sealpost-archive".to_owned();
    for account in accounts {
        unit.push('-');
        for byte in account.bytes() {
            match byte {
                b if b.is_ascii_alphanumeric() || b"._-@".contains(&b) => unit.push(b.into()),
                b => unit.push_str(&format!("\\x{b:02x}")),
            }
        }
    }
    unit
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
    }

    #[test]
    fn units_have_names_that_systemd_takes() {
        let text = systemd("pull", &["jane+work@ü.example".to_owned()], 15);
        let unit = r"sealpost-archive-jane\x2bwork@\xc3\xbc.example";
        assert!(text.contains(&format!("/{unit}.service\n")) && text.contains(&format!("/{unit}.timer\n")));
        assert!(text.ends_with(&format!(" enable --now '{unit}.timer'")), "{text}");
        assert_eq!(super::unit(&["a.b-c_d@e".to_owned(), "b".to_owned()]), "sealpost-archive-a.b-c_d@e-b");
        assert!(systemd("pull", &[], 15).contains("/sealpost-archive.timer\n"));
    }
}
