//! `sealpost archive add`: asks what is not said, tries it, and remembers it.

mod questions;

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use indicatif::HumanCount;
use sealpost_archive::client::{
    Capabilities, Connection, ListedMailbox, Listing, ShownCertificate, is_untrusted,
};
use sealpost_archive::pull;
use sealpost_base::{Error, Kind};
use sealpost_imap::types::MailboxAttribute;
use serde::Serialize;

use self::questions::{Login, Terminal};
use super::folders::{FolderArgs, check};
use super::progress::Working;
use super::remembered::{Accounts, Remembered};
use super::server::ServerArgs;
use super::target::{Format, SealedArgs, bytes};
use crate::exit::Usage;
use crate::global::Global;
use crate::output::{Output, text, warn};

/// Attempts to enter the password of a backup.
const COPY_PASSWORDS: usize = 5;

/// Arguments of `sealpost archive add`.
#[derive(clap::Args)]
#[command(
    after_help = "At a terminal, add asks for missing values, and for the folders to copy. It tests the \
                        connection before it remembers the account. It keeps a typed password in a file \
                        that only you can read; --password-file or --token-command leave it elsewhere.\n
Examples:
  sealpost archive add work
  sealpost archive add work --host imap.example.org --user jane --password-file ~/.secret \\
      --format mbox --into ~/mail/work
  sealpost archive add gmail --host imap.gmail.com --user jane@gmail.com \\
      --token-command 'oauth2l fetch …' --format maildir --into ~/mail/gmail"
)]
pub struct Args {
    /// A name for the account, such as work
    #[arg(value_name = "ACCOUNT")]
    account: String,
    #[command(flatten)]
    server: ServerArgs,
    /// The format of the backup
    #[arg(long, value_enum, default_value_t, help_heading = "Backup")]
    format: Format,
    /// The directory of the backup [default: archive/ACCOUNT in the data directory]
    #[arg(long, value_name = "DIR", help_heading = "Backup")]
    into: Option<PathBuf>,
    #[command(flatten)]
    sealed: SealedArgs,
    #[command(flatten)]
    folders: FolderArgs,
    /// Keep at most SIZE of message bodies on disk, such as 2GB: headers and searchable text of all
    /// messages stay; each pull evicts the oldest and largest bodies, which are fetched from the
    /// server when they are opened. Only with `--format sealpost`
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Backup")]
    body_limit: Option<String>,
    /// Remember the account without a test of the connection
    #[arg(long)]
    no_check: bool,
}

/// The size as it was written, which is one.
pub fn size(text: &str) -> Result<String, String> {
    bytes(text).map(|_| text.to_owned())
}

/// What was added, and what there is.
#[derive(Serialize)]
struct Added<'a> {
    account: &'a str,
    into: &'a std::path::Path,
    folders: Vec<Folder>,
}

#[derive(Serialize)]
struct Folder {
    name: String,
    messages: Option<u32>,
    pulled: bool,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    if args.body_limit.is_some() && args.format != Format::Sealpost {
        return Err(Usage(
            "--body-limit needs --format sealpost: mbox and Maildir copies keep all bodies".into(),
        )
        .into());
    }
    let accounts = Accounts::of(global)?;
    accounts.check_new(&args.account)?;
    let mut login = Login::new(&args.server);
    let (mut folders, mut shown) = (args.folders.clone(), Vec::new());
    if args.no_check {
        login.ask_server(&mut Terminal)?;
        login.ask_login(&mut Terminal).await?;
    } else {
        let there = tried(&mut login, global.output()).await?;
        if login.is_interactive() && folders.is_all() {
            warn(table(&there.folders(&folders)));
            folders = questions::folders(&mut Terminal, &there.names(), &there.rarely_wanted())?;
        } else {
            check(&folders, there.names().iter().map(String::as_str))?;
            propose(global.output(), &there.rarely_wanted());
        }
        shown = there.folders(&folders);
    }
    let place = login.place()?;
    let into = match &args.into {
        Some(into) => std::path::absolute(into)?,
        None => {
            let data = crate::config::Config::load(global)?.directory;
            std::path::absolute(data.join("archive").join(&args.account))?
        }
    };
    let mut account = Remembered {
        format: args.format,
        into,
        folders: folders.only,
        exclude: folders.exclude,
        copy_password_file: args.sealed.copy_password_file.as_deref().map(std::path::absolute).transpose()?,
        copy_account: args.sealed.copy_account.clone(),
        body_limit: args.body_limit.clone(),
        server: place,
    };
    if !args.no_check {
        let sealed = account.sealed(&args.sealed);
        open_copy(&account, &sealed, global).await?;
    }
    if let Some(trusted) = &login.certificate {
        account.server.ca = Some(accounts.keep_certificate(&args.account, &trusted.pem())?);
    }
    if let Some(typed) = &login.typed {
        account.server.password_file = Some(accounts.keep_password(&args.account, typed.bytes())?);
    }
    accounts.add(&args.account, &account)?;
    let added = Added { account: &args.account, into: &account.into, folders: shown };
    let next = global.command(&["archive", "pull", &args.account]);
    global.output().outcome(true, &added, |added| added.text(&next))?;
    Ok(ExitCode::SUCCESS)
}

