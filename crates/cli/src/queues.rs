//! The queues in a store, as commands find them: sealed under the mail key of the data directory.

use anyhow::{Context, Result};
use sealpost_base::{AccountId, Error, Kind};
use sealpost_queue::{QueueView, node_id};
use sealpost_server::sending::{self, KEY_FILE, Traces};
use sealpost_server::settings::sending::QueuePlace;
use sealpost_submission::domain_keys::DomainKeys;
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::MailKeys;

use crate::data_dir::DataDir;
use crate::exit::Usage;
use crate::global::Global;
use crate::store::Purpose;

/// Queues that a command reads.
const QUEUES: usize = 1000;

/// Queues, and what opens them.
pub struct Queues {
    /// The data directory.
    pub data_dir: DataDir,
    /// Where they are.
    pub store: Store,
    /// What seals them.
    pub keys: MailKeys,
    nodes: Vec<AccountId>,
    /// The name of this node.
    own: Option<String>,
}

/// One queue, as it is now.
pub struct NodeQueue {
    /// What it is stored under.
    pub node: AccountId,
    /// The name of its node, as far as it is known.
    pub name: String,
    /// What is in it.
    pub view: QueueView,
}

impl Queues {
    /// The queues of the data directory that the options and the configuration name.
    ///
    /// # Errors
    /// `NotFound` if there is none; what the store and the key file say.
    pub async fn open(global: &Global, purpose: Purpose) -> Result<Self> {
        let data_dir = match purpose {
            Purpose::Read => DataDir::open_to_read(global).await?,
            Purpose::Change | Purpose::Serve => DataDir::open(global).await?,
        };
        Self::of(data_dir).await
    }

    /// Those of an opened data directory.
    ///
    /// # Errors
    /// As [`Queues::open`].
    pub async fn of(data_dir: DataDir) -> Result<Self> {
        let store = queue_store(&data_dir).await?;
        let none = || {
            let why = "there is no queue: the server has sent no mail yet. It sends when it has a submission or an HTTP \
                       listener, or sending.enabled is \"on\"";
            Error::not_found(why)
        };
        let names = store.names_below("queue").await?;
        let nodes: Vec<AccountId> = names.iter().filter_map(|name| name.parse().ok()).take(QUEUES).collect();
        if nodes.is_empty() {
            return Err(none().into());
        }
        let keys = mail_keys(&data_dir)?;
        let own = sending::node_name(&data_dir.dir)?;
        Ok(Queues { data_dir, store, keys, nodes, own })
    }

    /// The queues that there are.
    pub fn nodes(&self) -> &[AccountId] {
        &self.nodes
    }

    /// The queues that are meant: of the node that is named, else all.
    ///
    /// # Errors
    /// `NotFound` if that node has none; what the store says.
    pub async fn of_node(&self, named: Option<&str>) -> Result<Vec<NodeQueue>> {
        let nodes: Vec<AccountId> = match named {
            None => self.nodes.clone(),
            Some(named) => {
                let is_meant = |node: &&AccountId| **node == node_id(named) || node.to_string() == named;
                self.nodes.iter().filter(is_meant).copied().collect()
            }
        };
        let mut queues = Vec::new();
        for node in nodes {
            queues.push(self.queue(node).await?);
        }
        match (queues.is_empty(), named) {
            (true, Some(named)) => {
                let why =
                    format!("no node {named} has a queue; `sealpost queue list --summary` names the nodes");
                Err(Error::not_found(why).into())
            }
            _ => Ok(queues),
        }
    }

    /// A queue as it is now.
    ///
    /// # Errors
    /// What the store says.
    pub async fn queue(&self, node: AccountId) -> Result<NodeQueue> {
        let (clock, random) = (self.data_dir.clock.clone(), self.data_dir.random.clone());
        let log_key = LogKey::of(&self.data_dir.key);
        let view = QueueView::open(self.store.clone(), node, &log_key, self.keys.clone(), clock, random);
        let view = view.await.with_context(|| format!("the queue of node {node}"))?;
        let owner = view.state().owner().map(|(_, name)| name.to_owned());
        let is_named = |name: &String| node_id(name) == node;
        let name = self.own.clone().filter(is_named).or(owner.filter(is_named));
        Ok(NodeQueue { node, name: name.unwrap_or_else(|| node.to_string()), view })
    }
}

/// Where queues are.
///
/// # Errors
/// What the store says.
pub async fn queue_store(data_dir: &DataDir) -> Result<Store> {
    let place = data_dir.settings.sending.queue;
    Ok(sending::queue_store(place, &data_dir.store, &data_dir.dir).await?)
}

/// The mail key of a data directory that has one.
fn mail_keys(data_dir: &DataDir) -> Result<MailKeys> {
    let path = data_dir.dir.join(KEY_FILE);
    MailKeys::load(&path).map_err(|e| match e.kind() {
        Kind::NotFound => {
            let why = "the store has a queue that it opens: copy it from another node, or put it back from the backup";
            Usage(format!("{} is missing, but {why}", path.display())).into()
        }
        _ => e.into(),
    })
}

/// The DKIM keys of domains; `None` if there is no mail key, so that there can be none.
///
/// # Errors
/// What the key file says.
pub fn domain_keys(data_dir: &DataDir) -> Result<Option<DomainKeys>> {
    let keys = stored_mail_keys(data_dir)?;
    Ok(keys.map(|keys| DomainKeys::new(data_dir.store.clone(), keys)))
}

/// The mail keys in the data directory; `None` if there is no file.
///
/// # Errors
/// What the key file says.
pub fn stored_mail_keys(data_dir: &DataDir) -> Result<Option<MailKeys>> {
    match MailKeys::load(&data_dir.dir.join(KEY_FILE)) {
        Ok(keys) => Ok(Some(keys)),
        Err(e) if e.kind() == Kind::NotFound => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// The DKIM keys of domains; makes the mail key if nothing is sealed under one yet.
///
/// # Errors
/// `Corrupt` if the key is missing, or another one than what is queued was sealed under.
pub async fn domain_keys_or_make(data_dir: &DataDir) -> Result<DomainKeys> {
    Ok(DomainKeys::new(data_dir.store.clone(), mail_keys_or_make(data_dir).await?))
}

/// The mail keys of this installation; makes one if nothing is sealed under one yet.
///
/// # Errors
/// As [`domain_keys_or_make`].
pub async fn mail_keys_or_make(data_dir: &DataDir) -> Result<MailKeys> {
    let stores = match data_dir.settings.sending.queue {
        QueuePlace::Store => vec![data_dir.store.clone()],
        QueuePlace::Local => vec![data_dir.store.clone(), queue_store(data_dir).await?],
    };
    let stores: Vec<&Store> = stores.iter().collect();
    let (directory, log_key) = (&data_dir.directory, &LogKey::of(&data_dir.key));
    let traces = Traces { stores: &stores, directory, log_key };
    Ok(sending::load_mail_keys(&data_dir.dir, traces, &data_dir.random).await?)
}
