//! THREAD=REFERENCES (RFC 5256 §3): the six steps, over numbers and hashes.
//!
//! Message identifiers are hashes here. Every message, and every referenced identifier, is a node with at
//! most one parent. Everything is iterative: threads may be as deep as the mailbox is long. Two kinds of work
//! could become quadratic in a hostile mailbox and are bounded: the path to a root, which detects loops, and
//! the number of nodes. Beyond the bounds links are left out, which splits threads but never makes a wrong
//! one.

use std::collections::HashMap;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use sealpost_base::limits;

use super::forest::{Forest, NONE};
use super::{ShortHash, ThreadItem};

/// Bytes that a dummy takes.
const DUMMY_BYTES: usize = 36;
/// Upward steps for detecting loops, for each threaded message.
const STEPS_PER_MESSAGE: usize = 512;

/// Messages and their parents: steps 1 and 2.
pub(crate) struct Links {
    /// The nodes of identifiers.
    pub(crate) ids: HashTable<u32>,
    /// The identifier of each node; `None` for a message without one, or with that of an earlier message.
    pub(crate) id: Vec<Option<ShortHash>>,
    /// The parent of each node, and its number of children.
    pub(crate) parent: Vec<u32>,
    pub(crate) children: Vec<u32>,
    /// The message of a node, in order of addition; [`NONE`] for a dummy.
    pub(crate) message: Vec<u32>,
    messages: u32,
    /// How many more dummies there may be.
    pub(crate) dummies_left: usize,
    steps_left: usize,
}

impl Links {
    /// Starts without messages, with capacity for that many, and `bytes` for dummies. Nothing grows later,
    /// since growing takes thrice the memory.
    pub(crate) fn new(messages: usize, bytes: usize) -> Self {
        let dummies = bytes / DUMMY_BYTES;
        let nodes = messages + dummies;
        Links {
            ids: HashTable::with_capacity(nodes),
            id: Vec::with_capacity(nodes),
            parent: Vec::with_capacity(nodes),
            children: Vec::with_capacity(nodes),
            message: Vec::with_capacity(nodes),
            messages: 0,
            dummies_left: dummies,
            steps_left: 0,
        }
    }

    /// Step 1: adds the next message in the order of the mailbox, with its identifier and its references.
    pub(crate) fn add(&mut self, id: Option<ShortHash>, references: &[ShortHash]) {
        self.steps_left += STEPS_PER_MESSAGE;
        let node = self.claim(id);
        // A message that refers to itself gives no information. Of very many references, the last ones are
        // the nearest.
        let from = references.len().saturating_sub(limits::THREAD_REFERENCES);
        let mut last = NONE;
        for reference in references[from..].iter().filter(|reference| Some(**reference) != id) {
            let Some(found) = self.reference(*reference) else { continue };
            // (A) "If a message already has a parent, don't change the existing link."
            if last != NONE && self.parent[found as usize] == NONE && !self.is_above(found, last) {
                self.link(last, found);
            }
            last = found;
        }
        // (B) The last reference is the parent, whatever was assumed before.
        self.unlink(node);
        if last != NONE && !self.is_above(node, last) {
            self.link(last, node);
        }
    }

    /// The node of a message: that of its identifier, unless an earlier one has the same.
    fn claim(&mut self, id: Option<ShortHash>) -> u32 {
        let known = id.and_then(|id| self.find(id));
        let node = match known {
            Some(node) if self.message[node as usize] == NONE => node,
            Some(_) => self.node(None),
            None => self.node(id),
        };
        self.message[node as usize] = self.messages;
        self.messages += 1;
        node
    }

    /// The node of a referenced identifier; a dummy if no message has it so far.
    pub(crate) fn reference(&mut self, id: ShortHash) -> Option<u32> {
        if let Some(node) = self.find(id) {
            return Some(node);
        }
        self.dummies_left = self.dummies_left.checked_sub(1)?;
        Some(self.node(Some(id)))
    }

    fn find(&self, id: ShortHash) -> Option<u32> {
        self.ids.find(id.get(), |node| self.id[*node as usize] == Some(id)).copied()
    }

