//! `sealpost archive add`: asks what is not said, tries it, and remembers it.

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use indicatif::HumanCount;
use sealpost_archive::client::{Connection, Listing};
use sealpost_imap::types::MailboxAttribute;
use serde::Serialize;

use super::folders::{Chosen, FolderArgs};
use super::progress::Working;
use super::remembered::{Accounts, Remembered};
use super::server::{ServerArgs, password};
use super::target::{Format, SealedArgs, octets};
use crate::exit::Usage;
use crate::global::Global;
use crate::output::Output;
use crate::secret;

/// Arguments of `sealpost archive add`.
#[derive(clap::Args)]
#[command(
    after_help = "What is not said is asked for at a terminal. The account is tried before it is remembered. A password that \
                  was typed is kept in a file that only you can read; --password-file or --token-command keep it \
                  where you want it.\n
Examples:
  sealpost archive add work
  sealpost archive add work --host imap.example.org --user jane --password-file ~/.secret --format mbox --into ~/mail/work
  sealpost archive add gmail --host imap.gmail.com --user jane@gmail.com --token-command 'oauth2l fetch …' \\
      --format maildir --into ~/mail/gmail"
)]
pub struct Args {
    /// What to call it
    #[arg(value_name = "ACCOUNT")]
    account: String,
    #[command(flatten)]
    server: ServerArgs,
    /// How to keep the copy
    #[arg(long, value_enum, default_value_t, help_heading = "Copy")]
    format: Format,
    /// Where to keep the copy [default: archive/ACCOUNT in the data directory]
    #[arg(long, value_name = "DIR", help_heading = "Copy")]
    into: Option<PathBuf>,
    #[command(flatten)]
    sealed: SealedArgs,
    #[command(flatten)]
    folders: FolderArgs,
    /// Keep no more bodies than SIZE on disk, such as 2GB: headers and searchable text of everything stay, the oldest and largest bodies
    /// are given up after each pull and fetched from the server when they are opened. Of `--format sealpost`
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Copy")]
    keep_bodies: Option<String>,
    /// Do not try it
    #[arg(long)]
    untried: bool,
}

/// The size as it was written, which is one.
pub fn size(text: &str) -> Result<String, String> {
    octets(text).map(|_| text.to_owned())
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
    if args.keep_bodies.is_some() && args.format != Format::Sealpost {
        return Err(Usage(
            "--keep-bodies needs --format sealpost: mbox and Maildir have no message without its body".into(),
        )
        .into());
    }
    let accounts = Accounts::of(global)?;
    accounts.check_new(&args.account)?;
    let mut server = args.server.clone();
    if server.host.is_none() {
        server.host = Some(ask("IMAP server: ")?);
    }
    if server.user.is_none() {
        server.user = Some(ask("User: ")?);
    }
    let mut place = server.place()?.ok_or_else(|| Usage("--host is missing".into()))?;
    let typed = if place.password_file.is_none() && place.token_command.is_none() {
        Some(
            secret::ask(format!("Password of {} at {}", place.user, place.host), secret::PASSWORD_FILE)
                .await?,
        )
    } else {
        None
    };
    let into = match &args.into {
        Some(into) => std::path::absolute(into)?,
        None => {
            let data = crate::config::Config::load(global)?.directory;
            std::path::absolute(data.join("archive").join(&args.account))?
        }
    };
    let mut listing = Listing::default();
    if !args.untried {
        let tried = match &typed {
            Some(typed) => place.with(Arc::new(password(typed.bytes())))?,
            None => place.server().await?,
        };
        let working = Working::new(global.output(), &format!("trying {tried}"), "");
        let mut connection = Connection::open(&tried).await?;
        listing = connection.listing().await?;
        connection.logout().await;
        drop(working);
        let chosen = Chosen::new(args.folders.clone());
        for found in &listing.folders {
            chosen.wants(found.name.as_str());
        }
        chosen.check()?;
    }
    if let Some(typed) = typed {
        place.password_file = Some(accounts.keep_password(&args.account, typed.bytes())?);
    }
    let folders = args.folders.clone();
    let account = Remembered {
        format: args.format,
        into,
        folders: folders.only.clone(),
        exclude: folders.exclude.clone(),
        copy_password_file: args.sealed.copy_password_file.as_deref().map(std::path::absolute).transpose()?,
        copy_account: args.sealed.copy_account.clone(),
        keep_bodies: args.keep_bodies.clone(),
        server: place,
    };
    if !args.untried {
        // A directory that cannot be one is found out now, not by the first pull.
        let sealed = account.sealed(&args.sealed);
        account.target(&sealed, true).open(global).await?;
    }
    accounts.add(&args.account, &account)?;
    let shown = listing.folders.iter().map(|found| Folder {
        name: found.name.as_str().to_owned(),
        messages: found.numbers.as_ref().map(|numbers| numbers.messages),
        pulled: found.selectable && folders.wants(found.name.as_str()),
    });
    let added = Added { account: &args.account, into: &account.into, folders: shown.collect() };
    global.output().show(&added, Added::text)?;
    propose(global.output(), &listing);
    Ok(ExitCode::SUCCESS)
}

impl Added<'_> {
    fn text(&self) -> String {
        let mut text = format!("{} will be kept in {}", self.account, self.into.display());
        for folder in &self.folders {
            let mark = if folder.pulled { ' ' } else { '-' };
            let messages = folder.messages.map_or_else(String::new, |n| HumanCount(n.into()).to_string());
            text.push_str(&format!("\n{mark} {messages:>9}  {}", folder.name));
        }
        text.push_str(&format!("\nnow: sealpost archive pull {}", self.account));
        text
    }
}

/// Folders that most people leave out.
fn propose(output: Output, listing: &Listing) {
    let useless = [MailboxAttribute::Junk, MailboxAttribute::Trash];
    let has = |attribute: &MailboxAttribute| useless.contains(attribute);
    let names: Vec<_> = listing
        .folders
        .iter()
        .filter(|found| found.attributes.iter().any(has))
        .map(|found| format!("--exclude '{}'", found.name))
        .collect();
    if !names.is_empty() {
        output.note(format_args!("most people leave out: {}", names.join(" ")));
    }
}

fn ask(question: &str) -> Result<String> {
    if !std::io::stdin().is_terminal() {
        return Err(Usage("there is no terminal to ask at: name --host and --user".into()).into());
    }
    let mut out = std::io::stderr().lock();
    write!(out, "{question}")?;
    out.flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("the answer")?;
    let answer = line.trim().to_owned();
    if answer.is_empty() { Err(Usage("nothing was said".into()).into()) } else { Ok(answer) }
}
