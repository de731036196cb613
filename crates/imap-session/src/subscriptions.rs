//! The reports that a client requested in addition to the replies to its commands.

use super::{metadata, notify};

/// The reports that a client requested in addition to the replies to its commands.
#[derive(Default)]
pub(super) struct Subscriptions {
    /// `Some` if the client requested other sessions' metadata changes.
    pub(super) metadata: Option<metadata::MetadataSubscription>,
    /// The subscription by NOTIFY; `None` until the client uses it.
    pub(super) notify: Option<Box<notify::NotifySubscription>>,
}
