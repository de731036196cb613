//! [`Recent`]: a cache of mails that were just accepted or read. Most mails are sent from it and never
//! read from the log.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::MailId;
use crate::envelope::{Body, Mail, Recipient};

/// The most recent mails, within a bound of bytes.
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
    /// An empty cache of at most `limit` bytes.
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

    /// Bytes in the cache.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Drops a mail that is not queued any more. Its place in the order stays until it is the oldest.
    pub(crate) fn forget(&self, id: MailId) {
        self.lock().mails.remove(&id);
    }

    /// Drops all.
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
