//! Tests of the whole crate: the RFCs' examples, limits, and values of every kind.

mod any;
mod blob;
mod contact;
mod core;
mod email;
mod examples;
mod limits;
mod mailbox;
mod push;
mod reference;
mod submission;
mod websocket;
