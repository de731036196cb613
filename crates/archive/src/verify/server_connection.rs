//! [`ServerConnection`]: the server, over as many connections as needed.

use std::collections::HashSet;

use sealpost_base::{Error, Random, Result};

use super::Options;
use crate::backup::FolderName;
use crate::client::{Backoff, Connection, ListedMailbox, Server};
use crate::pull::gmail;

/// The server, and a connection that is made again when it is lost.
pub(super) struct ServerConnection<'a> {
    pub(super) server: &'a Server,
    pub(super) connection: Option<Connection>,
    pub(super) backoff: Backoff,
    pub(super) random: &'a dyn Random,
}

impl ServerConnection<'_> {
    pub(super) async fn connection(&mut self) -> Result<&mut Connection> {
        if self.connection.is_none() {
            self.connection = Some(Connection::open(self.server).await?);
        }
        self.connection.as_mut().ok_or_else(|| Error::internal("there is no connection"))
    }

    /// The folders that a pull would back up, and the names of all.
    pub(super) async fn folders(
        &mut self,
        options: &Options,
    ) -> Result<(Vec<ListedMailbox>, HashSet<FolderName>)> {
        let connection = self.connection().await?;
        let listing = connection.listing().await?;
        let all =
            listing.folders.iter().filter(|found| found.selectable).map(|found| found.name.clone()).collect();
        let wanted = |found: &ListedMailbox| (options.wanted)(found.name.as_str());
        Ok((gmail::once(connection.capabilities(), listing.folders, &wanted), all))
    }

    /// Waits before the next attempt; the error if there is none.
    pub(super) async fn connection_lost(&mut self, error: Error) -> Result<()> {
        self.connection = None;
        let Some(wait) = self.backoff.next(&error, self.random) else { return Err(error) };
        tokio::time::sleep(wait).await;
        Ok(())
    }

    pub(super) async fn logout(self) {
        if let Some(connection) = self.connection {
            connection.logout().await;
        }
    }
}
