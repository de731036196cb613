//! What all who use one bucket must believe alike: whether its conditional creates can be relied on.
//!
//! Each finds that out for itself ([`crate::probe`]), and may be wrong: a proxy in between drops the header, a server of the
//! store is of another version, a request failed at the wrong moment. If one took for a log's only entry what another
//! overwrites, acknowledged entries would be lost. So whoever uses a bucket first leaves a mark that says what it
//! found, and whoever comes later goes by the mark or not at all.
//!
//! A mark is written before it is looked whether there are others. So of two that come first at once and differ, one at least sees
//! both.

use futures::TryStreamExt;
use futures::future::try_join_all;
use sealpost_base::{Error, Result};

use super::{AppendMode, Store};
use crate::Sealed;
use crate::format::{self, FORMAT};

#[cfg(test)]
mod tests;

/// The folder with the marks: `conditional` or `siblings`.
pub const MODE_MARKERS: &str = "store/appends";
/// The folder with the mark that says which format the bucket has.
const FORMATS: &str = "store/format";

impl AppendMode {
    const ALL: [AppendMode; 2] = [AppendMode::Conditional, AppendMode::Siblings];

    /// `conditional` or `siblings`.
    pub fn name(self) -> &'static str {
        match self {
            AppendMode::Conditional => "conditional",
            AppendMode::Siblings => "siblings",
        }
    }

    fn mark(self) -> String {
        format!("{MODE_MARKERS}/{}", self.name())
    }
}

impl Store {
    /// The store as all who use it must append to it; the first one decides. Other stores than buckets are as they were.
    ///
    /// # Errors
    /// `Invalid` if others rely on conditional creates and this process found that it cannot, or if those who came first did not
    /// agree; with what to do. What the store says.
    pub async fn pin_append_mode(self) -> Result<Self> {
        let Some(remote) = &self.0.remote else { return Ok(self) };
        let found = self.append_mode();
        let mut marks = self.mode_markers().await?;
        self.check_format(marks.is_empty()).await?;
        if marks.is_empty() {
            self.put_new(&found.mark(), Sealed::marker()).await?;
            marks = self.mode_markers().await?;
        }
        match (marks.as_slice(), found) {
            ([AppendMode::Conditional], AppendMode::Conditional) => Ok(self),
            ([AppendMode::Siblings], _) => {
                // It may have been seen by this reader and not be by the next, if whoever wrote it did not get to know.
                self.put_new(&AppendMode::Siblings.mark(), Sealed::marker()).await?;
                if found == AppendMode::Siblings {
                    return Ok(self);
                }
                tracing::info!(
                    "conditional creates work from here, but the bucket's recorded append mode is siblings, \
                     so entries are written as siblings (to change it, stop all servers and run: sealpost \
                     store probe --reset-append-mode)"
                );
                Ok(Self::remote(remote.clone(), AppendMode::Siblings))
            }
            ([AppendMode::Conditional], AppendMode::Siblings) => Err(Error::invalid(
                "other servers rely on this store's conditional creates, which do not work from here: entries \
                 would be overwritten. Check for a proxy in between, or another endpoint. After a permanent \
                 change of the store, stop all servers and run: sealpost store probe --reset-append-mode",
            )),
            ([], _) => {
                Err(Error::retry(format!("{MODE_MARKERS}/{} was written and is not listed", found.name())))
            }
            _ => Err(Error::invalid(
                "the bucket records two append modes: its first servers disagreed whether conditional creates \
                 work. Stop all servers and run: sealpost store probe --reset-append-mode",
            )),
        }
    }

    /// Whether the bucket has this program's format; a new one gets it. Asked after the marks: whoever leaves one has left the format
    /// before.
    async fn check_format(&self, is_new: bool) -> Result<()> {
        let listed: Vec<_> = self.list(FORMATS, None).try_collect().await?;
        let formats: Vec<_> = listed.iter().map(|object| &object.path[FORMATS.len() + 1..]).collect();
        match formats.as_slice() {
            [] if is_new && self.list("accounts", None).try_next().await?.is_none() => {
                self.put_new(&format!("{FORMATS}/{FORMAT}"), Sealed::marker()).await?;
                Ok(())
            }
            [] => Err(format::other("this store", None)),
            formats => match formats.iter().find(|found| **found != FORMAT.to_string()) {
                Some(other) => Err(format::other("this store", other.parse().ok())),
                None => Ok(()),
            },
        }
    }

    /// What was said of the store by those who use it: nothing, one, or, if they did not agree, both.
    ///
    /// # Errors
    /// What the store says.
    pub async fn mode_markers(&self) -> Result<Vec<AppendMode>> {
        let listed: Vec<_> = self.list(MODE_MARKERS, None).try_collect().await?;
        let is_listed =
            |append_mode: &AppendMode| listed.iter().any(|object| object.path == append_mode.mark());
        Ok(AppendMode::ALL.into_iter().filter(is_listed).collect())
    }

    /// Leaves the mark that says what was found of this store now, and no other. Nobody else may use it meanwhile.
    ///
    /// # Errors
    /// What the store says.
    pub async fn reset_append_mode(&self) -> Result<()> {
        if self.0.remote.is_none() {
            return Ok(());
        }
        self.put_new(&self.append_mode().mark(), Sealed::marker()).await?;
        let others = AppendMode::ALL.into_iter().filter(|other| *other != self.append_mode());
        try_join_all(others.map(|other| async move { self.delete(&other.mark()).await })).await?;
        Ok(())
    }
}
