//! Puts messages into an account of a server: those of a backup ([`restore`]), or of another
//! server ([`migrate`]).
//!
//! No message is put there twice. The server is asked which messages it has, at the start and after
//! each lost connection: by the map of UIDs ([`UidMap`]) if there is one, by Message-ID, or where
//! there is none by date and other fields ([`key`]), and by how often. So no state can be lost or
//! disagree, however the last run ended, and messages that the owner put there by other means count
//! too.
//!
//! A lost connection, at either end, is made again ([`Backoff`]). Messages that were in flight then
//! come last, after another look: the server may still process them ([`delivery_state`]).

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

/// Puts a backup's messages into the account of `server`, except those that it has.
///
/// # Errors
/// Errors that prevent the run from starting or continuing: `Retry` if no connection can be made
/// any more; then it can be run again.
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

/// Puts the messages of the account of `from` into the account of `to`, except those that it has.
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
