//! The accounts of a trial: the requested ones, or `me@localhost` with a password that is generated
//! once and kept in a file that only its owner can read.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use sealpost_base::{Error, Kind, Random};
use sealpost_directory::{AccountName, AccountRecord, AliasName, NewAccount, Secret};
use sealpost_files::owner;
use sealpost_vault::RootKey;
use zeroize::Zeroizing;

use crate::data_dir::DataDir;
use crate::samples;
use crate::secret;

/// The default account.
const ACCOUNT: &str = "me@localhost";
/// Where its password is remembered, in the data directory.
const PASSWORD_FILE: &str = "try-password";
/// Letters and digits that cannot be confused: 5 bits each.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// 100 bits.
const PASSWORD_CHARS: usize = 20;

/// The account that is printed.
pub struct Login {
    /// Its name.
    pub account: AccountName,
    /// Its password; `None` if its owner has changed it, or if it is no text.
    pub password: Option<Zeroizing<String>>,
    /// The account, opened; `None` if nothing here opens it.
    pub opened: Option<(AccountRecord, RootKey)>,
}

/// Makes those of `names`, or `me@localhost`, that are not there, with the password in `file`. The
/// first is the one that is printed.
///
/// # Errors
/// `Denied` if one is there with another password; what the directory says.
pub async fn named(data_dir: &DataDir, names: &[String], file: &Path) -> Result<Login> {
    let secret = secret::from_file(file)?;
    let names: Vec<&str> = match names {
        [] => vec![ACCOUNT],
        names => names.iter().map(String::as_str).collect(),
    };
    let all = stream::iter(names).map(async |name| {
        let name = data_dir.account_name(name).with_context(|| format!("the account {name:?}"))?;
        let opened = make(data_dir, &name, &secret).await.map_err(|e| match e.kind() {
            Kind::Denied => {
                Error::denied(format!("{name} exists, and its password is not the one in {}", file.display()))
            }
            _ => e,
        })?;
        anyhow::Ok((name, opened))
    });
    // Each costs a password check. Of thousands only the first is kept.
    let at_once = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let first = all.buffered(at_once).try_fold(None, async |first, made| Ok(first.or(Some(made)))).await?;
    let (account, opened) = first.context("no account was named")?;
    let password = std::str::from_utf8(secret.bytes()).ok().map(|text| Zeroizing::new(text.to_owned()));
    Ok(Login { account, password, opened: Some(opened) })
}

/// Opens `me@localhost`, and makes it with a new password at the first time.
///
/// # Errors
/// If the password cannot be remembered; what the directory says.
pub async fn remembered(data_dir: &DataDir) -> Result<Login> {
    let account = AccountName::parse(ACCOUNT)?;
    let path = data_dir.dir.join(PASSWORD_FILE);
    let exists = data_dir.directory.find(&account).await?.is_some();
    if exists && !path.exists() {
        return Ok(Login { account, password: None, opened: None });
    }
    // Remembered before the account is made: however this ends, there is no account with a password lost.
    let remember = || remember(&path, &*data_dir.random);
    remember().with_context(|| format!("the password in {}", path.display()))?;
    let secret = secret::from_file(&path)?;
    match make(data_dir, &account, &secret).await {
        Ok(opened) => {
            let password =
                std::str::from_utf8(secret.bytes()).ok().map(|text| Zeroizing::new(text.to_owned()));
            Ok(Login { account, password, opened: Some(opened) })
        }
        Err(e) if e.kind() == Kind::Denied => Ok(Login { account, password: None, opened: None }),
        Err(e) => Err(e.into()),
    }
}

/// Routes mail for the senders of sample mail to the account: a reply to one arrives in the inbox,
/// and nothing leaves this machine.
///
/// # Errors
/// What the directory says.
pub async fn keep_samples_here(data_dir: &DataDir, account: &AccountName) -> Result<()> {
    for domain in samples::DOMAINS {
        let catch_all = AliasName::CatchAll(domain.to_owned());
        if data_dir.directory.alias(&catch_all).await?.is_none() {
            data_dir.directory.set_alias(&catch_all, &[account.address().clone()]).await?;
        }
    }
    Ok(())
}

/// Opens an account, or makes it.
async fn make(
    data_dir: &DataDir,
    name: &AccountName,
    secret: &Secret,
) -> Result<(AccountRecord, RootKey), Error> {
    if data_dir.directory.find(name).await?.is_some() {
        return data_dir.directory.unlock(name, secret.clone()).await;
    }
    match data_dir.directory.create(name, NewAccount::with_password(secret.clone())).await {
        // Another process made it just now.
        Err(e) if e.kind() == Kind::Conflict && data_dir.directory.find(name).await?.is_some() => {
            data_dir.directory.unlock(name, secret.clone()).await
        }
        made => made,
    }
}

/// Writes a new password to `path` unless there is one: whole and durable, or not at all.
fn remember(path: &Path, random: &dyn Random) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let temporary = path.with_extension(format!("{:016x}.tmp", random.next_u64()));
    let mut file = owner::create(&temporary)?;
    let mut line = generate(random);
    line.push('\n');
    let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| match std::fs::hard_link(&temporary, path) {
        // Another process was first: its password is the password.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    std::fs::remove_file(&temporary)?;
    linked?;
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

/// A password that needs no quotes anywhere.
fn generate(random: &dyn Random) -> Zeroizing<String> {
    let mut bytes = Zeroizing::new([0; PASSWORD_CHARS]);
    random.fill(&mut *bytes);
    let mut password = Zeroizing::new(String::with_capacity(PASSWORD_CHARS + 1));
    for byte in *bytes {
        password.push(char::from(ALPHABET[usize::from(byte % 32)]));
    }
    password
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use sealpost_base::SeededRandom;

    use super::*;

    #[test]
    fn a_password_is_made_once_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(PASSWORD_FILE);
        let random = SeededRandom::new(1);
        remember(&path, &random).unwrap();
        let first = std::fs::read(&path).unwrap();
        remember(&path, &random).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), first);
        assert_eq!(first.len(), PASSWORD_CHARS + 1);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }
}
