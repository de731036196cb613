//! Limits on logins, app passwords and web logins.

use std::time::Duration;

/// How long a login may wait for its password check; after that it gets a temporary error.
pub const LOGIN_QUEUE_TIMEOUT: Duration = Duration::from_secs(30);
/// Accounts for which the addresses of past logins are kept. Attempts from such an address are checked first.
pub const KNOWN_ACCOUNTS: usize = 4096;
/// Such addresses of one account.
pub const KNOWN_ADDRESSES: usize = 16;
/// Networks for which logged failed logins are counted.
pub const FAILED_LOGIN_NETWORKS: usize = 1024;
/// App passwords of one account.
pub const ACCOUNT_APP_PASSWORDS: usize = 100;
/// Web logins of one account; one more ends the one that was used least lately.
pub const ACCOUNT_WEB_LOGINS: usize = 20;
/// A web login that was not used for so long is over.
pub const WEB_LOGIN_IDLE: Duration = Duration::from_secs(30 * 86_400);
/// How exactly the last use of a web login is known: it is written down at most once in this time.
pub const WEB_LOGIN_NOTED: Duration = Duration::from_secs(86_400);
/// Web logins whose last use a node has in memory; of others it reads it again.
pub const WEB_LOGINS_REMEMBERED: usize = 4096;
/// Password slots of one account that a login tries; an account has one.
pub const LOGIN_SLOTS: usize = 4;
/// Bytes of the label of an app password.
pub const TOKEN_LABEL_BYTES: usize = 200;
/// Bytes of a password or token.
pub const SECRET_BYTES: usize = 1024;