/// What an account has.
struct ProbedServer {
    listing: Listing,
    capabilities: Capabilities,
}

/// The account's server and login: prompts for missing parts, and again after an invalid answer.
async fn tried(login: &mut Login, output: Output) -> Result<ProbedServer> {
    login.ask_server(&mut Terminal)?;
    // A password needs a server to test it.
    loop {
        let server = login.server()?;
        let working = Working::new(output, &format!("connecting to {}", server.host), "");
        let reached = Connection::reach(&server).await;
        drop(working);
        match reached {
            Ok(()) => break,
            Err(e) if is_untrusted(&e) => {
                let shown = ShownCertificate::of(&server).await?;
                login.is_untrusted(e.into(), shown, &mut Terminal)?;
            }
            Err(e) => login.is_unreached(e.into(), &mut Terminal)?,
        }
    }
    loop {
        login.ask_login(&mut Terminal).await?;
        match opened(login, output).await {
            Ok(there) => return Ok(there),
            Err(e) => login.is_refused(e, &mut Terminal)?,
        }
    }
}

/// What the account has, if it can be opened so.
async fn opened(login: &Login, output: Output) -> Result<ProbedServer> {
    let server = login.opened().await?;
    let working = Working::new(output, &format!("trying {server}"), "");
    let mut connection = Connection::open(&server).await?;
    let listing = connection.listing().await?;
    let capabilities = connection.capabilities().clone();
    connection.logout().await;
    drop(working);
    Ok(ProbedServer { listing, capabilities })
}

/// Checks the directory now, not at the first pull. Prompts again if the password of an existing
/// backup is wrong.
async fn open_copy(account: &Remembered, sealed: &SealedArgs, global: &Global) -> Result<()> {
    let mut attempts = 1;
    loop {
        match account.target(sealed, true).open(global).await {
            Ok(_) => return Ok(()),
            Err(e) if sealed.copy_password_file.is_none() && attempts < COPY_PASSWORDS && is_denied(&e) => {
                warn(format_args!("sealpost: {}", text(&e)));
                attempts += 1;
            }
            Err(e) => return Err(e),
        }
    }
}

fn is_denied(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<Error>().is_some_and(|e| e.kind() == Kind::Denied))
}

impl ProbedServer {
    /// The folders with mail, and whether a pull of `chosen` takes them.
    fn folders(&self, chosen: &FolderArgs) -> Vec<Folder> {
        let wanted = |found: &ListedMailbox| chosen.wants(found.name.as_str());
        let pulled = pull::folders(&self.capabilities, self.listing.folders.clone(), &wanted);
        let pulled: HashSet<&str> = pulled.iter().map(|found| found.name.as_str()).collect();
        let folder = |found: &ListedMailbox| Folder {
            name: found.name.as_str().to_owned(),
            messages: found.numbers.as_ref().map(|numbers| numbers.messages),
            pulled: pulled.contains(found.name.as_str()),
        };
        self.with_mail().map(folder).collect()
    }

    fn names(&self) -> Vec<String> {
        self.with_mail().map(|found| found.name.as_str().to_owned()).collect()
    }

    /// Folders that most people leave out.
    fn rarely_wanted(&self) -> Vec<String> {
        let useless = [MailboxAttribute::Junk, MailboxAttribute::Trash];
        let is_useless = |found: &&ListedMailbox| found.attributes.iter().any(|a| useless.contains(a));
        self.with_mail().filter(is_useless).map(|found| found.name.as_str().to_owned()).collect()
    }

    fn with_mail(&self) -> impl Iterator<Item = &ListedMailbox> {
        self.listing.folders.iter().filter(|found| found.selectable)
    }
}

impl Added<'_> {
    fn text(&self, next: &str) -> String {
        let mut text = format!("{} will be kept in {}", self.account, self.into.display());
        if !self.folders.is_empty() {
            text.push_str(&format!("\n{}", table(&self.folders)));
        }
        text.push_str(&format!("\nnow: {next}"));
        text
    }
}

/// A line for each folder; those that are not pulled have a minus.
fn table(folders: &[Folder]) -> String {
    let line = |folder: &Folder| {
        let mark = if folder.pulled { ' ' } else { '-' };
        let messages = folder.messages.map_or_else(String::new, |n| HumanCount(n.into()).to_string());
        format!("{mark} {messages:>9}  {}", folder.name)
    };
    folders.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Says which options leave out what most people leave out.
fn propose(output: Output, rarely: &[String]) {
    if !rarely.is_empty() {
        let options: Vec<_> = rarely.iter().map(|name| format!("--exclude '{name}'")).collect();
        output.note(format_args!("most people leave out: {}", options.join(" ")));
    }
}
