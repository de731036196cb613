//! Who may log in: names and secrets against the slots of account records.
//!
//! What holds whoever asks:
//! - A wrong password costs what a right one does, and a name that is no account costs the same: the store is
//!   asked the same questions and Argon2 runs in any case.
//! - The account's record is read from the store for every login, so a changed password, a revoked token and a
//!   removed account take effect at once, whichever process changed it; sessions that are open end soon
//!   ([`standing`]).
//! - Logins that prove themselves cheaply (remembered ones and tokens) never wait behind those that do not.
//! - Recovery codes do not log in; they are for `passwd --recovery`.
//!
//! The reasons are in `docs/decisions/0005-authentication.md`.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use sealpost_account::directory::{AccountRecord, Directory, Secret};
use sealpost_base::{AccountId, Budget, Clock, Error, Random, Result, limits};
use sealpost_vault::RootKey;
use sealpost_vault::slot::{PasswordParams, Slot, SlotId, SlotKind, for_login};

use crate::metrics::LoginMetrics;
use crate::settings::Login;
use crate::throttle::{Name, Network, Throttle};

pub mod checks;
mod remembered;
pub mod standing;

#[cfg(test)]
mod tests;

use checks::Checks;
use remembered::Remembered;
use standing::{Standing, Standings};

/// Checks logins for all protocols.
pub struct Authenticator {
    directory: Directory,
    checks: Checks,
    remembered: Remembered,
    throttle: Throttle,
    standings: Standings,
    decoy: Arc<Decoy>,
    metrics: LoginMetrics,
}

/// A login that succeeded.
pub struct Entered {
    /// The account as it was recorded at that moment.
    pub record: AccountRecord,
    /// Its key.
    pub root: RootKey,
    /// The slot that the secret opened: the session may go on while the account has it ([`Authenticator::standing`]).
    pub slot: SlotId,
}

/// A slot that nothing opens, for names that are no account.
struct Decoy {
    account: AccountId,
    slot: Slot,
}

/// Why a login failed. Clients are told no more than which of these it was.
#[derive(Debug)]
pub enum Denied {
    /// No such account or not its password; nobody is told which.
    Credentials,
    /// Too many attempts are waiting already; later it may work.
    Busy,
    /// The store could not be asked; later it may work. The error is for the log.
    Unavailable(Error),
}

impl Authenticator {
    /// Starts the threads that check passwords.
    ///
    /// # Errors
    /// `Retry` if they cannot be started.
    pub fn new(
        directory: Directory,
        settings: &Login,
        budget: Budget,
        clock: Arc<dyn Clock>,
        random: &dyn Random,
    ) -> Result<Self> {
        let checks = Checks::new(checks_at_once(settings, &budget), settings.checks_waiting, budget)?;
        let remembered = Remembered::new(settings.remembered, settings.remember, clock.clone(), random);
        let slot = Slot::decoy(PasswordParams::default(), random);
        let decoy = Arc::new(Decoy { account: AccountId::random(random), slot });
        let throttle = Throttle::new(*settings, clock);
        let standings = Standings::new(directory.clone());
        let metrics = LoginMetrics::default();
        Ok(Authenticator { directory, checks, remembered, throttle, standings, decoy, metrics })
    }

    /// The account that `name` (in any case; without a domain, one of the host's) and `secret` (a password or a
    /// token) open, and its key. `peer` is the client's address, `None` on a Unix socket.
    ///
    /// Takes as long as the client deserves; safe to drop at any point.
    pub async fn login(&self, peer: Option<IpAddr>, name: &str, secret: &[u8]) -> Result<Entered, Denied> {
        self.count(self.check(peer, name, secret).await)
    }

    async fn check(&self, peer: Option<IpAddr>, name: &str, secret: &[u8]) -> Result<Entered, Denied> {
        let network = peer.map(Network::of);
        let (tried, record) = self.find(name).await?;
        // What cannot be anybody's secret is checked like any wrong one.
        let (secret, record) = match Secret::new(secret) {
            Ok(secret) => (secret, record),
            Err(_) => (stand_in(secret), None),
        };
        let opened = match record {
            Some(record) => self.open(network, tried, record, secret).await?,
            None => self.pretend(network, tried, secret).await?,
        };
        if opened.is_none() {
            self.throttle.failed(network, tried);
        }
        opened.ok_or(Denied::Credentials)
    }

    /// As [`Authenticator::login`], with a token and nothing else: a password that somebody configured as one is not
    /// taken. Whoever fails waits like everybody; there is nothing to stretch, as a token is 256 random bits.
    pub async fn bearer(&self, peer: Option<IpAddr>, name: &str, token: &[u8]) -> Result<Entered, Denied> {
        self.count(self.check_bearer(peer, name, token).await)
    }

    async fn check_bearer(&self, peer: Option<IpAddr>, name: &str, token: &[u8]) -> Result<Entered, Denied> {
        let network = peer.map(Network::of);
        let (tried, record) = self.find(name).await?;
        let entered = record.and_then(|record| {
            let slot = token_slot(&for_login(&record.slots, token))?.clone();
            let root = slot.open(record.id, token)?;
            Some(Entered { record, root, slot: slot.id() })
        });
        if entered.is_none() {
            self.hold_back(network, tried).await?;
            self.throttle.failed(network, tried);
        }
        entered.ok_or(Denied::Credentials)
    }

    /// What lets the session of that login know when it has to end. Must be called inside a tokio runtime.
    pub fn standing(&self, entered: &Entered) -> Standing {
        self.standings.begin(&entered.record, entered.slot)
    }

