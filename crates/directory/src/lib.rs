//! The accounts of this server, and the addresses that lead to them.
//!
//! Every account and every alias is a sequence of records in the store, each a new object:
//! `accounts/{name}/{version:016x}` and `aliases/{address}/{version:016x}`; of shared mailboxes too
//! (`shares.rs`). The one with the highest version is in force. A change is `put_new` of the next
//! version, so that two processes never overwrite each other: the loser reads the winner's version
//! and decides again. Records are authenticated with the server key and bound to their path, so
//! that an attacker with write access to the store cannot give an account another key or send its
//! mail elsewhere.
//!
//! Removal writes a tombstone and versions never restart, so nothing is remembered about a version
//! that could later mean something else. Every answer is what the store says now, whichever process
//! wrote it; but where the store is behind a network, deliveries are resolved by what it said a few
//! seconds ago (`remembered.rs`). The bytes are described in `docs/format/accounts.md`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod accounts;
mod alias_targets;
mod aliases;
mod directory;
mod login_records;
mod login_use;
mod logins;
mod maintenance;
mod name;
mod noise;
mod path;
mod punycode;
mod record;
mod rekey;
mod remembered;
mod resolve;
mod retire;
mod secret;
mod sending;
mod served;
mod server;
mod shares;
mod slots;
mod targets;
mod usage;
mod vacation;
mod versions;
pub mod watermarks;
mod withdrawn;

#[cfg(test)]
mod tests;

pub use accounts::{NewAccount, Rekeyed, UnverifiedSlots};
pub use aliases::{Alias, AliasChange, AliasName};
pub use directory::Directory;
pub use login_use::{LoginUse, Rotation};
pub use maintenance::RecordsMaintained;
pub use name::{AccountName, Address};
pub use record::{AccountRecord, AppPassword, Forgery, Role, SlotInfo, VacationMark, unverified_account};
pub use resolve::{Outside, Recipient, Resolved};
pub use secret::Secret;
pub use sending::Sending;
pub use server::Authenticated;
pub use shares::ShareRecord;
pub use targets::{OutsideAddress, Targets};
pub use usage::{Quotas, Resource, Usage, UsageRecord};
pub use versions::StoreMoment;
pub use watermarks::Watermarks;
