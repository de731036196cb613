//! Checks logins: names and secrets against the slots of account records.
//!
//! Invariants for every client:
//! - A wrong password takes as much time as a right one, and so does an unknown name: the store gets the same
//!   requests, and Argon2 always runs.
//! - Every login reads the account's record from the store. So a changed password, a revoked app password and
//!   a removed account take effect at once, whichever process changed it. Open sessions end soon after
//!   ([`standing`]).
//! - Logins without a password check (cached ones and app passwords) never wait behind password checks. Of
//!   the others, those from an address where the account has logged in before are checked first, then those
//!   from an address without failures.
//! - Recovery codes do not log in; they are for `passwd --recovery`.
//!
//! The reasons are in `docs/decisions/0005-authentication.md` and
//! `docs/decisions/0055-logins-under-attack.md`.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use sealpost_base::{AccountId, Budget, Clock, Error, Random, Result, limits};
use sealpost_directory::{AccountRecord, Directory, Secret};
use sealpost_vault::slot::{
    Opened, PasswordParams, Slot, SlotId, SlotKind, SlotTrust, StretchMemory, account_of_app_password,
    for_login,
};
use sealpost_vault::{Keyring, RootKey};

use crate::grant_token::is_access_token;
use crate::metrics::LoginMetrics;
use crate::scopes::{Scope, Scopes};
use crate::settings::Login;
use crate::throttle::{Attempt, Name, Network, Throttle};

pub mod checks;
mod delegated;
mod joined;
mod known;
mod line;
mod remembered;
pub mod standing;

#[cfg(test)]
mod attack;
#[cfg(test)]
mod tests;

use checks::{CheckPermit, Checks};
use delegated::WebLoginUses;
use joined::{Comer, Joined};
use known::KnownAddresses;
use remembered::Remembered;
use standing::{Standing, Standings};

/// Checks logins for all protocols.
pub struct Authenticator {
    directory: Directory,
    checks: Checks,
    remembered: Remembered,
    known: KnownAddresses,
    /// Keeps each account's key in memory once, however many sessions have logged in.
    keys: Keyring,
    joined: Joined<Answer>,
    throttle: Throttle,
    standings: Standings,
    decoy: Arc<Decoy>,
    web_logins: WebLoginUses,
    clock: Arc<dyn Clock>,
    metrics: LoginMetrics,
}

/// A successful login.
pub struct Entered {
    /// The account's record at that moment.
    pub record: AccountRecord,
    /// The account's root key.
    pub root: RootKey,
    /// The slot that the secret opened. The session may continue while the account has it
    /// ([`Authenticator::standing`]).
    pub slot: SlotId,
    /// What the session may do with the account.
    pub scopes: Scopes,
}

/// A slot that no secret opens, for unknown names.
struct Decoy {
    account: AccountId,
    slot: Slot,
}