    /// Which sessions may go on, for whoever hears of changes.
    pub fn standings(&self) -> &Standings {
        &self.standings
    }

    /// Wipes remembered logins that have expired; the server calls it now and then.
    pub fn sweep(&self) {
        self.remembered.sweep();
    }

    fn count(&self, result: Result<Entered, Denied>) -> Result<Entered, Denied> {
        match &result {
            Ok(entered) => {
                let slot = entered.record.slots.iter().find(|slot| slot.id() == entered.slot);
                self.metrics.entered(slot.map_or(SlotKind::Password, Slot::kind));
            }
            Err(denied) => self.metrics.denied(denied),
        }
        result
    }

    /// What logins count.
    pub fn metrics(&self) -> &LoginMetrics {
        &self.metrics
    }

    /// Password checks that wait for their turn now.
    pub fn checks_waiting(&self) -> usize {
        self.checks.waiting()
    }

    /// Logins that wait because of earlier failures now.
    pub fn held_back(&self) -> usize {
        self.throttle.delayed()
    }

    /// How many logins are remembered now.
    pub fn remembered(&self) -> usize {
        self.remembered.len()
    }

    /// What `name` is counted under, and the record of the account if it is one's.
    async fn find(&self, name: &str) -> Result<(Name, Option<AccountRecord>), Denied> {
        let account = self.directory.account_name(name).ok();
        let tried = Name::of(account.as_ref().map_or(name, |account| account.as_str()));
        let record = match &account {
            Some(account) => self.directory.find(account).await.map_err(Denied::Unavailable)?,
            None => None,
        };
        Ok((tried, record))
    }

    async fn open(
        &self,
        network: Option<Network>,
        tried: Name,
        record: AccountRecord,
        secret: Secret,
    ) -> Result<Option<Entered>, Denied> {
        let tag = self.remembered.tag(&record, secret.bytes());
        if let Some((root, slot)) = self.remembered.find(tag, &record) {
            self.metrics.remembered.increment();
            return Ok(Some(Entered { record, root, slot }));
        }
        let slots: Vec<Slot> = for_login(&record.slots, secret.bytes()).into_iter().cloned().collect();
        // A token is 256 random bits: checking it is cheap, and there is nothing to guess.
        if let Some(slot) = token_slot(&slots.iter().collect::<Vec<_>>()) {
            let root = slot.open(record.id, secret.bytes());
            if root.is_none() {
                self.hold_back(network, tried).await?;
            }
            return Ok(root.map(|root| Entered { record, root, slot: slot.id() }));
        }
        if slots.is_empty() {
            return self.pretend(network, tried, secret).await;
        }
        self.hold_back(network, tried).await?;
        let turn = self.checks.turn().await.map_err(|_| Denied::Busy)?;
        // A client that opens several connections at once pays for the first.
        if let Some((root, slot)) = self.remembered.find(tag, &record) {
            self.metrics.remembered.increment();
            return Ok(Some(Entered { record, root, slot }));
        }
        let id = record.id;
        let opens = move |slot: &Slot| slot.open(id, secret.bytes()).map(|root| (root, slot.id()));
        let check = move || slots.iter().find_map(opens);
        let Some((root, slot)) = self.checks.run(turn, check).await.map_err(Denied::Unavailable)? else {
            return Ok(None);
        };
        self.remembered.insert(tag, &record, root.clone(), slot);
        Ok(Some(Entered { record, root, slot }))
    }

    /// Does what a wrong password would cost.
    async fn pretend<T>(
        &self,
        network: Option<Network>,
        tried: Name,
        secret: Secret,
    ) -> Result<Option<T>, Denied> {
        self.hold_back(network, tried).await?;
        let turn = self.checks.turn().await.map_err(|_| Denied::Busy)?;
        let decoy = Arc::clone(&self.decoy);
        let check = move || drop(decoy.slot.open(decoy.account, secret.bytes()));
        self.checks.run(turn, check).await.map_err(Denied::Unavailable)?;
        Ok(None)
    }

    /// Waits as long as earlier failures demand.
    async fn hold_back(&self, network: Option<Network>, tried: Name) -> Result<(), Denied> {
        let turn = self.throttle.admit(network, tried).map_err(|_| Denied::Busy)?;
        if !turn.wait().is_zero() {
            self.metrics.held_back.increment();
            tokio::time::sleep(turn.wait()).await;
        }
        Ok(())
    }
}

/// The slot, if the secret was a token of the account.
fn token_slot<'a>(slots: &[&'a Slot]) -> Option<&'a Slot> {
    match slots {
        [slot] if slot.kind() == SlotKind::Token => Some(slot),
        _ => None,
    }
}

/// As many as there are cores, as long as they take no more than half of the memory for work.
fn checks_at_once(settings: &Login, budget: &Budget) -> usize {
    if settings.checks_at_once > 0 {
        return settings.checks_at_once;
    }
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    cores.min(budget.total() / 2 / checks::CHECK_BYTES).max(1)
}

/// Something to check in the place of what cannot be a secret (empty, too long, with a NUL).
fn stand_in(secret: &[u8]) -> Secret {
    let printable: Vec<u8> = secret.iter().take(limits::SECRET_BYTES / 4).map(|b| b | 0x40).collect();
    Secret::new(&printable).or_else(|_| Secret::new(b"-")).expect("a dash is a secret")
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::Credentials => f.write_str("no such account or not its password"),
            Denied::Busy => f.write_str("too many logins are waiting"),
            Denied::Unavailable(e) => write!(f, "the login could not be checked: {e}"),
        }
    }
}

impl std::error::Error for Denied {}
