//! Where a backup is, and in which format.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::ValueEnum;
use futures::TryStreamExt;
use sealpost_archive::backup::sealed::{BodyLimit, BodyOptions};
use sealpost_archive::backup::{Backup, EmptyBackup, imap_backup, maildir, sealed};
use sealpost_archive::refetch::Anywhere;
use sealpost_base::{Error, Kind, limits};
use sealpost_directory::{AccountName, Address, NewAccount};
use serde::{Deserialize, Serialize};

use super::super::account::unlock::{Accept, unlock};
use super::found;
use super::origin;
use super::server::SourceServer as Origin;
use crate::config::{Config, form};
use crate::data_dir::DataDir;
use crate::exit::{Usage, in_use};
use crate::global::Global;
use crate::output::warn;
use crate::secret::PasswordArgs;
use crate::store::StoreConfig;

/// How a backup is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// An account of a Sealpost data directory: sealed with its password, searchable, readable over IMAP
    #[default]
    Sealpost,
    /// mbox files with .imap files beside them, as imap-backup writes them
    Mbox,
    /// A Maildir, as mbsync writes it
    Maildir,
}

/// Options of copies that are sealed.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Backup")]
pub struct SealedArgs {
    /// With `--format sealpost`: read the password of the backup from FILE [default: prompt]
    #[arg(long, value_name = "FILE")]
    pub copy_password_file: Option<PathBuf>,
    /// With `--format sealpost`: the account in the backup [default: the only one; for a new backup
    /// the user name, or USER@HOST if that is no address]
    #[arg(long, value_name = "NAME")]
    pub copy_account: Option<String>,
}

/// A size such as `2GB` or `500MiB`, in bytes.
///
/// # Errors
/// What is wrong with it.
pub fn bytes(text: &str) -> Result<u64, String> {
    let decimal =
        [("TB", 1_000_000_000_000u64), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000), ("KB", 1000)];
    for (unit, factor) in decimal {
        if let Some(number) = text.trim().strip_suffix(unit) {
            let number = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
            return number.ok_or_else(|| format!("{text:?} is not a size such as 2GB"));
        }
    }
    form::size(text)
}

/// Says what was found in the backup, and not said yet.
pub fn print_notices(copy: &dyn Backup) {
    for notice in copy.unreported() {
        warn(format_args!("sealpost: {notice}"));
    }
}

/// Work with the backup has ended; its notices are printed.
pub async fn end(copy: Arc<dyn Backup>) {
    print_notices(&*copy);
    // What is left is swept one day.
    let _ = tokio::task::spawn_blocking(move || copy.end()).await;
}

/// The format of the backup in `directory`: the one of the option, or the existing one.
///
/// # Errors
/// `NotFound` without the option and an existing backup; if the directory cannot be read.
pub fn format_of(said: Option<Format>, directory: &Path) -> Result<Format> {
    match said {
        Some(said) => Ok(said),
        None => found::format(directory)?.ok_or_else(|| found::no_copy(directory).into()),
    }
}

/// A backup.
pub struct Target<'a> {
    /// How it is kept.
    pub format: Format,
    /// Where.
    pub directory: &'a Path,
    /// What opens it.
    pub sealed: &'a SealedArgs,
    /// Whom the account is called after if one has to be made; `None`: none is made.
    pub make: Option<MailOwner<'a>>,
}

/// Whose mail is in a backup, as far as that is known.
#[derive(Debug, Clone, Copy)]
pub struct MailOwner<'a> {
    /// As the server knows the user.
    pub user: &'a str,
    /// The server.
    pub host: &'a str,
}

/// What stands for a user or a host of whom no address can be made.
const NO_USER: &str = "archive";
const NO_HOST: &str = "localhost";

impl MailOwner<'_> {
    /// Of a backup that does not say it.
    pub const UNKNOWN: MailOwner<'static> = MailOwner { user: NO_USER, host: NO_HOST };

    /// A name for the account: what a server takes for a user's name need be no address (`jane`,
    /// `CORP\jane`).
    fn account_name(&self, data_dir: &DataDir) -> Result<AccountName> {
        if let Ok(name) = data_dir.account_name(self.user) {
            return Ok(name);
        }
        let local = local_part(self.user);
        let named = |host: &str| AccountName::parse(&format!("{local}@{host}"));
        let host = if self.host.parse::<IpAddr>().is_ok() { NO_HOST } else { self.host };
        Ok(named(host).or_else(|_| named(NO_HOST))?)
    }
}

