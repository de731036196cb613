//! One history, from its seed to its verdict.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sealpost_base::{AccountId, Kind, Random, Result, SeededRandom};
use sealpost_directory::{AccountName, Directory, NewAccount, Secret};
use sealpost_journal::{Journal, Tail};
use sealpost_vault::entry::LogKey;
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{AccountKeys, AppendMode, Backend, RootKey};
use tokio::time::{Instant, sleep};

use crate::acknowledged::{Notes, digest};
use crate::bucket::{Bucket, Left, SeenAs};
use crate::clients;
use crate::node::Node;
use crate::plan::Plan;
use crate::truth::{Truth, Wrong};

/// The account that everything happens to.
pub const ID: AccountId = AccountId([5; 16]);
/// The account whose record several nodes change.
const NAME: &str = "jane@example.org";
/// Longer than any request, pause and repetition.
const QUIET: Duration = Duration::from_secs(12 * 3600);
/// Longer than any grace period.
const GRACE: Duration = Duration::from_secs(9 * 24 * 3600);

/// A world in which a history happens.
pub struct Simulation {
    /// Its plan.
    pub plan: Plan,
    /// The source of randomness.
    pub random: Arc<SeededRandom>,
    /// The account's key.
    pub root: RootKey,
    /// Replies to clients, and states shown.
    pub notes: Notes,
    bucket: Bucket,
    key: ServerKeys,
    began: Instant,
    nodes: Mutex<Vec<Node>>,
    /// All that there ever were.
    started: Mutex<Vec<Node>>,
}

/// The outcome of a history.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    /// Messages that were acknowledged.
    pub messages: u64,
    /// Other changes that were acknowledged.
    pub changes: u64,
    /// Log entries.
    pub entries: u64,
    /// Faults of the store.
    pub faults: u64,
    /// Requests to the store.
    pub requests: u64,
    /// Commands that failed.
    pub failed: u64,
}

impl Outcome {
    /// Adds another history's.
    pub fn add(&mut self, other: Outcome) {
        self.messages += other.messages;
        self.changes += other.changes;
        self.entries += other.entries;
        self.faults += other.faults;
        self.requests += other.requests;
        self.failed += other.failed;
    }
}

/// The history of a seed, on a runtime of its own.
///
/// # Errors
/// The violation found at its end.
pub fn history(seed: u64) -> Result<Outcome, Wrong> {
    let run = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().map_err(|e| e.to_string())?;
        let (outcome, bucket) = runtime.block_on(run(seed))?;
        // With all tasks that never end.
        drop(runtime);
        if bucket.is_in_use() {
            return Err("something of it stays in memory".to_owned());
        }
        Ok(outcome)
    };
    match std::panic::catch_unwind(run) {
        Ok(outcome) => outcome,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            Err(format!("panicked: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?")))
        }
    }
}

async fn run(seed: u64) -> Result<(Outcome, Left), Wrong> {
    let plan = Plan::new(seed);
    let world = Arc::new(Simulation::new(plan, seed));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..world.plan.clients {
        let world = world.clone();
        clients.spawn(async move { world.clone().client().await });
    }
    let trouble = tokio::spawn({
        let world = world.clone();
        async move { world.trouble().await }
    });
    let mut outcome = Outcome::default();
    while let Some(done) = clients.join_next().await {
        outcome.failed += done.map_err(|e| e.to_string())?;
    }
    trouble.abort();
    for node in world.all() {
        node.resume();
        node.hole.close();
    }
    world.bucket.calm();
    // Let requests under way complete.
    sleep(QUIET).await;
    world.verdict(&mut outcome).await?;
    for node in world.started.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        node.accounts.evict_all();
    }
    Ok((outcome, world.bucket.left()))
}

