//! Rewriting a journal, record by record.

use std::path::Path;

use sealpost_base::Result;

use super::{Commit, Header, Journal, Record};

/// A journal that is to replace another one, as one transaction.
pub struct Again {
    journal: Journal,
    /// Where the line ends of the next message begin; 0 if it has none.
    line_ends: u64,
}

impl Again {
    /// Begins a replacement for the journal at `path`, with its last header.
    ///
    /// # Errors
    /// As [`Journal::begin`].
    pub fn begin(path: &Path, header: Header) -> Result<Self> {
        Ok(Again { journal: Journal::begin(path, header)?, line_ends: 0 })
    }

    /// Adds the next record of the old journal.
    ///
    /// # Errors
    /// As [`Journal::push`].
    pub fn add(&mut self, record: Record) -> Result<()> {
        match record {
            // It begins with the last header, and gets a commit at its end.
            Record::Header(_) | Record::Commit(_) => {}
            record @ Record::LineEnds { .. } => {
                let at = self.journal.push(&record)?;
                self.line_ends = if self.line_ends == 0 { at } else { self.line_ends };
            }
            Record::Message(mut message) => {
                let ends = std::mem::take(&mut self.line_ends);
                message.line_ends = if message.line_ends == 0 { 0 } else { ends };
                self.journal.push(&Record::Message(message))?;
            }
            record => {
                if record == Record::Abandoned {
                    self.line_ends = 0;
                }
                self.journal.push(&record)?;
            }
        }
        Ok(())
    }

    /// Leaves out the next message of the old journal.
    ///
    /// # Errors
    /// As [`Journal::push`].
    pub fn leave_out_message(&mut self) -> Result<()> {
        if std::mem::take(&mut self.line_ends) != 0 {
            self.journal.push(&Record::Abandoned)?;
        }
        Ok(())
    }

    /// Commits everything, and then an empty transaction: the last transaction is the one that is
    /// read and redone.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn commit(&mut self, commit: &Commit) -> Result<()> {
        self.journal.commit(commit)?;
        self.journal.commit(commit)
    }

    /// Replaces the journal at `path`, durable on return; returns the journal.
    ///
    /// # Errors
    /// As [`Journal::put_in_place`]: the old one stays in place then.
    pub fn put_in_place(mut self, path: &Path) -> Result<Journal> {
        self.journal.put_in_place(path, true)?;
        Ok(self.journal)
    }
}
