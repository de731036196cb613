//! Asking the nodes that run queues for a change, and waiting until they have made it.

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
/// How long another may take: it looks every half minute.
const FAR: Duration = Duration::from_secs(45);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Came {
    /// It was carried out.
    Done,
    /// The node has not seen it yet.
    Waiting,
    /// The node has removed it without carrying it out.
    Refused,
}

/// What came of the request to one node.
#[derive(Debug, Serialize)]
pub(super) struct Asked {
    pub node: String,
    pub came: Came,
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

/// Asks each node for `action`, and waits.
///
/// # Errors
/// What the store says.
pub(super) async fn ask(
    queues: &Queues,
    nodes: &[NodeQueue],
    action: &Action,
    selector: &Selector,
) -> Result<Vec<Asked>> {
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
    let mut asked = Vec::new();
    for (queue, path) in sent {
        let mut is_pending = request::is_pending(store, &path).await?;
        while is_pending && tokio::time::Instant::now() < end {
            tokio::time::sleep(PAUSE).await;
            is_pending = request::is_pending(store, &path).await?;
        }
        asked.push(match is_pending {
            true => Asked::of(queue, Came::Waiting, HandledRequest::default()),
            false => outcome(queues, queue, &path, queue.view.state().position()).await?,
        });
    }
    Ok(asked)
}

/// What the log of a queue tells of a request that is there no more.
async fn outcome(queues: &Queues, queue: &NodeQueue, path: &str, since: Position) -> Result<Asked> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let after = queues.queue(queue.node).await?;
    match after.view.handled(name, since).await? {
        Some(done) => Ok(Asked::of(queue, Came::Done, done)),
        // Long ago, by a busy queue: the log before was trimmed.
        None if after.view.state().is_handled(name) => {
            Ok(Asked::of(queue, Came::Done, HandledRequest::default()))
        }
        None => Ok(Asked::of(queue, Came::Refused, HandledRequest::default())),
    }
}

impl Asked {
    fn of(queue: &NodeQueue, came: Came, done: HandledRequest) -> Self {
        let ids = done.first.iter().map(MailId::to_string).collect();
        let (node, id) = (queue.name.clone(), queue.node);
        Asked { node, came, mails: done.mails, ids, rules: done.rules, rule: None, id }
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
pub(super) fn tell(global: &Global, asked: &[Asked], done: impl Fn(&Asked) -> String) -> Result<ExitCode> {
    let is_done = asked.iter().all(|asked| asked.came == Came::Done);
    let line = |asked: &Asked| {
        let text = match asked.came {
            Came::Done => done(asked),
            Came::Waiting => "has not done it: its server does not run, or is busy. It does it when it runs \
                              within a day"
                .to_owned(),
            Came::Refused => "has not done it, as its log says; look whether the clocks agree".to_owned(),
        };
        format!("{}: {text}\n", asked.node)
    };
    global.output().outcome(is_done, asked, |asked| asked.iter().map(line).collect())?;
    Ok(match (is_done, asked.iter().any(|asked| asked.came == Came::Refused)) {
        (true, _) => ExitCode::SUCCESS,
        (false, true) => ExitCode::from(FAILED),
        (false, false) => ExitCode::from(TEMPORARY),
    })
}

/// `3 mails`.
pub(super) fn mails(n: u64) -> String {
    counted(n, "mail", "mails")
}
