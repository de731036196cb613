//! Vacation responses to mail that was delivered: what of it is looked at, and when it is handed
//! over. No client waits for a response.

use sealpost_submission::vacation::responder::Scanning;

use super::SmtpShared;
use super::submitting::reverse_path;
use super::transaction::Envelope;

/// A message begins. `None` if no account of it may have a response, or its sender gets none.
pub(super) fn begin(shared: &SmtpShared, envelope: &Envelope) -> Option<Scanning> {
    let outbox = shared.outbox.as_ref().filter(|_| !envelope.away.is_empty())?;
    outbox.vacation().begin(&reverse_path(&envelope.mail.from))
}

/// It is in those of the envelope's accounts, by their index.
pub(super) fn delivered(
    shared: &SmtpShared,
    envelope: &Envelope,
    scanning: Option<Scanning>,
    is_done: impl Fn(usize) -> bool,
) {
    let (Some(outbox), Some(scanning)) = (&shared.outbox, scanning) else { return };
    let has_it = |id| envelope.index_of(id).is_some_and(&is_done);
    let away = envelope.away.iter().filter(|account| has_it(account.id)).cloned();
    outbox.vacation().delivered(scanning, &reverse_path(&envelope.mail.from), away);
}
