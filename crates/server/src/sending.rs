//! Sending: the queue of this node, what sends it, and where its mail goes.
//!
//! [`Sending::start`] loads the mail key, opens the queue in the store, and runs it: mail to domains
//! that are served here is delivered into accounts ([`local`]), all other mail to the servers of
//! its destination. Queues of nodes that are lost are adopted ([`adoption`]). A queue that has
//! stopped takes no mail, and `/healthz` says why.

mod adoption;
mod convert;
mod forms;
mod keys;
mod local;
mod network;
mod node;
mod outcomes;
mod policies;
mod running;
pub mod tls_sessions;
mod transport;
mod upkeep;
mod watched;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealpost_base::{AccountId, Error, Position, Result, Timestamp, limits};
use sealpost_delivery::deliverer::{Deliverer, Parts};
use sealpost_queue::runner::{self, Forms};
use sealpost_queue::{MailId, Opening, Queue, Stopped, state};
use sealpost_session::Context;
use sealpost_session::settings::sending::QueuePlace;
use sealpost_submission::domain_keys::DomainKeys;
use sealpost_submission::outbox::{Outbox, OutboxParts, SendingLimits};
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::server_key::ServerKeys;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::survive::survive;
use forms::Downgraded;
pub use keys::{KEY_FILE, Traces, load as load_mail_keys};
pub use network::{Network, resolver};
use node::QueueNode;
pub use node::node_name;
use policies::PolicyFile;
use running::{QueueSending, RunningQueue};
use tls_sessions::{SessionRecorder, TlsSessions};
use transport::LocalTransport;
pub use watched::SendingMetrics;

/// The directory of a queue that is not in the store, in the data directory.
const LOCAL_QUEUE: &str = "queue";

/// What sends mail. Cheap to clone.
#[derive(Clone)]
pub struct Sending(Arc<Inner>);

