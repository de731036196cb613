//! [`Ids`]: which mailbox has which MAILBOXID.

use std::collections::HashMap;

use crate::client::Found;
use crate::keep::{FolderName, Identity};

/// The MAILBOXIDs of a listing. One that several mailboxes have says nothing about any of them: by it a mailbox of its own would be
/// taken for another one that was renamed, and its messages for those of that one.
#[derive(Debug, Default)]
pub(super) struct Ids(HashMap<String, Has>);

#[derive(Debug)]
enum Has {
    One(FolderName),
    Several,
}

impl Ids {
    /// Those of everything that a server has.
    pub(super) fn of(found: &[Found]) -> Self {
        let mut ids = HashMap::new();
        for found in found {
            if let Some(id) = found.numbers.as_ref().and_then(|numbers| numbers.mailboxid.clone()) {
                ids.entry(id)
                    .and_modify(|has| *has = Has::Several)
                    .or_insert_with(|| Has::One(found.name.clone()));
            }
        }
        Ids(ids)
    }

    /// What the server says of the mailbox of that name, without an id that another one has.
    pub(super) fn identity(&self, name: &FolderName, said: Identity) -> Identity {
        let mailboxid = said.mailboxid.filter(|id| self.is_its_own(name, id));
        Identity { mailboxid, ..said }
    }

    /// Takes ids that several mailboxes have out of what was listed.
    pub(super) fn strip(&self, found: &mut [Found]) {
        for Found { name, numbers, .. } in found {
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
