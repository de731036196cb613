//! [`Ids`]: which mailbox has which MAILBOXID.

use std::collections::HashMap;

use crate::backup::{BackupFolder, FolderName, Identity};
use crate::client::ListedMailbox;

/// The MAILBOXIDs of a listing. One that several mailboxes share is ignored: a separate mailbox
/// would be taken for a renamed one, and its messages for that one's.
#[derive(Debug, Default)]
pub(super) struct Ids(HashMap<String, Has>);

#[derive(Debug)]
enum Has {
    One(FolderName),
    Several,
}

impl Ids {
    /// Those of all mailboxes of a server. A mailbox without an id in the listing counts with the
    /// id that it is `kept` with.
    pub(super) fn of(found: &[ListedMailbox], kept: &[BackupFolder]) -> Self {
        let known = kept.iter().filter_map(|kept| Some((&kept.name, kept.identity.mailboxid.as_ref()?)));
        let known: HashMap<_, _> = known.collect();
        let mut ids = HashMap::new();
        for ListedMailbox { name, numbers, .. } in found {
            let said = numbers.as_ref().and_then(|numbers| numbers.mailboxid.as_ref());
            if let Some(id) = said.or_else(|| known.get(name).copied()) {
                ids.entry(id.clone())
                    .and_modify(|has| *has = Has::Several)
                    .or_insert_with(|| Has::One(name.clone()));
            }
        }
        Ids(ids)
    }

    /// The identity that the server reports for the mailbox, without an id that another mailbox
    /// has.
    pub(super) fn identity(&self, name: &FolderName, said: Identity) -> Identity {
        let mailboxid = said.mailboxid.filter(|id| self.is_its_own(name, id));
        Identity { mailboxid, ..said }
    }

    /// Takes ids that several mailboxes have out of what was listed.
    pub(super) fn strip(&self, found: &mut [ListedMailbox]) {
        for ListedMailbox { name, numbers, .. } in found {
            if let Some(numbers) = numbers
                && numbers.mailboxid.as_ref().is_some_and(|id| !self.is_its_own(name, id))
            {
                numbers.mailboxid = None;
            }
        }
    }

    fn is_its_own(&self, name: &FolderName, id: &str) -> bool {
        match self.0.get(id) {
            None => true,
            Some(Has::One(its)) => its == name,
            Some(Has::Several) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::Resume;
    use crate::client::Numbers;

    fn found(name: &str, id: Option<&str>) -> ListedMailbox {
        let name = FolderName::new(name, Some('/'));
        let numbers = Numbers {
            messages: 1,
            uidnext: 2,
            uidvalidity: 5,
            highestmodseq: 7,
            mailboxid: id.map(str::to_owned),
        };
        let wire = name.as_str().as_bytes().into();
        ListedMailbox { wire, name, selectable: true, attributes: vec![], numbers: Some(numbers) }
    }

    fn kept(name: &str, id: &str) -> BackupFolder {
        BackupFolder {
            name: FolderName::new(name, Some('/')),
            was: None,
            identity: Identity { uidvalidity: 5, mailboxid: Some(id.into()) },
            messages: 1,
            gone: 0,
            resume: Resume::default(),
            as_left: true,
            closed: true,
        }
    }

    /// Whether this id is accepted for the mailbox of that name.
    fn is_believed(ids: &Ids, name: &str, id: &str) -> bool {
        let said = Identity { uidvalidity: 5, mailboxid: Some(id.into()) };
        ids.identity(&FolderName::new(name, Some('/')), said).mailboxid.is_some()
    }

    #[test]
    fn an_id_of_several_is_of_none() {
        let mut listed =
            [found("a", Some("M")), found("b", Some("M")), found("c", Some("N")), found("d", None)];
        let ids = Ids::of(&listed, &[]);
        assert!(!is_believed(&ids, "a", "M") && !is_believed(&ids, "b", "M"));
        assert!(is_believed(&ids, "c", "N") && !is_believed(&ids, "d", "N"));
        ids.strip(&mut listed);
        let left = listed.map(|found| found.numbers.and_then(|numbers| numbers.mailboxid));
        assert_eq!(left, [None, None, Some("N".to_owned()), None]);
    }

    #[test]
    fn a_listing_without_ids_does_not_refute_known_ids() {
        let ids = Ids::of(&[found("a", None), found("b", None)], &[kept("a", "M")]);
        assert!(is_believed(&ids, "a", "M") && !is_believed(&ids, "b", "M"));
        let renamed = Ids::of(&[found("b", None)], &[kept("a", "M")]);
        assert!(is_believed(&renamed, "b", "M"));
        let changed_places = Ids::of(&[found("a", Some("N")), found("b", None)], &[kept("a", "M")]);
        assert!(is_believed(&changed_places, "b", "M"));
    }
}
