//! HTTP/1.1 and HTTP/2 over real sockets: what good clients do, and what bad ones try.

mod support;

#[path = "sockets/http1.rs"]
mod http1;
#[path = "sockets/http2.rs"]
mod http2;
#[path = "sockets/limits.rs"]
mod limits;
#[path = "sockets/stopping.rs"]
mod stopping;
