//! Several nodes on one store that fails, delays and loses replies, with nodes that die and checkpoints that trim the
//! log under the others. Seeded: a failure prints the seed that shows it again.
//!
//! Kept true: every acknowledged message exactly once, under one UID for ever; no acknowledged flag, move or expunge is
//! undone; all nodes agree in the end.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use object_store::memory::InMemory;
use sealpost_account::{
    Account, AccountState, Accounts, Applied, Delivery, Event, FlagAction, Flags, NewMessage, SystemFlags,
};
use sealpost_base::{
    AccountId, Budget, FakeClock, MailboxId, ObjectId, Random, Result, SeededRandom, Timestamp, Uid, UidSet,
    UidValidity,
};
use sealpost_vault::faulty::{Faulty, Plan};
use sealpost_vault::{AccountKeys, RootKey, Store};

const ID: AccountId = AccountId([5; 16]);
const NODES: usize = 3;
const ROUNDS: usize = 12;
const AT_ONCE: usize = 6;

/// What clients were told.
#[derive(Default)]
struct Told {
    stored: HashSet<ObjectId>,
    flagged: HashSet<ObjectId>,
    expunged: HashSet<ObjectId>,
    perhaps_expunged: HashSet<ObjectId>,
    meanings: HashMap<(MailboxId, UidValidity, Uid), ObjectId>,
}

struct World {
    store: Store,
    faults: Faulty,
    clock: Arc<FakeClock>,
    random: Arc<SeededRandom>,
    root: RootKey,
    told: Mutex<Told>,
}

#[derive(Clone)]
struct Node {
    accounts: Accounts,
    account: Option<Arc<Account>>,
}

impl World {
    fn new(seed: u64) -> Arc<Self> {
        let random = Arc::new(SeededRandom::new(seed));
        let plan = Plan {
            fail: 40,
            lose_reply: 60,
            delay: 300,
            delay_max: Duration::from_millis(50),
            ..Plan::default()
        };
        let faults = Faulty::new(Arc::new(InMemory::new()), plan, seed);
        Arc::new(World {
            store: Store::over(Arc::new(faults.clone())),
            faults,
            clock: Arc::new(FakeClock::new(Timestamp(1_700_000_000_000))),
            root: RootKey::generate(&*random),
            random,
            told: Mutex::default(),
        })
    }

    fn node(&self) -> Node {
        let random: Arc<dyn Random> = self.random.clone();
        let accounts = Accounts::new(self.store.clone(), self.clock.clone(), random, Budget::new(64 << 20));
        Node { accounts, account: None }
    }

    async fn open(&self, node: &mut Node) -> Result<Arc<Account>> {
        if let Some(account) = &node.account {
            return Ok(account.clone());
        }
        let account = node.accounts.open(ID, &self.root).await?;
        node.account = Some(account.clone());
        Ok(account)
    }

    fn told<T>(&self, f: impl FnOnce(&mut Told) -> T) -> T {
        f(&mut self.told.lock().unwrap())
    }

    /// Every UID a node shows must mean what it meant wherever it was seen before.
    fn observe(&self, state: &AccountState) {
        for mailbox in state.mailboxes() {
            for row in mailbox.all_rows() {
                let object = state.message(row.message).unwrap().object;
                let key = (mailbox.id(), mailbox.uid_validity(), row.uid);
                let before = self.told(|told| *told.meanings.entry(key).or_insert(object));
                assert_eq!(before, object, "{key:?} changed its meaning");
            }
        }
    }

    async fn act(&self, mut node: Node, choice: u64) -> Result<()> {
        let mut ingest = node.accounts.ingest(ID).await?;
        ingest.write(b"Subject: x\r\n\r\nbody\r\n").await?;
        if choice < 3 {
            let stored = ingest.finish().await?;
            let object = stored.object();
            let public = AccountKeys::derive(&self.root, ID).public();
            node.accounts.deliver(ID, &public, stored, Delivery::default()).await?;
            self.told(|told| told.stored.insert(object));
            return Ok(());
        }
        let account = self.open(&mut node).await?;
        match choice {
            3 | 4 => {
                let stored = ingest.finish().await?;
                let object = stored.object();
                let inbox = account.state().inbox().id();
                let new = NewMessage { stored, flags: Flags::default(), received: Timestamp(0) };
                let (validity, uids) = account.append(inbox, vec![new]).await?;
                self.told(|told| {
                    told.stored.insert(object);
                    let before = *told.meanings.entry((inbox, validity, uids[0])).or_insert(object);
                    assert_eq!(before, object, "an acknowledged UID means something else");
                });
            }
            5 => self.flag(&account).await?,
            6 => self.relocate(&account).await?,
            7 => self.expunge(&account).await?,
            8 => account.checkpoint().await?,
            _ => account.refresh().await?,
        }
        self.observe(&account.state());
        Ok(())
    }

