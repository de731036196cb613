//! Identities and submissions in the state: what their events do, within their limits.

use sealpost_base::{IdentityId, ObjectId, Position, SubmissionId, Timestamp, limits};

use super::records::{Records, Weighed};
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

/// The records that go for a submission of so many bytes: the oldest that are over. `None` if it has no
/// room all the same.
pub(super) fn superfluous(submissions: &Submissions, bytes: usize) -> Option<Vec<SubmissionId>> {
    let (mut count, mut all) = (submissions.len() + 1, submissions.bytes() + bytes);
    let mut over: Vec<_> = submissions.iter().filter(|(_, record)| record.value.is_over()).collect();
    over.sort_unstable_by_key(|(id, record)| (record.created, *id));
    let (mut over, mut gone) = (over.into_iter(), Vec::new());
    while count > limits::SUBMISSIONS || all > limits::SUBMISSIONS_BYTES {
        let (id, record) = over.next()?;
        (count, all) = (count - 1, all - record.value.bytes());
        gone.push(id);
    }
    Some(gone)
}

impl Identities {
    /// Stores an identity, if it is within the limits and not so already. Whether that changed anything.
    pub(super) fn store(&mut self, id: IdentityId, identity: &Identity, at: Position) -> bool {
        let (before, bytes) = (self.get(id), identity.bytes());
        let count = self.len() + usize::from(before.is_none());
        let all = self.bytes() - before.map_or(0, Identity::bytes) + bytes;
        let fits =
            count <= limits::IDENTITIES && bytes <= limits::IDENTITY_BYTES && all <= limits::IDENTITIES_BYTES;
        let is_new = fits && before != Some(identity);
        if is_new {
            self.put(id, identity.clone(), at);
        }
        is_new
    }
}

impl Submissions {
    /// Records a submission, if it is within the limits; records that are over go for it. Whether it was
    /// recorded.
    pub(super) fn record(&mut self, submission: &Submission, time: Timestamp, at: Position) -> bool {
        let record = SubmissionRecord::new(submission.clone(), time);
        if submission.to.len() > limits::SUBMISSION_RECIPIENTS || self.get(submission.id).is_some() {
            return false;
        }
        let Some(superfluous) = superfluous(self, record.bytes()) else { return false };
        for id in superfluous {
            self.remove(id, at);
        }
        self.put(submission.id, record, at);
        true
    }

    /// A delivery status notification about a submission has arrived, whose message that object holds.
    pub(super) fn reported(&mut self, id: SubmissionId, object: ObjectId, at: Position) {
        self.change(id, at, |record| record.take_report(object));
    }

    /// Takes what a queue reports. Whether clients see a change.
    pub(super) fn take(&mut self, id: SubmissionId, news: &[SubmissionNews], at: Position) -> bool {
        // All of them are taken.
        self.change(id, at, |record| news.iter().filter(|news| record.take(news)).count() > 0)
    }
}
