//! [`Recent`]: mails that were accepted or read a moment ago, so that most are never read back from the log.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::MailId;
use crate::envelope::{Body, Mail, Recipient};

/// A bounded number of bytes of mails, the last ones.
pub(crate) struct Recent {
    limit: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    mails: HashMap<MailId, Arc<Mail>>,
    order: VecDeque<(MailId, usize)>,
    bytes: usize,
}

impl Recent {
    /// Of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Recent { limit, kept: Mutex::default() }
    }

    pub(crate) fn get(&self, id: MailId) -> Option<Arc<Mail>> {
        self.lock().mails.get(&id).cloned()
    }

    pub(crate) fn keep(&self, id: MailId, mail: Arc<Mail>) {
        let bytes = weight(&mail);
        let mut kept = self.lock();
        if bytes > self.limit / 8 || kept.mails.insert(id, mail).is_some() {
            return;
        }
        kept.bytes += bytes;
        kept.order.push_back((id, bytes));
        while kept.bytes > self.limit {
            let Some((oldest, bytes)) = kept.order.pop_front() else { return };
            kept.mails.remove(&oldest);
            kept.bytes -= bytes;
        }
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// It is queued no more. Its place in the order goes when it is the oldest.
    pub(crate) fn forget(&self, id: MailId) {
        self.lock().mails.remove(&id);
    }

    /// Nothing is kept any more.
    pub(crate) fn clear(&self) {
        *self.lock() = Kept::default();
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// About how many bytes of memory a mail takes.
pub(crate) fn weight(mail: &Mail) -> usize {
    let body = match &mail.body {
        Body::Inline(bytes) => bytes.len(),
        Body::Object(_) => 0,
    };
    let orcpt = |recipient: &Recipient| recipient.orcpt.as_ref().map_or(0, String::len);
    let recipient = |recipient: &Recipient| 80 + recipient.address.len() + orcpt(recipient);
    let recipients: usize = mail.recipients.iter().map(recipient).sum();
    512 + mail.header.len() + body + recipients
}

#[cfg(test)]
mod tests {
    use sealpost_base::Timestamp;

    use super::*;

    #[test]
    fn the_oldest_mails_make_way() {
        let mail = Arc::new(crate::state::tests::mail(Timestamp(0), 1, &["a@b.example"]));
        let recent = Recent::new(10 * weight(&mail));
        (0..25).for_each(|id| recent.keep(MailId(id), mail.clone()));
        let kept = (0..25).filter(|id| recent.get(MailId(*id)).is_some()).count();
        assert_eq!((kept, recent.get(MailId(24)).is_some()), (10, true));
        recent.forget(MailId(24));
        assert!(recent.get(MailId(24)).is_none());
        let huge = Arc::new(crate::envelope::Mail { header: vec![0; 20 * weight(&mail)], ..(*mail).clone() });
        recent.keep(MailId(30), huge);
        assert!(recent.get(MailId(30)).is_none() && recent.get(MailId(23)).is_some());
    }
}
