//! Requests: how another process or node changes a queue.
//!
//! Only its writer appends to a queue's log. Another process stores a request under
//! `queue/{node}/requests/`, sealed under the mail key. The writer executes it, records that in the log,
//! and removes it. Names begin with the time, so the writer executes requests in order, each once.

use std::time::Duration;

use futures::TryStreamExt;
use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Error, Kind, Random, Result, SubmissionId, Timestamp, limits};
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::{Put, Store};

use crate::event::{Selector, Status};

/// The purpose that requests are sealed for.
const LABEL: &str = "queue request";
/// The writer ignores older requests. It may have forgotten their names, and a copy of a request must
/// not count again.
pub const REQUEST_AGE: Duration = Duration::from_secs(86_400);
/// The writer ignores requests from clocks that are further ahead: what it has forgotten is known by time.
const REQUEST_AHEAD: Duration = Duration::from_secs(2 * 3600);
/// The status of recipients that the operator made fail.
pub const BOUNCED: Status = Status::new(5, 7, 0);
/// Requests that the writer reads at a time.
pub const REQUESTS_AT_ONCE: usize = 100;

/// The requested action.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Request {
    /// The change.
    #[n(0)]
    pub action: Action,
    /// The mail to change; for a rule, the mail that it covers.
    #[n(1)]
    pub selector: Selector,
    /// The requester, for the log of the program.
    #[n(2)]
    pub by: String,
}

