//! [`Answers`]: how much a server may send before it completes a command.

use sealpost_base::{Result, limits};
use sealpost_imap::client::Event;
use sealpost_imap::types::Response;

use super::Connection;
use super::peer_fault::protocol_violation;

/// Counts responses between one completed command and the next.
#[derive(Debug, Default)]
pub(super) struct Answers {
    completed: u32,
    remarks: usize,
    responses: usize,
}

impl Answers {
    /// Takes an event; commands with the tags 1 to `tag` were written.
    ///
    /// # Errors
    /// `Retry` beyond [`limits::ARCHIVE_REMARKS`] or [`limits::ARCHIVE_RESPONSES`].
    pub(super) fn take(&mut self, event: &Event, tag: u32) -> Result<()> {
        // A command is completed once: otherwise a server could send completions without end.
        if Connection::completion(event).is_some() && self.completed < tag {
            *self = Answers { completed: self.completed + 1, ..Answers::default() };
            return Ok(());
        }
        match event {
            Event::Response(Response::Status { .. } | Response::Continue(_)) => {
                self.remarks += 1;
                too_much("lines like OK", self.remarks, limits::ARCHIVE_REMARKS)
            }
            Event::Response(_) | Event::FetchBegin(_) | Event::UidFetchBegin(_) => {
                self.responses += 1;
                too_much("responses", self.responses, limits::ARCHIVE_RESPONSES)
            }
            _ => Ok(()),
        }
    }
}

fn too_much(what: &str, count: usize, limit: usize) -> Result<()> {
    if count <= limit {
        return Ok(());
    }
    Err(protocol_violation(format!("the server sends more than {limit} {what} without completing a command")))
}

#[cfg(test)]
mod tests {
    use sealpost_base::Kind;
    use sealpost_imap::types::{Status, Tag};

    use super::*;

    fn status(tag: Option<&str>) -> Event {
        let tag = tag.map(|tag| Tag::new(tag).unwrap());
        Event::Response(Response::Status { tag, status: Status::Ok, code: None, text: "".into() })
    }

    #[test]
    fn responses_before_an_answer_are_limited() {
        for (event, limit) in [
            (status(None), limits::ARCHIVE_REMARKS),
            (status(Some("foreign")), limits::ARCHIVE_REMARKS),
            (Event::FetchBegin(1), limits::ARCHIVE_RESPONSES),
            (Event::UidFetchBegin(1), limits::ARCHIVE_RESPONSES),
            (Event::Response(Response::Exists(1)), limits::ARCHIVE_RESPONSES),
        ] {
            let mut answers = Answers { remarks: 0, responses: 0, completed: 0 };
            match limit {
                limits::ARCHIVE_REMARKS => answers.remarks = limit - 1,
                _ => answers.responses = limit - 1,
            }
            answers.take(&event, 1).unwrap();
            answers.take(&status(Some("s1")), 1).unwrap();
            for _ in 0..1000 {
                answers.take(&event, 1).unwrap();
            }
            match limit {
                limits::ARCHIVE_REMARKS => answers.remarks = limit,
                _ => answers.responses = limit,
            }
            assert_eq!(answers.take(&event, 1).unwrap_err().kind(), Kind::Retry, "{event:?}");
        }
    }

    #[test]
    fn a_command_that_is_completed_again_and_again_is_one() {
        let mut answers = Answers::default();
        let failed =
            (0..=limits::ARCHIVE_REMARKS + 3).find(|_| answers.take(&status(Some("s2")), 2).is_err());
        assert_eq!(failed, Some(limits::ARCHIVE_REMARKS + 2));
    }
}
