//! Users' operations on their own and other users' mailboxes and messages: effects and refusals.

#[path = "operations/account_feed.rs"]
mod account_feed;
#[path = "operations/appending.rs"]
mod appending;
#[path = "operations/changes.rs"]
mod changes;
#[path = "operations/copies.rs"]
mod copies;
#[path = "operations/email_changes.rs"]
mod email_changes;
#[path = "operations/fixture.rs"]
mod fixture;
#[path = "operations/leases.rs"]
mod leases;
#[path = "operations/reading.rs"]
mod reading;
#[path = "operations/rekey.rs"]
mod rekey;
#[path = "operations/rights.rs"]
mod rights;
#[path = "operations/tree.rs"]
mod tree;
#[path = "operations/watching.rs"]
mod watching;