struct Inner {
    ctx: Arc<Context>,
    /// Where queues are.
    store: Store,
    log_key: LogKey,
    keys: MailKeys,
    node: QueueNode,
    policies: Arc<PolicyFile>,
    tls_sessions: Arc<TlsSessions>,
    transport: Arc<LocalTransport>,
    network: Network,
    /// Rings when another node is found to be lost.
    lost: Arc<Notify>,
    queue_sending: QueueSending,
    outbox: Outbox,
    own: RunningQueue,
    /// Queues of other nodes that this one has taken over.
    adopted: Mutex<HashMap<AccountId, Arc<RunningQueue>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Sending {
    /// Opens the queue and sends what is in it. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// `Invalid` for settings that cannot be; `Corrupt` if the mail key does not open what is queued, or
    /// the queue cannot be read; what the store says.
    pub async fn start(ctx: Arc<Context>, key: &ServerKeys) -> Result<Self> {
        let network = Network::of(&ctx.settings.sending, &ctx.settings.memory, &ctx.clock)?;
        Self::start_on(ctx, key, network).await
    }

    /// The same over another network.
    ///
    /// # Errors
    /// As [`Sending::start`].
    pub async fn start_on(ctx: Arc<Context>, key: &ServerKeys, network: Network) -> Result<Self> {
        if let Some((key, why)) = ctx.settings.sending.check() {
            return Err(Error::invalid(format!("{key}: {why}")));
        }
        let needs_data = || Error::invalid("sending needs a data directory, for the mail key");
        let data = ctx.settings.data.clone().ok_or_else(needs_data)?;
        let place = ctx.settings.sending.queue;
        let (store, log_key) = (queue_store(place, &ctx.store, &data).await?, LogKey::of(key));
        let traces = Traces { stores: &[&ctx.store, &store], directory: &ctx.directory, log_key: &log_key };
        let keys = keys::load(&data, traces, &ctx.random).await?;
        let node = QueueNode::load_or_create(&data, &ctx.hostname, &*ctx.random).await?;
        let policies = Arc::new(PolicyFile::load(&data).await);
        let metrics = Arc::new(SendingMetrics::default());
        let tls_sessions = Arc::new(TlsSessions::new(&data));
        let recorder = SessionRecorder::new(metrics.clone(), tls_sessions.clone(), ctx.clock.clone());
        let deliverer = Deliverer::new(Parts {
            settings: convert::settings(&ctx)?,
            routes: convert::routes(&ctx.settings.sending.routes)?,
            resolver: network.resolver.clone(),
            dialer: network.dialer.clone(),
            tls: network.tls.clone(),
            policies: policies.clone(),
            reports: Arc::new(recorder),
            clock: ctx.clock.clone(),
            random: ctx.random.clone(),
        });
        let domain_keys = DomainKeys::new(ctx.store.clone(), keys.clone());
        let forms: Arc<dyn Forms> = Arc::new(Downgraded::new(domain_keys.clone(), ctx.clock.clone()));
        let opening = opening(&ctx, &store, &log_key, &keys, node.id(), &node.name, node.known());
        let queue = Queue::open(opening).await.map_err(|e| e.context("the queue"))?;
        let outbox = outbox(&ctx, &queue, domain_keys, keys.clone());
        let transport = Arc::new(LocalTransport::new(ctx.clone(), outbox.clone(), deliverer, metrics));
        let queue_sending =
            QueueSending { ctx: ctx.clone(), transport: transport.clone(), forms, metrics: Arc::default() };
        let own = RunningQueue::begin(queue, queue_sending.clone());
        let (adopted, tasks) = Default::default();
        let sending = Sending(Arc::new(Inner {
            ctx,
            store,
            log_key,
            keys,
            node,
            policies,
            tls_sessions,
            transport,
            network,
            lost: Arc::default(),
            queue_sending,
            outbox,
            own,
            adopted,
            tasks,
        }));
        sending.spawn("queue upkeep", upkeep::run);
        sending.spawn("vacation responses", answer_while_away);
        if sending.adopts() {
            sending.spawn("queue adoption", adoption::run);
        }
        tracing::info!(node = sending.0.node.name, mails = sending.depth().mails, "the queue is open");
        Ok(sending)
    }

    /// The queue of this node.
    pub fn queue(&self) -> &Queue {
        &self.0.own.queue
    }

    /// What users submit mail through.
    pub fn outbox(&self) -> &Outbox {
        &self.0.outbox
    }

    /// What queued mail is sealed under.
    pub fn mail_keys(&self) -> &MailKeys {
        &self.0.keys
    }

    /// What delivery reaches the world by.
    pub fn network(&self) -> &Network {
        &self.0.network
    }

    /// Rings when another node is found to be lost: it may have owed more than mail.
    pub fn lost_nodes(&self) -> Arc<Notify> {
        self.0.lost.clone()
    }

    /// What the runners of this node's queue and of adopted ones count.
    pub fn runner_metrics(&self) -> &runner::RunnerMetrics {
        &self.0.queue_sending.metrics
    }

    /// How much is being sent, of this node's queue and of adopted ones.
    pub fn activity(&self) -> Activity {
        let mut all = Activity::of(&self.0.own);
        self.adopted_queues().values().for_each(|queue| all.add(&Activity::of(queue)));
        all
    }

    /// The sites that mail is sent to; the busiest [`limits::QUEUE_METRIC_SITES`] of them are named.
    pub fn sites(&self) -> runner::SiteLoads {
        let mut all = self.0.own.runner().sites(limits::QUEUE_METRIC_SITES);
        for adopted in self.adopted_queues().values() {
            let other = adopted.runner().sites(limits::QUEUE_METRIC_SITES);
            all.suspended += other.suspended;
            for load in other.busiest {
                match all.busiest.iter_mut().find(|known| known.site == load.site) {
                    Some(known) => {
                        known.waiting += load.waiting;
                        known.connections += load.connections;
                    }
                    None => all.busiest.push(load),
                }
            }
        }
        all.busiest.sort_by_key(|load| std::cmp::Reverse(load.waiting + load.connections));
        all.busiest.truncate(limits::QUEUE_METRIC_SITES);
        all
    }

    /// What is in the queue of this node and in adopted ones.
    pub fn depth(&self) -> Depth {
        self.0.depth()
    }

    /// The age of the oldest queued mail.
    pub fn oldest(&self) -> Duration {
        let oldest = self.depth().oldest;
        oldest.map_or(Duration::ZERO, |oldest| self.0.ctx.clock.now().since(oldest))
    }

    /// What deliveries count besides.
    pub fn metrics(&self) -> &SendingMetrics {
        self.0.transport.metrics()
    }

    /// Queues of other nodes that this one sends now.
    pub fn adopted(&self) -> usize {
        self.adopted_queues().len()
    }

    /// Why nothing is sent any more, if so.
    pub fn problem(&self) -> Option<String> {
        match self.queue().stopped()? {
            Stopped::Closed => None,
            Stopped::Adopted(node) if self.0.takes_back(&node) => {
                Some(format!("node {node} has taken the queue over; this node takes it back within a minute"))
            }
            // Only of this node's own name is a process that has its data directory, or a copy of it.
            Stopped::Adopted(node) => Some(format!(
                "another process of node {node} has taken the queue over; stop it, or give it a data directory of \
                 its own, and restart this server"
            )),
            Stopped::Broken(why) => Some(format!("the queue has stopped: {why}")),
        }
    }

    /// No other mail is begun from now on.
    pub fn begin_stop(&self) {
        self.0.own.runner().stop();
        self.adopted_queues().values().for_each(|queue| queue.runner().stop());
    }

    /// Sends mail that is on its way to its end, until `deadline` at most, and closes the queue. No client
    /// submits mail any more.
    pub async fn stop(&self, deadline: Instant) {
        self.begin_stop();
        let mut tasks = std::mem::take(&mut *self.tasks());
        tasks.shutdown().await;
        let adopted = std::mem::take(&mut *self.adopted_queues());
        let others = adopted.values().map(|queue| queue.end(deadline));
        tokio::join!(self.0.own.end(deadline), futures::future::join_all(others));
        upkeep::save(&self.0).await;
    }

    /// Whether queues of other nodes can be in the store.
    fn adopts(&self) -> bool {
        self.0.store.directory().is_none() && self.0.ctx.settings.sending.queue == QueuePlace::Store
    }

    fn spawn<F>(&self, name: &'static str, task: fn(Arc<Inner>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let inner = self.0.clone();
        self.tasks().spawn(survive(name, self.0.ctx.clone(), move |_| task(inner.clone())));
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn adopted_queues(&self) -> MutexGuard<'_, HashMap<AccountId, Arc<RunningQueue>>> {
        self.0.adopted()
    }
}

impl Inner {
    fn adopted(&self) -> MutexGuard<'_, HashMap<AccountId, Arc<RunningQueue>>> {
        self.adopted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queues that run here: this node's first, then adopted ones.
    fn queues(&self) -> Vec<Queue> {
        let own = std::iter::once(self.own.queue.clone());
        own.chain(self.adopted().values().map(|adopted| adopted.queue.clone())).collect()
    }

