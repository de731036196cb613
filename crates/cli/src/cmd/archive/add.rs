//! `sealpost archive add`: asks what is not said, tries it, and remembers it.

mod questions;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use indicatif::HumanCount;
use sealpost_archive::client::{Capabilities, Connection, Found, Listing};
use sealpost_archive::pull;
use sealpost_imap::types::MailboxAttribute;
use serde::Serialize;

use self::questions::{Login, Terminal};
use super::folders::{Chosen, FolderArgs};
use super::progress::Working;
use super::remembered::{Accounts, Remembered};
use super::server::{Place, ServerArgs};
use super::target::{Format, SealedArgs, octets};
use crate::exit::Usage;
use crate::global::Global;
use crate::output::{Output, warn};

/// Arguments of `sealpost archive add`.
#[derive(clap::Args)]
#[command(
    after_help = "What is not said is asked for at a terminal, which folders to copy too. The account is tried before it is \
                  remembered. A password that was typed is kept in a file that only you can read; --password-file or \
                  --token-command keep it where you want it.\n
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
    let mut login = Login::new(&args.server);
    let mut place = login.ask(&mut Terminal).await?;
    let mut folders = args.folders.clone();
    let mut shown = Vec::new();
    if !args.untried {
        let (listing, capabilities) = loop {
            match tried(&login, &place, global.output()).await {
                Ok(found) => break found,
                Err(e) => login.forget(e, &mut Terminal)?,
            }
            place = login.ask(&mut Terminal).await?;
        };
        let asked = login.is_asked() && folders.only.is_empty() && folders.exclude.is_empty();
        shown = found(&listing, &capabilities, &folders);
        folders = if asked {
            warn(table(&shown));
            let names: Vec<_> = shown.iter().map(|folder| folder.name.clone()).collect();
            questions::folders(&mut Terminal, &names, &rarely_wanted(&listing))?
        } else {
            let chosen = Chosen::new(folders.clone());
            shown.iter().for_each(|folder| {
                chosen.wants(&folder.name);
            });
            chosen.check()?;
            propose(global.output(), &rarely_wanted(&listing));
            folders
        };
        shown = found(&listing, &capabilities, &folders);
    }
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
        keep_bodies: args.keep_bodies.clone(),
        server: place,
    };
    if !args.untried {
        // A directory that cannot be one is found out now, not by the first pull.
        let sealed = account.sealed(&args.sealed);
        account.target(&sealed, true).open(global).await?;
    }
    if let Some(typed) = &login.typed {
        account.server.password_file = Some(accounts.keep_password(&args.account, typed.bytes())?);
    }
    accounts.add(&args.account, &account)?;
    let added = Added { account: &args.account, into: &account.into, folders: shown };
    global.output().show(&added, Added::text)?;
    Ok(ExitCode::SUCCESS)
}

/// The folders that the account has, if it can be opened so.
async fn tried(login: &Login, place: &Place, output: Output) -> Result<(Listing, Capabilities)> {
    let server = login.at(place).await?;
    let working = Working::new(output, &format!("trying {server}"), "");
    let mut connection = Connection::open(&server).await?;
    let listing = connection.listing().await?;
    let capabilities = connection.capabilities().clone();
    connection.logout().await;
    drop(working);
    Ok((listing, capabilities))
}

/// The folders with mail, and whether a pull of `chosen` takes them.
fn found(listing: &Listing, capabilities: &Capabilities, chosen: &FolderArgs) -> Vec<Folder> {
    let wanted = |found: &Found| chosen.wants(found.name.as_str());
    let pulled = pull::folders(capabilities, listing.folders.clone(), &wanted);
    let folders = listing.folders.iter().filter(|found| found.selectable);
    folders
        .map(|found| Folder {
            name: found.name.as_str().to_owned(),
            messages: found.numbers.as_ref().map(|numbers| numbers.messages),
            pulled: pulled.iter().any(|pulled| pulled.name == found.name),
        })
        .collect()
}

impl Added<'_> {
    fn text(&self) -> String {
        let mut text = format!("{} will be kept in {}", self.account, self.into.display());
        if !self.folders.is_empty() {
            text.push_str(&format!("\n{}", table(&self.folders)));
        }
        text.push_str(&format!("\nnow: sealpost archive pull {}", self.account));
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

/// Folders that most people leave out.
fn rarely_wanted(listing: &Listing) -> Vec<String> {
    let useless = [MailboxAttribute::Junk, MailboxAttribute::Trash];
    let has = |found: &&Found| found.attributes.iter().any(|attribute| useless.contains(attribute));
    listing.folders.iter().filter(has).map(|found| found.name.as_str().to_owned()).collect()
}

fn propose(output: Output, rarely: &[String]) {
    if !rarely.is_empty() {
        let options: Vec<_> = rarely.iter().map(|name| format!("--exclude '{name}'")).collect();
        output.note(format_args!("most people leave out: {}", options.join(" ")));
    }
}
