//! Trees of messages, however deep. Nothing here recurses.

/// No node, or no message.
pub(crate) const NONE: u32 = u32::MAX;

/// Threads: trees whose nodes are messages, but for roots that only hold together the siblings below them.
#[derive(Debug)]
pub struct Forest {
    /// Which message a node is; [`NONE`] for one that is not there.
    messages: Vec<u32>,
    /// The first child of each node, and its last one.
    first: Vec<u32>,
    last: Vec<u32>,
    /// Its next sibling.
    next: Vec<u32>,
    roots: Vec<u32>,
}

/// A step of the walk through all threads. Of consecutive messages without a step between them each
/// is the parent of the next one; a branch opened after a message is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A thread begins, or a branch of one.
    Open,
    /// It ends.
    Close,
    /// The message of that index.
    Message(u32),
}

/// What the walk has still to visit.
#[derive(Clone, Copy)]
enum Todo {
    /// The end of a branch.
    Close,
    /// A node as a branch of its own.
    Thread(u32),
    /// A node and its next siblings, each as a branch.
    Siblings(u32),
    /// A node and its descendants.
    Members(u32),
}

impl Forest {
    /// No nodes yet, with capacity for so many.
    pub(crate) fn with_capacity(nodes: usize) -> Self {
        let room = || Vec::with_capacity(nodes);
        Forest { messages: room(), first: room(), last: room(), next: room(), roots: Vec::new() }
    }

    /// Adds a node without children; [`NONE`] for a message that is not there.
    pub(crate) fn node(&mut self, message: u32) -> u32 {
        self.messages.push(message);
        self.first.push(NONE);
        self.last.push(NONE);
        self.next.push(NONE);
        (self.messages.len() - 1) as u32
    }

    /// Makes a node, which must be the child of no other, the last child of `parent`.
    pub(crate) fn append(&mut self, parent: u32, child: u32) {
        match self.last[parent as usize] {
            NONE => self.first[parent as usize] = child,
            last => self.next[last as usize] = child,
        }
        self.last[parent as usize] = child;
    }

    /// These are the threads, in this order.
    pub(crate) fn set_roots(&mut self, roots: Vec<u32>) {
        self.roots = roots;
    }

    /// The way through all threads, as RFC 5256 §5 nests them.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        let mut todo: Vec<Todo> = Vec::new();
        let mut roots = self.roots.iter();
        std::iter::from_fn(move || {
            loop {
                match todo.pop().or_else(|| roots.next().map(|root| Todo::Thread(*root)))? {
                    Todo::Close => return Some(Step::Close),
                    Todo::Thread(node) => {
                        todo.extend([Todo::Close, Todo::Members(node)]);
                        return Some(Step::Open);
                    }
                    Todo::Siblings(node) => {
                        if self.next[node as usize] != NONE {
                            todo.push(Todo::Siblings(self.next[node as usize]));
                        }
                        todo.push(Todo::Thread(node));
                    }
                    Todo::Members(node) => {
                        if let Some(step) = self.member(node, &mut todo) {
                            return Some(step);
                        }
                    }
                }
            }
        })
    }

    /// A node's message, if it has one; adds its children to the walk.
    fn member(&self, node: u32, todo: &mut Vec<Todo>) -> Option<Step> {
        let child = self.first[node as usize];
        let message = self.messages[node as usize];
        if child != NONE {
            let only = self.next[child as usize] == NONE;
            todo.push(if only { Todo::Members(child) } else { Todo::Siblings(child) });
        }
        (message != NONE).then_some(Step::Message(message))
    }
}
