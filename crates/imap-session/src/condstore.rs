//! CONDSTORE (RFC 7162 §3.1): the commands that enable it, and conditional STORE.
//!
//! A message has one mod-sequence for all its metadata, the log position of its last change. So STORE may
//! return MODIFIED when a different flag changed than the stored one. RFC 7162 §3.1.12 recommends more, but
//! that would make each session keep every flag that it has reported.

use sealpost_base::{ModSeq, Position, UidSet};
use sealpost_imap::types::{
    Code, CommandBody, FetchItem, FetchModifier, ReturnOption, SearchKey, SequenceSet, Status, StatusItem,
    StoreModifier,
};

use super::responses::Responses;
use super::selected::Selected;

/// Enables CONDSTORE if that command does. Reports the HIGHESTMODSEQ of a selected mailbox (RFC 7162 §3.1).
pub(super) fn enable(selected: Option<&Selected>, responses: &mut Responses, body: &CommandBody) {
    if responses.dialect.modseq() || !enables(body, selected.is_some()) {
        return;
    }
    responses.dialect.condstore = true;
    if let Some(selected) = selected {
        let code = Code::HighestModSeq(selected.whole());
        responses.out().status(None, Status::Ok, Some(&code), "highest mod-sequence");
    }
}

/// The CONDSTORE enabling commands (RFC 7162 §3.1), except ENABLE and SELECT, which enable it themselves.
fn enables(body: &CommandBody, selected: bool) -> bool {
    match body {
        CommandBody::Status { items, .. } => items.contains(&StatusItem::HighestModSeq),
        // RFC 5819 §2: the same as STATUS for each name.
        CommandBody::List(list) => list.returns.iter().any(|option| {
            matches!(option, ReturnOption::Status(items) if items.contains(&StatusItem::HighestModSeq))
        }),
        CommandBody::Fetch { items, modifiers, .. } => {
            let since = modifiers.iter().any(|modifier| matches!(modifier, FetchModifier::ChangedSince(_)));
            selected && (since || items.contains(&FetchItem::ModSeq))
        }
        CommandBody::Store(store) => {
            let conditional = |modifier: &StoreModifier| matches!(modifier, StoreModifier::UnchangedSince(_));
            selected && store.modifiers.iter().any(conditional)
        }
        _ => selected && body.search().is_some_and(|search| asks_for_modseq(&search.keys)),
    }
}

/// Whether a search uses mod-sequences, so that its result includes one (RFC 7162 §3.1.6).
pub(super) fn asks_for_modseq(keys: &[SearchKey]) -> bool {
    keys.iter().any(|key| key.any(&|key| matches!(key, SearchKey::ModSeq { .. })))
}

/// The UNCHANGEDSINCE modifier of a STORE.
pub(super) fn unchanged_since(modifiers: &[StoreModifier]) -> Option<ModSeq> {
    let StoreModifier::UnchangedSince(modseq) = modifiers.first()?;
    Some(Position(*modseq))
}

/// Messages in the form that a command uses, for MODIFIED: as UIDs or as numbers (RFC 7162 §3.1.3).
pub(super) fn named(view: &Selected, uids: &UidSet, uid: bool) -> Option<SequenceSet> {
    if uid {
        return SequenceSet::from_ranges(uids.ranges().map(|(first, last)| first.get()..=last.get()));
    }
    SequenceSet::from_numbers(uids.iter().filter_map(|uid| view.sequence(uid)))
}
