//! Search, sort and threads over mailboxes, independent of any protocol.
//!
//! A protocol translates its client's search to a [`Criterion`], prepares it as a [`Query`], and runs it with
//! an [`Engine`] over a [`Scope`]: one mailbox, several, or all of an account. Results can be sorted and
//! threaded. Every step takes a [`Progress`], by which the caller informs its client and can end the work.
//! Nothing here writes to a client: the findings include corrupt messages, deleted mailboxes and temporarily
//! unreadable messages.
//!
//! Reasons: `docs/decisions/0014-searching.md`, `docs/decisions/0059-one-search.md`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod criterion;
pub mod emails;
mod engine;
mod evaluate;
mod find;
mod fuzzy;
mod matches;
mod progress;
mod query;
mod scan;
mod scope;
mod sort;
mod summaries;
mod thread;

pub use criterion::{Criterion, Days, TextPart};
pub use engine::Engine;
pub use find::{Findings, Placement};
pub use matches::{Match, Matches};
pub use progress::{Failure, NoProgress, Progress};
pub use query::Query;
pub use scope::{MailboxGone, MailboxIndex, MailboxScope, Scope};
pub use sort::{Comparator, SortKey, Sorted};
pub use thread::{Algorithm, Forest, Step, Threads};
