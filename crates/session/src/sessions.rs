//! The table of sessions, for `sealpost top` and for metrics.
//!
//! It is locked when a session begins or ends, and when the table is listed. Values that change in between
//! are atomics of the session.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealpost_base::AccountId;

use crate::metrics::{Command, Metrics, Protocol};

/// No current command.
const NONE: u8 = u8::MAX;

/// All sessions of a server.
#[derive(Debug, Default)]
pub struct Sessions {
    next: AtomicU64,
    live: Mutex<HashMap<u64, Arc<Live>>>,
}

/// One session.
#[derive(Debug)]
pub struct Live {
    id: u64,
    protocol: Protocol,
    peer: Option<SocketAddr>,
    since: Duration,
    metrics: Arc<Metrics>,
    tls: AtomicBool,
    state: AtomicU8,
    command: AtomicU8,
    commands: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    user: Mutex<Option<User>>,
}

/// The logged-in account.
#[derive(Debug)]
struct User {
    name: Box<str>,
    account: AccountId,
}

/// The state of a session; it starts with the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// Not logged in. Sessions of SMTP and LMTP stay here.
    Anonymous,
    /// Logged in.
    Authenticated,
    /// A mailbox is selected.
    Selected,
}

/// Numbers of sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// All sessions.
    pub all: u64,
    /// Anonymous, authenticated, selected, and in IDLE; each session counts once.
    pub states: [u64; 4],
}

/// A snapshot of a session.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// Its protocol.
    pub protocol: Protocol,
    /// The logged-in account.
    pub user: Option<String>,
    /// The client's address; `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// Whether it has TLS.
    pub tls: bool,
    /// When it began, on the monotonic clock.
    pub since: Duration,
    /// Its state.
    pub state: SessionState,
    /// The current command.
    pub command: Option<&'static str>,
    /// Commands so far.
    pub commands: u64,
    /// Bytes received so far.
    pub bytes_in: u64,
    /// Bytes sent so far.
    pub bytes_out: u64,
}

