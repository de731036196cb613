//! Flags and rights: which flags a user may set, and the effect of a change.

use std::collections::HashMap;

use sealpost_account::rights::Rights;
use sealpost_account::state::{AccountState, FlagSetId, Mailbox};
use sealpost_account::{FlagAction, Flags, SystemFlags};
use sealpost_base::{Error, Result, UidSet};

/// Rights to all flags.
pub const FLAG_RIGHTS: Rights = Rights::SEEN.with(Rights::DELETE_MESSAGES).with(Rights::WRITE);

/// The flags that a user may change, or set on a new message, with these rights (RFC 4314 §4).
pub fn permitted(flags: &Flags, rights: Rights) -> Flags {
    let (own, others) = (SystemFlags::SEEN.with(SystemFlags::DELETED), rights.contains(Rights::WRITE));
    let mut system = if others { flags.system.without(own) } else { SystemFlags::NONE };
    for (flag, right) in [(SystemFlags::SEEN, Rights::SEEN), (SystemFlags::DELETED, Rights::DELETE_MESSAGES)]
    {
        if flags.system.contains(flag) && rights.contains(right) {
            system = system.with(flag);
        }
    }
    Flags { system, keywords: if others { flags.keywords.clone() } else { Vec::new() } }
}

/// The steps of a flag change with these rights. Flags that the user may not change stay (RFC 4314 §4).
///
/// # Errors
/// `Denied` if the user may change none of them.
pub fn steps(
    action: FlagAction,
    wanted: &Flags,
    rights: Rights,
    state: &AccountState,
    mailbox: &Mailbox,
) -> Result<Vec<(FlagAction, Flags)>> {
    if rights.contains(FLAG_RIGHTS) {
        return Ok(vec![(action, wanted.clone())]);
    }
    let may = permitted(wanted, rights);
    let none = may == Flags::default() && *wanted != Flags::default();
    if none && action != FlagAction::Replace || !rights.intersects(FLAG_RIGHTS) {
        return Err(Error::denied("you do not have the right to change these flags"));
    }
    if action != FlagAction::Replace {
        return Ok(vec![(action, may)]);
    }
    let others = permitted(&all_of(state, mailbox), rights);
    let kept = |name: &String| may.keywords.iter().any(|k| k.eq_ignore_ascii_case(name));
    let others = Flags {
        system: others.system.without(may.system),
        keywords: others.keywords.into_iter().filter(|name| !kept(name)).collect(),
    };
    Ok(vec![(FlagAction::Add, may), (FlagAction::Remove, others)])
}

/// The flags of that mailbox's messages that a user may not set with these rights.
pub fn lost(state: &AccountState, source: &Mailbox, rights: Rights) -> Flags {
    let all = all_of(state, source);
    let kept = permitted(&all, rights);
    let keywords = if kept.keywords.is_empty() { all.keywords } else { Vec::new() };
    Flags { system: all.system.without(kept.system), keywords }
}

/// All flags that messages of the mailbox may have.
fn all_of(state: &AccountState, mailbox: &Mailbox) -> Flags {
    let system = SystemFlags::NAMES.into_iter().fold(SystemFlags::NONE, |all, (flag, _)| all.with(flag));
    let keywords = mailbox.keywords().map(|id| state.keyword_name(id).to_owned()).collect();
    Flags { system, keywords }
}

/// The messages whose flags would change, and how many messages exist.
pub fn changing(
    state: &AccountState,
    mailbox: &Mailbox,
    targets: &UidSet,
    action: FlagAction,
    flags: &Flags,
) -> (UidSet, usize) {
    let mut known: HashMap<FlagSetId, bool> = HashMap::new();
    // Adjacent messages mostly have the same flags.
    let mut before = None;
    let mut present = 0;
    let mut changing = UidSet::new();
    for (first, last) in targets.ranges() {
        for row in mailbox.rows(first..=last) {
            present += 1;
            let changes = match before {
                Some((same, changes)) if same == row.flags => changes,
                _ => *known.entry(row.flags).or_insert_with(|| changes(state, row.flags, action, flags)),
            };
            before = Some((row.flags, changes));
            if changes {
                changing.push(row.uid);
            }
        }
    }
    (changing, present)
}

/// Whether the change modifies a flag set.
pub(crate) fn changes(state: &AccountState, id: FlagSetId, action: FlagAction, flags: &Flags) -> bool {
    let set = state.flags(id);
    let has = |name: &String| state.keyword(name).is_some_and(|keyword| set.has(keyword));
    match action {
        FlagAction::Add => !set.system.contains(flags.system) || !flags.keywords.iter().all(has),
        FlagAction::Remove => {
            set.system.without(flags.system) != set.system || flags.keywords.iter().any(has)
        }
        FlagAction::Replace => {
            set.system != flags.system
                || set.keywords.len() != flags.keywords.len()
                || !flags.keywords.iter().all(has)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_right_permits_its_flags() {
        let all = Flags {
            system: SystemFlags::SEEN.with(SystemFlags::DELETED).with(SystemFlags::FLAGGED),
            keywords: vec!["work".to_owned()],
        };
        assert_eq!(permitted(&all, FLAG_RIGHTS), all);
        assert_eq!(permitted(&all, Rights::NONE), Flags::default());
        assert_eq!(permitted(&all, Rights::SEEN), Flags::system(SystemFlags::SEEN));
        assert_eq!(permitted(&all, Rights::DELETE_MESSAGES), Flags::system(SystemFlags::DELETED));
        let others = Flags { system: SystemFlags::FLAGGED, keywords: all.keywords.clone() };
        assert_eq!(permitted(&all, Rights::WRITE), others);
    }
}
