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
use sealpost_session::metrics::{Command, Protocol, Verdict};
use serde_json::{Map, Value};

use crate::method::{Failure, Outcome};
use crate::responder::{ApiError, Responder, ResponseSink};
use crate::scope::Scope;
use crate::session_object;
use crate::user::User;
use crate::{blob, email, identity, mailbox, mdn, quota, snippet, submission, thread, upload};

/// Runs a request.
pub(crate) async fn run(
    user: &User,
    mut request: Request,
    sink: &mut dyn ResponseSink,
) -> Result<(), ApiError> {
    let using = request.capabilities(&session_object::usable(user))?;
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
        let outcome = run_call(user, &using, &created, &mut scope, &mut responder, call).await;
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
    let state = session_object::state(user);
    responder.finish(|writer| writer.finish(&state, wants_created.then_some(created))).await
}

/// A call of that method begins: what it is counted as, and when that was.
fn begin(user: &User, method: &str) -> (Command, Duration) {
    (Protocol::Jmap.command_of_client(method), user.ctx().clock.monotonic())
}

/// Counts a call that has ended.
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
    if needed.is_none_or(|needed| !using.contains(&needed)) {
        return Err(unknown(&call.name).into());
    }
    let Invocation { name, arguments, call_id } = call;
    let arguments = responder.writer.resolve(arguments)?;
    if name == "Core/echo" {
        return echo(user, responder, arguments, &call_id).await;
    }
    // Methods of data need the account, and open it once in a request.
    let scope = match scope {
        Some(scope) => scope,
        None => scope.insert(Scope::open(user, using.to_vec(), created.clone()).await?),
    };
    match name.as_str() {
        "Blob/get" => blob::get(scope, responder, arguments, &call_id).await,
        "Blob/lookup" => blob::lookup(scope, responder, arguments, &call_id).await,
        "Blob/copy" => upload::copy(scope, responder, arguments, &call_id).await,
        "Blob/upload" => upload::create(scope, responder, arguments, &call_id).await,
        "Email/copy" => email::copy(scope, arguments),
        "Email/import" => email::import(scope, responder, arguments, &call_id).await,
        "Email/set" => email::set(scope, responder, arguments, &call_id).await,
        "Email/get" => email::get(scope, responder, arguments, &call_id).await,
        "Email/parse" => email::parse(scope, responder, arguments, &call_id).await,
        "Email/changes" => email::changes(scope, responder, arguments, &call_id).await,
        "Email/query" => email::query(scope, responder, arguments, &call_id).await,
        "Email/queryChanges" => email::query_changes(scope, responder, arguments, &call_id).await,
        "Mailbox/get" => mailbox::get(scope, responder, arguments, &call_id).await,
        "Mailbox/changes" => mailbox::changes(scope, responder, arguments, &call_id).await,
        "Mailbox/query" => mailbox::query(scope, responder, arguments, &call_id).await,
        "Mailbox/queryChanges" => mailbox::query_changes(scope, responder, arguments, &call_id).await,
        "Mailbox/set" => mailbox::set(scope, responder, arguments, &call_id).await,
        "Quota/get" => quota::get(scope, responder, arguments, &call_id).await,
        "Quota/changes" => quota::changes(scope, responder, arguments, &call_id).await,
        "Quota/query" => quota::query(scope, responder, arguments, &call_id).await,
        "Quota/queryChanges" => quota::query_changes(scope, responder, arguments, &call_id).await,
        "SearchSnippet/get" => snippet::get(scope, responder, arguments, &call_id).await,
        "Thread/get" => thread::get(scope, responder, arguments, &call_id).await,
        "Thread/changes" => thread::changes(scope, responder, arguments, &call_id).await,
        _ => match sending(&name, scope, responder, arguments, &call_id) {
            Some(call) => call.await,
            None => Err(unknown(&name).into()),
        },
    }
}

/// A call of a method for sending mail. Not asynchronous itself: what is polled has no part in the size of
/// the futures of the other methods.
fn sending<'a>(
    name: &str,
    scope: &'a mut Scope<'_>,
    responder: &'a mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &'a str,
) -> Option<BoxFuture<'a, Outcome>> {
    Some(match name {
        "EmailSubmission/get" => submission::get(scope, responder, arguments, call_id).boxed(),
        "EmailSubmission/changes" => submission::changes(scope, responder, arguments, call_id).boxed(),
        "EmailSubmission/query" => submission::query(scope, responder, arguments, call_id).boxed(),
        "EmailSubmission/queryChanges" => {
            submission::query_changes(scope, responder, arguments, call_id).boxed()
        }
        "EmailSubmission/set" => submission::set(scope, responder, arguments, call_id).boxed(),
        "Identity/get" => identity::get(scope, responder, arguments, call_id).boxed(),
        "Identity/changes" => identity::changes(scope, responder, arguments, call_id).boxed(),
        "Identity/set" => identity::set(scope, responder, arguments, call_id).boxed(),
        "MDN/parse" => mdn::parse(scope, responder, arguments, call_id).boxed(),
        "MDN/send" => mdn::send(scope, responder, arguments, call_id).boxed(),
        _ => return None,
    })
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
    // The request has the arguments in memory; the response has them once more until it is sent.
    let bytes = arguments.values().map(written_bytes).max().unwrap_or(0);
    let _permit = user.permit(bytes).await;
    let mut response = responder.open("Core/echo", call_id);
    for (name, value) in &arguments {
        response.argument(name, value).await?;
    }
    response.close();
    Ok(())
}

/// How many bytes the value has as JSON.
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
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// Memory of the responses that later calls refer to.
#[derive(Default)]
struct KeptResponses {
    bytes: u64,
    permit: Option<Permit>,
}

impl KeptResponses {
    /// One more. Holds nothing while it waits for the memory of all of them.
    async fn add(&mut self, user: &User, bytes: u64) {
        self.bytes += bytes;
        self.permit = None;
        let bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        if bytes > JMAP_SEND_BYTES {
            self.permit = Some(user.shared.referenced.acquire(bytes).await);
        }
    }
}
