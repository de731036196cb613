//! Limits on shared mailboxes, rights and principals.

use std::time::Duration;

/// Identifiers in the access control list of one mailbox.
pub const ACL_ENTRIES: usize = 100;
/// Links of one account to shared mailboxes, its own and others'.
pub const LINKS: usize = 256;
/// Links of one account to mailboxes of one other account, so that no account can fill the list of another.
pub const LINKS_OF_ONE: usize = 128;
/// Links to mailboxes of one other account to which the account has not subscribed. Further offers make no
/// link, so that no other user can fill the list.
pub const UNACCEPTED_LINKS_OF_ONE: usize = 32;
/// The same for all other accounts together. The rest of [`LINKS`] is for the account's own shares and its
/// subscriptions.
pub const UNACCEPTED_LINKS: usize = 128;
/// Notices of changed rights that one account keeps (RFC 9670 §3), and as many of those that are gone:
/// the oldest go first.
pub const SHARE_NOTICES: usize = 80;
/// Users of its domain that one account is shown as principals (RFC 9670 §2), by name.
pub const PRINCIPALS: usize = 1000;
/// Domains whose users are kept in memory for principals.
pub const PRINCIPAL_DOMAINS: usize = 16;
/// How long the users of a domain are kept there.
pub const PRINCIPALS_KEPT: Duration = Duration::from_secs(30);
/// Accounts whose identity keys one account remembers, because it shared a mailbox with them.
pub const PINNED_IDENTITIES: usize = 1024;
/// Shared mailboxes of one account: those with a name, and those deleted or incomplete and still stored.
pub const SHARES: usize = 256;
