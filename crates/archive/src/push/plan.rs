//! [`Plan`]: what one attempt does with a folder, computed from the contents of both ends only.

use sealpost_base::UidSet;

use super::delivery_state::DeliveryState;

/// What was found at both ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comparison<'a> {
    /// UIDs of the source that the destination does not have.
    pub(super) missing: &'a UidSet,
    /// The destination has the folder.
    pub(super) is_there: bool,
    /// An earlier run put messages into the folder, and ended before all of them were answered.
    pub(super) unfinished: bool,
    /// Nothing is to be changed.
    pub(super) dry_run: bool,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing: no message can be put there.
    Done,
    /// Report these messages, and append none of them.
    Show(UidSet),
    /// Wait until the server has processed what another connection sent, and look again.
    Settle,
    /// Append these messages; `alone`: with a command for each.
    Put { uids: UidSet, alone: bool },
}

impl Plan {
    /// The plan for this look, with what earlier attempts learned.
    pub(super) fn of(comparison: Comparison<'_>, tried: &DeliveryState) -> Self {
        let (uids, alone) = tried.next(comparison.missing);
        if comparison.dry_run {
            Plan::Show(uids)
        } else if uids.is_empty() || !comparison.is_there {
            Plan::Done
        } else if tried.must_wait(comparison.unfinished, alone) {
            Plan::Settle
        } else {
            Plan::Put { uids, alone }
        }
    }

    /// Whether another attempt is of use after messages were appended.
    pub(super) fn has_more(missing: &UidSet, tried: &DeliveryState, alone: bool) -> bool {
        // A message with a command of its own is tried again only if it may be accepted without
        // keywords.
        tried.has_more(missing) && (!alone || tried.has_bare(missing))
    }
}

#[cfg(test)]
mod tests {
    use sealpost_base::Uid;
    use sealpost_imap::types::{Atom, Flag};

    use super::*;

    fn set(uids: &[u32]) -> UidSet {
        uids.iter().filter_map(|uid| Uid::new(*uid)).collect()
    }

    fn comparison(missing: &UidSet) -> Comparison<'_> {
        Comparison { missing, is_there: true, unfinished: false, dry_run: false }
    }

    #[test]
    fn all_that_is_missing_is_put_there_at_first() {
        let (missing, tried) = (set(&[1, 2, 3]), DeliveryState::default());
        assert_eq!(Plan::of(comparison(&missing), &tried), Plan::Put { uids: missing.clone(), alone: false });
        assert!(!Plan::has_more(&missing, &tried, false));
    }

    #[test]
    fn a_folder_without_missing_messages_or_place_needs_nothing() {
        let (missing, none, tried) = (set(&[1]), UidSet::new(), DeliveryState::default());
        assert_eq!(Plan::of(comparison(&none), &tried), Plan::Done);
        assert_eq!(Plan::of(Comparison { is_there: false, ..comparison(&missing) }, &tried), Plan::Done);
    }

    #[test]
    fn a_dry_run_only_shows_and_never_waits() {
        let (missing, mut tried) = (set(&[1, 2]), DeliveryState::default());
        tried.failed(2, "refused".into());
        let dry = Comparison { dry_run: true, unfinished: true, is_there: false, ..comparison(&missing) };
        assert_eq!(Plan::of(dry, &tried), Plan::Show(set(&[1])));
    }

    #[test]
    fn an_unfinished_run_is_waited_for_once() {
        let (missing, mut tried) = (set(&[1]), DeliveryState::default());
        let unfinished = Comparison { unfinished: true, ..comparison(&missing) };
        assert_eq!(Plan::of(unfinished, &tried), Plan::Settle);
        tried.settling(true, true);
        assert_eq!(Plan::of(unfinished, &tried), Plan::Put { uids: missing.clone(), alone: false });
    }

    #[test]
    fn interrupted_messages_come_last_alone_and_after_a_wait() {
        let (missing, mut tried) = (set(&[1, 2]), DeliveryState::default());
        tried.settling(false, false);
        tried.connection_lost(1, true, "gone");
        assert_eq!(Plan::of(comparison(&missing), &tried), Plan::Put { uids: set(&[2]), alone: false });
        assert!(Plan::has_more(&missing, &tried, false));
        let missing = set(&[1]);
        assert_eq!(Plan::of(comparison(&missing), &tried), Plan::Settle);
        tried.settling(false, true);
        assert_eq!(Plan::of(comparison(&missing), &tried), Plan::Put { uids: set(&[1]), alone: true });
        assert!(!Plan::has_more(&missing, &tried, true), "it had a command of its own");
    }

    #[test]
    fn a_message_refused_for_its_keywords_is_tried_without_them() {
        let (missing, mut tried) = (set(&[1]), DeliveryState::default());
        tried.flags(1, vec![Flag::Keyword(Atom::new("$Work").unwrap())]);
        assert!(tried.leave_keywords(1));
        assert!(Plan::has_more(&missing, &tried, true));
        assert_eq!(Plan::of(comparison(&missing), &tried), Plan::Put { uids: set(&[1]), alone: true });
    }
}