/// A change of the selected mail.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Action {
    /// Try to send it now.
    #[n(0)]
    Retry,
    /// Hold it until then.
    #[n(1)]
    Hold(#[n(0)] Timestamp),
    /// Release it.
    #[n(2)]
    Release,
    /// Fail it, with a report to its sender.
    #[n(3)]
    Bounce,
    /// Remove it without a report.
    #[n(4)]
    Remove,
    /// Add a rule that holds such mail until then, for the reason in the note. With a site: suspend the site.
    #[n(5)]
    AddRule(#[n(0)] Timestamp, #[n(1)] String),
    /// Withdraw the rule of that number. 0: each rule with this selector.
    #[n(6)]
    RemoveRule(#[n(0)] u32),
    /// Hold the whole queue, for the reason in the note.
    #[n(7)]
    HoldAll(#[n(0)] String),
    /// Release the whole queue.
    #[n(8)]
    ReleaseAll,
    /// The sender cancels that submission; the queue reports to its account whether that was in time.
    #[n(9)]
    Cancel(#[n(0)] SubmissionId),
}

impl Action {
    /// Whether it needs selected mail.
    pub(crate) fn is_about_mail(&self) -> bool {
        matches!(self, Action::Retry | Action::Hold(_) | Action::Release | Action::Bounce | Action::Remove)
    }
}

/// Stores a request for the writer of the queue of `node`. Returns its path.
///
/// # Errors
/// `Invalid` if it selects nothing, `Limit` if it is too large, `Retry` if it was not stored.
pub async fn submit(
    store: &Store,
    keys: &MailKeys,
    node: AccountId,
    request: &Request,
    now: Timestamp,
    random: &dyn Random,
) -> Result<String> {
    let needs_selector = request.action.is_about_mail() || matches!(request.action, Action::AddRule(..));
    if needs_selector && !request.selector.is_given() {
        return Err(Error::invalid("name the mail by id, sender, domain or site, or say that all is meant"));
    }
    let plain = minicbor::to_vec(request).map_err(|_| Error::internal("a request cannot be encoded"))?;
    if plain.len() > limits::QUEUE_REQUEST_BYTES {
        return Err(Error::limit("too many mails in one request; name fewer"));
    }
    let path = format!("{}/{:016x}-{:016x}", folder(node), now.0.max(0), random.next_u64());
    let sealed = keys.seal_note(LABEL, &path, &plain, random);
    match store.put_new(&path, sealed).await? {
        Put::Created => Ok(path),
        Put::Exists => Err(Error::retry("another request has the same name; retry")),
    }
}

/// Whether the writer has not yet executed the request of that path.
///
/// # Errors
/// Errors of the store.
pub async fn is_pending(store: &Store, path: &str) -> Result<bool> {
    match store.size(path).await {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == Kind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Pending requests to the queue of `node`, in order: path, and request; `None` for an invalid one.
pub(crate) async fn pending(
    store: &Store,
    keys: &MailKeys,
    node: AccountId,
    now: Timestamp,
) -> Result<Vec<(String, Option<Request>)>> {
    let mut listed = store.list(&folder(node), None);
    let mut found = Vec::new();
    while let Some(object) = listed.try_next().await? {
        let is_timely = |at: Timestamp| now.since(at) <= REQUEST_AGE && at.since(now) <= REQUEST_AHEAD;
        let is_fresh =
            time_of(&object.path).is_some_and(is_timely) && object.size <= limits::MAIL_NOTE_BYTES as u64;
        let request = match is_fresh {
            true => read(store, keys, &object.path).await?,
            false => None,
        };
        found.push((object.path, request));
        if found.len() >= REQUESTS_AT_ONCE {
            break;
        }
    }
    Ok(found)
}

async fn read(store: &Store, keys: &MailKeys, path: &str) -> Result<Option<Request>> {
    let object = match store.read(path).await {
        Ok(object) => object,
        Err(e) if e.kind() == Kind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let opened = keys.open_note(LABEL, path, &object);
    Ok(opened.ok().and_then(|plain| minicbor::decode(&plain).ok()))
}

/// When the request of that path was made.
fn time_of(path: &str) -> Option<Timestamp> {
    let (time, _) = path.rsplit('/').next()?.split_once('-')?;
    i64::from_str_radix(time, 16).ok().map(Timestamp)
}

pub(crate) fn folder(node: AccountId) -> String {
    format!("queue/{node}/requests")
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;
    use sealpost_vault::Sealed;

    use super::*;

    #[tokio::test]
    async fn requests_come_in_order_and_forgeries_do_not_count() {
        let (store, random) = (Store::memory(), SeededRandom::new(1));
        let (keys, node) = (MailKeys::generate(&random), crate::node_id("a"));
        let now = Timestamp::from_seconds(1_700_000_000);
        let selector = Selector { all: Some(true), ..Selector::default() };
        let request = |action| Request { action, selector: selector.clone(), by: "test".to_owned() };
        let later = now.after(Duration::from_secs(5));
        let submit =
            async |action, at| submit(&store, &keys, node, &request(action), at, &random).await.unwrap();
        let second = submit(Action::Release, later).await;
        let first = submit(Action::Retry, now).await;
        let forged = format!("{}/{:016x}-{:016x}", folder(node), later.0 + 1, 7);
        let copy = keys.seal_note(LABEL, &first, b"", &random);
        store.put_new(&forged, copy).await.unwrap();
        let odd = format!("{}/zzz", folder(node));
        store.put_new(&odd, Sealed::marker()).await.unwrap();
        let found = pending(&store, &keys, node, later).await.unwrap();
        let found: Vec<_> =
            found.into_iter().map(|(path, request)| (path, request.map(|r| r.action))).collect();
        let expected = [
            (first.clone(), Some(Action::Retry)),
            (second, Some(Action::Release)),
            (forged, None),
            (odd, None),
        ];
        assert_eq!(found, expected);
        let old = pending(&store, &keys, node, now.after(REQUEST_AGE * 2)).await.unwrap();
        assert!(old.iter().all(|(_, request)| request.is_none()));
        let (count, early) = (old.len(), Timestamp(now.0 - 2 * 3600 * 1000 - 1));
        let early = pending(&store, &keys, node, early).await.unwrap();
        assert!(early.len() == count && early.iter().all(|(_, request)| request.is_none()));
        assert!(is_pending(&store, &first).await.unwrap());
        store.delete(&first).await.unwrap();
        assert!(!is_pending(&store, &first).await.unwrap());
    }

    #[tokio::test]
    async fn refuses_selectors_of_nothing_or_too_much() {
        let (store, random) = (Store::memory(), SeededRandom::new(1));
        let (keys, node) = (MailKeys::generate(&random), crate::node_id("a"));
        let mails = |count: u64| Selector {
            mails: Some((0..count).map(|n| crate::MailId(n << 40)).collect()),
            ..Selector::default()
        };
        for (selector, kind) in [(Selector::default(), Kind::Invalid), (mails(20_000), Kind::Limit)] {
            let request = Request { action: Action::Remove, selector, by: String::new() };
            let refused = submit(&store, &keys, node, &request, Timestamp(0), &random).await;
            assert!(refused.is_err_and(|e| e.kind() == kind));
        }
    }
}
