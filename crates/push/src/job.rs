//! One push: reads the subscription, checks that it may still be used, writes the message, sends it,
//! and decides what the reply means.

use std::time::Duration;

use sealpost_account::Touched;
use sealpost_base::limits::PUSH_WORK_BYTES;
use sealpost_base::{AccountId, Position, Result, Timestamp};
use sealpost_directory::AccountName;
use tokio::time::Instant;

use crate::post::{Message, PostProblem, Reply, Urgency, post};
use crate::pusher::Inner;
use crate::schedule::Key;
use crate::subscription::{AccountNote, Subscription};
use crate::url::PushUrl;

/// How long the result of a look at the account's record counts: as for open sessions.
const CHECKED: Duration = Duration::from_secs(30);
/// How long a push service keeps a verification for a device that is off.
const VERIFICATION_TTL: Duration = Duration::from_secs(3600);

/// What became of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Sent,
    /// There is nothing to push.
    Nothing,
    /// Try again, after that time at least.
    Again(Option<Duration>),
    /// It failed, and would fail again.
    Dropped,
    /// The push service does not know the subscription any more.
    Gone,
    /// The subscription is not there any more.
    Ended,
}

/// Whether the login that made a subscription is still valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Login {
    Valid,
    Suspended,
    Gone,
}

/// Runs a push that is due.
pub(crate) async fn run(inner: &Inner, key: Key, touched: Touched) {
    let _memory = inner.budget.acquire(PUSH_WORK_BYTES).await;
    let outcome = match attempt(inner, key, touched).await {
        Ok(outcome) => outcome,
        Err(error) => {
            tracing::warn!(account = %key.0, %error, "a push waits: the store or the directory failed");
            Outcome::Again(None)
        }
    };
    if outcome == Outcome::Gone {
        inner.metrics.removed.increment();
        let remove = |note: &mut AccountNote| {
            note.subscriptions.retain(|it| it.id != key.1);
            Ok(())
        };
        if let Err(error) = inner.change(key.0, remove).await {
            tracing::warn!(account = %key.0, %error, "cannot remove a push subscription that is gone");
        }
    }
    let (metrics, now) = (&inner.metrics, Instant::now());
    match outcome {
        Outcome::Sent => metrics.sent.increment(),
        Outcome::Dropped => metrics.dropped.increment(),
        Outcome::Again(_) | Outcome::Nothing | Outcome::Gone | Outcome::Ended => {}
    }
    let mut schedule = inner.schedule();
    match outcome {
        Outcome::Sent | Outcome::Nothing | Outcome::Dropped => schedule.over(key, now),
        Outcome::Again(pause) => {
            if !schedule.failed(key, touched, pause, now) {
                metrics.dropped.increment();
            }
        }
        Outcome::Gone | Outcome::Ended => schedule.remove(key),
    }
}

async fn attempt(inner: &Inner, (account, id): Key, touched: Touched) -> Result<Outcome> {
    let (version, note) = inner.notes.read(account).await?;
    inner.install(account, version, &note);
    let now = inner.parts.clock.now();
    let found = note.subscriptions.iter().find(|it| it.id == id && it.is_open(now));
    let Some(subscription) = found else { return Ok(Outcome::Ended) };
    match login(inner, account, &note, subscription).await? {
        Login::Valid => {}
        Login::Suspended => return Ok(Outcome::Nothing),
        Login::Gone => return Ok(Outcome::Ended),
    }
    let logs = positions(inner, account).await?;
    let change = inner.parts.payloads.change(account, &logs, touched, subscription.types.as_deref());
    let Some(change) = change else { return Ok(Outcome::Nothing) };
    let urgency = if change.is_new_mail { Urgency::Normal } else { Urgency::Low };
    let topic = topic(subscription, &change.topic);
    let left = Duration::from_millis(u64::try_from(subscription.expires.0 - now.0).unwrap_or(0));
    let sent = send(inner, subscription, &change.body, left, urgency, Some(&topic)).await;
    Ok(match sent? {
        Ok(reply) => outcome_of(reply),
        Err(problem) => {
            tracing::debug!(%account, problem = problem.text(), "a push failed");
            outcome_of_problem(problem)
        }
    }
    .counted(inner))
}

