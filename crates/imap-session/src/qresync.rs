//! QRESYNC (RFC 7162 §3.2): the changes since a client's last session.
//!
//! A mailbox records expunged UIDs with their time, up to `limits::VANISHED_RANGES`. For a client that was
//! away longer, it reports every requested UID that does not exist (RFC 7162 §3.2.6). The number of ranges is
//! bounded by those of the request and of the mailbox together, however large the numbers are.

use sealpost_account::state::Mailbox;
use sealpost_base::{ModSeq, Position, Uid, UidSet};
use sealpost_imap::types::{FetchModifier, QResync, SelectParameter, SequenceMatch, SequenceSet};
use sealpost_mailbox::changes::vanished_since;

use super::reply::Reply;
use super::responses::Responses;
use super::selected::Selected;

/// The changes to report to a client that resynchronizes a mailbox.
#[derive(Debug, Default)]
pub(super) struct ResyncDelta {
    /// Expunged UIDs.
    pub(super) vanished: UidSet,
    /// Since when messages were added or flags changed.
    pub(super) since: ModSeq,
    /// Messages to report if they changed.
    pub(super) asked: UidSet,
}

/// Reads the parameters of SELECT, and enables CONDSTORE if they require it.
///
/// # Errors
/// `BAD` if QRESYNC is used without ENABLE (RFC 7162 §3.2.5).
pub(super) fn select_parameters<'a>(
    responses: &mut Responses,
    parameters: &'a [SelectParameter],
) -> Result<Option<&'a QResync>, Reply> {
    let mut known = None;
    for parameter in parameters {
        match parameter {
            SelectParameter::CondStore => {}
            SelectParameter::QResync(_) if !responses.dialect.qresync() => {
                return Err(Reply::bad("QRESYNC is not enabled"));
            }
            SelectParameter::QResync(qresync) => known = Some(qresync),
        }
    }
    responses.dialect.condstore |= parameters.contains(&SelectParameter::CondStore);
    Ok(known)
}

/// `CHANGEDSINCE`, and whether `VANISHED` is requested too.
///
/// # Errors
/// `BAD` if VANISHED is not allowed (RFC 7162 §3.2.6).
pub(super) fn fetch_since(
    responses: &Responses,
    uid: bool,
    modifiers: &[FetchModifier],
) -> Result<(Option<ModSeq>, bool), Reply> {
    let (mut since, mut vanished) = (None, false);
    for modifier in modifiers {
        match modifier {
            FetchModifier::ChangedSince(modseq) => since = Some(Position(*modseq)),
            FetchModifier::Vanished => vanished = true,
            FetchModifier::Partial(_) => {}
        }
    }
    if vanished && !(uid && since.is_some() && responses.dialect.qresync()) {
        return Err(Reply::bad("VANISHED needs UID FETCH, CHANGEDSINCE and ENABLE QRESYNC"));
    }
    Ok((since, vanished))
}

/// The changes since the state that the client declares (RFC 7162 §3.2.5); none if its UIDVALIDITY differs.
pub(super) fn missed(view: &Selected, mailbox: &Mailbox, known: &QResync) -> ResyncDelta {
    if known.uid_validity != mailbox.uid_validity().0.get() {
        return ResyncDelta::default();
    }
    let since = Position(known.modseq);
    let asked = match &known.known_uids {
        Some(uids) => below_next(mailbox, uids),
        None => below_next(mailbox, &SequenceSet::all()),
    };
    let mut vanished = vanished_since(mailbox, since, &asked);
    if let Some(uid) = known.matches.as_ref().and_then(|matches| last_match(view, matches)) {
        // RFC 7162 §3.2.5.2: the client knows every expunge up to this UID.
        vanished.remove_range(Uid::MIN, uid);
    }
    ResyncDelta { vanished, since, asked }
}

/// The UIDs of the set that were expunged after `since`, for UID FETCH (VANISHED). Leaves out those still in
/// the client's view, which are reported as VANISHED without EARLIER (RFC 7162 §3.2.10).
pub(super) fn vanished(view: &Selected, mailbox: &Mailbox, since: ModSeq, set: &SequenceSet) -> UidSet {
    vanished_since(mailbox, since, &below_next(mailbox, set)).difference(view.uids())
}

/// The UIDs of a set that the mailbox may ever have had. `*` is the largest of these, since the expunged
/// messages may have been the last ones.
fn below_next(mailbox: &Mailbox, set: &SequenceSet) -> UidSet {
    let largest = mailbox.uid_next().get() - 1;
    let uid = |n: &u32| Uid::new(*n);
    UidSet::from_ranges(set.resolve(largest).iter().filter_map(|r| Some((uid(r.start())?, uid(r.end())?))))
}

/// The largest UID whose number the client knows correctly. No number above the mailbox's size is correct, so
/// no more pairs than that are checked.
fn last_match(view: &Selected, matches: &SequenceMatch) -> Option<Uid> {
    let numbers = matches.numbers.iter(view.len());
    let uids = matches.uids.iter(u32::MAX);
    let pairs = numbers.zip(uids).filter_map(|(number, uid)| Some((number, Uid::new(uid)?)));
    pairs.filter(|(number, uid)| view.sequence(*uid) == Some(*number)).map(|(_, uid)| uid).last()
}
