//! One log line for each failed login, for operators and for programs that read the log (`contrib/fail2ban`).
//!
//! RFC 9051 §11.7: "A server SHOULD report any authentication failure". The line has the client's address,
//! the protocol and the name. It never has a secret. Users sometimes type their password into the name field,
//! so a name is logged only if it could be that of an account here ([`shown`]). A client cannot forge or
//! split lines: a logged name has only letters, digits and the punctuation of addresses.
//!
//! Lines are rate-limited: a burst and a rate for each network, and for all networks together. The next line
//! reports how many were suppressed, and a metric counts them.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use sealpost_base::metrics::Counter;
use sealpost_base::{Clock, limits};
use sealpost_directory::Directory;

use crate::authenticator::Denied;
use crate::throttle::Network;

/// The log target of the lines, for which `contrib/fail2ban` filters.
pub const TARGET: &str = "sealpost::logins";
/// The rate for one network: a burst, then one line per period.
const OF_NETWORK: Rate = Rate { burst: 20, period: Duration::from_secs(10) };
/// The rate for all networks together.
const OF_ALL: Rate = Rate { burst: 200, period: Duration::from_millis(100) };
const NETWORKS: NonZeroUsize = NonZeroUsize::new(limits::FAILED_LOGIN_NETWORKS).expect("not zero");

/// Why a login failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// No such account, or not its secret.
    Credentials,
    /// The right secret of an account that is suspended.
    Suspended,
    /// A token or web login of this server that has expired or was revoked.
    Expired,
    /// A token that is not for this.
    Scope,
    /// Too many logins wait.
    Busy,
    /// The client sent a secret in plaintext; it was not checked.
    Cleartext,
    /// One user requested to act for another.
    Authorization,
}

/// Writes the lines.
pub struct FailedLogins {
    clock: Arc<dyn Clock>,
    buckets: Mutex<Buckets>,
    unlogged: Counter,
}

struct Buckets {
    networks: LruCache<Network, Bucket>,
    all: Bucket,
    /// Failures without a line since the last line.
    suppressed: u64,
}

#[derive(Clone, Copy)]
struct Rate {
    burst: u32,
    period: Duration,
}

/// The time at which the bucket is full again, on the monotonic clock.
#[derive(Clone, Copy, Default)]
struct Bucket(Duration);

impl Reason {
    /// The reason to log. `None` if the server failed, which is logged elsewhere.
    pub fn of(denied: &Denied) -> Option<Self> {
        match denied {
            Denied::Credentials => Some(Reason::Credentials),
            Denied::Suspended => Some(Reason::Suspended),
            Denied::Expired => Some(Reason::Expired),
            Denied::Scope => Some(Reason::Scope),
            Denied::Busy => Some(Reason::Busy),
            Denied::Unavailable(_) => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Reason::Credentials => "credentials",
            Reason::Suspended => "suspended",
            Reason::Expired => "expired",
            Reason::Scope => "scope",
            Reason::Busy => "busy",
            Reason::Cleartext => "cleartext",
            Reason::Authorization => "authorization",
        }
    }
}

impl FailedLogins {
    /// Starts without failures.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let buckets = Buckets { networks: LruCache::new(NETWORKS), all: Bucket::default(), suppressed: 0 };
        FailedLogins { clock, buckets: Mutex::new(buckets), unlogged: Counter::default() }
    }

    /// Logs a failed login over `protocol`, with its name if it gave one. `peer` is the client's address,
    /// `None` on a Unix socket.
    pub async fn report(
        &self,
        directory: &Directory,
        protocol: &str,
        peer: Option<IpAddr>,
        name: Option<&str>,
        reason: Reason,
    ) {
        let Some(suppressed) = self.take(peer) else { return self.unlogged.increment() };
        let user = match name {
            Some(name) => shown(directory, name).await,
            None => None,
        };
        let (reason, user) = (reason.name(), user.as_deref().unwrap_or("-"));
        let peer = peer.map_or_else(|| "unix".to_owned(), |peer| peer.to_canonical().to_string());
        tracing::warn!(target: TARGET, protocol, peer, reason, user, suppressed, "login failed");
    }

    /// Logs the number of suppressed lines, unless a line already has. The server calls it every minute.
    pub fn sweep(&self) {
        let suppressed = std::mem::take(&mut self.lock().suppressed);
        if suppressed > 0 {
            tracing::warn!(target: TARGET, suppressed, "failed logins that have no line of their own");
        }
    }

    /// The number of failures without a line of their own.
    pub fn unlogged(&self) -> u64 {
        self.unlogged.read()
    }

    /// How many lines were suppressed before this one; `None` if this one must be suppressed too.
    fn take(&self, peer: Option<IpAddr>) -> Option<u64> {
        let now = self.clock.monotonic();
        let buckets = &mut *self.lock();
        let own = peer.is_none_or(|peer| {
            let of_network = buckets.networks.get_or_insert_mut(Network::of(peer), Bucket::default);
            of_network.take(now, OF_NETWORK)
        });
        if !(own && buckets.all.take(now, OF_ALL)) {
            buckets.suppressed += 1;
            return None;
        }
        Some(std::mem::take(&mut buckets.suppressed))
    }

    fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bucket {
    fn take(&mut self, now: Duration, rate: Rate) -> bool {
        let full = self.0.max(now);
        let takes = full - now <= rate.period * (rate.burst - 1);
        if takes {
            self.0 = full + rate.period;
        }
        takes
    }
}

