//! The Session object (RFC 8620 §2). A capability is in it only when all of its methods work.

use std::collections::BTreeMap;

use sealpost_base::AccountId;
use sealpost_jmap::State;
use sealpost_jmap::capability::Capability;
use sealpost_jmap::id;
use sealpost_jmap::session::{Account, Capabilities, CoreCapability, Session, capability};
use sealpost_jmap::websocket::WebSocketCapability;
use sealpost_vault::Hash;

use crate::user::User;

/// Capabilities whose methods `using` may ask for. Those of mail and blobs are not announced before
/// all of their methods are there.
pub(crate) const USABLE: &[Capability] =
    &[Capability::Core, Capability::Mail, Capability::Blob, Capability::WebSocket];

/// The id of an account: `A` and the account. The letter keeps it from being taken for an id of
/// another kind, or for a number (RFC 8620 §1.2).
pub(crate) fn account_id(account: AccountId) -> id::AccountId {
    let text = format!("A{account}");
    id::AccountId::new(text).expect("hexadecimal digits are safe characters")
}

/// The Session object of a user.
pub(crate) fn session(user: &User, base_url: &str) -> Session {
    let mut session = without_urls(user);
    session.state = state_of(&session);
    session.api_url = format!("{base_url}/jmap/api");
    session.download_url =
        format!("{base_url}/jmap/download/{{accountId}}/{{blobId}}/{{name}}?accept={{type}}");
    session.upload_url = format!("{base_url}/jmap/upload/{{accountId}}/");
    // http becomes ws, https becomes wss (RFC 6455 §3).
    let socket = base_url.strip_prefix("http").unwrap_or("s://");
    session.capabilities.extend([websocket(&format!("ws{socket}/jmap/ws"))]);
    session.event_source_url =
        format!("{base_url}/jmap/eventsource?types={{types}}&closeafter={{closeafter}}&ping={{ping}}");
    session
}

/// The state of the object, which does not depend on the name that the client has for the server.
pub(crate) fn state(user: &User) -> State {
    state_of(&without_urls(user))
}

fn state_of(session: &Session) -> State {
    let text = serde_json::to_vec(session).unwrap_or_default();
    let hash = Hash::of(&text).to_string();
    State::new(&hash[..16])
}

fn websocket(url: &str) -> (String, serde_json::Value) {
    let details = WebSocketCapability { url: url.to_owned(), supports_push: true };
    capability(Capability::WebSocket, &details)
}

fn without_urls(user: &User) -> Session {
    // No method sorts text by anything but its own rules.
    let max_size_request = user.shared.request_bytes() as u64;
    let core = CoreCapability { max_size_request, ..CoreCapability::new(Vec::new()) };
    let account = Account {
        name: user.name.clone(),
        is_personal: true,
        is_read_only: false,
        account_capabilities: Capabilities::new(),
    };
    Session {
        capabilities: Capabilities::from([capability(Capability::Core, &core), websocket("")]),
        accounts: BTreeMap::from([(account_id(user.id), account)]),
        primary_accounts: BTreeMap::new(),
        username: user.name.clone(),
        api_url: String::new(),
        download_url: String::new(),
        upload_url: String::new(),
        event_source_url: String::new(),
        state: State::new(""),
    }
}
