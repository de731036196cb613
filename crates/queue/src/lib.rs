//! The durable outbound queue.
//!
//! Each node has one log, `queue/{node}/log/`, sealed under the mail key. An entry is a batch of
//! mail that was accepted and of what became of mail before; [`State`] is what replaying the log
//! gives. Nothing that was accepted is lost, through any crash; what was on its way to a server at
//! a crash may arrive twice, and nothing else. Format: `docs/format/queue.md`.
//!
//! This crate opens no connections and asks no name servers: a
//! [`Transport`](sealpost_delivery::transport::Transport) does.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod adopt;
mod body;
pub mod dsn;
pub mod envelope;
pub mod event;
mod examine;
#[doc(hidden)]
pub mod fuzz;
mod history;
mod ids;
pub mod log;
mod recent;
pub mod request;
pub mod retry;
pub mod runner;
pub mod schedule;
pub mod state;
pub mod status;
pub mod trace;
mod upkeep;
mod view;

pub use body::{BodyWriter, HEADER_MARGIN_BYTES};
pub use examine::{Examined, examine};
pub use ids::{MailId, node_id};
pub use log::{Opening, Queue, Stopped, mark_copy};
pub use state::State;
pub use view::{HandledRequest, QueueView};