impl Simulation {
    fn new(plan: Plan, seed: u64) -> Self {
        let random = Arc::new(SeededRandom::new(seed));
        let bucket = Bucket::new(plan.clone(), seed.wrapping_mul(31).wrapping_add(7));
        let world = Simulation {
            root: RootKey::generate(&*random),
            key: ServerKeys::generate(&*random),
            notes: Notes::default(),
            began: Instant::now(),
            nodes: Mutex::default(),
            started: Mutex::default(),
            plan,
            random,
            bucket,
        };
        for _ in 0..world.plan.nodes {
            let node = world.start();
            world.nodes.lock().unwrap_or_else(PoisonError::into_inner).push(node);
        }
        world
    }

    fn start(&self) -> Node {
        let skew = self.plan.skew.as_secs();
        let skew = self.below(2 * skew + 1) as i64 - skew as i64;
        let random: Arc<dyn Random> = self.random.clone();
        let backend = Backend { append_mode: self.plan.append_mode };
        let node = Node::start(&self.bucket, backend, LogKey::of(&self.key), self.began, skew, random);
        self.started.lock().unwrap_or_else(PoisonError::into_inner).push(node.clone());
        node
    }

    fn all(&self) -> Vec<Node> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn some_node(&self) -> Node {
        let nodes = self.all();
        nodes[self.below(nodes.len() as u64) as usize].clone()
    }

    /// One client; how many of its commands failed.
    async fn client(self: Arc<Self>) -> u64 {
        let mut failed = 0;
        for _ in 0..self.plan.commands {
            let node = self.some_node();
            let done = tokio::select! {
                biased;
                done = clients::act(&self, &node) => done.is_ok(),
                () = node.gate.died() => false,
                // A client that hangs up.
                () = sleep(Duration::from_secs(30 + self.below(600))), if self.below(4) == 0 => false,
            };
            failed += u64::from(!done);
            if self.below(3) == 0 {
                sleep(Duration::from_millis(self.below(2000))).await;
            }
        }
        failed
    }

    /// Nodes pause, and die and are replaced.
    async fn trouble(self: Arc<Self>) {
        loop {
            sleep(self.plan.trouble_every).await;
            let victim = self.below(self.plan.nodes as u64) as usize;
            let node = self.all()[victim].clone();
            if self.below(1000) < self.plan.noise {
                self.bucket.plant(ID);
            }
            if self.below(1000) < self.plan.holes
                && let Some((path, is_last)) = self.bucket.some_entry()
            {
                let mut seen = vec![SeenAs::Short, SeenAs::Wrong, SeenAs::Unreadable];
                // Where only listings show the end of a log, an acknowledged entry is never left
                // out.
                if !is_last || self.plan.append_mode == AppendMode::Conditional {
                    seen.push(SeenAs::Absent);
                }
                node.hole.open(path, seen[self.below(seen.len() as u64) as usize]);
                let (hole, while_for) = (node.hole.clone(), Duration::from_millis(self.below(60_000)));
                tokio::spawn(async move {
                    sleep(while_for).await;
                    hole.close();
                });
            }
            if self.below(4) == 0 {
                node.kill();
                let new = self.start();
                self.nodes.lock().unwrap_or_else(PoisonError::into_inner)[victim] = new;
            } else {
                node.pause();
                let pause = Duration::from_millis(self.below(self.plan.pause.as_millis() as u64 + 1));
                tokio::spawn(async move {
                    sleep(pause).await;
                    node.resume();
                });
            }
        }
    }

