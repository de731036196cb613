//! Identities and submissions in the state: what their events do, within their limits.

use sealpost_base::{IdentityId, SubmissionId, Timestamp, limits};

use super::records::{Records, Weighed};
use super::{AccountState, Applied};
use crate::identity::Identity;
use crate::submission::{Submission, SubmissionNews, SubmissionRecord};

/// The identities of an account.
pub type Identities = Records<IdentityId, Identity>;
/// The submissions of an account.
pub type Submissions = Records<SubmissionId, SubmissionRecord>;

impl Weighed for Identity {
    fn bytes(&self) -> usize {
        Identity::bytes(self)
    }
}

impl Weighed for SubmissionRecord {
    fn bytes(&self) -> usize {
        SubmissionRecord::bytes(self)
    }
}

impl AccountState {
    /// The identities.
    pub fn identities(&self) -> &Identities {
        &self.identities
    }

    /// The submissions.
    pub fn submissions(&self) -> &Submissions {
        &self.submissions
    }

    /// Whether an identity of so many bytes may be stored under that id.
    pub fn has_room_for_identity(&self, id: IdentityId, bytes: usize) -> bool {
        let before = self.identities.get(id);
        let count = self.identities.len() + usize::from(before.is_none());
        let all = self.identities.bytes() - before.map_or(0, Identity::bytes) + bytes;
        count <= limits::IDENTITIES && bytes <= limits::IDENTITY_BYTES && all <= limits::IDENTITIES_BYTES
    }

    /// The records that go for a submission of so many bytes: the oldest that are over. `None` if it has
    /// no room all the same.
    pub fn superfluous_submissions(&self, bytes: usize) -> Option<Vec<SubmissionId>> {
        let (mut count, mut all) = (self.submissions.len() + 1, self.submissions.bytes() + bytes);
        let mut over: Vec<_> = self.submissions.iter().filter(|(_, record)| record.value.is_over()).collect();
        over.sort_unstable_by_key(|(id, record)| (record.created, *id));
        let (mut over, mut gone) = (over.into_iter(), Vec::new());
        while count > limits::SUBMISSIONS || all > limits::SUBMISSIONS_BYTES {
            let (id, record) = over.next()?;
            (count, all) = (count - 1, all - record.value.bytes());
            gone.push(id);
        }
        Some(gone)
    }

    /// Bytes of all identities and submissions.
    pub(super) fn record_bytes(&self) -> usize {
        self.identities.bytes() + self.submissions.bytes()
    }

    pub(super) fn store_identity(&mut self, id: IdentityId, identity: &Identity) -> Applied {
        if !self.has_room_for_identity(id, identity.bytes()) || self.identities.get(id) == Some(identity) {
            return Applied::Nothing;
        }
        self.identities.put(id, identity.clone(), self.position);
        Applied::Done
    }

    pub(super) fn remove_identity(&mut self, id: IdentityId) -> Applied {
        match self.identities.remove(id, self.position) {
            Some(_) => Applied::Done,
            None => Applied::Nothing,
        }
    }

    pub(super) fn record_submission(&mut self, submission: &Submission, at: Timestamp) -> Applied {
        let record = SubmissionRecord::new(submission.clone(), at);
        if submission.to.len() > limits::SUBMISSION_RECIPIENTS
            || self.submissions.get(submission.id).is_some()
        {
            return Applied::Nothing;
        }
        let Some(superfluous) = self.superfluous_submissions(record.bytes()) else { return Applied::Nothing };
        for id in superfluous {
            self.submissions.remove(id, self.position);
        }
        self.submissions.put(submission.id, record, self.position);
        Applied::Done
    }

    pub(super) fn take_submission_news(&mut self, id: SubmissionId, news: &[SubmissionNews]) -> Applied {
        let position = self.position;
        let changed = self.submissions.change(id, position, |record| {
            news.iter().fold(false, |changed, news| record.take(news) || changed)
        });
        if changed { Applied::Done } else { Applied::Nothing }
    }

    pub(super) fn remove_submission(&mut self, id: SubmissionId) -> Applied {
        match self.submissions.remove(id, self.position) {
            Some(_) => Applied::Done,
            None => Applied::Nothing,
        }
    }
}