/// The letters and digits of a user's name, and dots for what is between them.
fn local_part(user: &str) -> String {
    let mut local = String::new();
    for c in user.chars() {
        let c = if c.is_alphanumeric() || "-_+".contains(c) { c } else { '.' };
        // In lower case a character may be longer.
        if local.len() + c.to_lowercase().map(char::len_utf8).sum::<usize>() > limits::LOCAL_PART_BYTES {
            break;
        }
        if c != '.' || !(local.is_empty() || local.ends_with('.')) {
            local.extend(c.to_lowercase());
        }
    }
    let local = local.trim_end_matches('.');
    if local.is_empty() { NO_USER.to_owned() } else { local.to_owned() }
}

impl Target<'_> {
    /// Opens, or begins, the backup.
    ///
    /// # Errors
    /// If there is none and none may be begun, or one in another format; what the format says.
    pub async fn open(&self, global: &Global) -> Result<Arc<dyn Backup>> {
        self.open_keeping(global, None).await
    }

    /// As [`Target::open`], to keep no more bodies than so many bytes: the others are fetched again
    /// from that server.
    ///
    /// # Errors
    /// As [`Target::open`]; if the format or the store must keep all.
    pub async fn open_keeping(
        &self,
        global: &Global,
        keep: Option<(u64, &Origin)>,
    ) -> Result<Arc<dyn Backup>> {
        found::check(self.format, self.directory, self.make.is_some())?;
        if self.format == Format::Sealpost {
            return self.open_sealed(global, keep).await;
        }
        if keep.is_some() {
            return Err(Usage(
                "--body-limit needs --format sealpost: mbox and Maildir copies keep all bodies".into(),
            )
            .into());
        }
        let (format, directory) = (self.format, self.directory.to_owned());
        let open = move || match format {
            Format::Maildir => maildir::open(&directory),
            _ => imap_backup::open(&directory),
        };
        Ok(tokio::task::spawn_blocking(open).await?.map_err(in_use)?.into())
    }

    /// Opens a backup that is there, to read messages out of it: nothing in its files is changed.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub async fn open_to_read(&self, global: &Global) -> Result<Arc<dyn Backup>> {
        if self.format == Format::Sealpost {
            return self.open(global).await;
        }
        found::check(self.format, self.directory, false)?;
        let (format, directory) = (self.format, self.directory.to_owned());
        let open = move || match format {
            Format::Maildir => maildir::open_to_read(&directory),
            _ => imap_backup::open_to_read(&directory),
        };
        Ok(tokio::task::spawn_blocking(open).await?.map_err(in_use)?.into())
    }

    /// As [`Target::open_keeping`]; for a dry run nothing is begun: what is not there is a backup
    /// without folders.
    ///
    /// # Errors
    /// As [`Target::open_keeping`].
    pub async fn open_for(
        &self,
        dry_run: bool,
        global: &Global,
        keep: Option<(u64, &Origin)>,
    ) -> Result<Arc<dyn Backup>> {
        if dry_run && found::format(self.directory)?.is_none() {
            return Ok(Arc::new(EmptyBackup));
        }
        self.open_keeping(global, keep).await
    }

    async fn open_sealed(&self, global: &Global, keep: Option<(u64, &Origin)>) -> Result<Arc<dyn Backup>> {
        let mut config = Config::load(global)?;
        config.directory = self.directory.to_owned();
        // A backup is written into a bucket only if the command line names the configuration that
        // names it.
        if !config.is_named() {
            config.store = StoreConfig::default();
        }
        let data_dir = DataDir::of(&config).await?;
        let known = self.account(&data_dir).await?;
        let password = PasswordArgs {
            password_file: self.sealed.copy_password_file.clone(),
            file_option: "--copy-password-file",
            ..PasswordArgs::default()
        };
        let there = match data_dir.directory.get(&known).await {
            Ok(_) => true,
            Err(e) if e.kind() == Kind::NotFound && self.make.is_some() => false,
            Err(e) => return Err(e.into()),
        };
        let (record, root) = if there {
            unlock(&data_dir, known.as_str(), &password, Accept::Login).await?
        } else {
            let new = password.new_one(&format!("New password of the backup {known}")).await?;
            let made = data_dir.directory.create(&known, NewAccount::with_password(new)).await;
            made.map_err(|e| match e.kind() {
                Kind::Conflict => Error::retry(format!(
                    "{}: another sealpost process has just created this backup and is using it: wait until it \
                     exits",
                    self.directory.display()
                ))
                .with_source(e),
                _ => e,
            })?
        };
        if keep.is_some() && data_dir.store.wants_packs() {
            return Err(Usage(
                "--body-limit needs a backup on a disk: a backup in a bucket keeps all bodies".into(),
            )
            .into());
        }
        if let Some((_, server)) = keep {
            origin::remember(self.directory, record.id, server)?;
        }
        let refetch = origin::refetch(self.directory, &data_dir.store, data_dir.random.clone());
        let accounts = data_dir.accounts();
        // As long as this process runs: servers find later appends by themselves.
        drop(data_dir.notify_of(&accounts));
        if let Some(refetch) = &refetch {
            accounts.set_bodies(Arc::new(Anywhere(refetch.clone())));
        }
        let account = accounts.open(record.id, &root).await?;
        let keep = keep.map(|(bytes, _)| BodyLimit::new(bytes, data_dir.clock.clone()));
        let runtime = tokio::runtime::Handle::current();
        let copy = sealed::open_with(runtime, account, self.directory, BodyOptions { keep, refetch });
        Ok(copy.map_err(in_use)?.into())
    }

    /// The account's name: the one of the option, the only existing one, or one for the user.
    async fn account(&self, data_dir: &DataDir) -> Result<AccountName> {
        let records: Vec<_> = data_dir.directory.list().try_collect().await?;
        if let Some(said) = &self.sealed.copy_account {
            // The account may have got its domain from the server.
            let is_meant =
                |name: &AccountName| !said.contains('@') && Address::from(name.clone()).local() == said;
            let mut meant = records.iter().map(|record| &record.name).filter(|name| is_meant(name));
            return match (data_dir.account_name(said), meant.next(), meant.next(), self.make) {
                (Ok(name), ..) => Ok(name),
                (Err(_), Some(name), None, _) => Ok(name.clone()),
                (Err(_), None, _, Some(mail_owner)) if !said.contains('@') => {
                    MailOwner { user: said, ..mail_owner }.account_name(data_dir)
                }
                (Err(e), ..) => Err(e),
            };
        }
        match (&*records, self.make) {
            ([one], _) => Ok(one.name.clone()),
            ([], Some(mail_owner)) => mail_owner.account_name(data_dir),
            ([], None) => bail!(Usage(format!("there is no backup in {}", self.directory.display()))),
            _ => bail!(Usage(format!(
                "{} has several accounts: choose one with --copy-account",
                self.directory.display()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes, local_part};

    #[test]
    fn sizes_are_decimal_or_binary() {
        for (text, bytes_of) in [
            ("2GB", 2_000_000_000),
            ("1 MB", 1_000_000),
            ("1MiB", 1 << 20),
            ("7B", 7),
            ("0KB", 0),
            ("5kB", 5000),
        ] {
            assert_eq!(bytes(text), Ok(bytes_of), "{text}");
        }
        for text in ["", "GB", "-1GB", "1.5GB", "99999999999TB", "2 gigabytes"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_users_name_becomes_one_that_an_account_can_have() {
        for (user, local) in [
            ("jane", "jane"),
            ("Jane Doe", "jane.doe"),
            ("CORP\\jane", "corp.jane"),
            ("jane@corp@example", "jane.corp.example"),
            ("..a..b. ", "a.b"),
            ("a+b_c-d", "a+b_c-d"),
            ("\u{202e}", "archive"),
            ("", "archive"),
        ] {
            assert_eq!(local_part(user), local, "{user}");
        }
        for user in ["x".repeat(200), "\u{130}".repeat(50), format!("{} b", "x".repeat(63))] {
            let name = format!("{}@localhost", local_part(&user));
            assert!(sealpost_directory::AccountName::parse(&name).is_ok(), "{name}");
        }
    }
}
