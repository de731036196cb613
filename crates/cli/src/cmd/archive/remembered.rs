//! What is remembered of an account: a file of TOML for each, that only its owner can read.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sealpost_base::{Error, limits};
use sealpost_files::owner;
use serde::{Deserialize, Serialize};

use super::server::SourceServer;
use super::target::{Format, SealedArgs, Target};
use crate::config::Config;
use crate::exit::{FAILED, Usage};
use crate::global::Global;
use crate::output::error;

/// An account that is archived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remembered {
    /// How the backup is kept.
    pub format: Format,
    /// Where.
    pub into: PathBuf,
    /// Folders to pull; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
    /// Folders not to pull.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The file with the password of a sealed backup; without it the command prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_password_file: Option<PathBuf>,
    /// The account of a sealed backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_account: Option<String>,
    /// Disk space for the bodies in the backup, such as `2GB`; all of them if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_limit: Option<String>,
    /// Where from.
    pub server: SourceServer,
}

impl Remembered {
    /// The login of the backup: from the options, or else from its configuration.
    pub fn sealed(&self, said: &SealedArgs) -> SealedArgs {
        SealedArgs {
            copy_password_file: said.copy_password_file.clone().or_else(|| self.copy_password_file.clone()),
            copy_account: said.copy_account.clone().or_else(|| self.copy_account.clone()),
        }
    }

    /// The backup; `make`: it may be begun.
    pub fn target<'a>(&'a self, sealed: &'a SealedArgs, make: bool) -> Target<'a> {
        let make = make.then(|| self.server.mail_owner());
        Target { format: self.format, directory: &self.into, sealed, make }
    }
}

/// What files are called that are kept of an account besides its settings, behind its name.
const PASSWORD: &str = "password";
const CERTIFICATE: &str = "server.pem";

/// The accounts of one data directory.
pub struct Accounts(PathBuf);

impl Accounts {
    /// Those of the data directory that the options name.
    ///
    /// # Errors
    /// If the configuration cannot be read.
    pub fn of(global: &Global) -> Result<Self> {
        Ok(Accounts(Config::load(global)?.directory.join("archive")))
    }

    /// Their names, sorted.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        let entries = match fs::read_dir(&self.0) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.with_context(|| self.0.display().to_string())?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "toml")
                && let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
            {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// What is remembered of one.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name; if it cannot be read.
    pub fn get(&self, name: &str) -> Result<Remembered> {
        let path = self.path(name)?;
        let text = match fs::read_to_string(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let known = self.names()?;
                let known = if known.is_empty() { "none yet".to_owned() } else { known.join(", ") };
                let why = format!(
                    "no remembered account {name} (known: {known}); add it with `sealpost archive add`"
                );
                return Err(Error::not_found(why).into());
            }
            text => text.with_context(|| path.display().to_string())?,
        };
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Whether a new one may be called so.
    ///
    /// # Errors
    /// If there is one of this name; if that is no name.
    pub fn check_new(&self, name: &str) -> Result<()> {
        if self.path(name)?.exists() { Err(already_remembered(name)) } else { Ok(()) }
    }

    /// Remembers a new one.
    ///
    /// # Errors
    /// If there is one of this name; if it cannot be written.
    pub fn add(&self, name: &str, account: &Remembered) -> Result<()> {
        let path = self.path(name)?;
        owner::make_directory(&self.0)?;
        match self.write(&path, toml::to_string(account)?.as_bytes()) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Err(already_remembered(name)),
            written => written.with_context(|| path.display().to_string()),
        }
    }

