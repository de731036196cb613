//! [`Origin`]: the source of messages: a backup, or another server.

use std::sync::Arc;

use sealpost_base::{Result, UidSet};
use tokio::sync::mpsc;

use super::contents::{Contents, of_the_folder};
use super::local;
use super::message_chunk::MessageChunk;
use super::remote::Remote;
use crate::backup::{Backup, BackupFolder, FolderName};
use crate::client::{ListedMailbox, Server};

/// The source of messages.
pub(super) enum Origin {
    /// `true`: with its superseded folders.
    Backup(Arc<dyn Backup>, bool),
    Server(Box<Remote>),
}

/// A folder of the source.
#[derive(Debug, Clone)]
pub(super) enum From {
    Backup(BackupFolder),
    Server(ListedMailbox),
}

impl From {
    /// Its name.
    pub(super) fn name(&self) -> &FolderName {
        match self {
            From::Backup(kept) => &kept.name,
            From::Server(found) => &found.name,
        }
    }

    /// Whether it is empty, as far as that is known.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            From::Backup(kept) => kept.resume.whole && kept.messages + kept.gone == 0,
            From::Server(found) => found.numbers.as_ref().is_some_and(|numbers| numbers.uidnext == 1),
        }
    }

    /// The name of the folder that its messages are put into.
    pub(super) fn place(&self) -> &FolderName {
        match self {
            From::Backup(kept) => kept.place(),
            From::Server(found) => &found.name,
        }
    }
}

impl Origin {
    /// Another server.
    pub(super) fn server(server: &Server) -> Self {
        Origin::Server(Box::new(Remote::new(server)))
    }

    /// Its folders.
    ///
    /// # Errors
    /// The errors of the backup or the server.
    pub(super) async fn folders(&mut self) -> Result<Vec<From>> {
        Ok(match self {
            Origin::Backup(backup, include_superseded) => local::folders(backup.clone(), *include_superseded)
                .await?
                .into_iter()
                .map(From::Backup)
                .collect(),
            Origin::Server(remote) => remote.folders().await?.into_iter().map(From::Server).collect(),
        })
    }

    /// The messages of a folder. Without `keys` they are not identified.
    ///
    /// # Errors
    /// `Retry` if the connection is lost; the errors of the backup or the server.
    pub(super) async fn contents(&mut self, from: &From, keys: bool) -> Result<Contents> {
        match (self, from) {
            (Origin::Backup(backup, _), From::Backup(kept)) => {
                // Another connection does not help.
                local::contents(backup.clone(), kept.clone(), keys).await.map_err(of_the_folder)
            }
            (Origin::Server(remote), From::Server(found)) => remote.contents(found).await,
            _ => Ok(Contents::default()),
        }
    }

    /// The UIDs of a folder, if it is of this UIDVALIDITY.
    ///
    /// # Errors
    /// The backup's errors.
    pub(super) async fn uids(&self, folder: &FolderName, uidvalidity: u32) -> Result<UidSet> {
        match self {
            Origin::Backup(backup, _) => {
                local::uids(backup.clone(), folder.clone(), uidvalidity).await.map_err(of_the_folder)
            }
            Origin::Server(_) => Ok(UidSet::new()),
        }
    }

    /// Sends messages of the folder that was looked at last. Those that were begun are removed from
    /// `left`, if they come from a server.
    ///
    /// # Errors
    /// As [`Origin::contents`].
    pub(super) async fn send(
        &mut self,
        from: &From,
        left: &mut UidSet,
        to: mpsc::Sender<MessageChunk>,
    ) -> Result<()> {
        match (self, from) {
            (Origin::Backup(backup, _), From::Backup(kept)) => {
                let (backup, name, set) = (backup.clone(), kept.name.clone(), left.clone());
                let sent = crate::blocking::blocking(move || local::send(&*backup, &name, &set, &to)).await;
                sent.map_err(of_the_folder)
            }
            (Origin::Server(remote), _) => remote.send(left, to).await,
            _ => Ok(()),
        }
    }

    /// Those of these messages of a folder that are lost, as far as that is known without asking,
    /// and why.
    ///
    /// # Errors
    /// The backup's errors.
    pub(super) async fn lost(&self, from: &From, among: &UidSet) -> Result<Vec<(u32, String)>> {
        match (self, from) {
            (Origin::Backup(backup, _), From::Backup(kept)) => {
                local::lost(backup.clone(), kept.clone(), among.clone()).await.map_err(of_the_folder)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Drops the connection, if there is one: it is unusable.
    pub(super) fn drop_connection(&mut self) {
        if let Origin::Server(remote) = self {
            remote.drop_connection();
        }
    }

    /// Logs out.
    pub(super) async fn logout(&mut self) {
        if let Origin::Server(remote) = self {
            remote.logout().await;
        }
    }
}
