//! Deliveries to scripted servers: good ones, odd ones and bad ones. In memory and on paused time, except for
//! `sockets.rs`.

#[path = "peers/bad.rs"]
mod bad;
#[path = "peers/net.rs"]
mod net;
#[path = "peers/policies.rs"]
mod policies;
#[path = "peers/routes.rs"]
mod routes;
#[path = "peers/server.rs"]
mod server;
#[path = "peers/sockets.rs"]
mod sockets;
#[path = "peers/transactions.rs"]
mod transactions;