/// Why a login failed. Clients learn no more than the variant.
#[derive(Debug)]
pub enum Denied {
    /// No such account, or a wrong password; no reply reveals which.
    Credentials,
    /// An OAuth token or the cookie of a web login that this server made, and that has expired or was
    /// revoked: no guess.
    Expired,
    /// The OAuth token is not for this.
    Scope,
    /// Name and secret are right, and the account is suspended.
    Suspended,
    /// Too many attempts are waiting; a later one may succeed.
    Busy,
    /// The store could not be read; a later attempt may succeed. The error is for the log.
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
        let remembered = Remembered::new(settings.cache_entries, settings.cache_ttl, clock.clone(), random);
        let slot = Slot::decoy(PasswordParams::default(), random);
        let decoy = Arc::new(Decoy { account: AccountId::random(random), slot });
        let throttle = Throttle::new(*settings, clock.clone());
        let standings = Standings::new(directory.clone());
        let metrics = LoginMetrics::default();
        let (known, joined) = (KnownAddresses::default(), Joined::new(random));
        Ok(Authenticator {
            directory,
            checks,
            remembered,
            known,
            keys: Keyring::default(),
            joined,
            throttle,
            standings,
            decoy,
            web_logins: WebLoginUses::default(),
            clock,
            metrics,
        })
    }

    /// Checks a login and returns the account with its root key. `name` is case-insensitive; without a domain
    /// it is in the configured one. `secret` is a password or an app password. `peer` is the client's
    /// address, `None` on a Unix socket.
    ///
    /// Earlier failures delay it. Cancel-safe.
    pub async fn login(&self, peer: Option<IpAddr>, name: &str, secret: &[u8]) -> Result<Entered, Denied> {
        self.count(self.check(peer, name, secret).await.and_then(let_in))
    }

    async fn check(&self, peer: Option<IpAddr>, name: &str, secret: &[u8]) -> Result<Entered, Denied> {
        let network = peer.map(Network::of);
        let (tried, record) = self.find(name).await?;
        // Bytes that cannot be a secret are checked like a wrong secret.
        let (secret, record) = match Secret::new(secret) {
            Ok(secret) => (secret, record),
            Err(_) => (stand_in(secret), None),
        };
        let cheap = match &record {
            Some(record) => self.cheaply(record, &secret).await?,
            None => None,
        };
        if let Some(entered) = cheap {
            self.known.note(entered.record.id, network);
            return Ok(entered);
        }
        let attempted = self.joined.attempted(network, tried, secret.bytes());
        loop {
            match self.joined.enter(attempted) {
                Comer::LeadingAttempt(lead) => {
                    let outcome = self.attempt(network, tried, record.as_ref(), secret).await;
                    let answer = Answer::of(&outcome, record.as_ref());
                    lead.answer(answer);
                    let opened = outcome?.zip(record).ok_or(Denied::Credentials);
                    return opened.map(|((root, slot), record)| Entered::whole(record, root, slot));
                }
                Comer::Other(answer) => match joined::answered(answer).await {
                    Some(answer) if answer.is_of(record.as_ref()) => return answer.give(record),
                    // The leading attempt was cancelled, or was about another version of the record.
                    _ => {}
                },
            }
        }
    }

    /// As [`Authenticator::login`], with a token only, for a protocol of mail: an app password, or an
    /// access token of OAuth that is for mail. A password that a user configured as a token is
    /// rejected. Without a name (an empty one) the account is that of the access token. Failures are
    /// throttled like all others; key stretching is not needed, as a token has 256 random bits.
    pub async fn bearer(&self, peer: Option<IpAddr>, name: &str, token: &[u8]) -> Result<Entered, Denied> {
        let checked = match is_access_token(token) {
            true => self.check_access_token(peer, name, token, Some(Scope::Mail)).await,
            false => self.check_bearer(peer, name, token).await,
        };
        self.count(checked.and_then(let_in))
    }

    /// As [`Authenticator::bearer`], with the token alone, which names its account: as in HTTP
    /// (RFC 6750 §2.1). The caller looks at the [scopes](Entered::scopes).
    pub async fn bearer_alone(&self, peer: Option<IpAddr>, token: &[u8]) -> Result<Entered, Denied> {
        if is_access_token(token) {
            let checked = self.check_access_token(peer, "", token, None).await;
            return self.count(checked.and_then(let_in));
        }
        // Bytes that are no token count as a guess at no account.
        let name = account_of_app_password(token).unwrap_or_default();
        self.bearer(peer, &name, token).await
    }

    async fn check_bearer(&self, peer: Option<IpAddr>, name: &str, token: &[u8]) -> Result<Entered, Denied> {
        let network = peer.map(Network::of);
        let (tried, record) = self.find(name).await?;
        let opened = match &record {
            Some(record) => self.by_app_password(record, token).await?,
            None => None,
        };
        if let Some(entered) = opened {
            self.known.note(entered.record.id, network);
            return Ok(entered);
        }
        self.begin(network, tried, record.as_ref()).await?.failed();
        Err(Denied::Credentials)
    }

    /// The validity of the login, which notifies its session when it must end. Call it inside a tokio
    /// runtime.
    pub fn standing(&self, entered: &Entered) -> Standing {
        self.standings.begin(&entered.record, entered.slot)
    }

    /// The validity of all logins, for the task that receives change notices.
    pub fn standings(&self) -> &Standings {
        &self.standings
    }

    /// Wipes expired cached logins. The server calls it periodically.
    pub fn sweep(&self) {
        self.remembered.sweep();
    }

    fn count(&self, result: Result<Entered, Denied>) -> Result<Entered, Denied> {
        match &result {
            Ok(entered) => self.metrics.entered(entered.kind()),
            Err(denied) => self.metrics.denied(denied),
        }
        result
    }

    /// The counters of logins.
    pub fn metrics(&self) -> &LoginMetrics {
        &self.metrics
    }

    /// The number of queued password checks.
    pub fn checks_waiting(&self) -> usize {
        self.checks.waiting()
    }

    /// The number of logins that earlier failures delay now.
    pub fn held_back(&self) -> usize {
        self.throttle.delayed()
    }

    /// The number of cached logins.
    pub fn remembered(&self) -> usize {
        self.remembered.len()
    }

    /// The name under which attempts at `name` count, and the account's record if it exists.
    async fn find(&self, name: &str) -> Result<(Name, Option<AccountRecord>), Denied> {
        let account = self.directory.account_name(name).ok();
        let tried = Name::of(account.as_ref().map_or(name, |account| account.as_str()));
        let record = match &account {
            Some(account) => self.directory.find_to_log_in(account).await.map_err(Denied::Unavailable)?,
            None => None,
        };
        Ok((tried, record))
    }

    /// As [`Authenticator::find`], also an account that was removed and can be brought back.
    async fn find_to_end(&self, name: &str) -> Result<(Name, Option<AccountRecord>), Denied> {
        let account = self.directory.account_name(name).ok();
        let tried = Name::of(account.as_ref().map_or(name, |account| account.as_str()));
        let record = match &account {
            Some(account) => self.directory.find_to_end_login(account).await.map_err(Denied::Unavailable)?,
            None => None,
        };
        Ok((tried, record))
    }

    /// A login without a password check: a cached one, or an app password. An app password is 256 random
    /// bits, so guessing is hopeless.
    async fn cheaply(&self, record: &AccountRecord, secret: &Secret) -> Result<Option<Entered>, Denied> {
        match self.recall(record, secret) {
            Some((root, slot)) => Ok(Some(Entered::whole(record.clone(), root, slot))),
            None => self.by_app_password(record, secret.bytes()).await,
        }
    }

    fn recall(&self, record: &AccountRecord, secret: &Secret) -> Option<(RootKey, SlotId)> {
        let tag = self.remembered.tag(record, secret.bytes());
        let found = self.remembered.find(tag, record);
        if found.is_some() {
            self.metrics.remembered.increment();
        }
        found
    }

    /// Runs a password check. Without a record it takes as much time as for a wrong password.
    async fn attempt(
        &self,
        network: Option<Network>,
        tried: Name,
        record: Option<&AccountRecord>,
        secret: Secret,
    ) -> Result<Option<(RootKey, SlotId)>, Denied> {
        let slots: Vec<Slot> = record.map_or_else(Vec::new, |record| {
            for_login(&record.slots, secret.bytes()).into_iter().cloned().collect()
        });
        let mut attempt = self.begin(network, tried, record).await?;
        // A wrong app password of the account needs no password check.
        if token_slot(&slots.iter().collect::<Vec<_>>()).is_some() {
            attempt.failed();
            return Ok(None);
        }
        let Ok(turn) = self.checks.turn(attempt.priority()).await else {
            attempt.failed();
            return Err(Denied::Busy);
        };
        // Another attempt may have opened the account with the same password meanwhile.
        if let Some(found) = record.and_then(|record| self.recall(record, &secret)) {
            attempt.succeeded();
            return Ok(Some(found));
        }
        attempt.checking();
        let opened = match record.filter(|_| !slots.is_empty()) {
            None => self.pretend(turn, secret).await?,
            Some(record) => {
                let tag = self.remembered.tag(record, secret.bytes());
                let open = record.opener_in();
                let check = move |memory: &mut StretchMemory| {
                    slots.iter().find_map(|slot| Some((open(slot, secret.bytes(), memory)?, slot.clone())))
                };
                let opened = self.checks.run(turn, check).await.map_err(Denied::Unavailable)?;
                let opened = match opened {
                    Some((opened, slot)) => match self.authentic(record, opened, &slot).await {
                        Ok(root) => Some((root, slot.id())),
                        Err(denied) => {
                            attempt.succeeded();
                            return Err(denied);
                        }
                    },
                    None => None,
                };
                if let Some((root, slot)) = opened.as_ref().filter(|_| record.lets_in()) {
                    self.remembered.insert(tag, record, root.clone(), *slot);
                    self.known.note(record.id, network);
                }
                opened
            }
        };
        match &opened {
            Some(_) => attempt.succeeded(),
            None => attempt.failed(),
        }
        Ok(opened)
    }

    /// The login by an app password, if `secret` is one of the account.
    async fn by_app_password(
        &self,
        record: &AccountRecord,
        secret: &[u8],
    ) -> Result<Option<Entered>, Denied> {
        let Some(slot) = token_slot(&for_login(&record.slots, secret)) else { return Ok(None) };
        let Some(opened) = record.opener()(slot, secret) else { return Ok(None) };
        let root = self.authentic(record, opened, slot).await?;
        Ok(Some(Entered::whole(record.clone(), root, slot.id())))
    }

    /// The key from a slot of `record`, unless the slot is forged. A slot from before slots had tags gets
    /// one: the secret has just authenticated it.
    async fn authentic(
        &self,
        record: &AccountRecord,
        opened: Opened,
        slot: &Slot,
    ) -> Result<RootKey, Denied> {
        let Opened { root, is_own_key } = opened;
        let mut checked = record.check_forgeries(&root, slot, is_own_key);
        if checked.is_ok() {
            checked = self.directory.check_slot_list(record, &root).await;
        }
        if let Err(error) = checked {
            tracing::error!(%error, "a login was refused");
            return Err(Denied::Unavailable(error));
        }
        if record.lets_in() {
            let noted = match slot.trust(&root, record.id) {
                SlotTrust::Unverified => self.directory.verify_slot(&record.name, &root, slot).await,
                _ if record.is_list_due() => self.directory.list_slots(&record.name, &root).await,
                _ => Ok(()),
            };
            if let Err(error) = noted {
                // The next login tries again.
                tracing::debug!(account = %record.name, %error, "a slot is not verified, or not listed, yet");
            }
        }
        Ok(self.keys.one(record.id, root))
    }

    /// Takes as much time as a wrong password.
    async fn pretend<T>(&self, turn: CheckPermit, secret: Secret) -> Result<Option<T>, Denied> {
        let decoy = Arc::clone(&self.decoy);
        let check =
            move |memory: &mut StretchMemory| drop(decoy.slot.open_in(decoy.account, secret.bytes(), memory));
        self.checks.run(turn, check).await.map_err(Denied::Unavailable)?;
        Ok(None)
    }

    /// Starts an attempt, after the delay that earlier failures require.
    async fn begin(
        &self,
        network: Option<Network>,
        tried: Name,
        record: Option<&AccountRecord>,
    ) -> Result<Attempt, Denied> {
        let is_known = record.is_some_and(|record| self.known.contains(record.id, network));
        let mut attempt = self.throttle.arrive(network, tried, is_known).map_err(|_| Denied::Busy)?;
        if attempt.begin().await.map_err(|_| Denied::Busy)? {
            self.metrics.held_back.increment();
        }
        Ok(attempt)
    }
}