    /// Remembers something else of one that is remembered.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn change(&self, name: &str, account: &Remembered) -> Result<()> {
        let path = self.path(name)?;
        super::origin::replace(&path, toml::to_string(account)?.as_bytes())
            .with_context(|| path.display().to_string())
    }

    /// Keeps a password for `name`, in a file that only its owner can read; where.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep_password(&self, name: &str, password: &[u8]) -> Result<PathBuf> {
        self.keep(name, PASSWORD, password)
    }

    /// As [`Accounts::keep_password`], a server's certificate, PEM.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep_certificate(&self, name: &str, pem: &str) -> Result<PathBuf> {
        self.keep(name, CERTIFICATE, pem.as_bytes())
    }

    fn keep(&self, name: &str, what: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.path(name)?;
        let path = path.with_file_name(format!("{name}.{what}"));
        owner::make_directory(&self.0)?;
        // One that was left by an attempt that failed.
        let _ = fs::remove_file(&path);
        self.write(&path, bytes).with_context(|| path.display().to_string())?;
        Ok(std::path::absolute(path)?)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        let mut file = owner::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::File::open(&self.0)?.sync_all()
    }

    /// Forgets one, and its password.
    ///
    /// # Errors
    /// As [`Accounts::get`].
    pub fn remove(&self, name: &str) -> Result<()> {
        for file in self.files(name)? {
            fs::remove_file(&file).with_context(|| file.display().to_string())?;
        }
        Ok(())
    }

    /// The files that are removed when one is forgotten.
    ///
    /// # Errors
    /// As [`Accounts::get`].
    pub fn files(&self, name: &str) -> Result<Vec<PathBuf>> {
        self.get(name)?;
        let path = self.path(name)?;
        let kept = [PASSWORD, CERTIFICATE].map(|what| path.with_file_name(format!("{name}.{what}")));
        Ok(kept.into_iter().filter(|kept| kept.exists()).chain([path.clone()]).collect())
    }

    /// Where which message of `from` got which UID in other accounts is kept.
    pub fn maps_from(&self, from: &str) -> Vec<PathBuf> {
        let begin = format!("{from}-");
        let is_map = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&begin) && name.ends_with(".uids"))
        };
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut maps: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_map).collect();
        maps.sort();
        maps
    }

    /// Where to keep which message of `from` got which UID in `to`; both are remembered.
    pub fn map(&self, from: &str, to: &str) -> PathBuf {
        self.0.join(format!("{from}-{to}.uids"))
    }

    fn path(&self, name: &str) -> Result<PathBuf> {
        let good = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '@' | '+');
        if name.is_empty()
            || name.starts_with('.')
            || !name.chars().all(good)
            || name.len() > limits::DOMAIN_BYTES - 16
        {
            bail!(Usage(format!("{name:?} is not a name for an account: use letters, digits and . - _ @ +")));
        }
        Ok(self.0.join(format!("{name}.toml")))
    }
}

fn already_remembered(name: &str) -> anyhow::Error {
    Usage(format!(
        "an account {name} is remembered already: `sealpost archive remove {name}` forgets it and leaves its \
         copy"
    ))
    .into()
}

/// The exit status for the account `name`, one of so many: with several accounts, a failed one does
/// not stop the others, and is reported at once.
///
/// # Errors
/// What `done` says, if there is only one.
pub fn status_of(name: &str, of: usize, done: Result<u8>) -> Result<u8> {
    match done.with_context(|| name.to_owned()) {
        Err(e) if of > 1 => {
            error(&e);
            Ok(FAILED)
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::archive::server::Tls;

    #[test]
    fn added_accounts_are_remembered_until_removed() {
        let dir = tempfile::tempdir().unwrap();
        let accounts = Accounts(dir.path().join("archive"));
        let account = Remembered {
            format: Format::Mbox,
            into: "/copies/work".into(),
            folders: vec!["INBOX".into()],
            exclude: vec![],
            copy_password_file: None,
            copy_account: None,
            body_limit: None,
            server: SourceServer {
                host: "imap.example.org".into(),
                port: 993,
                tls: Tls::Implicit,
                ca: None,
                user: "jane".into(),
                password_file: None,
                token_command: Some("token".into()),
            },
        };
        accounts.add("work", &account).unwrap();
        assert!(accounts.add("work", &account).is_err() && accounts.check_new("work").is_err());
        accounts.keep_password("work", b"secret").unwrap();
        let certificate = accounts.keep_certificate("work", "pem").unwrap();
        assert_eq!(certificate.file_name().unwrap(), "work.server.pem");
        assert_eq!(accounts.get("work").unwrap(), account);
        assert_eq!(accounts.names().unwrap(), ["work"]);
        for name in ["", "../work", "a/b", ".hidden", "a\0b"] {
            assert!(accounts.get(name).is_err() && accounts.check_new(name).is_err(), "{name}");
        }
        accounts.remove("work").unwrap();
        assert_eq!(fs::read_dir(&accounts.0).unwrap().count(), 0);
    }
}
