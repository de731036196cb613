//! Runs the calls of a request in their order (RFC 8620 §3.3 to §3.7).

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use sealpost_base::Permit;
use sealpost_base::limits::JMAP_SEND_BYTES;
use sealpost_jmap::capability::Capability;
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::CreatedIds;
use sealpost_jmap::invocation::Invocation;
use sealpost_jmap::reference::referenced;
use sealpost_jmap::{MethodError, Request};
use sealpost_mailbox::shared_accounts::Reach;
use sealpost_session::metrics::{Command, Protocol, Verdict};
use serde_json::{Map, Value};

use crate::api_error::ApiError;
use crate::method::{Failure, Outcome};
use crate::responder::{Responder, ResponseSink};
use crate::scope::Scope;
use crate::session_object;
use crate::user::User;
use crate::{
    blob, contact, email, identity, mailbox, mdn, principal, push, quota, share_notification,
    shared_accounts, snippet, submission, thread, upload, vacation,
};

/// Runs a request.
pub(crate) async fn run(
    user: &User,
    mut request: Request,
    sink: &mut dyn ResponseSink,
) -> Result<(), ApiError> {
    let using = request.capabilities(&user.usable())?;
    let wants_created = request.created_ids.is_some();
    let created = CreatedIds::new(request.created_ids.take().unwrap_or_default());
    let referenced: Vec<String> =
        request.method_calls.iter().flat_map(|call| referenced(&call.arguments)).map(str::to_owned).collect();
    let mut responder = Responder::new(&request, user, sink);
    let mut kept = KeptResponses::default();
    let mut scope = None;
    for call in request.method_calls {
        if !user.standing.holds() {
            return Err(ApiError::Ended);
        }
        let is_kept = referenced.contains(&call.call_id);
        let before = responder.made();
        let call_id = call.call_id.clone();
        let (command, began) = begin(user, &call.name);
        // Boxed: a call of any method is large.
        let outcome = Box::pin(run_call(user, &using, &created, &mut scope, &mut responder, call)).await;
        count(user, command, began, &outcome);
        match outcome {
            Ok(()) => {}
            Err(Failure::Method(error)) => responder.error(&error, &call_id).await?,
            Err(Failure::Ended(error)) => return Err(error),
        }
        if is_kept {
            kept.add(user, responder.made() - before).await;
        }
    }
    let created = scope.as_ref().map_or(&created, |scope: &Scope<'_>| &scope.created);
    let shared = match &scope {
        // Open, with all changes that were acknowledged before the request.
        Some(scope) => scope.shared_accounts().await,
        None => shared_accounts::accounts(user).await,
    };
    let shared = shared.unwrap_or_else(|error| {
        // The client fetches the Session object, and is refused that then.
        tracing::warn!(%error, "cannot find the accounts of other owners");
        Vec::new()
    });
    let state = session_object::state(user, &shared);
    responder.finish(|writer| writer.finish(&state, wants_created.then_some(created))).await
}

/// Notes the start of a call: its command for the metrics, and the time.
fn begin(user: &User, method: &str) -> (Command, Duration) {
    (Protocol::Jmap.command_of_client(method), user.ctx().clock.monotonic())
}

/// Counts a completed call.
fn count(user: &User, command: Command, began: Duration, outcome: &Outcome) {
    use MethodErrorType::{ServerFail, ServerPartialFail, ServerUnavailable};
    let verdict = match outcome {
        Ok(()) => Verdict::Ok,
        Err(Failure::Method(MethodError {
            error: ServerUnavailable | ServerFail | ServerPartialFail,
            ..
        })) => Verdict::No,
        Err(Failure::Method(_)) => Verdict::Bad,
        Err(Failure::Ended(_)) => return,
    };
    let Some(metrics) = user.ctx().metrics.of(Protocol::Jmap).command(command) else { return };
    metrics.verdict(verdict).increment();
    metrics.time.observe_time(user.ctx().clock.monotonic().saturating_sub(began));
}

async fn run_call<'a>(
    user: &'a User,
    using: &[Capability],
    created: &CreatedIds,
    scope: &mut Option<Scope<'a>>,
    responder: &mut Responder<'_>,
    call: Invocation,
) -> Outcome {
    let needed = Capability::of_method(&call.name);
    // RFC 8620 §3.3: a method of a capability that is not used is not known.
    let Some(needed) = needed.filter(|needed| using.contains(needed)) else {
        return Err(unknown(&call.name).into());
    };
    let Invocation { name, arguments, call_id } = call;
    let arguments = responder.writer.resolve(arguments)?;
    if name == "Core/echo" {
        return echo(user, responder, arguments, &call_id).await;
    }
    // Methods on data need the account; a request opens it once.
    let scope = match scope {
        Some(scope) => scope,
        None => scope.insert(Scope::open(user, using.to_vec(), created.clone()).await?),
    };
    scope.select(arguments.get("accountId").and_then(Value::as_str)).await?;
    if scope.reach() != Reach::Own && !of_shared_accounts(needed, &name) {
        return Err(MethodErrorType::AccountNotSupportedByMethod.into());
    }
    match method_call(&name, scope, responder, arguments, &call_id) {
        Some(call) => call.await,
        None => Err(unknown(&name).into()),
    }
}

