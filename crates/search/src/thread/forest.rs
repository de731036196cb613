//! Trees of messages of any depth, without recursion.

/// No node, or no message.
pub(crate) const NONE: u32 = u32::MAX;

/// Threads: trees whose nodes are messages, except roots that only group siblings.
#[derive(Debug)]
pub struct Forest {
    /// The message of a node; [`NONE`] for one without a message.
    messages: Vec<u32>,
    /// The first and the last child of each node.
    first: Vec<u32>,
    last: Vec<u32>,
    /// The next sibling of each node.
    next: Vec<u32>,
    roots: Vec<u32>,
}

/// A step of the walk through all threads. Of adjacent messages each is the parent of the next one; a branch
/// opened after a message is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A thread or a branch begins.
    Open,
    /// It ends.
    Close,
    /// The message with that index.
    Message(u32),
}

/// The rest of the walk.
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
    /// An empty forest with capacity for that many nodes.
    pub(crate) fn with_capacity(nodes: usize) -> Self {
        let room = || Vec::with_capacity(nodes);
        Forest { messages: room(), first: room(), last: room(), next: room(), roots: Vec::new() }
    }

    /// Adds a node without children; [`NONE`] for a missing message.
    pub(crate) fn node(&mut self, message: u32) -> u32 {
        self.messages.push(message);
        self.first.push(NONE);
        self.last.push(NONE);
        self.next.push(NONE);
        (self.messages.len() - 1) as u32
    }

    /// Makes a node, which must have no parent, the last child of `parent`.
    pub(crate) fn append(&mut self, parent: u32, child: u32) {
        match self.last[parent as usize] {
            NONE => self.first[parent as usize] = child,
            last => self.next[last as usize] = child,
        }
        self.last[parent as usize] = child;
    }

    /// Sets the threads in order.
    pub(crate) fn set_roots(&mut self, roots: Vec<u32>) {
        self.roots = roots;
    }

    /// The walk through all threads, nested as in RFC 5256 §5.
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
