//! Passwords and other secrets from a prompt, standard input or a file: never from an argument,
//! which every process of the machine could read.
//!
//! What is read is wiped from memory when dropped.

use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use sealpost_base::limits;
use sealpost_directory::Secret;
use sealpost_files::owner;
use zeroize::Zeroizing;

use crate::exit::{Usage, named};
use crate::output::warn;

/// The option that names the file a password is in.
pub const PASSWORD_FILE: &str = "--password-file";

/// Where a command's password comes from; a prompt unless one of these is given.
#[derive(Args, Debug, Clone)]
#[group(multiple = false)]
pub struct PasswordArgs {
    /// Read the password from standard input, one line
    #[arg(long)]
    pub password_stdin: bool,
    /// Read the password from FILE; a line end after it does not count
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// What the option that names the file is called.
    #[arg(skip = PASSWORD_FILE)]
    pub file_option: &'static str,
}

impl Default for PasswordArgs {
    fn default() -> Self {
        PasswordArgs { password_stdin: false, password_file: None, file_option: PASSWORD_FILE }
    }
}

impl PasswordArgs {
    /// An existing password; `prompt` is the prompt, such as `Password of me@localhost`.
    ///
    /// # Errors
    /// If it cannot be read, or cannot be a password.
    pub async fn existing(&self, prompt: &str) -> Result<Secret> {
        match self.read_options()? {
            Some(secret) => Ok(secret),
            None => self::prompt(prompt.to_owned(), self.file_option).await,
        }
    }

    /// A new password; the prompt repeats.
    ///
    /// # Errors
    /// As [`PasswordArgs::existing`], and if the passwords do not match.
    pub async fn new_one(&self, prompt: &str) -> Result<Secret> {
        match self.read_options()? {
            Some(secret) => Ok(secret),
            None => prompt_twice(prompt, self.file_option).await,
        }
    }

    fn read_options(&self) -> Result<Option<Secret>> {
        match &self.password_file {
            Some(path) => from_file(path).map(Some),
            None if self.password_stdin => from_stdin().map(Some),
            None => Ok(None),
        }
    }
}

/// The secret in a file; one line end after it does not belong to it.
///
/// # Errors
/// If it cannot be read, or cannot be a password.
pub fn from_file(path: &Path) -> Result<Secret> {
    let read = || -> Result<Secret> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(limits::SECRET_BYTES + 3));
        let file = File::open(path).map_err(|e| owner::explained(path, e))?;
        file.take(limits::SECRET_BYTES as u64 + 3).read_to_end(&mut bytes)?;
        Ok(Secret::new(trim(&bytes))?)
    };
    read().with_context(|| format!("the password in {}", path.display())).map_err(named)
}

/// The secret in the next line of standard input, and not a byte more: a command that needs two
/// reads two lines.
///
/// # Errors
/// If it cannot be read, or cannot be a password.
pub fn from_stdin() -> Result<Secret> {
    let read = || -> Result<Secret> {
        // Unbuffered: what a buffer of the library's holds would not be wiped.
        let mut stdin = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        let mut bytes = Zeroizing::new(Vec::with_capacity(limits::SECRET_BYTES + 3));
        let mut byte = Zeroizing::new([0]);
        while bytes.len() < limits::SECRET_BYTES + 2 && stdin.read(&mut *byte)? == 1 {
            bytes.push(byte[0]);
            if byte[0] == b'\n' {
                break;
            }
        }
        Ok(Secret::new(trim(&bytes))?)
    };
    read().context("the password on standard input").map_err(named)
}

/// Prompts for a secret at the terminal, without echo; `file_option` names the alternative.
///
/// # Errors
/// If there is no terminal, or if it cannot be a password.
pub async fn prompt(prompt: String, file_option: &str) -> Result<Secret> {
    Ok(Secret::new(typed(prompt, file_option).await?.as_bytes())?)
}

/// As [`prompt`]; `None` if nothing was typed.
///
/// # Errors
/// As [`prompt`].
pub async fn prompt_optional(prompt: String, file_option: &str) -> Result<Option<Secret>> {
    let typed = typed(prompt, file_option).await?;
    Ok(if typed.is_empty() { None } else { Some(Secret::new(typed.as_bytes())?) })
}

async fn typed(prompt: String, file_option: &str) -> Result<Zeroizing<String>> {
    let no_terminal =
        format!("{prompt}: there is no terminal to prompt at; {file_option} names a file that has it");
    let typed = tokio::task::spawn_blocking(move || -> Result<Zeroizing<String>> {
        if !std::io::stdin().is_terminal() && File::open("/dev/tty").is_err() {
            return Err(Usage(no_terminal).into());
        }
        match rpassword::prompt_password(format!("{prompt}: ")) {
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => Err(Usage("nothing was typed".into()).into()),
            typed => Ok(Zeroizing::new(typed?)),
        }
    });
    typed.await.context("the prompt did not finish")?
}

/// Prompts for a new secret, twice.
///
/// # Errors
/// As [`prompt`], and if the passwords do not match, three times.
pub async fn prompt_twice(label: &str, file_option: &str) -> Result<Secret> {
    for _ in 0..3 {
        let first = prompt(label.to_owned(), file_option).await?;
        let second = prompt("Repeat password".to_owned(), file_option).await?;
        if first.bytes() == second.bytes() {
            return Ok(first);
        }
        warn("the passwords do not match");
    }
    anyhow::bail!("the passwords do not match; no password was set");
}

fn trim(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_end_does_not_count() {
        for (line, secret) in [("a\n", "a"), ("a\r\n", "a"), ("a", "a"), ("a \n\n", "a \n"), ("\n", "")] {
            assert_eq!(trim(line.as_bytes()), secret.as_bytes());
        }
    }

    #[test]
    fn a_file_that_is_too_long_is_no_password() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        std::fs::write(&path, vec![b'x'; limits::SECRET_BYTES + 10]).unwrap();
        assert!(from_file(&path).is_err());
        std::fs::write(&path, [&vec![b'x'; limits::SECRET_BYTES][..], b"\r\n"].concat()).unwrap();
        assert_eq!(from_file(&path).unwrap().bytes().len(), limits::SECRET_BYTES);
    }
}
