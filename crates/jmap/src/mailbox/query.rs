//! Mailbox/query and Mailbox/queryChanges (RFC 8621 §2.3, §2.4).

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value};

use crate::error::MethodError;
use crate::id::GivenId;
use crate::mailbox::Role;
use crate::read::{Fields, Mismatch, string_enum};
use crate::standard::{Condition, QueryChangesRequest, QueryRequest, SortKey};

/// Which mailboxes: all that are given must match.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MailboxCondition {
    /// In this mailbox; null at the top.
    pub parent_id: Option<Option<GivenId>>,
    /// The name contains this.
    pub name: Option<String>,
    /// With this role; null without.
    pub role: Option<Option<Role>>,
    /// With any role, or without.
    pub has_any_role: Option<bool>,
    /// Subscribed or not.
    pub is_subscribed: Option<bool>,
}

impl Condition for MailboxCondition {
    fn read(fields: &mut Fields) -> Result<Self, Mismatch> {
        Ok(MailboxCondition {
            parent_id: fields.present("parentId")?,
            name: fields.present("name")?,
            role: fields.present("role")?,
            has_any_role: fields.present("hasAnyRole")?,
            is_subscribed: fields.present("isSubscribed")?,
        })
    }
}

impl Serialize for MailboxCondition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let MailboxCondition { parent_id, name, role, has_any_role, is_subscribed } = self;
        parent_id.iter().try_for_each(|parent| map.serialize_entry("parentId", parent))?;
        name.iter().try_for_each(|name| map.serialize_entry("name", name))?;
        role.iter().try_for_each(|role| map.serialize_entry("role", role))?;
        has_any_role.iter().try_for_each(|any| map.serialize_entry("hasAnyRole", any))?;
        is_subscribed.iter().try_for_each(|is| map.serialize_entry("isSubscribed", is))?;
        map.end()
    }
}

string_enum! {
    /// What mailboxes are sorted by.
    pub enum MailboxSortKey {
        /// `sortOrder`.
        SortOrder = "sortOrder",
        /// The name.
        Name = "name",
    }
}

impl SortKey for MailboxSortKey {
    fn read(property: &str, _: &mut Fields) -> Result<Option<Self>, Mismatch> {
        Ok(MailboxSortKey::from_name(property))
    }

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("property", self)
    }
}

/// Arguments of Mailbox/queryChanges.
pub type MailboxQueryChanges = QueryChangesRequest<MailboxCondition, MailboxSortKey>;

/// Arguments of Mailbox/query.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MailboxQuery {
    /// Those of any /query.
    #[serde(flatten)]
    pub query: QueryRequest<MailboxCondition, MailboxSortKey>,
    /// Whether parents come before their children, and siblings together.
    #[serde(skip_serializing_if = "crate::standard::is_default")]
    pub sort_as_tree: bool,
    /// Whether a mailbox is found only with all it is in.
    #[serde(skip_serializing_if = "crate::standard::is_default")]
    pub filter_as_tree: bool,
}

impl MailboxQuery {
    /// Reads the arguments.
    pub fn from_arguments(arguments: Map<String, Value>) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let query = QueryRequest::read(&mut fields)?;
        let sort_as_tree = fields.defaulted("sortAsTree", false)?;
        let filter_as_tree = fields.defaulted("filterAsTree", false)?;
        fields.finish()?;
        Ok(MailboxQuery { query, sort_as_tree, filter_as_tree })
    }
}
