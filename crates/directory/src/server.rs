//! Whether the records in a store are this installation's, and records under another key.
//!
//! `server/key/{version}` is a record like others, made when a store is used first: it says nothing
//! but by being authentic. A node whose key does not authenticate what is there must not begin:
//! what it writes all others would reject.

use futures::StreamExt;
use minicbor::{Decode, Encode};
use sealpost_base::{Error, Kind, Result, Timestamp, limits};

use super::Directory;

/// The record that every store has.
const RECORD: &str = "server/key";
/// Records known to this node that it checks for authenticity.
const CHECKED_RECORDS: usize = 64;
/// Where records are.
const ROOTS: [&str; 7] = ["server", "accounts", "aliases", "shares", "usage", "vacations", "logins"];

#[derive(Encode, Decode)]
#[cbor(map)]
struct ServerRecord {
    #[n(0)]
    written: Timestamp,
}

/// Records that were written again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Authenticated {
    /// Records that there are.
    pub records: u64,
    /// Those that were written again.
    pub again: u64,
}

impl Directory {
    /// Makes sure that this server's keys authenticate what is in the store. An empty one is this
    /// server's from then on, if `write`.
    ///
    /// # Errors
    /// `Corrupt` if they do not, saying what to do; what the store says.
    pub async fn check_key(&self, write: bool) -> Result<()> {
        match self.versions.newest(RECORD).await {
            Ok(Some(_)) => return Ok(()),
            Ok(None) => {}
            // It may be damaged, or something planted beside it, and everything else in order.
            Err(e) if e.kind() == Kind::Corrupt => {
                let is_ours = self.versions.is_any_authentic(RECORD).await? == Some(true)
                    || self.is_any_known_record_ours().await?
                    || self.is_any_ours().await? == Some(true);
                if !is_ours {
                    return Err(another());
                }
                tracing::error!(error = %e, "the record of the server key is damaged; other records are in order");
                return Ok(());
            }
            Err(e) => return Err(e),
        }
        if !self.is_any_known_record_ours().await? && self.is_any_ours().await? == Some(false) {
            return Err(another());
        }
        if !write {
            return Ok(());
        }
        match self.put_server_record(0).await? {
            true => Ok(()),
            // Another node was first.
            false => match self.versions.newest(RECORD).await {
                Err(e) if e.kind() == Kind::Corrupt => Err(another()),
                found => found.map(drop),
            },
        }
    }

    async fn put_server_record(&self, version: u64) -> Result<bool> {
        let bytes = minicbor::to_vec(ServerRecord { written: self.clock.now() })
            .map_err(|e| Error::internal("a server record cannot be encoded").with_source(e.to_string()))?;
        self.versions.put_after(RECORD, version, &bytes).await
    }

    /// Whether one of the records that this node has seen exists and is authentic: planted records
    /// beside them do not keep the server from starting.
    async fn is_any_known_record_ours(&self) -> Result<bool> {
        for (directory, _) in self.versions.watermarks.records().into_iter().take(CHECKED_RECORDS) {
            if self.versions.is_any_authentic(&directory).await? == Some(true) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether one of the first records is this server's; `None`: there are no records.
    async fn is_any_ours(&self) -> Result<Option<bool>> {
        let (mut ours, mut left) = (None, limits::SERVER_KEY_RECORDS);
        for root in ["accounts", "aliases"] {
            let mut records = self.versions.all(root);
            while left > 0
                && let Some((_, newest)) = records.next().await
            {
                left -= 1;
                match newest {
                    Ok(_) => return Ok(Some(true)),
                    Err(e) if e.kind() == Kind::Corrupt => ours = Some(false),
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(ours)
    }

    /// Writes all records again that an older server key authenticates. A record that none does is
    /// reported and left alone, and one that cannot be written keeps no other from it.
    ///
    /// # Errors
    /// What the store says, and why records were not written: run it again then.
    pub async fn authenticate_again(&self) -> Result<Authenticated> {
        let (mut done, mut failed) = (Authenticated::default(), Vec::new());
        for root in ROOTS {
            let mut records = self.versions.all(root);
            while let Some((directory, newest)) = records.next().await {
                match newest {
                    Ok(_) => {}
                    Err(e) if e.kind() == Kind::Corrupt => {
                        tracing::error!(record = directory, error = %e, "a record is not authentic; it is \
                            left unchanged");
                        continue;
                    }
                    Err(e) => return Err(e),
                }
                done.records += 1;
                match self.versions.authenticate_again(&directory).await {
                    Ok(again) => done.again += u64::from(again),
                    Err(e) if e.kind() == Kind::Corrupt => {
                        tracing::error!(record = directory, error = %e, "a record was not written again");
                        failed.push(e.context(directory));
                    }
                    Err(e) => return Err(e.context(directory)),
                }
            }
        }
        let others = failed.len().saturating_sub(1);
        if let Some(first) = failed.into_iter().next() {
            let all = format!("records are still under an older server key, this one and {others} more");
            return Err(first.context(all));
        }
        if done.records == 0 {
            self.check_key(true).await?;
        }
        Ok(done)
    }
}

fn another() -> Error {
    Error::corrupt(
        "server.key does not authenticate the records in this store: copy server.key from another node, or \
         from the backup, into the data directory; only on an empty store the first start creates it",
    )
}
