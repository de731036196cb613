//! What is reported to a client beside the answers to its commands.

use super::{metadata, notify};

/// What a client asked for beside the answers to its commands.
#[derive(Default)]
pub(super) struct Subscriptions {
    /// `Some` if the client asked for metadata changes of others.
    pub(super) metadata: Option<metadata::MetadataSubscription>,
    /// What NOTIFY asked for; `None` until it is used.
    pub(super) notify: Option<Box<notify::NotifySubscription>>,
}