/// A call of a method on data; `None` if there is no such method. Not asynchronous itself: the calls of all
/// methods in one future would take much of a stack.
fn method_call<'a>(
    name: &str,
    scope: &'a mut Scope<'_>,
    responder: &'a mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &'a str,
) -> Option<BoxFuture<'a, Outcome>> {
    Some(match name {
        "AddressBook/changes" => contact::book_changes(scope, responder, arguments, call_id).boxed(),
        "AddressBook/get" => contact::get_books(scope, responder, arguments, call_id).boxed(),
        "AddressBook/set" => contact::set_books(scope, responder, arguments, call_id).boxed(),
        "Blob/copy" => upload::copy(scope, responder, arguments, call_id).boxed(),
        "Blob/get" => blob::get(scope, responder, arguments, call_id).boxed(),
        "Blob/lookup" => blob::lookup(scope, responder, arguments, call_id).boxed(),
        "Blob/upload" => upload::create(scope, responder, arguments, call_id).boxed(),
        "ContactCard/changes" => contact::card_changes(scope, responder, arguments, call_id).boxed(),
        "ContactCard/copy" => contact::copy(scope, arguments).boxed(),
        "ContactCard/get" => contact::get_cards(scope, responder, arguments, call_id).boxed(),
        "ContactCard/query" => contact::query(scope, responder, arguments, call_id).boxed(),
        "ContactCard/queryChanges" => contact::query_changes(scope, responder, arguments, call_id).boxed(),
        "ContactCard/set" => contact::set_cards(scope, responder, arguments, call_id).boxed(),
        "Email/changes" => email::changes(scope, responder, arguments, call_id).boxed(),
        "Email/copy" => email::copy(scope, responder, arguments, call_id).boxed(),
        "Email/get" => email::get(scope, responder, arguments, call_id).boxed(),
        "Email/import" => email::import(scope, responder, arguments, call_id).boxed(),
        "Email/parse" => email::parse(scope, responder, arguments, call_id).boxed(),
        "Email/query" => email::query(scope, responder, arguments, call_id).boxed(),
        "Email/queryChanges" => email::query_changes(scope, responder, arguments, call_id).boxed(),
        "Email/set" => email::set(scope, responder, arguments, call_id).boxed(),
        "EmailSubmission/changes" => submission::changes(scope, responder, arguments, call_id).boxed(),
        "EmailSubmission/get" => submission::get(scope, responder, arguments, call_id).boxed(),
        "EmailSubmission/query" => submission::query(scope, responder, arguments, call_id).boxed(),
        "EmailSubmission/queryChanges" => {
            submission::query_changes(scope, responder, arguments, call_id).boxed()
        }
        "EmailSubmission/set" => submission::set(scope, responder, arguments, call_id).boxed(),
        "Identity/changes" => identity::changes(scope, responder, arguments, call_id).boxed(),
        "Identity/get" => identity::get(scope, responder, arguments, call_id).boxed(),
        "Identity/set" => identity::set(scope, responder, arguments, call_id).boxed(),
        "Mailbox/changes" => mailbox::changes(scope, responder, arguments, call_id).boxed(),
        "Mailbox/get" => mailbox::get(scope, responder, arguments, call_id).boxed(),
        "Mailbox/query" => mailbox::query(scope, responder, arguments, call_id).boxed(),
        "Mailbox/queryChanges" => mailbox::query_changes(scope, responder, arguments, call_id).boxed(),
        "Mailbox/set" => mailbox::set(scope, responder, arguments, call_id).boxed(),
        "MDN/parse" => mdn::parse(scope, responder, arguments, call_id).boxed(),
        "MDN/send" => mdn::send(scope, responder, arguments, call_id).boxed(),
        "Principal/changes" => principal::changes(scope, responder, arguments, call_id).boxed(),
        "Principal/get" => principal::get(scope, responder, arguments, call_id).boxed(),
        "Principal/query" => principal::query(scope, responder, arguments, call_id).boxed(),
        "Principal/queryChanges" => principal::query_changes(scope, responder, arguments, call_id).boxed(),
        "Principal/set" => principal::set(scope, responder, arguments, call_id).boxed(),
        "PushSubscription/get" => push::get(scope, responder, arguments, call_id).boxed(),
        "PushSubscription/set" => push::set(scope, responder, arguments, call_id).boxed(),
        "Quota/changes" => quota::changes(scope, responder, arguments, call_id).boxed(),
        "Quota/get" => quota::get(scope, responder, arguments, call_id).boxed(),
        "Quota/query" => quota::query(scope, responder, arguments, call_id).boxed(),
        "Quota/queryChanges" => quota::query_changes(scope, responder, arguments, call_id).boxed(),
        "SearchSnippet/get" => snippet::get(scope, responder, arguments, call_id).boxed(),
        "ShareNotification/changes" => {
            share_notification::changes(scope, responder, arguments, call_id).boxed()
        }
        "ShareNotification/get" => share_notification::get(scope, responder, arguments, call_id).boxed(),
        "ShareNotification/query" => share_notification::query(scope, responder, arguments, call_id).boxed(),
        "ShareNotification/queryChanges" => {
            share_notification::query_changes(scope, responder, arguments, call_id).boxed()
        }
        "ShareNotification/set" => share_notification::set(scope, responder, arguments, call_id).boxed(),
        "Thread/changes" => thread::changes(scope, responder, arguments, call_id).boxed(),
        "Thread/get" => thread::get(scope, responder, arguments, call_id).boxed(),
        "VacationResponse/get" => vacation::get(scope, responder, arguments, call_id).boxed(),
        "VacationResponse/set" => vacation::set(scope, responder, arguments, call_id).boxed(),
        _ => return None,
    })
}

