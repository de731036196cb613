//! Requests to the nodes that run queues: for a change, and the wait until it is made.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use sealpost_base::{AccountId, Error, Position};
use sealpost_queue::event::Selector;
use sealpost_queue::request::{self, Action, Request};
use sealpost_queue::{HandledRequest, MailId};
use serde::Serialize;

use crate::exit::{FAILED, TEMPORARY, Usage};
use crate::global::Global;
use crate::output::counted;
use crate::queues::{NodeQueue, Queues};

/// How long a node that uses the same local store may take: it sees each change at once.
const NEAR: Duration = Duration::from_secs(10);
/// How long another may take: it polls every half minute.
const FAR: Duration = Duration::from_secs(45);
/// Between two polls.
const PAUSE: Duration = Duration::from_millis(100);

/// The state of a request to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RequestState {
    /// It was carried out.
    Done,
    /// The node has not seen it yet.
    Waiting,
    /// The node has removed it without carrying it out.
    Refused,
}

/// The answer of one node to a request.
#[derive(Debug, Serialize)]
pub(super) struct NodeReply {
    pub node: String,
    /// `came` in the JSON.
    #[serde(rename = "came")]
    pub state: RequestState,
    /// Mails that were changed.
    pub mails: u64,
    /// The first of them.
    pub ids: Vec<String>,
    /// Rules that were added or withdrawn.
    pub rules: u64,
    /// The number of the rule that was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<u32>,
    #[serde(skip)]
    id: AccountId,
}

/// The queues that mail is meant in: with ids, the one that has the mail.
///
/// # Errors
/// `Usage` if nothing is selected, or ids are of several queues; `NotFound` if no queue has the mail.
pub(super) async fn meant(
    queues: &Queues,
    node: Option<&str>,
    selector: &Selector,
) -> Result<Vec<NodeQueue>> {
    if !selector.is_given() {
        let why = "name the mail by its ids, or by --sender, --domain or --site; --all is for all mail";
        return Err(Usage(why.to_owned()).into());
    }
    let mut found = queues.of_node(node).await?;
    let Some(ids) = &selector.mails else { return Ok(found) };
    let has = |queue: &NodeQueue, id: MailId| queue.view.state().rows().get(id).is_some();
    for id in ids {
        let names: Vec<&str> = found.iter().filter(|q| has(q, *id)).map(|q| q.name.as_str()).collect();
        match names[..] {
            [] => {
                let why = format!("{id} is not queued; `sealpost trace {id}` shows its history");
                return Err(Error::not_found(why).into());
            }
            [_] => {}
            _ => {
                let why = format!(
                    "{id} is the id of mail on several nodes; name one with --node: {}",
                    names.join(", ")
                );
                return Err(Usage(why).into());
            }
        }
    }
    found.retain(|queue| ids.iter().any(|id| has(queue, *id)));
    Ok(found)
}

/// Requests `action` of each node, and waits.
///
/// # Errors
/// What the store says.
pub(super) async fn request_change(
    queues: &Queues,
    nodes: &[NodeQueue],
    action: &Action,
    selector: &Selector,
) -> Result<Vec<NodeReply>> {
    let (store, data_dir) = (&queues.store, &queues.data_dir);
    let by = format!("sealpost queue on {}", data_dir.settings.hostname);
    let request = Request { action: action.clone(), selector: selector.clone(), by };
    let mut sent = Vec::new();
    for queue in nodes {
        let (now, random) = (data_dir.clock.now(), &*data_dir.random);
        let path = request::submit(store, &queues.keys, queue.node, &request, now, random).await?;
        sent.push((queue, path));
    }
    let limit = if store.directory().is_some() { NEAR } else { FAR };
    let end = tokio::time::Instant::now() + limit;
    let mut replies = Vec::new();
    for (queue, path) in sent {
        let mut is_pending = request::is_pending(store, &path).await?;
        while is_pending && tokio::time::Instant::now() < end {
            tokio::time::sleep(PAUSE).await;
            is_pending = request::is_pending(store, &path).await?;
        }
        replies.push(match is_pending {
            true => NodeReply::of(queue, RequestState::Waiting, HandledRequest::default()),
            false => outcome(queues, queue, &path, queue.view.state().position()).await?,
        });
    }
    Ok(replies)
}

/// What the log of a queue tells of a request that is there no more.
async fn outcome(queues: &Queues, queue: &NodeQueue, path: &str, since: Position) -> Result<NodeReply> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let after = queues.queue(queue.node).await?;
    match after.view.handled(name, since).await? {
        Some(done) => Ok(NodeReply::of(queue, RequestState::Done, done)),
        // Long ago, by a busy queue: the log before was trimmed.
        None if after.view.state().is_handled(name) => {
            Ok(NodeReply::of(queue, RequestState::Done, HandledRequest::default()))
        }
        None => Ok(NodeReply::of(queue, RequestState::Refused, HandledRequest::default())),
    }
}

impl NodeReply {
    fn of(queue: &NodeQueue, state: RequestState, done: HandledRequest) -> Self {
        let ids = done.first.iter().map(MailId::to_string).collect();
        let (node, id) = (queue.name.clone(), queue.node);
        NodeReply { node, state, mails: done.mails, ids, rules: done.rules, rule: None, id }
    }

    /// What the queue of this node is stored under.
    pub fn id(&self) -> AccountId {
        self.id
    }
}

/// Prints what was done, in words of `done`; and what was not.
///
/// # Errors
/// If standard output is closed.
pub(super) fn print_replies(
    global: &Global,
    replies: &[NodeReply],
    done: impl Fn(&NodeReply) -> String,
) -> Result<ExitCode> {
    let is_done = replies.iter().all(|reply| reply.state == RequestState::Done);
    let line = |reply: &NodeReply| {
        let text = match reply.state {
            RequestState::Done => done(reply),
            RequestState::Waiting => {
                "has not done it: its server does not run, or is busy. It does it when it runs \
                              within a day"
                    .to_owned()
            }
            RequestState::Refused => {
                "has not done it, as its log says; look whether the clocks agree".to_owned()
            }
        };
        format!("{}: {text}\n", reply.node)
    };
    global.output().outcome(is_done, replies, |replies| replies.iter().map(line).collect())?;
    Ok(match (is_done, replies.iter().any(|reply| reply.state == RequestState::Refused)) {
        (true, _) => ExitCode::SUCCESS,
        (false, true) => ExitCode::from(FAILED),
        (false, false) => ExitCode::from(TEMPORARY),
    })
}

/// `3 mails`.
pub(super) fn mails(n: u64) -> String {
    counted(n, "mail", "mails")
}
