//! Looks up the mailboxes of emails by the ids that clients send.

use std::collections::{BTreeMap, BTreeSet};

use sealpost_base::limits::PLACEMENTS_COUNTED;
use sealpost_jmap::error::SetErrorType;
use sealpost_jmap::{GivenId, SetError};
use sealpost_mailbox::email_change::Place;

use crate::mailbox::place_of_id;
use crate::scope::Scope;

/// Mailboxes by id, looked up together.
pub(super) struct Places(BTreeMap<GivenId, Place>);

impl Places {
    /// Looks up these ids. The parameter is a set, not an iterator: the compiler cannot prove that a future
    /// holding an iterator with its own lifetime is `Send`.
    pub(super) async fn find(scope: &Scope<'_>, ids: BTreeSet<&GivenId>) -> sealpost_base::Result<Self> {
        let found = scope.look(|logs| {
            let place = |given: &&GivenId| {
                let id = given.resolve(&scope.created)?;
                Some(((*given).clone(), place_of_id(logs, id)?))
            };
            ids.iter().filter_map(place).collect()
        });
        Ok(Places(found.await?))
    }

    /// The mailboxes with these ids.
    ///
    /// # Errors
    /// `invalidProperties` if one does not exist; `tooManyMailboxes`.
    pub(super) fn of<'a>(&self, ids: impl Iterator<Item = &'a GivenId>) -> Result<BTreeSet<Place>, SetError> {
        let place = |id: &GivenId| {
            self.0.get(id).copied().ok_or_else(|| {
                let why = format!("{id}: there is no such mailbox");
                SetError::invalid_properties(vec!["mailboxIds".to_owned()], why)
            })
        };
        let places: BTreeSet<Place> = ids.map(place).collect::<Result<_, _>>()?;
        if places.len() > PLACEMENTS_COUNTED {
            return Err(SetErrorType::TooManyMailboxes.into());
        }
        Ok(places)
    }

    /// The mailboxes among these ids that exist.
    pub(super) fn known<'a>(&self, ids: impl Iterator<Item = &'a GivenId>) -> BTreeSet<Place> {
        ids.filter_map(|id| self.0.get(id).copied()).collect()
    }
}