    /// What is in them.
    fn depth(&self) -> Depth {
        let mut depth = Depth::default();
        for queue in self.queues() {
            let state = queue.state();
            depth.mails += state.len();
            depth.heap_bytes += state.heap_bytes();
            let oldest = state.rows().from(MailId(0)).next().map(|(_, row)| state::seconds(row.accepted));
            depth.oldest = depth.oldest.into_iter().chain(oldest).min();
        }
        depth
    }

    /// Whether this node takes its queue back from the node of that name. From a process of its own name
    /// it does not: that one has a copy of the data directory, and both would take it for ever.
    fn takes_back(&self, node: &str) -> bool {
        node != self.node.name && QueuePlace::Store == self.ctx.settings.sending.queue
    }
}

/// What is queued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Mails.
    pub mails: usize,
    /// Memory of their rows.
    pub heap_bytes: usize,
    /// When the oldest was accepted.
    pub oldest: Option<Timestamp>,
}

/// What is being sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// Mails that are being sent, or wait for a connection.
    pub active: usize,
    /// Open connections.
    pub connections: usize,
}

impl Activity {
    fn of(queue: &RunningQueue) -> Self {
        let runner::Status { active, connections, .. } = queue.runner().status();
        Activity { active, connections }
    }

    fn add(&mut self, other: &Activity) {
        self.active += other.active;
        self.connections += other.connections;
    }
}

/// Replies to mail that was delivered to accounts with a vacation response.
async fn answer_while_away(inner: Arc<Inner>) {
    inner.outbox.vacation().run(&inner.outbox).await;
}

/// What users submit mail to `queue` through.
fn outbox(ctx: &Context, queue: &Queue, domain_keys: DomainKeys, mail_keys: MailKeys) -> Outbox {
    let sending = &ctx.settings.sending;
    let limits = SendingLimits {
        hour: sending.recipients_per_hour,
        day: sending.recipients_per_day,
        forwards: sending.forwards_per_hour,
        message_size: ctx.settings.message_size,
    };
    Outbox::new(OutboxParts {
        queue: queue.clone(),
        directory: ctx.directory.clone(),
        domain_keys,
        mail_keys,
        clock: ctx.clock.clone(),
        random: ctx.random.clone(),
        budget: ctx.budget.clone(),
        hostname: ctx.hostname.clone(),
        limits,
    })
}

/// Where the queue of a server is whose data directory is `data` and whose mail is in `store`.
///
/// # Errors
/// What the store says.
pub async fn queue_store(place: QueuePlace, store: &Store, data: &Path) -> Result<Store> {
    match place {
        // A local store is in one place with all mail: one wait for the disk for both.
        QueuePlace::Local if store.directory().is_none() => Store::local(&data.join(LOCAL_QUEUE)).await,
        QueuePlace::Local | QueuePlace::Store => Ok(store.clone()),
    }
}

/// What opening the queue of `node` needs.
fn opening(
    ctx: &Context,
    store: &Store,
    log_key: &LogKey,
    keys: &MailKeys,
    node: AccountId,
    name: &str,
    known: Position,
) -> Opening {
    Opening {
        store: store.clone(),
        node,
        name: name.to_owned(),
        log_key: log_key.clone(),
        mail_keys: keys.clone(),
        clock: ctx.clock.clone(),
        random: ctx.random.clone(),
        budget: ctx.budget.clone(),
        known,
    }
}
