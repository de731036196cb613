//! Sending as a server does it: a queue in a store, accounts of its own, and other servers that a test
//! scripts. Only the network is not real.

#[path = "sending/delivery.rs"]
mod delivery;
#[path = "sending/forwarding.rs"]
mod forwarding;
#[path = "sending/keys.rs"]
mod keys;
#[path = "sending/signing.rs"]
mod signing;
#[path = "sending/stopping.rs"]
mod stopping;
#[path = "sending/submissions.rs"]
mod submissions;
#[path = "sending/vacation.rs"]
mod vacation;
#[path = "sending/world.rs"]
mod world;