/// The result for attempts equal to one in progress.
#[derive(Clone)]
struct Answer {
    /// The version of the account's record that was checked.
    version: Option<u64>,
    opened: Result<Option<(RootKey, SlotId)>, ()>,
}

impl Answer {
    fn of(outcome: &Result<Option<(RootKey, SlotId)>, Denied>, record: Option<&AccountRecord>) -> Self {
        let version = record.map(|record| record.version);
        Answer { version, opened: outcome.as_ref().cloned().map_err(|_| ()) }
    }

    fn is_of(&self, record: Option<&AccountRecord>) -> bool {
        self.version == record.map(|record| record.version)
    }

    fn give(self, record: Option<AccountRecord>) -> Result<Entered, Denied> {
        let opened = self.opened.map_err(|()| Denied::Busy)?.zip(record);
        opened.map(|((root, slot), record)| Entered::whole(record, root, slot)).ok_or(Denied::Credentials)
    }
}

impl Entered {
    /// A login that may do everything.
    fn whole(record: AccountRecord, root: RootKey, slot: SlotId) -> Self {
        Entered { record, root, slot, scopes: Scopes::EVERYTHING }
    }

    /// What kind of secret opened the account.
    pub fn kind(&self) -> SlotKind {
        let slot = self.record.slots.iter().find(|slot| slot.id() == self.slot);
        slot.map_or(SlotKind::Password, Slot::kind)
    }
}

