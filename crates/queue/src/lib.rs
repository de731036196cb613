//! The durable outbound queue.
//!
//! Each node has one log, `queue/{node}/log/`, sealed under the mail key. An entry is a batch: mail
//! that clients handed in, and the outcomes of earlier mail. Replaying the log gives the [`State`].
//! No crash loses accepted mail. A mail that was being sent at a crash may arrive twice; no other
//! mail does. Format: `docs/format/queue.md`.
//!
//! This crate opens no connections and asks no name servers: a
//! [`Transport`](sealpost_delivery::transport::Transport) does.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod adopt;
mod body;
pub mod dsn;
pub mod end;
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
