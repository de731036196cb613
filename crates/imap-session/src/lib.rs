//! The IMAP server session (RFC 3501 and the extensions that [`capability`] lists).
//!
//! One task per connection: bytes → [`sealpost_imap::server::Decoder`] → one command at a time → responses. A
//! session owns its connection and a view of the selected mailbox ([`selected`]). The mailbox itself is in
//! the account's state, which all sessions share.
//!
//! Invariants:
//! - A session writes nothing to the client while it borrows the account's state. Responses are made from
//!   snapshots of a bounded number of rows, and sent whenever more than 32 KiB are pending.
//! - Message sequence numbers come from the session's view, and the view changes only together with its
//!   report to the client (RFC 3501 §7.4.1).
//! - A command that changes something appends one log entry, durable before its OK.
//!
//! A new extension touches [`capability`] (its name), the command's file, and [`selected`] if it concerns how
//! sessions learn of each other's changes.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod acl;
mod append;
mod append_limit;
mod capability;
mod compress;
mod condstore;
mod connection;
mod contexts;
mod copy;
mod deflate;
mod dialect;
mod dispatch;
mod enable;
mod expunge;
mod fetch;
mod filters;
mod flags;
mod greeting;
mod hibernate;
mod idle;
mod jmap_access;
mod leftovers;
mod list;
mod login;
mod long_commands;
mod mailboxes;
mod metadata;
mod multisearch;
mod notify;
mod oauth;
mod object_id;
mod old_name;
mod own_entries;
mod progress;
mod qresync;
mod quota;
mod replace;
mod reply;
mod resolve;
mod responses;
mod sasl;
mod search;
mod select;
mod selected;
mod session;
mod shared;
mod sharing;

mod sort;
mod status;
mod store;
mod subscriptions;
mod targets;

mod thread;
mod uid_only;
mod updates;
mod urlauth;
mod user;

use std::future::Future;
use std::sync::Arc;

use sealpost_session::net::Stream;

pub use filters::parse_stored_search;
pub use shared::ImapShared;

/// Serves one IMAP connection until it ends. TLS is established if the listener requires it.
pub fn serve(stream: Stream, shared: Arc<ImapShared>) -> impl Future<Output = ()> + Send {
    // Boxed, so that the greeting is freed before the session begins, and neither takes the other's memory.
    let greeting = Box::pin(greeting::greet(stream, shared));
    async move {
        let session = greeting.await;
        if let Some(session) = session {
            session.await;
        }
    }
}
