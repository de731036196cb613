//! Writing a journal anew, record for record.

use std::path::Path;

use sealpost_base::Result;

use super::{Commit, Header, Journal, Record};

/// A journal that is to take the place of another one, as one transaction.
pub struct Again {
    journal: Journal,
    /// Where the line ends of the next message begin, if it has some; 0 if not.
    line_ends: u64,
}

impl Again {
    /// Begins one for that at `path`, with its last header.
    ///
    /// # Errors
    /// As [`Journal::begin`].
    pub fn begin(path: &Path, header: Header) -> Result<Self> {
        Ok(Again { journal: Journal::begin(path, header)?, line_ends: 0 })
    }

    /// Adds the next record of the other one.
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

    /// Leaves out the next message of the other one.
    ///
    /// # Errors
    /// As [`Journal::push`].
    pub fn leave_out_message(&mut self) -> Result<()> {
        if std::mem::take(&mut self.line_ends) != 0 {
            self.journal.push(&Record::Abandoned)?;
        }
        Ok(())
    }

    /// Commits it all, and once more with nothing: what is looked at of a journal, and done again,
    /// is its last transaction.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn commit(&mut self, commit: &Commit) -> Result<()> {
        self.journal.commit(commit)?;
        self.journal.commit(commit)
    }

    /// Takes the place of the one at `path`, on disk when it returns; the journal.
    ///
    /// # Errors
    /// As [`Journal::put_in_place`]: the other one is there then.
    pub fn put_in_place(mut self, path: &Path) -> Result<Journal> {
        self.journal.put_in_place(path, true)?;
        Ok(self.journal)
    }
}