/// The name, if it may be logged: an address in a domain that this server serves, whether or not the account
/// exists, or the name of an account without its domain. Anything else may be a password, or part of one.
async fn shown(directory: &Directory, name: &str) -> Option<String> {
    let account = directory.account_name(name).ok()?;
    let known = match name.contains('@') {
        true => directory.serves(account.address().domain()).await.unwrap_or(false),
        false => matches!(directory.find(&account).await, Ok(Some(_))),
    };
    let plain = |c: char| c.is_alphanumeric() || "@.!#$%&'*+-/=?^_`{|}~".contains(c);
    (known && account.as_str().chars().all(plain)).then(|| account.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use sealpost_base::{FakeClock, SeededRandom, SystemClock, Timestamp};
    use sealpost_directory::{AccountName, NewAccount, Secret};
    use sealpost_vault::Store;
    use sealpost_vault::server_key::ServerKeys;

    use super::*;

    #[tokio::test]
    async fn only_names_that_could_be_accounts_here_are_shown() {
        let random = Arc::new(SeededRandom::new(1));
        let clock = Arc::new(SystemClock::new());
        let directory = Directory::new(Store::memory(), ServerKeys::generate(&*random), clock, random);
        let directory = directory.on_host("localhost", Some("localhost"), None).unwrap();
        let new = || NewAccount::with_password(Secret::new(b"secret").unwrap());
        for name in ["me@localhost", "jane@example.org"] {
            directory.create(&AccountName::parse(name).unwrap(), new()).await.unwrap();
        }
        for (tried, line) in [
            ("me@localhost", Some("me@localhost")),
            ("ME@LocalHost", Some("me@localhost")),
            ("me", Some("me@localhost")),
            ("nobody@localhost", Some("nobody@localhost")),
            ("jane+tag@example.org", Some("jane+tag@example.org")),
            ("gr\u{fc}n@example.org", Some("gr\u{fc}n@example.org")),
            // A password in the name field.
            ("hunter2", None),
            ("jane", None),
            ("p@ssw0rd", None),
            ("correct horse battery staple", None),
            ("jane@elsewhere.example", None),
            ("", None),
            ("@", None),
            ("@localhost", None),
            // Names that would forge a line.
            ("a\r\nb@localhost", None),
            ("a\u{1b}[31m@localhost", None),
            ("a\u{202e}b@localhost", None),
            ("\"a b\"@localhost", None),
            ("a\" peer=\"192.0.2.1@localhost", None),
            ("a\\\"@localhost", None),
        ] {
            assert_eq!(shown(&directory, tried).await.as_deref(), line, "{tried:?}");
        }
    }

    #[test]
    fn lines_of_a_network_are_limited_and_omissions_reported() {
        let clock = Arc::new(FakeClock::new(Timestamp(0)));
        let failed = FailedLogins::new(clock.clone());
        let peer = |n: u8| Some(IpAddr::from([192, 0, 2, n]));
        for n in 0..OF_NETWORK.burst {
            assert_eq!(failed.take(peer(1)), Some(0), "{n}");
        }
        for _ in 0..7 {
            assert_eq!(failed.take(peer(1)), None);
        }
        assert_eq!(failed.take(peer(2)), Some(7), "another network has its own, and says so");
        assert_eq!(failed.take(peer(1)), None);
        clock.advance(OF_NETWORK.period);
        assert_eq!((failed.take(peer(1)), failed.take(peer(1))), (Some(1), None));
        // All networks together, with a bounded number of networks.
        let mut lines = 0;
        for n in 0..20_000u32 {
            let address = std::net::Ipv6Addr::from(u128::from(n) << 64);
            lines += usize::from(failed.take(Some(address.into())).is_some());
        }
        assert!((100..=OF_ALL.burst as usize).contains(&lines), "{lines}");
        assert_eq!(failed.lock().networks.len(), limits::FAILED_LOGIN_NETWORKS);
        assert!(failed.lock().suppressed > 10_000);
        failed.sweep();
        assert_eq!(failed.lock().suppressed, 0);
    }
}
