//! The source of the messages of a sealed backup, kept beside it: evicted bodies are fetched from
//! there.
//!
//! A file of TOML for each account, readable only by its owner: the server from `archive add`, with
//! its address and without secrets. A pull that may evict bodies writes it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use sealpost_archive::client::Server;
use sealpost_archive::refetch::Refetch;
use sealpost_base::{AccountId, Random};
use sealpost_files::owner;
use sealpost_vault::Store;

use super::server::SourceServer;

const BEGIN: &str = "origin-";
const END: &str = ".toml";

/// Writes down where the account's messages come from, unless that is what is written.
///
/// # Errors
/// If it cannot be written.
pub fn remember(directory: &Path, account: AccountId, place: &SourceServer) -> Result<()> {
    let path = directory.join(format!("{BEGIN}{account}{END}"));
    let text = toml::to_string(place)?;
    if fs::read_to_string(&path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    replace(&path, text.as_bytes()).with_context(|| path.display().to_string())
}

/// Puts a file in the place of another one, if there is one. Only its owner can read it.
///
/// # Errors
/// If it cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let new = path.with_extension("new");
    // One that was left by an attempt that failed.
    let _ = fs::remove_file(&new);
    let mut file = owner::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(directory) => fs::File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// The source of evicted bodies for the accounts of a backup; none if it is unknown.
pub fn refetch(directory: &Path, store: &Store, random: Arc<dyn Random>) -> Option<Arc<Refetch>> {
    let files: Vec<PathBuf> =
        fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let servers: Vec<_> = files.iter().filter_map(|path| Some((account(path)?, server(path)))).collect();
    (!servers.is_empty()).then(|| Refetch::new(store, random, servers))
}

fn account(path: &Path) -> Option<AccountId> {
    path.file_name()?.to_str()?.strip_prefix(BEGIN)?.strip_suffix(END)?.parse().ok()
}

fn server(path: &Path) -> Result<Server, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let place: SourceServer = toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    place.without_prompt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::archive::server::Tls;

    #[test]
    fn a_remembered_server_is_found_by_its_account() {
        let directory = tempfile::tempdir().unwrap();
        let place = SourceServer {
            host: "localhost".into(),
            port: 143,
            tls: Tls::None,
            ca: None,
            user: "jane".into(),
            password_file: None,
            token_command: Some("token".into()),
        };
        let id = AccountId([7; 16]);
        for port in [143, 144, 144] {
            remember(directory.path(), id, &SourceServer { port, ..place.clone() }).unwrap();
        }
        let files: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(files.iter().filter_map(|path| account(path)).collect::<Vec<_>>(), [id]);
        assert_eq!(files.len(), 1);
        assert_eq!(server(&files[0]).unwrap().port, 144);
        remember(directory.path(), id, &SourceServer { token_command: None, ..place }).unwrap();
        let refused = server(&files[0]).err().unwrap();
        assert!(refused.contains("password"), "nobody can be asked for it then: {refused}");
    }
}
