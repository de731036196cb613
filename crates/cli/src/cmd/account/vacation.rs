//! `sealpost account vacation`: what is answered to mail while the owner of an account is away.
//!
//! Replies are made at delivery, while the owner is not logged in, so their text is sealed under the
//! mail key: this command needs no password.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Subcommand;
use sealpost_base::{Error, Timestamp, limits};
use sealpost_mailformat::date::{parse_utc, rfc3339};
use sealpost_submission::vacation::settings::VacationSettings;
use sealpost_submission::vacation::{Vacation, Vacations};
use sealpost_vault::mail_key::MailKeys;
use serde::Serialize;

use super::name_args::NameArgs;
use crate::data_dir::DataDir;
use crate::exit::Usage;
use crate::global::Global;
use crate::output::warn;
use crate::queues::{mail_keys_or_make, stored_mail_keys};

/// Arguments of `sealpost account vacation`.
#[derive(clap::Args)]
#[command(
    after_help = "The text is sealed under mail.key, as queued mail is: the operator can read and change it \
                  without the owner's password, which this command does not need. JMAP clients change the same text \
                  (VacationResponse).\n
Examples:
  sealpost account vacation show jane@example.org
  sealpost account vacation set jane@example.org --text \"Back on Monday.\" --to 2026-12-28
  sealpost account vacation set jane@example.org --text-file away.txt --subject \"Away\"
  sealpost account vacation off jane@example.org"
)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show the vacation response
    #[command(after_help = "Example:
  sealpost account vacation show jane@example.org --json")]
    Show(NameArgs),
    /// Switch the vacation response on; values that are not given stay as they are
    Set(SetArgs),
    /// Switch the vacation response off; its text is kept
    #[command(after_help = "Example:
  sealpost account vacation off jane@example.org")]
    Off(NameArgs),
}

#[derive(clap::Args)]
#[command(
    after_help = "Dates are days (2026-12-24, from 00:00 UTC) or moments (2026-12-24T08:30:00Z). A sender gets one reply in \
                  a week; switching the response off and on, or moving --from, begins again.\n
Examples:
  sealpost account vacation set jane@example.org --text \"Back on Monday.\"
  sealpost account vacation set jane@example.org --reset --html-file away.html --to 2026-12-28"
)]
struct SetArgs {
    #[command(flatten)]
    account: NameArgs,
    /// The plain text
    #[arg(long, value_name = "TEXT", conflicts_with = "text_file")]
    text: Option<String>,
    /// A file with the plain text, or - for standard input
    #[arg(long, value_name = "FILE")]
    text_file: Option<PathBuf>,
    /// A file with the HTML, or - for standard input
    #[arg(long, value_name = "FILE")]
    html_file: Option<PathBuf>,
    /// The subject [default: that of the message, behind "Auto:"]
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// Answer mail from then on [default: at once]
    #[arg(long, value_name = "DATE", value_parser = moment)]
    from: Option<Timestamp>,
    /// Answer mail before then [default: for ever]
    #[arg(long, value_name = "DATE", value_parser = moment)]
    to: Option<Timestamp>,
    /// Begin without the values that were set before
    #[arg(long)]
    reset: bool,
}

/// What is shown.
#[derive(Serialize)]
struct VacationReport {
    account: String,
    enabled: bool,
    from: Option<String>,
    to: Option<String>,
    subject: Option<String>,
    text: Option<String>,
    html: Option<String>,
}

pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    match args.action {
        Action::Show(account) => show(&account, global).await,
        Action::Set(set) => {
            let options = set.options()?;
            let report = change(&set.account, global, move |before| options.over(before)).await?;
            global.output().done(&report, |report| {
                let from = report.from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
                let to = report.to.as_ref().map(|to| format!(" until {to}")).unwrap_or_default();
                format!("mail for {} is answered{from}{to}", report.account)
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Off(account) => {
            let off = |before: &VacationSettings| VacationSettings { is_enabled: false, ..before.clone() };
            let report = change(&account, global, off).await?;
            global.output().done(&report, |report| format!("mail for {} is not answered", report.account))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn show(account: &NameArgs, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open_to_read(global).await?;
    let name = data_dir.account_name(&account.name)?;
    let record = data_dir.directory.get(&name).await?;
    let vacation = match (record.vacation, stored_mail_keys(&data_dir)?) {
        (None, _) => Vacation::default(),
        (Some(_), Some(keys)) => vacations(&data_dir, keys).get(&name).await?,
        (Some(_), None) => {
            let why = "mail.key, which opens the vacation response, is missing; restore it from the backup";
            return Err(Error::not_found(why).into());
        }
    };
    let report = VacationReport::of(name.to_string(), vacation.settings);
    global.output().show(&report, VacationReport::lines)?;
    Ok(ExitCode::SUCCESS)
}

async fn change(
    account: &NameArgs,
    global: &Global,
    change: impl Fn(&VacationSettings) -> VacationSettings + Send + Sync,
) -> Result<VacationReport> {
    let data_dir = DataDir::open(global).await?;
    let name = data_dir.account_name(&account.name)?;
    let id = data_dir.directory.get(&name).await?.id;
    let keys = mail_keys_or_make(&data_dir).await?;
    let changed = vacations(&data_dir, keys).change(&name, |before| Ok(change(&before.settings))).await?;
    data_dir.notify_record_changed(id).await;
    if changed.now.settings.is_enabled && !data_dir.settings.sends() {
        warn("sending.enabled is off: servers with this configuration send no reply");
    }
    Ok(VacationReport::of(name.to_string(), changed.now.settings))
}

fn vacations(data_dir: &DataDir, keys: MailKeys) -> Vacations {
    Vacations::new(data_dir.directory.clone(), keys, data_dir.random.clone())
}

/// What a command line gives.
struct VacationOptions {
    settings: VacationSettings,
    reset: bool,
}

impl SetArgs {
    fn options(&self) -> Result<VacationOptions> {
        let is_input = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
        if is_input(&self.text_file) && is_input(&self.html_file) {
            return Err(
                Usage("standard input can be read once: name a file for one of them".to_owned()).into()
            );
        }
        let from_file = self.text_file.as_deref().map(read).transpose()?;
        let settings = VacationSettings {
            is_enabled: true,
            from: self.from,
            to: self.to,
            subject: self.subject.clone(),
            text: self.text.clone().or(from_file),
            html: self.html_file.as_deref().map(read).transpose()?,
            round: 0,
        };
        match settings.wrong() {
            Some((_, why)) => Err(Usage(why).into()),
            None => Ok(VacationOptions { settings, reset: self.reset }),
        }
    }
}

impl VacationOptions {
    fn over(&self, before: &VacationSettings) -> VacationSettings {
        let (new, before) = (self.settings.clone(), before.clone());
        if self.reset {
            return VacationSettings { round: before.round, ..new };
        }
        VacationSettings {
            is_enabled: true,
            from: new.from.or(before.from),
            to: new.to.or(before.to),
            subject: new.subject.or(before.subject),
            text: new.text.or(before.text),
            html: new.html.or(before.html),
            round: before.round,
        }
    }
}

impl VacationReport {
    fn of(account: String, settings: VacationSettings) -> Self {
        let VacationSettings { is_enabled, from, to, subject, text, html, .. } = settings;
        let (from, to) = (from.map(rfc3339), to.map(rfc3339));
        VacationReport { account, enabled: is_enabled, from, to, subject, text, html }
    }

    fn lines(&self) -> String {
        let mut lines =
            format!("account  {}\nstate    {}\n", self.account, if self.enabled { "on" } else { "off" });
        let short = [("from", &self.from), ("to", &self.to), ("subject", &self.subject)];
        for (name, value) in short {
            if let Some(value) = value {
                lines.push_str(&format!("{name:<8} {value}\n"));
            }
        }
        for (name, value) in [("text", &self.text), ("html", &self.html)] {
            if let Some(value) = value {
                lines.push_str(&format!("{name}:\n{}\n", value.trim_end()));
            }
        }
        lines
    }
}

/// The text in a file, or in standard input.
fn read(path: &Path) -> Result<String> {
    let most = limits::VACATION_TEXT_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = match path == Path::new("-") {
        true => std::io::stdin().lock().take(most).read_to_end(&mut bytes),
        false => fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)),
    };
    read.with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.len() as u64 >= most {
        let text = format!("{} has more than {} bytes", path.display(), limits::VACATION_TEXT_BYTES);
        return Err(Usage(text).into());
    }
    let wrong = || Usage(format!("{} is not UTF-8; convert it first", path.display()));
    String::from_utf8(bytes).map_err(|_| wrong().into())
}

fn moment(text: &str) -> Result<Timestamp, String> {
    parse_utc(text).ok_or_else(|| "write a day as 2026-12-24, or a moment as 2026-12-24T08:30:00Z".to_owned())
}
