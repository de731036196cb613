//! Putting messages into an account of a server: those of a backup ([`restore`]), or of another
//! server ([`migrate`]).
//!
//! Nothing is put there twice. Which messages are there already is found out from the server, each
//! time anew and after each lost connection: by the map of UIDs ([`UidMap`]) if there is one, by
//! Message-ID, or where there is none by date and other fields ([`key`]), and by how often. So
//! there is no state that could be lost or disagree, whatever ended the run before, and a message
//! that its owner put there by other means counts too.
//!
//! A lost connection, at either end, is made again ([`Backoff`]). What was on its way then comes
//! last, after another look: the server may still be at work on it ([`tried`]).

mod contents;
mod deliver;
mod delivery_state;
mod destination_folders;
mod key;
mod local;
mod map;
mod message_chunk;
mod message_matching;
mod mirror;
mod origin;
mod plan;
mod remote;
mod report;
mod run;
mod target;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use sealpost_base::Result;

use crate::backup::Backup;
use crate::client::Server;
use origin::Origin;
use run::Run;

pub(crate) use key::{MARK_FIELDS, Mark};
pub(crate) use local::header;
pub use map::{MapFile, Put, UidMap};
pub use mirror::{Removal, mirror};
pub use report::{FolderReport, Observer, Options, Report};

/// Puts a backup's messages into the account of `server`, those that are not there.
///
/// # Errors
/// What keeps it from beginning, or from going on: `Retry` if no connection can be had any more;
/// then it can be run again.
pub async fn restore(
    backup: Arc<dyn Backup>,
    server: &Server,
    options: &Options,
    observer: Arc<dyn Observer>,
) -> Result<Report> {
    let mut run = Run::new(Origin::Backup(backup, options.include_superseded), server, options, observer);
    run.all().await?;
    Ok(run.end().await)
}

/// Puts the messages of the account of `from` into the account of `to`, those that are not there.
/// Messages stream from one to the other.
///
/// # Errors
/// As [`restore`].
pub async fn migrate(
    from: &Server,
    to: &Server,
    options: &Options,
    observer: Arc<dyn Observer>,
) -> Result<Report> {
    let mut run = Run::new(Origin::server(from), to, options, observer);
    run.all().await?;
    Ok(run.end().await)
}
