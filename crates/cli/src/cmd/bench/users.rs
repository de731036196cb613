//! Whose accounts are used. Passwords come from files: an argument could be read by every process
//! of the machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::builder::TypedValueParser;
use sealpost_bench::load::User;

use super::bounded_text;
use crate::exit::Usage;
use crate::secret;

/// The largest file of accounts that is read.
const FILE_BYTES: u64 = 64 * 1024 * 1024;
/// The most accounts of a pattern, or of a server that is started.
const ACCOUNTS: u64 = 100_000;

fn account_count() -> impl TypedValueParser<Value = usize> {
    clap::value_parser!(u64).range(1..=ACCOUNTS).map(|users| users as usize)
}

/// Options that say whose accounts are used.
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Accounts")]
pub struct Users {
    /// Accounts in FILE: a line `name:password` for each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["user", "user_pattern", "password_file"])]
    pub users_file: Option<PathBuf>,
    /// One account; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "user_pattern")]
    pub user: Vec<String>,
    /// Accounts by number, such as user{}@example.org; with --users
    #[arg(long, value_name = "PATTERN", requires = "users")]
    pub user_pattern: Option<String>,
    /// Number of accounts: of the pattern, of the started server, or of the file
    #[arg(long, value_name = "N", value_parser = account_count())]
    pub users: Option<usize>,
    /// Read the password of all these accounts from FILE
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

impl Users {
    /// The names that are given without passwords; empty if none are.
    pub fn names(&self) -> Result<Vec<String>> {
        let Some(pattern) = &self.user_pattern else { return Ok(self.user.clone()) };
        if !pattern.contains("{}") {
            return Err(
                Usage(format!("--user-pattern {pattern:?} has no {{}}, where the number goes")).into()
            );
        }
        let count = self.users.unwrap_or(1);
        Ok((1..=count).map(|nth| pattern.replacen("{}", &nth.to_string(), 1)).collect())
    }

    /// The accounts, if any are given.
    pub fn read_options(&self, needs_password: bool) -> Result<Vec<User>> {
        if let Some(path) = &self.users_file {
            let mut users = read(path)?;
            users.truncate(self.users.unwrap_or(usize::MAX));
            return Ok(users);
        }
        let names = self.names()?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let password: Arc<str> = match &self.password_file {
            Some(path) => std::str::from_utf8(secret::from_file(path)?.bytes())
                .context("the password is not text")?
                .into(),
            None if needs_password => {
                return Err(Usage("these accounts need a password: --password-file FILE".into()).into());
            }
            None => "".into(),
        };
        Ok(names.into_iter().map(|name| User { name, password: password.clone() }).collect())
    }
}

fn read(path: &Path) -> Result<Vec<User>> {
    let text = bounded_text(path, FILE_BYTES)?
        .ok_or_else(|| Usage(format!("{}: too large for a list of accounts", path.display())))?;
    let mut users = Vec::new();
    for (nth, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        // Never the line itself: it may be nothing but a password.
        let (name, password) = line
            .split_once(':')
            .ok_or_else(|| Usage(format!("{}:{}: not a line `name:password`", path.display(), nth + 1)))?;
        users.push(User { name: name.to_owned(), password: password.into() });
    }
    if users.is_empty() {
        return Err(Usage(format!("{}: no accounts", path.display())).into());
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        std::fs::write(&path, "# mine\n\na@x.example:one:two\nb:\n").unwrap();
        let users = Users { users_file: Some(path.clone()), ..Users::default() }.read_options(true).unwrap();
        let pairs: Vec<_> = users.iter().map(|user| (&*user.name, &*user.password)).collect();
        assert_eq!(pairs, [("a@x.example", "one:two"), ("b", "")]);
        std::fs::write(&path, "a:b\nsecret\n").unwrap();
        let error = read(&path).err().unwrap().to_string();
        assert!(error.ends_with("users:2: not a line `name:password`"), "{error}");
    }

    #[test]
    fn a_file_without_end_is_not_read_to_it() {
        let error = read(Path::new("/dev/zero")).err().unwrap().to_string();
        assert_eq!(error, "/dev/zero: too large for a list of accounts");
    }

    #[test]
    fn patterns_are_numbered() {
        let users =
            |pattern: &str| Users { user_pattern: Some(pattern.into()), users: Some(3), ..Users::default() };
        let names: Vec<_> =
            users("u{}@x").read_options(false).unwrap().into_iter().map(|user| user.name).collect();
        assert_eq!(names, ["u1@x", "u2@x", "u3@x"]);
        assert!(users("u@x").read_options(false).is_err());
        assert!(users("u{}@x").read_options(true).err().unwrap().to_string().contains("--password-file"));
    }
}
