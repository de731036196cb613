//! Where a copy is, and in which format.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;
use sealpost_archive::keep::{Copy, imap_backup, maildir};
use serde::{Deserialize, Serialize};

/// How a copy is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// mbox files with .imap files beside them, as imap-backup has them
    Mbox,
    /// A Maildir, as mbsync has it
    Maildir,
}

/// Opens, or begins, a copy.
///
/// # Errors
/// What the format says.
pub async fn open(format: Format, directory: &Path) -> Result<Arc<dyn Copy>> {
    let directory: PathBuf = directory.to_owned();
    let open = move || match format {
        Format::Mbox => imap_backup::open(&directory),
        Format::Maildir => maildir::open(&directory),
    };
    Ok(tokio::task::spawn_blocking(open).await??.into())
}
