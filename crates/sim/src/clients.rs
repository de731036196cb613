//! Clients: random deliveries and commands, and notes of the replies.

use sealpost_account::{
    Account, AccountState, Delivery, Event, FlagAction, Flags, NewMessage, SpecialUses, SystemFlags, ops,
};
use sealpost_base::{MailboxId, ObjectId, Random, Result, Timestamp, Uid, UidSet};
use sealpost_vault::AccountKeys;

use crate::acknowledged::{Change, Uided, encoded};
use crate::node::Node;
use crate::world::{ID, Simulation};

/// Names that mailboxes are made and renamed to.
const NAMES: [&str; 6] = ["a", "a/b", "b", "c", "Work", "Work/x"];

/// One command of one client on `node`.
///
/// # Errors
/// The error that the client would get.
pub async fn act(world: &Simulation, node: &Node) -> Result<()> {
    match world.below(20) {
        0..5 => deliver(world, node).await,
        5..8 => append(world, node).await,
        18 if world.plan.records => crate::world::change_record(world, node).await,
        choice => command(world, node, choice).await,
    }
}

async fn store(node: &Node) -> Result<sealpost_account::Stored> {
    let mut ingest = node.accounts.ingest(ID).await?;
    ingest.write(b"Subject: x\r\n\r\nbody\r\n").await?;
    ingest.finish().await
}

async fn deliver(world: &Simulation, node: &Node) -> Result<()> {
    let stored = store(node).await?;
    let object = stored.object();
    let public = AccountKeys::derive(&world.root, ID).public();
    let mailbox = (world.below(3) == 0).then(|| NAMES[world.below(6) as usize].to_owned());
    let delivery = Delivery::to(Timestamp(0), mailbox);
    node.accounts.deliver(ID, &public, stored, delivery).await?;
    world.notes.lock().delivered.push(object);
    Ok(())
}

async fn append(world: &Simulation, node: &Node) -> Result<()> {
    let account = node.open(ID, &world.root).await?;
    let stored = store(node).await?;
    let object = stored.object();
    let inbox = account.state().inbox().id();
    let new = NewMessage { stored, flags: Flags::default().into(), received: Timestamp(0) };
    let (validity, uids) = account.append(inbox, vec![new]).await?;
    world.notes.lock().appended.push((object, Uided { mailbox: inbox, validity, uid: uids[0] }));
    world.notes.show(&account.state());
    Ok(())
}

async fn command(world: &Simulation, node: &Node, choice: u64) -> Result<()> {
    let account = node.open(ID, &world.root).await?;
    match choice {
        8 => account.checkpoint().await?,
        9 => drop(account.collect_garbage().await?),
        10 | 11 => account.refresh().await?,
        _ => change(world, &account, choice).await?,
    }
    world.notes.show(&account.state());
    Ok(())
}

async fn change(world: &Simulation, account: &Account, choice: u64) -> Result<()> {
    let done = account
        .commit(|state| {
            let events = decide(world, state, choice).unwrap_or_default();
            Ok((events.clone(), events))
        })
        .await?;
    if !done.value.is_empty() {
        let change = Change { position: done.position, events: encoded(&done.value), applied: done.applied };
        world.notes.lock().changes.push(change);
    }
    Ok(())
}

/// Some placement, by chance.
fn pick(world: &Simulation, state: &AccountState) -> Option<(MailboxId, Uid, ObjectId)> {
    let all: Vec<_> = state
        .mailboxes()
        .flat_map(|m| m.all_rows().map(|row| (m.id(), row.uid, row.message)))
        .filter_map(|(mailbox, uid, message)| Some((mailbox, uid, state.message(message)?.object)))
        .collect();
    if all.is_empty() { None } else { Some(all[world.below(all.len() as u64) as usize]) }
}

fn decide(world: &Simulation, state: &AccountState, choice: u64) -> Option<Vec<Event>> {
    let name = NAMES[world.below(6) as usize];
    let other = NAMES[world.below(6) as usize];
    match choice {
        12 => ops::create_mailbox(state, name, SpecialUses::default()).ok(),
        13 => ops::rename_mailbox(state, name, other).ok(),
        14 if world.below(3) == 0 => ops::delete_mailbox(state, name).ok(),
        _ => {
            let (from, uid, _) = pick(world, state)?;
            let uids = UidSet::range(uid, uid);
            let all: Vec<_> = state.mailboxes().map(sealpost_account::Mailbox::id).collect();
            let to = all[world.below(all.len() as u64) as usize];
            let modseq = state.mailbox(from)?.row(uid)?.modseq;
            Some(vec![match choice {
                14 | 15 => Event::Copied { from, uids, to },
                16 => Event::Moved { from, uids, to },
                17 => Event::Expunged { mailbox: from, uids },
                _ => {
                    let action = if world.below(3) == 0 { FlagAction::Remove } else { FlagAction::Add };
                    let flags = Flags::system(SystemFlags::FLAGGED);
                    let unchanged_since = (world.below(2) == 0).then_some(modseq);
                    Event::FlagsStored { mailbox: from, uids, action, flags, unchanged_since }
                }
            }])
        }
    }
}

impl Simulation {
    /// A number below `bound`, from the seed.
    pub fn below(&self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }
}
