//! What Email/set changes of an email (RFC 8621 §4.6).

use serde_json::Map;

use super::keyword::Keyword;
use super::object::{Email, EmailField};
use crate::data_type::{Access, all_wrong};
use crate::error::{SetError, SetErrorType};
use crate::id::GivenId;
use crate::patch::{PatchObject, PropertyPatch};
use crate::read::{Fields, Mismatch};
use crate::true_set::SetChange;

/// The changes of an email: its keywords and its mailboxes; all else is immutable.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EmailUpdate {
    /// Changes of its keywords.
    pub keywords: Option<SetChange<Keyword>>,
    /// Changes of the mailboxes it is in. That one is left is for the session to check.
    pub mailbox_ids: Option<SetChange<GivenId>>,
    /// Other properties that the client sent along: they must be as they are (RFC 8620 §5.3), or
    /// the update is `invalidProperties`.
    pub unchanged: Email,
}

impl EmailUpdate {
    /// Reads a patch.
    pub fn new(patch: PatchObject) -> Result<Self, SetError> {
        let mut update = EmailUpdate::default();
        let mut others = Map::new();
        for (name, patch) in patch.properties() {
            match (EmailField::from_name(&name), patch) {
                (Some(EmailField::Keywords), patch) => {
                    update.keywords = Some(SetChange::from_patch(&name, patch)?);
                }
                (Some(EmailField::MailboxIds), patch) => {
                    update.mailbox_ids = Some(SetChange::from_patch(&name, patch)?);
                }
                (_, PropertyPatch::Replace(value)) => drop(others.insert(name, value)),
                (_, PropertyPatch::Members(_)) => {
                    let name = crate::read::shortened(&name);
                    let error = SetError::from(SetErrorType::InvalidPatch);
                    return Err(error.describe(format!("{name} is immutable")));
                }
            }
        }
        let mut fields = Fields::from(others);
        let mut wrong = Vec::new();
        update.unchanged = Email::take(&mut fields, &mut wrong);
        while let Some((name, _)) = fields.pop() {
            wrong.push(Mismatch::because("unknown property").within(&name));
        }
        match all_wrong(&wrong) {
            Some(error) => Err(error),
            None => Ok(update),
        }
    }

    /// Whether properties must be compared with those of the email.
    pub fn has_unchanged(&self) -> bool {
        self.unchanged != Email::default()
    }

    /// Names of the properties in `unchanged` that are not as they are in `current`, which has at
    /// least these.
    pub fn conflicts(&self, current: &Email) -> Vec<String> {
        let mut names = self.unchanged.fields.conflicts(&current.fields);
        let differs = |property: &&_| !current.header_properties.contains(property);
        let headers = self.unchanged.header_properties.iter().filter(differs);
        names.extend(headers.map(|(property, _)| property.to_string()));
        names
    }
}

impl EmailField {
    /// Whether a client may change it.
    pub fn is_settable(self) -> bool {
        self.access() == Access::Settable
    }
}