/// Whether a method of that capability works with the accounts of other owners.
fn of_shared_accounts(capability: Capability, method: &str) -> bool {
    use Capability::{Blob, Core, Mail, Quota};
    matches!(capability, Core | Mail | Blob | Quota) || method == "MDN/parse"
}

fn unknown(name: &str) -> MethodError {
    let shown: String = name.chars().take(64).collect();
    let text = format!("there is no method {shown:?} in the capabilities that the request uses");
    MethodError::from(MethodErrorType::UnknownMethod).describe(text)
}

/// Core/echo (RFC 8620 §4).
async fn echo(
    user: &User,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    // The request holds the arguments in memory, and the response holds them again until it is sent.
    let bytes = arguments.values().map(written_bytes).max().unwrap_or(0);
    let _permit = user.permit(bytes).await;
    let mut response = responder.open("Core/echo", call_id);
    for (name, value) in &arguments {
        response.argument(name, value).await?;
    }
    response.close();
    Ok(())
}

/// The size of a value as JSON, in bytes.
fn written_bytes(value: &Value) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Writing to a counter cannot fail.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// Memory for the responses that later calls refer to.
#[derive(Default)]
struct KeptResponses {
    bytes: u64,
    permit: Option<Permit>,
}

impl KeptResponses {
    /// Adds a response. While it waits for memory it holds none, not even that of earlier responses.
    async fn add(&mut self, user: &User, bytes: u64) {
        self.bytes += bytes;
        self.permit = None;
        let bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        if bytes > JMAP_SEND_BYTES {
            self.permit = Some(user.shared.referenced.acquire(bytes).await);
        }
    }
}