/// Only a client with the right secret learns that the account is suspended.
fn let_in(entered: Entered) -> Result<Entered, Denied> {
    if entered.record.lets_in() { Ok(entered) } else { Err(Denied::Suspended) }
}

/// The slot, if the secret was an app password of the account.
fn token_slot<'a>(slots: &[&'a Slot]) -> Option<&'a Slot> {
    match slots {
        [slot] if slot.kind() == SlotKind::Token => Some(slot),
        _ => None,
    }
}

/// As many as there are CPUs, as long as they take at most half of the memory for work.
fn checks_at_once(settings: &Login, budget: &Budget) -> usize {
    if settings.checks_at_once > 0 {
        return settings.checks_at_once;
    }
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    cores.min(budget.total() / 2 / checks::CHECK_BYTES).max(1)
}

/// A stand-in for bytes that cannot be a secret (empty, too long, with a NUL).
fn stand_in(secret: &[u8]) -> Secret {
    let printable: Vec<u8> = secret.iter().take(limits::SECRET_BYTES / 4).map(|b| b | 0x40).collect();
    Secret::new(&printable).or_else(|_| Secret::new(b"-")).expect("a dash is a secret")
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::Credentials => f.write_str("no such account, or wrong password"),
            Denied::Expired => f.write_str("the token or web login has expired or was revoked"),
            Denied::Scope => f.write_str("the token is not for this"),
            Denied::Suspended => f.write_str("the account is suspended"),
            Denied::Busy => f.write_str("too many logins are waiting"),
            Denied::Unavailable(e) => write!(f, "the login could not be checked: {e}"),
        }
    }
}

impl std::error::Error for Denied {}
