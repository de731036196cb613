//! Where a copy is, and in which format.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::ValueEnum;
use futures::TryStreamExt;
use sealpost_account::directory::NewAccount;
use sealpost_archive::keep::{Copy, imap_backup, maildir, sealed};
use sealpost_base::{Error, Kind};
use serde::{Deserialize, Serialize};

use super::super::account::unlock::{Accept, unlock};
use crate::config::Config;
use crate::exit::Usage;
use crate::global::Global;
use crate::place::Place;
use crate::secret::PasswordArgs;

/// How a copy is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// An account of a Sealpost data directory: sealed with its password, searchable, readable over IMAP
    #[default]
    Sealpost,
    /// mbox files with .imap files beside them, as imap-backup has them
    Mbox,
    /// A Maildir, as mbsync has it
    Maildir,
}

/// Options of copies that are sealed.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Copy")]
pub struct SealedArgs {
    /// Of `--format sealpost`: read the password that opens the copy from FILE [default: asked for]
    #[arg(long, value_name = "FILE")]
    pub copy_password_file: Option<PathBuf>,
    /// Of `--format sealpost`: the account in it [default: the one that there is; to begin with, called like the user]
    #[arg(long, value_name = "NAME")]
    pub copy_account: Option<String>,
}

/// A copy.
pub struct Target<'a> {
    /// How it is kept.
    pub format: Format,
    /// Where.
    pub directory: &'a Path,
    /// What opens it.
    pub sealed: &'a SealedArgs,
    /// What the account is called if one has to be made; `None`: none is made.
    pub make: Option<&'a str>,
}

impl Target<'_> {
    /// Opens, or begins, the copy.
    ///
    /// # Errors
    /// What the format says.
    pub async fn open(&self, global: &Global) -> Result<Arc<dyn Copy>> {
        if self.format == Format::Sealpost {
            return self.open_sealed(global).await;
        }
        let (format, directory) = (self.format, self.directory.to_owned());
        let open = move || match format {
            Format::Maildir => maildir::open(&directory),
            _ => imap_backup::open(&directory),
        };
        Ok(tokio::task::spawn_blocking(open).await??.into())
    }

    async fn open_sealed(&self, global: &Global) -> Result<Arc<dyn Copy>> {
        let mut config = Config::load(global)?;
        config.directory = self.directory.to_owned();
        let place = Place::of(&config).await?;
        let name = self.account(&place).await?;
        let password =
            PasswordArgs { password_file: self.sealed.copy_password_file.clone(), ..PasswordArgs::default() };
        let known = place.directory.account_name(&name)?;
        let there = match place.directory.get(&known).await {
            Ok(_) => true,
            Err(e) if e.kind() == Kind::NotFound && self.make.is_some() => false,
            Err(e) => return Err(e.into()),
        };
        let (record, root) = if there {
            unlock(&place, &name, &password, Accept::Login).await?
        } else {
            let new = password.new_one(&format!("New password of the copy {known}")).await?;
            let made = place.directory.create(&known, NewAccount::with_password(new)).await;
            made.map_err(|e| match e.kind() {
                Kind::Conflict => Error::conflict(format!(
                    "{}: another sealpost is at work on this copy and has just made it: wait until it is done",
                    self.directory.display()
                ))
                .with_source(e),
                _ => e,
            })?
        };
        let account = place.accounts().open(record.id, &root).await?;
        Ok(sealed::open(tokio::runtime::Handle::current(), account, self.directory)?.into())
    }

    /// The account's name: the one that is said, the only one there is, or one for the user.
    async fn account(&self, place: &Place) -> Result<String> {
        if let Some(name) = &self.sealed.copy_account {
            return Ok(name.clone());
        }
        let records: Vec<_> = place.directory.list().try_collect().await?;
        match (&*records, self.make) {
            ([one], _) => Ok(one.name.to_string()),
            ([], Some(user)) => Ok(user.to_owned()),
            ([], None) => bail!(Usage(format!("there is no copy in {}", self.directory.display()))),
            _ => bail!(Usage(format!(
                "there are several accounts in {}: say which with --copy-account",
                self.directory.display()
            ))),
        }
    }
}