impl Outcome {
    fn counted(self, inner: &Inner) -> Self {
        if matches!(self, Outcome::Again(_) | Outcome::Dropped | Outcome::Gone) {
            inner.metrics.failed.increment();
        }
        self
    }
}

/// What a reply means (RFC 8030 §5, §7.3, §8.4).
fn outcome_of(reply: Reply) -> Outcome {
    match reply.status {
        200..=299 => Outcome::Sent,
        404 | 410 => Outcome::Gone,
        408 | 425 | 429 | 500..=599 => Outcome::Again(reply.retry_after),
        // Redirects, and requests that the push service will not take later either.
        _ => Outcome::Dropped,
    }
}

fn outcome_of_problem(problem: PostProblem) -> Outcome {
    use sealpost_delivery::https::ConnectProblem::{Certificate, Dns, NoAddress, NotPublic, Unreachable};
    match problem {
        PostProblem::Connect(NotPublic) => Outcome::Dropped,
        PostProblem::Connect(Dns | NoAddress | Unreachable | Certificate)
        | PostProblem::TimedOut
        | PostProblem::NoReply => Outcome::Again(None),
    }
}

/// Sends the one request to a URL that is not verified yet. It is not repeated, whatever becomes of it
/// (RFC 8620 §7.2, RFC 9749 §6).
pub(crate) async fn verify(inner: &Inner, subscription: &Subscription) {
    let Ok(_permit) = inner.connections.acquire().await else { return };
    let _memory = inner.budget.acquire(PUSH_WORK_BYTES).await;
    let body = inner.parts.payloads.verification(&subscription.id, &subscription.code);
    let sent = send(inner, subscription, &body, VERIFICATION_TTL, Urgency::High, None).await;
    let why = match sent {
        Ok(Ok(Reply { status: 200..=299, .. })) => return inner.metrics.verifications.increment(),
        Ok(Ok(reply)) => format!("status {}", reply.status),
        Ok(Err(problem)) => problem.text().to_owned(),
        Err(error) => error.to_string(),
    };
    inner.metrics.failed.increment();
    tracing::info!(subscription = %subscription.id, why, "the push that verifies a subscription failed");
}

/// Encrypts, signs and sends a message.
async fn send(
    inner: &Inner,
    subscription: &Subscription,
    plain: &[u8],
    ttl: Duration,
    urgency: Urgency,
    topic: Option<&str>,
) -> Result<Result<Reply, PostProblem>> {
    let now = inner.parts.clock.now();
    let url = PushUrl::parse(&subscription.url).map_err(sealpost_base::Error::corrupt)?;
    let encrypted = match &subscription.keys {
        Some(keys) => Some(crate::crypto::encrypt(plain, keys, &*inner.parts.random)?),
        None => None,
    };
    let message = Message {
        body: encrypted.as_deref().unwrap_or(plain),
        is_encrypted: encrypted.is_some(),
        ttl,
        urgency,
        topic,
        authorization: &inner.vapid.authorization(&url, now)?,
    };
    Ok(post(&url, &message, inner.web(), now).await)
}

/// A message replaces an older one of the same topic, so the topic is what the message names: one
/// about flags never replaces one about new mail. The push service learns nothing from it.
fn topic(subscription: &Subscription, names: &str) -> String {
    use base64::Engine as _;
    let digest: [u8; 18] = crate::crypto::digest(&[&subscription.id.0, names.as_bytes()]);
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(digest)
}

