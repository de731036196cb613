//! The Session object (RFC 8620 §2). It lists a capability only when all of its methods work.

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
use sealpost_jmap::principal::{OwnerCapability, PrincipalsCapability};
use sealpost_jmap::push::VapidCapability;
use sealpost_jmap::session::{
    Account, BlobCapability, Capabilities, ContactsCapability, CoreCapability, MailCapability, NoDetails,
    Session, SubmissionCapability, capability,
};
use sealpost_jmap::websocket::WebSocketCapability;
use sealpost_mailbox::shared_accounts::SharedAccount;
use sealpost_push::Pusher;
use sealpost_queue::retry::MAX_HOLD;
use sealpost_search::emails::Collation;
use sealpost_submission::outbox::Outbox;
use sealpost_submission::parameters;
use sealpost_vault::Hash;
use serde_json::{Map, Value};

use crate::blob::DIGESTS;
use crate::principal::principal_id;
use crate::user::User;

/// The id of an account: `A` and the account. The letter keeps it from being taken for an id of
/// another kind, or for a number (RFC 8620 §1.2).
pub(crate) fn account_id(account: AccountId) -> id::AccountId {
    let text = format!("A{account}");
    id::AccountId::new(text).expect("hexadecimal digits are safe characters")
}

/// The Session object of a user, to whom other owners share these accounts.
pub(crate) fn session(user: &User, shared: &[SharedAccount], base_url: &str) -> Session {
    let mut session = without_urls(user, shared);
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
pub(crate) fn state(user: &User, shared: &[SharedAccount]) -> State {
    state_of(&without_urls(user, shared))
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

fn vapid(push: &Pusher) -> (String, serde_json::Value) {
    let application_server_key = push.application_server_key().to_owned();
    capability(Capability::WebPushVapid, &VapidCapability { application_server_key })
}

/// What can be done with an account: the user's own, or one that another owner shares with the user.
fn account_capabilities(user: &User, owner: &str) -> Capabilities {
    let is_own = user.name == owner;
    let mail = MailCapability {
        max_mailboxes_per_email: Some(PLACEMENTS_COUNTED as u64),
        max_mailbox_depth: Some(MAILBOX_LEVELS as u64),
        max_size_mailbox_name: MAILBOX_NAME_BYTES as u64,
        max_size_attachments_per_email: JMAP_EMAIL_BYTES,
        email_query_sort_options: EmailSortKey::PROPERTIES.iter().map(|name| (*name).to_owned()).collect(),
        may_create_top_level_mailbox: is_own,
    };
    let blob = BlobCapability {
        max_size_blob_set: Some(JMAP_UPLOAD_BYTES),
        max_data_sources: JMAP_DATA_SOURCES as u64,
        supported_type_names: LookupType::ALL.iter().map(|name| name.name().to_owned()).collect(),
        supported_digest_algorithms: DIGESTS.iter().map(|(name, _)| (*name).to_owned()).collect(),
    };
    // RFC 9670 §1.5.2: the principals are in the user's own account.
    let owned =
        OwnerCapability { account_id_for_principal: account_id(user.id), principal_id: principal_id(owner) };
    let mut capabilities = Capabilities::from([
        capability(Capability::Mail, &mail),
        capability(Capability::Blob, &blob),
        capability(Capability::Quota, &NoDetails {}),
        capability(Capability::PrincipalsOwner, &owned),
    ]);
    if is_own {
        let principals = PrincipalsCapability { current_user_principal_id: Some(principal_id(&user.name)) };
        // Each card may be in all address books.
        let contacts = ContactsCapability { max_address_books_per_card: None, may_create_address_book: true };
        capabilities.extend([
            capability(Capability::Principals, &principals),
            capability(Capability::Contacts, &contacts),
        ]);
        if let Some(outbox) = &user.shared.outbox {
            capabilities.extend([
                capability(Capability::Submission, &submission(outbox)),
                capability(Capability::Mdn, &NoDetails {}),
                // RFC 8621 §1.3.3.
                capability(Capability::VacationResponse, &NoDetails {}),
            ]);
        }
    }
    granted(user, &mut capabilities);
    capabilities
}

/// What can be asked of a submission (RFC 8621 §1.3.2).
fn submission(outbox: &Outbox) -> SubmissionCapability {
    let extensions = parameters::extensions(outbox.message_size()).into_iter();
    SubmissionCapability {
        max_delayed_send: MAX_HOLD.as_secs(),
        submission_extensions: extensions.map(|(name, arguments)| (name.to_owned(), arguments)).collect(),
    }
}

/// Leaves the capabilities that the login may use.
fn granted(user: &User, capabilities: &mut Capabilities) {
    let usable = user.usable();
    let has_principals = usable.contains(&Capability::Principals);
    capabilities.retain(|name, _| {
        usable.iter().any(|usable| usable.name() == name)
            || has_principals && name == Capability::PrincipalsOwner.name()
    });
}

fn without_urls(user: &User, shared: &[SharedAccount]) -> Session {
    let collations = Collation::NAMES.iter().map(|(_, name)| (*name).to_owned());
    let max_size_request = user.shared.request_bytes() as u64;
    let core = CoreCapability { max_size_request, ..CoreCapability::new(collations.collect()) };
    let account_capabilities = account_capabilities(user, &user.name);
    let id = account_id(user.id);
    let names = account_capabilities.keys().filter(|name| *name != Capability::PrincipalsOwner.name());
    let primary_accounts = names.clone().map(|name| (name.clone(), id.clone())).collect();
    let mut capabilities: Capabilities =
        names.map(|name| (name.clone(), Value::Object(Map::new()))).collect();
    capabilities.extend([capability(Capability::Core, &core), websocket("")]);
    capabilities.extend(user.shared.push.as_ref().map(vapid));
    let account = own_account(user);
    // RFC 9670 §1.4: of other owners only those with something that the user has subscribed to.
    let subscribed = shared.iter().filter(|shared| shared.is_subscribed());
    let mut accounts = BTreeMap::from([(id, account)]);
    accounts.extend(subscribed.map(|shared| (account_id(shared.owner), shared_account(user, shared))));
    Session {
        capabilities,
        accounts,
        primary_accounts,
        username: user.name.clone(),
        api_url: String::new(),
        download_url: String::new(),
        upload_url: String::new(),
        event_source_url: String::new(),
        state: State::new(""),
    }
}

fn own_account(user: &User) -> Account {
    Account {
        name: user.name.clone(),
        is_personal: true,
        is_read_only: false,
        account_capabilities: account_capabilities(user, &user.name),
    }
}

/// The account of the principal of that name, if the user has access to it: subscribed or not (RFC 9670 §1.4).
pub(crate) fn accounts_of_principal(
    user: &User,
    shared: &[SharedAccount],
    principal: &str,
) -> Option<(id::AccountId, Account)> {
    if principal == user.name {
        return Some((account_id(user.id), own_account(user)));
    }
    let shared = shared.iter().find(|shared| shared.name == principal)?;
    Some((account_id(shared.owner), shared_account(user, shared)))
}

/// The account of another owner, as far as the user sees it (RFC 8620 §2).
fn shared_account(user: &User, shared: &SharedAccount) -> Account {
    Account {
        name: shared.name.clone(),
        is_personal: false,
        is_read_only: shared.is_read_only(),
        account_capabilities: account_capabilities(user, &shared.name),
    }
}