    /// A new node for that identifier.
    fn node(&mut self, id: Option<ShortHash>) -> u32 {
        let node = self.parent.len() as u32;
        self.id.push(id);
        self.parent.push(NONE);
        self.children.push(0);
        self.message.push(NONE);
        if let Some(id) = id {
            let hash = |node: &u32| self.id[*node as usize].map_or(0, ShortHash::get);
            self.ids.insert_unique(id.get(), node, hash);
        }
        node
    }

    /// Whether `above` is `node` or one of its ancestors, so that making it a child of `node` would create a
    /// loop.
    fn is_above(&mut self, above: u32, mut node: u32) -> bool {
        if above == node {
            return true;
        }
        if self.children[above as usize] == 0 {
            return false;
        }
        while self.parent[node as usize] != NONE {
            node = self.parent[node as usize];
            if node == above || self.steps_left == 0 {
                return true;
            }
            self.steps_left -= 1;
        }
        false
    }

    fn link(&mut self, parent: u32, child: u32) {
        self.parent[child as usize] = parent;
        self.children[parent as usize] += 1;
    }

    fn unlink(&mut self, child: u32) {
        let parent = std::mem::replace(&mut self.parent[child as usize], NONE);
        if parent != NONE {
            self.children[parent as usize] -= 1;
        }
    }

    /// Steps 2 to 6, with the fields of each message, in order of addition.
    pub(crate) fn thread(self, items: &[ThreadItem]) -> Forest {
        let Links { ids, id, parent, children, message, .. } = self;
        drop((ids, id, children));
        let above = parents(parent, &message);
        let mut gathering = Gathering::new(items, &message, &above);
        drop((message, above));
        gathering.prune();
        gathering.gather();
        gathering.into_forest()
    }
}

/// Step 3: the parent of each node after removing dummies, except top-level ones: the nearest ancestor that
/// is a message or has no parent.
fn parents(mut parent: Vec<u32>, message: &[u32]) -> Vec<u32> {
    let mut path = Vec::new();
    for start in 0..parent.len() as u32 {
        let mut at = parent[start as usize];
        // Upwards to a node that stays; it becomes the parent of every node on the path.
        while at != NONE && message[at as usize] == NONE && parent[at as usize] != NONE {
            path.push(at);
            at = parent[at as usize];
        }
        parent[start as usize] = at;
        for dummy in path.drain(..) {
            parent[dummy as usize] = at;
        }
    }
    parent
}

/// Top-level threads while they are gathered by subject. Nodes are messages, by index, followed by dummies.
struct Gathering<'a> {
    items: &'a [ThreadItem],
    /// All messages by date (RFC 5256 §2.2).
    by_date: Vec<u32>,
    /// The parent of each message.
    parent: Vec<u32>,
    /// For each dummy its first child by date; [`NONE`] if it was removed.
    dummies: Vec<u32>,
}

impl<'a> Gathering<'a> {
    fn new(items: &'a [ThreadItem], message: &[u32], above: &[u32]) -> Self {
        let mut by_date: Vec<u32> = (0..items.len() as u32).collect();
        by_date.sort_unstable_by_key(|at| (items[*at as usize].sent, *at));
        let mut gathering =
            Gathering { items, by_date, parent: vec![NONE; items.len()], dummies: Vec::new() };
        gathering.number(message, above);
        gathering
    }

    /// Converts linked nodes to messages and the remaining dummies.
    fn number(&mut self, message: &[u32], above: &[u32]) {
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        for (node, at) in message.iter().enumerate().filter(|(_, at)| **at != NONE) {
            let parent = above[node];
            if parent == NONE {
                continue;
            }
            self.parent[*at as usize] = match message[parent as usize] {
                NONE => *numbers.entry(parent).or_insert_with(|| {
                    self.dummies.push(NONE);
                    (self.items.len() + self.dummies.len() - 1) as u32
                }),
                parent => parent,
            };
        }
    }

    /// The rest of step 3: a top-level dummy stays only if it has more than one child.
    fn prune(&mut self) {
        let mut children = vec![0u32; self.dummies.len()];
        for parent in &self.parent {
            if let Some(dummy) = self.dummy(*parent) {
                children[dummy] += 1;
            }
        }
        for at in 0..self.parent.len() {
            if self.dummy(self.parent[at]).is_some_and(|dummy| children[dummy] < 2) {
                self.parent[at] = NONE;
            }
        }
        self.find_first_children();
    }

