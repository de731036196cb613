//! Which folders have to be looked into, from STATUS and from the last commits.

use std::collections::HashMap;

use sealpost_base::UidSet;

use crate::backup::BackupFolder;
use crate::client::{ListedMailbox, Selected};
use crate::restored::Restored;

/// A folder that has to be looked into.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The mailbox.
    pub found: ListedMailbox,
    /// Why.
    pub reason: Reason,
    /// About how many messages there are to be fetched.
    pub estimate: u64,
}

impl Plan {
    /// What SELECT would report, if the mailbox is new to the backup and never had a message.
    /// UIDNEXT must show that no UID was ever assigned: 0 messages may also mean that the server
    /// left out the number.
    pub(super) fn empty(&self) -> Option<Selected> {
        let numbers = self.found.numbers.as_ref()?;
        let unused = numbers.uidvalidity > 0 && numbers.uidnext == 1 && numbers.messages == 0;
        (self.reason == Reason::New && unused).then_some(Selected {
            messages: 0,
            uidnext: numbers.uidnext,
            uidvalidity: numbers.uidvalidity,
            highestmodseq: numbers.highestmodseq,
            // Cyrus 3.6 reports a wrong one in STATUS; the first EXAMINE gives the right one.
            mailboxid: None,
            permanent_flags: None,
        })
    }
}

/// Why a folder is looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is not in the backup.
    New,
    /// It has another UIDVALIDITY than the backup: it is another mailbox of the same name.
    Begun,
    /// It may have been renamed: the backup has its MAILBOXID under another name, and under this
    /// one none or another.
    Renamed,
    /// The last pull did not finish it.
    Unfinished,
    /// Its files changed since the last pull.
    Touched,
    /// A restore put something back into it.
    Restored,
    /// Its numbers changed.
    Changed,
    /// The backup has messages that the server no longer has, and is not to keep them.
    DeletedUpstream,
    /// Nothing shows that it did not change: the server has no mod-sequences.
    Unknown,
    /// Some of its messages are to be fetched again.
    Again,
}

/// What a plan considers besides the folders.
#[derive(Debug, Clone, Copy)]
pub struct PlanOptions<'a> {
    /// Mod-sequences are reliable.
    pub condstore: bool,
    /// Messages that the server no longer has are not to stay in the backup.
    pub delete: bool,
    /// What restores put back into the account.
    pub restored: &'a Restored,
    /// By folder: messages that are fetched in any case.
    pub again: &'a HashMap<String, UidSet>,
}

/// Those of `found` that have to be looked into, those with most to fetch first.
pub fn plan(found: &[ListedMailbox], kept: &[BackupFolder], plan_options: &PlanOptions<'_>) -> Vec<Plan> {
    let PlanOptions { condstore, delete, restored, again } = *plan_options;
    let by_name: HashMap<&str, &BackupFolder> = kept.iter().map(|kept| (kept.name.as_str(), kept)).collect();
    let by_id: HashMap<&str, &BackupFolder> =
        kept.iter().filter_map(|kept| Some((kept.identity.mailboxid.as_deref()?, kept))).collect();
    let selectable = found.iter().filter(|found| found.selectable);
    let mut plans: Vec<Plan> = selectable
        .filter_map(|found| {
            let again = again.get(found.name.as_str()).map_or(0, |uids| uids.len() as u64);
            let id = found.numbers.as_ref().and_then(|numbers| numbers.mailboxid.as_deref());
            let renamed = id.and_then(|id| by_id.get(id)).filter(|kept| kept.name != found.name);
            let same = |kept: &&&BackupFolder| {
                id.zip(kept.identity.mailboxid.as_deref()).is_none_or(|(id, kept)| id == kept)
            };
            let (reason, estimate) = match by_name.get(found.name.as_str()).filter(same) {
                Some(kept) => match change_of(found, kept, condstore) {
                    None if again > 0 => (Reason::Again, again),
                    None if restored.is_new_in(found.name.as_str()) => (Reason::Restored, 0),
                    None if delete && kept.gone > 0 => (Reason::DeletedUpstream, 0),
                    looked => looked?,
                },
                None => match renamed {
                    Some(kept) => (Reason::Renamed, more(found, kept)),
                    None if by_name.contains_key(found.name.as_str()) => (Reason::Begun, all(found)),
                    None => (Reason::New, all(found)),
                },
            };
            Some(Plan { found: found.clone(), reason, estimate })
        })
        .collect();
    plans.sort_by_key(|plan| std::cmp::Reverse(plan.estimate));
    plans
}

/// Why this folder of the backup has to be looked into; `None`: it does not.
fn change_of(found: &ListedMailbox, kept: &BackupFolder, condstore: bool) -> Option<(Reason, u64)> {
    let Some(numbers) = &found.numbers else { return Some((Reason::Unknown, 0)) };
    if numbers.uidvalidity != kept.identity.uidvalidity {
        return Some((Reason::Begun, all(found)));
    }
    let resume = &kept.resume;
    if !resume.whole {
        return Some((Reason::Unfinished, more(found, kept)));
    }
    if !kept.as_left || !kept.closed {
        return Some((Reason::Touched, more(found, kept)));
    }
    if numbers.uidnext == 0
        || numbers.uidnext != resume.uidnext
        || u64::from(numbers.messages) != kept.messages
        || (condstore && numbers.highestmodseq != resume.highestmodseq)
    {
        return Some((Reason::Changed, more(found, kept)));
    }
    // RFC 7162 §3.1.2.2: without mod-sequences flags may have changed.
    let reliable = condstore && numbers.highestmodseq > 0;
    let empty = numbers.messages == 0;
    (!reliable && !empty).then_some((Reason::Unknown, 0))
}

