//! Identities (RFC 8621 §6): the addresses that the account may send as, and what users add to them.
//!
//! Each address of the account has an identity, which is stored when a client first asks for identities, so
//! that states are exact. It is not destroyed while the account has the address.

mod changes;
mod get;
pub(crate) mod list;
mod own_addresses;
mod set;
mod show;

pub(crate) use changes::changes;
pub(crate) use get::get;
pub(crate) use list::id_of;
pub(crate) use own_addresses::OwnAddresses;
pub(crate) use set::set;
