//! Events, the pure `apply` function, account state, operations and views.
//!
//! An account is a log of [`event::Event`]s; [`state::AccountState`] is the view of it that
//! sessions read. Sessions change an account through [`Account::commit`], deliveries reach it
//! through [`Accounts::deliver`], which needs no more than its public key.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod account;
pub mod accounts;
pub mod acl;
pub mod bodies;
mod cache;
pub mod contacts;
pub mod cpu_gate;
pub mod decoded;
mod derived;
mod env;
pub mod event;
#[doc(hidden)]
pub mod fuzz;
mod grown;
pub mod identity;
pub mod ingest;
mod log_end;
pub mod metadata;
mod metrics;
pub mod name;
pub mod object_id;
pub mod ops;
pub mod rights;
pub mod share;
mod share_keys;
mod share_link;
mod share_name;
pub mod share_notice;
mod sort_order;
pub mod special_use;
pub mod state;
pub mod submission;
pub mod thread;
pub mod usage;

pub use account::{Account, Committed, FinishedUpload, NewMessage, StateGuard, Unplaced};
pub use accounts::{
    Accounts, Borrower, Delivery, Loan, LogWatcher, Offer, Options, Pressure, Reservation, Ticket,
};
pub use cache::{Cache, CacheCounts};
pub use cpu_gate::CpuGate;
pub use derived::Derived;
pub use event::{Event, FlagAction, Flags, Message, SpecialUse, SystemFlags, Target};
pub use grown::{Grown, Touched};
pub use ingest::{Ingest, IngestBatch, Later, Stored};
pub use metrics::AccountMetrics;
pub use share_keys::newest_key;
pub use special_use::SpecialUses;
pub use state::{AccountState, Applied, Mailbox, MessageNumber, Row};
pub use thread::ThreadId;