    fn find_first_children(&mut self) {
        self.dummies.fill(NONE);
        for at in 0..self.by_date.len() {
            let at = self.by_date[at];
            if let Some(dummy) = self.dummy(self.parent[at as usize])
                && self.dummies[dummy] == NONE
            {
                self.dummies[dummy] = at;
            }
        }
    }

    fn dummy(&self, node: u32) -> Option<usize> {
        if node == NONE { None } else { (node as usize).checked_sub(self.items.len()) }
    }

    /// The message that represents a thread: itself, or the first child of a dummy.
    fn speaker(&self, root: u32) -> u32 {
        self.dummy(root).map_or(root, |dummy| self.dummies[dummy])
    }

    /// The message whose subject is that of a thread.
    fn spoken(&self, root: u32) -> &'a ThreadItem {
        &self.items[self.speaker(root) as usize]
    }

    /// Step 4: the threads, by date.
    fn roots(&self) -> Vec<u32> {
        let mut roots = Vec::new();
        for at in &self.by_date {
            match self.parent[*at as usize] {
                NONE => roots.push(*at),
                // A dummy has the position of its first child.
                parent => roots
                    .extend(Some(parent).filter(|parent| {
                        self.dummy(*parent).is_some_and(|dummy| self.dummies[dummy] == *at)
                    })),
            }
        }
        roots
    }

    /// Step 5: merges threads with the same subject.
    fn gather(&mut self) {
        let roots = self.roots();
        let mut table = self.subject_table(&roots);
        // Where the children of a merged dummy went.
        let mut moved: HashMap<u32, u32> = HashMap::new();
        for root in roots {
            // (C) (i) to (iv)
            let spoken = self.spoken(root);
            let same = |kept: &u32| spoken.subject.is_some() && self.spoken(*kept).subject == spoken.subject;
            let Some(entry) = table.find_mut(spoken.subject_hash(), same) else { continue };
            let kept = *entry;
            if kept == root {
                continue;
            }
            match (self.dummy(kept), self.dummy(root)) {
                (Some(_), Some(_)) => drop(moved.insert(root, kept)),
                (Some(_), None) => self.parent[root as usize] = kept,
                // The table prefers dummies, so the one in it is a message only if this one is too.
                (None, _) if spoken.is_reply && !self.items[kept as usize].is_reply => {
                    self.parent[root as usize] = kept;
                }
                (None, _) => {
                    self.dummies.push(kept);
                    let both = (self.items.len() + self.dummies.len() - 1) as u32;
                    self.parent[kept as usize] = both;
                    self.parent[root as usize] = both;
                    *entry = both;
                }
            }
        }
        if !moved.is_empty() {
            for parent in &mut self.parent {
                *parent = moved.get(parent).copied().unwrap_or(*parent);
            }
        }
        self.find_first_children();
    }

    /// (A) and (B): the thread that represents each subject.
    fn subject_table(&self, roots: &[u32]) -> HashTable<u32> {
        let mut table = HashTable::with_capacity(roots.len());
        for root in roots {
            let spoken = self.spoken(*root);
            if spoken.subject.is_none() {
                continue;
            }
            let same = |kept: &u32| self.spoken(*kept).subject == spoken.subject;
            match table.entry(spoken.subject_hash(), same, |kept| self.spoken(*kept).subject_hash()) {
                Entry::Vacant(entry) => drop(entry.insert(*root)),
                Entry::Occupied(mut entry) => {
                    let kept = *entry.get();
                    let is_message = self.dummy(kept).is_none();
                    let better =
                        self.dummy(*root).is_some() || (self.spoken(kept).is_reply && !spoken.is_reply);
                    if is_message && better {
                        *entry.get_mut() = *root;
                    }
                }
            }
        }
        table
    }

    /// Step 6: siblings by date, at every level: appending all messages by date achieves it.
    fn into_forest(self) -> Forest {
        let mut forest = Forest::with_capacity(self.items.len() + self.dummies.len());
        for item in self.items {
            forest.node(item.at);
        }
        for _ in &self.dummies {
            forest.node(NONE);
        }
        for at in &self.by_date {
            if self.parent[*at as usize] != NONE {
                forest.append(self.parent[*at as usize], *at);
            }
        }
        forest.set_roots(self.roots());
        forest
    }
}
