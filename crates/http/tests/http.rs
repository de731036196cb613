//! HTTP/1.1 and HTTP/2 over real sockets, with correct and hostile clients.

mod support;

#[path = "sockets/http1.rs"]
mod http1;
#[path = "sockets/http2.rs"]
mod http2;
#[path = "sockets/limits.rs"]
mod limits;
#[path = "sockets/stopping.rs"]
mod stopping;