    /// Some placement, by chance.
    fn pick(&self, state: &AccountState) -> Option<(MailboxId, Uid, ObjectId)> {
        let all: Vec<_> = state
            .mailboxes()
            .flat_map(|m| m.all_rows().map(|row| (m.id(), row.uid, row.message)))
            .map(|(mailbox, uid, message)| (mailbox, uid, state.message(message).unwrap().object))
            .collect();
        if all.is_empty() { None } else { Some(all[self.random.below(all.len() as u64) as usize]) }
    }

    async fn flag(&self, account: &Account) -> Result<()> {
        let decide = |state: &AccountState| {
            let Some((mailbox, uid, object)) = self.pick(state) else { return Ok((vec![], None)) };
            let flags = Flags::system(SystemFlags::FLAGGED);
            let uids = UidSet::range(uid, uid);
            let action = FlagAction::Add;
            Ok((
                vec![Event::FlagsStored { mailbox, uids, action, flags, unchanged_since: None }],
                Some(object),
            ))
        };
        let done = account.commit(decide).await?;
        self.told(|told| told.flagged.extend(done.value));
        Ok(())
    }

    async fn relocate(&self, account: &Account) -> Result<()> {
        let decide = |state: &AccountState| {
            let Some((from, uid, _)) = self.pick(state) else { return Ok((vec![], ())) };
            let to = state.mailbox_named("Archive").unwrap().id();
            Ok((vec![Event::Moved { from, uids: UidSet::range(uid, uid), to }], ()))
        };
        account.commit(decide).await?;
        Ok(())
    }

    async fn expunge(&self, account: &Account) -> Result<()> {
        let decide = |state: &AccountState| {
            let Some((mailbox, uid, object)) = self.pick(state) else { return Ok((vec![], None)) };
            self.told(|told| told.perhaps_expunged.insert(object));
            Ok((vec![Event::Expunged { mailbox, uids: UidSet::range(uid, uid) }], Some(object)))
        };
        let done = account.commit(decide).await?;
        if let [Applied::Removed(_)] = done.applied[..] {
            self.told(|told| told.expunged.extend(done.value));
        }
        Ok(())
    }

    fn check(&self, state: &AccountState) {
        self.observe(state);
        let mut placed: HashMap<ObjectId, usize> = HashMap::new();
        let mut flagged = HashSet::new();
        for row in state.mailboxes().flat_map(|m| m.all_rows()) {
            let object = state.message(row.message).unwrap().object;
            *placed.entry(object).or_default() += 1;
            if state.flags(row.flags).system.contains(SystemFlags::FLAGGED) {
                flagged.insert(object);
            }
        }
        self.told(|told| {
            for (object, count) in &placed {
                assert_eq!(*count, 1, "{object} is there more than once");
                assert!(!told.expunged.contains(object), "{object} came back");
            }
            for object in told.stored.difference(&told.perhaps_expunged) {
                assert!(placed.contains_key(object), "{object} was acknowledged and is lost");
            }
            for object in told.flagged.iter().filter(|object| placed.contains_key(object)) {
                assert!(flagged.contains(object), "{object} lost its flag");
            }
        });
    }
}

async fn simulate(seed: u64) -> (usize, u64) {
    let world = World::new(seed);
    let mut nodes: Vec<Node> = (0..NODES).map(|_| world.node()).collect();
    for _ in 0..ROUNDS {
        let tasks: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let node = nodes[world.random.below(NODES as u64) as usize].clone();
                let (world, choice) = (world.clone(), world.random.below(10));
                tokio::spawn(async move { world.act(node, choice).await })
            })
            .collect();
        // One node in a few rounds dies with whatever it was doing.
        let dies = world.random.below(4) == 0;
        for task in tasks {
            if dies && world.random.below(2) == 0 {
                task.abort();
            }
            if let Err(e) = task.await {
                assert!(e.is_cancelled(), "{e}");
            }
        }
        if dies {
            let victim = world.random.below(NODES as u64) as usize;
            nodes[victim] = world.node();
        }
    }
    world.faults.calm(true);
    // What clients that were cut off had begun comes to its end. The clock is paused: this takes no time.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut ends = Vec::new();
    for node in nodes.iter_mut().chain([&mut world.node()]) {
        let account = world.open(node).await.unwrap();
        account.refresh().await.unwrap();
        assert!(!account.is_damaged());
        let state = account.state();
        world.check(&state);
        let chunks = state.chunk_names().into_iter().map(|name| state.chunk(&name));
        ends.push((state.position(), chunks.collect::<Vec<_>>()));
    }
    assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "the nodes do not agree");
    (world.told(|told| told.stored.len()), world.faults.faults())
}

#[test]
fn nothing_acknowledged_is_lost_doubled_or_undone() {
    let (mut stored, mut faults) = (0, 0);
    for seed in (0..150).chain([1389]) {
        let run = std::panic::catch_unwind(|| {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_time().start_paused(true).build().unwrap().block_on(simulate(seed))
        });
        let (s, f) = run.unwrap_or_else(|_| panic!("seed {seed} shows it"));
        stored += s;
        faults += f;
    }
    assert!(stored > 1000 && faults > 1000, "a simulation in which nothing happens: {stored} {faults}");
}