impl Sessions {
    /// Adds a session, which stays in the table until [`Sessions::end`].
    pub fn begin(
        &self,
        protocol: Protocol,
        peer: Option<SocketAddr>,
        since: Duration,
        metrics: Arc<Metrics>,
    ) -> Arc<Live> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let live = Arc::new(Live {
            id,
            protocol,
            peer,
            since,
            metrics,
            tls: AtomicBool::new(false),
            state: AtomicU8::new(SessionState::Anonymous as u8),
            command: AtomicU8::new(NONE),
            commands: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            user: Mutex::new(None),
        });
        self.lock().insert(id, live.clone());
        live
    }

    /// Removes a session.
    pub fn end(&self, live: &Live) {
        self.lock().remove(&live.id);
    }

    /// The numbers of sessions of that protocol.
    pub fn count(&self, protocol: Protocol) -> Count {
        let mut count = Count::default();
        let idle = protocol.commands().binary_search(&"IDLE").ok();
        for live in self.lock().values().filter(|live| live.protocol == protocol) {
            let idles = idle.is_some_and(|idle| usize::from(live.command.load(Ordering::Relaxed)) == idle);
            count.all += 1;
            count.states[if idles { 3 } else { live.state() as usize }] += 1;
        }
        count
    }

    /// The `most` sessions with the greatest `rank`, in descending order.
    pub fn top<R: Ord>(&self, most: usize, rank: impl Fn(&Live) -> R) -> Vec<SessionInfo> {
        // Copied out, so that no session waits while a large table is sorted.
        let mut all: Vec<Arc<Live>> = self.lock().values().cloned().collect();
        all.sort_by_cached_key(|live| (std::cmp::Reverse(rank(live)), live.id));
        all.iter().take(most).map(|live| live.seen()).collect()
    }

    /// The name under which a session has logged in to that account.
    pub fn user_of(&self, account: AccountId) -> Option<String> {
        self.lock().values().find_map(|live| {
            let user = live.user();
            user.as_ref().filter(|user| user.account == account).map(|user| user.name.to_string())
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    /// Counts received bytes.
    pub fn received(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
        self.metrics.of(self.protocol).bytes_in.add(bytes as u64);
    }

    /// Counts sent bytes.
    pub fn sent(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
        self.metrics.of(self.protocol).bytes_out.add(bytes as u64);
    }

    /// Sets whether the session has TLS.
    pub fn set_tls(&self, tls: bool) {
        self.tls.store(tls, Ordering::Relaxed);
    }

    /// Sets the state of the session.
    pub fn set_state(&self, state: SessionState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// Sets the logged-in name and account.
    pub fn set_user(&self, name: &str, account: AccountId) {
        *self.user() = Some(User { name: name.into(), account });
    }

    /// Starts a command.
    pub fn begin(&self, command: Command) {
        self.commands.fetch_add(1, Ordering::Relaxed);
        self.command.store(command.to_u8(), Ordering::Relaxed);
    }

    /// Completes the command.
    pub fn finish(&self) {
        self.command.store(NONE, Ordering::Relaxed);
    }

    /// Bytes received so far.
    pub fn received_bytes(&self) -> u64 {
        self.bytes_in.load(Ordering::Relaxed)
    }

    /// Bytes sent so far.
    pub fn sent_bytes(&self) -> u64 {
        self.bytes_out.load(Ordering::Relaxed)
    }

    /// Bytes in both directions.
    pub fn bytes(&self) -> u64 {
        self.received_bytes() + self.sent_bytes()
    }

    /// Whether it runs a command other than IDLE.
    pub fn works(&self) -> bool {
        self.command_name().is_some_and(|name| name != "IDLE")
    }

    fn command_name(&self) -> Option<&'static str> {
        let command = self.command.load(Ordering::Relaxed);
        (command != NONE).then(|| self.protocol.name_of(Command::from_u8(command)))
    }

    fn state(&self) -> SessionState {
        match self.state.load(Ordering::Relaxed) {
            0 => SessionState::Anonymous,
            1 => SessionState::Authenticated,
            _ => SessionState::Selected,
        }
    }

    fn user(&self) -> MutexGuard<'_, Option<User>> {
        self.user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> SessionInfo {
        SessionInfo {
            protocol: self.protocol,
            user: self.user().as_ref().map(|user| user.name.to_string()),
            peer: self.peer,
            tls: self.tls.load(Ordering::Relaxed),
            since: self.since,
            state: self.state(),
            command: self.command_name(),
            commands: self.commands.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_there_until_they_end() {
        let (sessions, metrics) = (Sessions::default(), Arc::new(Metrics::default()));
        let begin = |protocol| sessions.begin(protocol, None, Duration::ZERO, metrics.clone());
        let (one, two, _three) = (begin(Protocol::Imap), begin(Protocol::Imap), begin(Protocol::Smtp));
        one.set_state(SessionState::Selected);
        let account = AccountId::random(&sealpost_base::SeededRandom::new(1));
        one.set_user("jane@example.org", account);
        assert_eq!(sessions.user_of(account).as_deref(), Some("jane@example.org"));
        two.received(100);
        assert_eq!(sessions.count(Protocol::Imap), Count { all: 2, states: [1, 0, 1, 0] });
        one.begin(Protocol::Imap.command("IDLE"));
        assert_eq!(sessions.count(Protocol::Imap).states, [1, 0, 0, 1]);
        assert!(!one.works());
        let top = sessions.top(2, Live::bytes);
        assert_eq!((top.len(), top[0].bytes_in, top[1].user.as_deref()), (2, 100, Some("jane@example.org")));
        assert_eq!(top[1].command, Some("IDLE"));
        one.finish();
        sessions.end(&one);
        assert_eq!(sessions.count(Protocol::Imap).all, 1);
        assert_eq!(metrics.of(Protocol::Imap).bytes_in.read(), 100);
    }
}
