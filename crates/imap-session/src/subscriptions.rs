//! What a client is told of beside its own commands.

use super::{metadata, notify};

/// What a client asked to be told of beside its own commands.
#[derive(Default)]
pub(super) struct Subscriptions {
    /// `Some` if the client is to be told of metadata that others change.
    pub(super) metadata: Option<metadata::MetadataSubscription>,
    /// What NOTIFY asked for; `None` until it is used.
    pub(super) notify: Option<Box<notify::NotifySubscription>>,
}