/// The positions of an account's logs: those that this node does not know to be the last are read.
async fn positions(inner: &Inner, account: AccountId) -> Result<Vec<(AccountId, Position)>> {
    let known = inner.index().logs(account);
    let mut logs = Vec::with_capacity(known.len());
    for (at, (log, seen)) in known.into_iter().enumerate() {
        let position = match seen {
            // If another node appends to the account's own log, that node pushes it.
            Some(seen) if at == 0 => seen,
            _ => {
                let end = inner.parts.accounts.log_position(log).await?;
                inner.index().saw(log, end);
                end
            }
        };
        logs.push((log, position));
    }
    Ok(logs)
}

/// Whether the login of a subscription is still valid. Removes subscriptions whose login is not
/// (RFC 8620 §7.2).
async fn login(
    inner: &Inner,
    account: AccountId,
    note: &AccountNote,
    subscription: &Subscription,
) -> Result<Login> {
    // Before the record is read: what changes meanwhile is another moment.
    let moment = (Instant::now(), inner.parts.directory.store_moment());
    if inner.index().was_checked(account, moment, CHECKED) {
        return Ok(Login::Valid);
    }
    let checked = check(inner, account, note).await;
    if !matches!(checked, Ok(Logins::Valid)) {
        inner.index().uncheck(account);
    }
    Ok(match checked? {
        Logins::Valid => Login::Valid,
        Logins::Suspended => Login::Suspended,
        Logins::Removed(slots) if slots.contains(&subscription.slot) => Login::Gone,
        Logins::Removed(_) => Login::Valid,
    })
}

/// What the account's record says of the logins of its subscriptions.
pub(crate) enum Logins {
    /// All are valid.
    Valid,
    /// The account is suspended.
    Suspended,
    /// These slots are gone, and the subscriptions with them.
    Removed(Vec<sealpost_vault::slot::SlotId>),
}

/// Reads the record of an account, and removes the subscriptions whose login is gone.
pub(crate) async fn check(inner: &Inner, account: AccountId, note: &AccountNote) -> Result<Logins> {
    let record = match AccountName::parse(&note.name) {
        Ok(name) => inner.parts.directory.find(&name).await?,
        Err(_) => None,
    };
    let record = record.filter(|record| record.id == account && record.is_active());
    let holds = |slot| record.as_ref().is_some_and(|record| record.slots.iter().any(|it| it.id() == slot));
    let slots = note.subscriptions.iter().map(|it| it.slot).filter(|slot| !holds(*slot));
    let gone: Vec<_> = slots.collect();
    if !gone.is_empty() {
        let removed = inner
            .change(account, |note| {
                let before = note.subscriptions.len();
                note.subscriptions.retain(|it| !gone.contains(&it.slot));
                Ok(before - note.subscriptions.len())
            })
            .await?;
        inner.metrics.removed.add(removed as u64);
        return Ok(Logins::Removed(gone));
    }
    let is_suspended = record.is_some_and(|record| record.suspended.is_some());
    Ok(if is_suspended { Logins::Suspended } else { Logins::Valid })
}

/// Keeps the subscriptions that have not expired.
pub(crate) fn without_expired(note: &mut AccountNote, now: Timestamp) {
    note.subscriptions.retain(|it| now < it.expires);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_status_decides_the_outcome_of_a_push() {
        let pause = Some(Duration::from_secs(7));
        for (status, expected) in [
            (200, Outcome::Sent),
            (201, Outcome::Sent),
            (202, Outcome::Sent),
            (301, Outcome::Dropped),
            (307, Outcome::Dropped),
            (400, Outcome::Dropped),
            (403, Outcome::Dropped),
            (404, Outcome::Gone),
            (410, Outcome::Gone),
            (413, Outcome::Dropped),
            (429, Outcome::Again(pause)),
            (500, Outcome::Again(pause)),
            (503, Outcome::Again(pause)),
        ] {
            assert_eq!(outcome_of(Reply { status, retry_after: pause }), expected, "{status}");
        }
    }
}
