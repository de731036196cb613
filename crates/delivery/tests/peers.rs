//! Deliveries to scripted servers, in memory and on paused time: good ones, odd ones and bad ones.

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
#[path = "peers/transactions.rs"]
mod transactions;