fn all(found: &ListedMailbox) -> u64 {
    found.numbers.as_ref().map_or(0, |numbers| u64::from(numbers.messages))
}

fn more(found: &ListedMailbox, kept: &BackupFolder) -> u64 {
    all(found).saturating_sub(kept.messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::{FolderName, Identity, Resume};
    use crate::client::Numbers;

    fn found(name: &str, numbers: Option<Numbers>) -> ListedMailbox {
        let name = FolderName::new(name, Some('/'));
        ListedMailbox {
            wire: name.as_str().as_bytes().into(),
            name,
            selectable: true,
            attributes: vec![],
            numbers,
        }
    }

    fn numbers() -> Numbers {
        Numbers { messages: 10, uidnext: 11, uidvalidity: 5, highestmodseq: 7, mailboxid: Some("M".into()) }
    }

    fn kept(name: &str) -> BackupFolder {
        BackupFolder {
            name: FolderName::new(name, Some('/')),
            was: None,
            identity: Identity { uidvalidity: 5, mailboxid: Some("M".into()) },
            messages: 10,
            gone: 0,
            resume: Resume { highestmodseq: 7, uidnext: 11, whole: true },
            as_left: true,
            closed: true,
        }
    }

    fn planned(
        found: &[ListedMailbox],
        kept: &[BackupFolder],
        condstore: bool,
        delete: bool,
        again: &HashMap<String, UidSet>,
    ) -> Vec<Plan> {
        plan(found, kept, &PlanOptions { condstore, delete, restored: &Restored::default(), again })
    }

    fn reason(numbers: Numbers, kept: BackupFolder, condstore: bool) -> Option<Reason> {
        planned(&[found("a", Some(numbers))], &[kept], condstore, false, &HashMap::new())
            .first()
            .map(|plan| plan.reason)
    }

    #[test]
    fn unchanged_folders_are_not_pulled() {
        assert_eq!(reason(numbers(), kept("a"), true), None);
        assert_eq!(reason(numbers(), kept("a"), false), Some(Reason::Unknown));
        assert_eq!(
            reason(Numbers { highestmodseq: 0, ..numbers() }, kept("a"), false),
            Some(Reason::Unknown)
        );
    }

    #[test]
    fn every_change_is_seen() {
        let changes = [
            (Numbers { uidnext: 12, ..numbers() }, Reason::Changed),
            (Numbers { highestmodseq: 8, ..numbers() }, Reason::Changed),
            (Numbers { messages: 9, ..numbers() }, Reason::Changed),
            (Numbers { uidvalidity: 6, ..numbers() }, Reason::Begun),
            (Numbers { mailboxid: Some("N".into()), ..numbers() }, Reason::Begun),
        ];
        for (numbers, expected) in changes {
            assert_eq!(reason(numbers, kept("a"), true), Some(expected));
        }
        let mut unfinished = kept("a");
        unfinished.resume.whole = false;
        assert_eq!(reason(numbers(), unfinished, true), Some(Reason::Unfinished));
        assert_eq!(
            reason(numbers(), BackupFolder { as_left: false, ..kept("a") }, true),
            Some(Reason::Touched)
        );
        let some_gone = [BackupFolder { gone: 3, ..kept("a") }];
        let with_gone =
            |delete| planned(&[found("a", Some(numbers()))], &some_gone, true, delete, &HashMap::new());
        assert_eq!((with_gone(false).len(), with_gone(true)[0].reason), (0, Reason::DeletedUpstream));
        let again = HashMap::from([(
            "a".to_owned(),
            UidSet::range(sealpost_base::Uid::MIN, sealpost_base::Uid::MIN),
        )]);
        let again = planned(&[found("a", Some(numbers()))], &[kept("a")], true, false, &again);
        assert_eq!((again[0].reason, again[0].estimate), (Reason::Again, 1));
        assert_eq!(reason(numbers(), kept("b"), true), Some(Reason::Renamed));
        assert_eq!(
            planned(&[found("a", None)], &[kept("a")], true, false, &HashMap::new())[0].reason,
            Reason::Unknown
        );
    }

    #[test]
    fn only_a_never_used_mailbox_counts_as_empty() {
        let empty = |numbers| {
            planned(&[found("a", Some(numbers))], &[], true, false, &HashMap::new())[0].empty().is_some()
        };
        let unused = Numbers { messages: 0, uidnext: 1, ..numbers() };
        assert!(empty(unused.clone()));
        assert!(!empty(Numbers { uidnext: 41, ..unused.clone() }), "MESSAGES may not have been said");
        assert!(!empty(Numbers { uidnext: 0, ..unused.clone() }));
        assert!(!empty(Numbers { uidvalidity: 0, ..unused.clone() }));
        assert!(!empty(Numbers { messages: 1, ..unused }));
    }

    #[test]
    fn swapped_names_are_detected_without_other_evidence() {
        let mut other = kept("b");
        other.identity.mailboxid = Some("N".into());
        let swapped = Numbers { mailboxid: Some("N".into()), ..numbers() };
        let plans = planned(
            &[found("a", Some(swapped)), found("b", Some(numbers()))],
            &[kept("a"), other],
            true,
            false,
            &HashMap::new(),
        );
        assert_eq!(plans.iter().map(|plan| plan.reason).collect::<Vec<_>>(), [Reason::Renamed; 2]);
    }

    #[test]
    fn the_largest_come_first() {
        let many = Numbers { messages: 1000, mailboxid: None, ..numbers() };
        let few = Numbers { messages: 1, mailboxid: None, ..numbers() };
        let plans =
            planned(&[found("few", Some(few)), found("many", Some(many))], &[], true, false, &HashMap::new());
        assert_eq!(plans[0].found.name.as_str(), "many");
    }
}