    async fn verdict(&self, outcome: &mut Outcome) -> Result<(), Wrong> {
        let said = |e: sealpost_base::Error| format!("in the end: {e}");
        // A node that existed all along collects garbage, when all grace periods are over.
        let nodes = self.all();
        let collector = &nodes[self.below(nodes.len() as u64) as usize];
        if self.below(2) == 0 {
            sleep(GRACE).await;
            let account = collector.open(ID, &self.root).await.map_err(said)?;
            account.refresh().await.map_err(said)?;
            match account.checkpoint().await {
                // Something was planted in its place; the next one is elsewhere.
                Err(e) if e.kind() == Kind::Conflict => {}
                written => written.map_err(said)?,
            }
            account.collect_garbage().await.map_err(said)?;
        }
        let mut nodes = nodes;
        nodes.push(self.start());
        // Work that opening an account starts, such as ending grace periods, completes in the first
        // round.
        for round in [1, 2] {
            let mut ends = Vec::new();
            for node in &nodes {
                let account = node.open(ID, &self.root).await.map_err(said)?;
                account.refresh().await.map_err(said)?;
                if account.is_damaged() {
                    return Err("a node found damage".to_owned());
                }
                self.notes.show(&account.state());
                ends.push((account.state().position(), digest(&account.state())));
            }
            if round == 2 && ends.windows(2).any(|pair| pair[0] != pair[1]) {
                return Err("the nodes do not agree".to_owned());
            }
            sleep(Duration::from_secs(3600)).await;
        }
        let judge = self.start();
        let account = judge.open(ID, &self.root).await.map_err(said)?;
        // It may have something to purge too.
        sleep(Duration::from_secs(3600)).await;
        let journal = Journal::new(judge.store.clone(), ID, &LogKey::of(&self.key), self.random.clone());
        let end = journal.tail(Tail::EMPTY).await.map_err(said)?;
        let keys = AccountKeys::derive(&self.root, ID);
        let truth = Truth::find(&self.bucket, ID, &keys, end)?;
        {
            let told = self.notes.lock();
            truth.judge(&told)?;
            outcome.messages = (told.delivered.len() + told.appended.len()) as u64;
            outcome.changes = told.changes.len() as u64;
        }
        outcome.entries = truth.entries;
        outcome.faults = self.bucket.faults();
        outcome.requests = self.bucket.requests();
        let messages: Vec<_> = truth.state.messages().map(|(_, message)| message).collect();
        for message in &messages {
            let structure = account.structure(message).await;
            structure.map_err(|e| format!("{} is referred to and gone: {e}", message.object))?;
        }
        self.check_record(&judge).await
    }

    fn directory(&self, node: &Node) -> Directory {
        Directory::new(node.store.clone(), self.key.clone(), node.clock.clone(), self.random.clone())
    }

    async fn check_record(&self, node: &Node) -> Result<(), Wrong> {
        if !self.plan.records {
            return Ok(());
        }
        let name = AccountName::parse(NAME).map_err(|e| e.to_string())?;
        let record = self.directory(node).find(&name).await.map_err(|e| e.to_string())?;
        let told = self.notes.lock();
        if told.made.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err("an account was made twice".to_owned());
        }
        if let Some(made) = told.made.first()
            && record.as_ref().is_none_or(|record| record.id != *made)
        {
            return Err("an account that was made is not there".to_owned());
        }
        let quota = record.and_then(|record| record.quota).unwrap_or(0);
        if quota < told.added || quota > told.added + told.perhaps_added {
            return Err(format!(
                "a record says {quota}, not {} or up to {} more",
                told.added, told.perhaps_added
            ));
        }
        Ok(())
    }
}

/// Makes an account, or adds one to its quota.
///
/// # Errors
/// The error that the operator would get.
pub async fn change_record(world: &Simulation, node: &Node) -> Result<()> {
    let directory = world.directory(node);
    let name = AccountName::parse(NAME)?;
    if directory.find(&name).await?.is_none() {
        let new = NewAccount::with_password(Secret::new(b"simulated")?);
        let (record, _) = directory.create(&name, new).await?;
        world.notes.lock().made.push(record.id);
        return Ok(());
    }
    world.notes.lock().perhaps_added += 1;
    let added = directory
        .update(&name, |record| {
            record.quota = Some(record.quota.unwrap_or(0) + 1);
            Ok(())
        })
        .await;
    let mut told = world.notes.lock();
    match &added {
        Ok(()) => (told.added, told.perhaps_added) = (told.added + 1, told.perhaps_added - 1),
        Err(e) if e.kind() == Kind::Retry => {}
        Err(_) => told.perhaps_added -= 1,
    }
    added
}
