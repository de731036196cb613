//! What is measured, as it is shown: to programs that scrape `/metrics`, and on the admin socket.
//!
//! [`families`] describes each metric once, and the guide's page is made from it. The counters are
//! in [`sealpost_session::metrics`].

mod families;
mod family;
pub(crate) mod http;
mod openmetrics;
mod process;

pub use families::reference;
pub use process::Process;
pub use sealpost_session::metrics::{Command, LogMetrics, Metrics, Protocol, ProtocolMetrics, Verdict};
