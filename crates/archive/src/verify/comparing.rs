//! [`Comparing`]: a folder that is being compared with the server's, over as many connections as
//! needed.

use std::sync::Arc;

use sealpost_base::{Error, Kind, Random, Result, Uid, UidSet};

use super::Options;
use super::local::{Local, read};
use super::plan::{Progress, ServerListing, WithServer, choose};
use super::report::FolderReport;
use super::requests::{hashes, sizes_of};
use super::server_connection::ServerConnection;
use crate::backup::Backup;
use crate::blocking::blocking;
use crate::client::{Connection, Selected, commands, is_later};

/// A folder that was compared.
pub(super) struct Compared {
    pub(super) report: FolderReport,
    /// Messages that both sides have.
    pub(super) common: UidSet,
    /// Those whose bytes were compared.
    pub(super) done: UidSet,
}

/// A folder that is being compared.
pub(super) struct Comparing<'a> {
    backup: &'a Arc<dyn Backup>,
    folder: WithServer<'a>,
    options: &'a Options,
    local: Option<Local>,
    progress: Progress,
    /// Messages that both sides have.
    common: UidSet,
    report: FolderReport,
}

impl<'a> Comparing<'a> {
    pub(super) fn new(backup: &'a Arc<dyn Backup>, mut folder: WithServer<'a>, options: &'a Options) -> Self {
        let progress = Progress::new(folder.chosen.take());
        let report = FolderReport { name: folder.found.name.to_string(), ..FolderReport::default() };
        Comparing { backup, folder, options, local: None, progress, common: UidSet::new(), report }
    }

    /// Compares it. Errors of the folder are in the report.
    ///
    /// # Errors
    /// If no connection can be made any more.
    pub(super) async fn run(
        mut self,
        there: &mut ServerConnection<'_>,
        random: &dyn Random,
    ) -> Result<Compared> {
        loop {
            let before = self.progress.done.len();
            let compared = match there.connection().await {
                Ok(connection) => self.compare(connection, random).await,
                Err(e) if e.kind() != Kind::Retry => return Err(e),
                Err(e) => Err(e),
            };
            if self.progress.done.len() > before {
                there.backoff.progress();
            }
            match compared {
                Ok(()) => break,
                Err(e) if e.kind() == Kind::Retry => {
                    if !is_later(&e.to_string()) {
                        self.progress.connection_lost();
                    }
                    there.connection_lost(e).await?;
                }
                Err(e) => {
                    self.report.error = Some(e.to_string());
                    break;
                }
            }
        }
        Ok(Compared { report: self.report, common: self.common, done: self.progress.done })
    }

    async fn compare(&mut self, connection: &mut Connection, random: &dyn Random) -> Result<()> {
        let selected = self.select(connection).await?;
        let local = match self.local.take() {
            Some(local) => local,
            None => self.read_copy().await?,
        };
        let local = &*self.local.insert(local);
        self.report.kept = local.messages.len() as u64;
        let mut listed = ServerListing::default();
        if selected.messages > 0 {
            sizes_of(connection, &mut |uid, size| listed.add(local, uid, size)).await?;
        }
        if listed.there.len() < selected.messages as usize {
            let (listed, all) = (listed.there.len(), selected.messages);
            return Err(Error::invalid(format!("the server lists {listed} of {all} messages of the folder")));
        }
        self.common = listed.compare(local, &mut self.report);
        let common = &self.common;
        self.progress.chosen.get_or_insert_with(|| choose(common, self.options.sample, random));
        self.compare_bytes(connection).await?;
        let unsent = self.progress.unsent(&self.common);
        if unsent.is_empty() {
            return Ok(());
        }
        let some: String = unsent.to_string().chars().take(200).collect();
        Err(Error::invalid(format!("the server did not send UID {some}")))
    }

    /// Opens the folder at the server, if it is the mailbox of the backup.
    async fn select(&mut self, connection: &mut Connection) -> Result<Selected> {
        let selected = connection.examine(&self.folder.found.wire).await?;
        self.report.messages = u64::from(selected.messages);
        match self.folder.kept.filter(|kept| kept.identity.uidvalidity != selected.uidvalidity) {
            None => Ok(selected),
            Some(kept) => Err(Error::conflict(format!(
                "the server's UIDVALIDITY is {}, not {}: pull first",
                selected.uidvalidity, kept.identity.uidvalidity
            ))),
        }
    }

    /// Reads the backup's messages, once.
    async fn read_copy(&mut self) -> Result<Local> {
        let Some(kept) = self.folder.kept else { return Ok(Local::default()) };
        let (backup, name, looked) = (self.backup.clone(), kept.name.clone(), self.options.looked.clone());
        // Another connection does not help.
        let local = blocking(move || read(&*backup, &name, &*looked)).await.map_err(|e| match e.kind() {
            Kind::Retry => Error::internal(e.to_string()).with_source(e),
            _ => e,
        })?;
        self.report.damaged.clone_from(&local.damaged);
        self.report.damaged_uids.clone_from(&local.damaged_uids);
        Ok(local)
    }

    /// Compares the remaining messages byte by byte.
    async fn compare_bytes(&mut self, connection: &mut Connection) -> Result<()> {
        let Some(local) = &self.local else { return Ok(()) };
        let left = self.progress.left(&self.common);
        let (done, report, looked) = (&mut self.progress.done, &mut self.report, &self.options.looked);
        for part in commands(&left) {
            hashes(connection, &part, |uid, hash| {
                if let (Some(id), Some((_, kept))) = (Uid::new(uid), local.messages.get(&uid))
                    && !done.contains(id)
                {
                    done.insert(id);
                    looked(&report.name);
                    if *kept != hash {
                        report.different.insert(id);
                    }
                    report.compared = done.len() as u64;
                }
            })
            .await?;
        }
        Ok(())
    }
}
