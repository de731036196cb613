//! The Session object (RFC 8620 §2). A capability is in it only when all of its methods work.

use std::collections::BTreeMap;

use sealpost_base::AccountId;
use sealpost_base::limits::{
    JMAP_DATA_SOURCES, JMAP_EMAIL_BYTES, JMAP_UPLOAD_BYTES, MAILBOX_LEVELS, MAILBOX_NAME_BYTES,
    PLACEMENTS_COUNTED,
};
use sealpost_jmap::State;
use sealpost_jmap::blob::LookupType;
use sealpost_jmap::capability::Capability;
use sealpost_jmap::email::EmailSortKey;
use sealpost_jmap::id;
use sealpost_jmap::session::{
    Account, BlobCapability, Capabilities, CoreCapability, MailCapability, NoDetails, Session, capability,
};
use sealpost_jmap::websocket::WebSocketCapability;
use sealpost_search::emails::Collation;
use sealpost_vault::Hash;
use serde_json::{Map, Value};

use crate::blob::DIGESTS;
use crate::user::User;

/// Capabilities whose methods `using` may ask for. That of dispositions is not announced before all
/// of its methods are there.
pub(crate) const USABLE: &[Capability] = &[
    Capability::Core,
    Capability::Mail,
    Capability::Blob,
    Capability::Mdn,
    Capability::Quota,
    Capability::WebSocket,
];

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

/// What can be done with an account.
fn account_capabilities() -> Capabilities {
    let mail = MailCapability {
        max_mailboxes_per_email: Some(PLACEMENTS_COUNTED as u64),
        max_mailbox_depth: Some(MAILBOX_LEVELS as u64),
        max_size_mailbox_name: MAILBOX_NAME_BYTES as u64,
        max_size_attachments_per_email: JMAP_EMAIL_BYTES,
        email_query_sort_options: EmailSortKey::PROPERTIES.iter().map(|name| (*name).to_owned()).collect(),
        may_create_top_level_mailbox: true,
    };
    let blob = BlobCapability {
        max_size_blob_set: Some(JMAP_UPLOAD_BYTES),
        max_data_sources: JMAP_DATA_SOURCES as u64,
        supported_type_names: LookupType::ALL.iter().map(|name| name.name().to_owned()).collect(),
        supported_digest_algorithms: DIGESTS.iter().map(|(name, _)| (*name).to_owned()).collect(),
    };
    Capabilities::from([
        capability(Capability::Mail, &mail),
        capability(Capability::Blob, &blob),
        capability(Capability::Quota, &NoDetails {}),
    ])
}

/// Leaves the capabilities that the login may use.
fn granted(user: &User, capabilities: &mut Capabilities) {
    let usable = user.usable();
    capabilities.retain(|name, _| usable.iter().any(|usable| usable.name() == name));
}

fn without_urls(user: &User) -> Session {
    let collations = Collation::NAMES.iter().map(|(_, name)| (*name).to_owned());
    let max_size_request = user.shared.request_bytes() as u64;
    let core = CoreCapability { max_size_request, ..CoreCapability::new(collations.collect()) };
    let mut account_capabilities = account_capabilities();
    granted(user, &mut account_capabilities);
    let id = account_id(user.id);
    let names = account_capabilities.keys();
    let primary_accounts = names.clone().map(|name| (name.clone(), id.clone())).collect();
    let mut capabilities: Capabilities =
        names.map(|name| (name.clone(), Value::Object(Map::new()))).collect();
    capabilities.extend([capability(Capability::Core, &core), websocket("")]);
    let account =
        Account { name: user.name.clone(), is_personal: true, is_read_only: false, account_capabilities };
    Session {
        capabilities,
        accounts: BTreeMap::from([(id, account)]),
        primary_accounts,
        username: user.name.clone(),
        api_url: String::new(),
        download_url: String::new(),
        upload_url: String::new(),
        event_source_url: String::new(),
        state: State::new(""),
    }
}
