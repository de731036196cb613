//! Whether an address is one that mail can be submitted to, known before the queue tries: a user who
//! mistypes a colleague's name wants to know now.

use sealpost_base::{Kind, Result};
use sealpost_queue::runner::mailbox;
use sealpost_smtp::types::ReversePath;

use super::Forwarder;

/// Where mail for an address goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// To an account or alias of this server.
    Here,
    /// To another server.
    Elsewhere,
    /// Nowhere: it is no address, or its domain is served here and has no such account or alias.
    Nowhere,
}

pub(super) async fn find(forwarder: &Forwarder, address: &str, from: &str) -> Result<Route> {
    let Some(to) = mailbox(address) else { return Ok(Route::Nowhere) };
    if !forwarder.0.parts.directory.serves(&to.host.to_string()).await? {
        // RFC 6409 §4.2: a domain has to be fully qualified.
        let is_incomplete = to.host.as_domain().is_some_and(|domain| !domain.contains('.'));
        return Ok(if is_incomplete { Route::Nowhere } else { Route::Elsewhere });
    }
    let sender = mailbox(from).map_or(ReversePath::Null, ReversePath::Mailbox);
    match forwarder.resolve(&to, &sender).await {
        Ok(_) => Ok(Route::Here),
        Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Invalid | Kind::Denied) => Ok(Route::Nowhere),
        // Aliases that fan out too far are the operator's to mend: the queue reports them.
        Err(e) if e.kind() == Kind::Limit => Ok(Route::Here),
        Err(e) => Err(e),
    }
}
