//! Tells other nodes that a login was revoked here.

use std::sync::Arc;

use sealpost_oauth::Announce;
use sealpost_session::Context;

/// Tells the nodes of the store that the record of an account has changed.
pub(super) fn announcer(ctx: &Arc<Context>) -> Announce {
    let bus = ctx.settings.bus.clone();
    Arc::new(move |account| {
        if bus.url.is_empty() {
            return;
        }
        let bus = bus.clone();
        tokio::spawn(async move {
            if let Err(error) = crate::bus::notify_record_changed(&bus, account).await {
                tracing::warn!(%error, "other nodes notice a revoked login within five minutes");
            }
        });
    })
}
