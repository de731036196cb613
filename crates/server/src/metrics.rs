//! What is measured, as it is shown: to programs that scrape `/metrics`, and on the admin socket.
//!
//! What each metric means is said once, in [`families`], and the guide's page is written from
//! there. Who counts what:
//! [`sealpost_session::metrics`].

mod families;
mod family;
pub(crate) mod http;
mod openmetrics;
mod process;

pub use families::reference;
pub use process::Process;
pub use sealpost_session::metrics::{Command, LogMetrics, Metrics, Protocol, ProtocolMetrics, Verdict};
