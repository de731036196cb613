//! Logins by what an earlier login with the password has made: OAuth tokens and web logins.
//!
//! A token that this installation sealed is no guess, also if it has expired or its grant is gone:
//! clients show such tokens routinely, so they are refused without being counted. All else that does
//! not open is counted and delayed as a wrong password is.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Mutex;

use lru::LruCache;
use sealpost_base::{AccountId, Timestamp, limits};
use sealpost_vault::TokenKind;
use sealpost_vault::slot::{Slot, SlotId, SlotKind, named_in_web_login};

use super::{AccountRecord, Authenticator, Denied, Entered, let_in};
use crate::grant_token::GrantToken;
use crate::scopes::{Scope, Scopes};
use crate::throttle::{Name, Network};

const REMEMBERED: NonZeroUsize = NonZeroUsize::new(limits::WEB_LOGINS_REMEMBERED).expect("not zero");

/// When web logins were used last, as far as it is written down.
pub(super) struct WebLoginUses(Mutex<LruCache<(AccountId, SlotId), Timestamp>>);

impl Default for WebLoginUses {
    fn default() -> Self {
        WebLoginUses(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl Authenticator {
    /// As [`Authenticator::login`], with the password alone: what makes a login of its own must not
    /// outlive the app password that made it.
    pub async fn login_by_password(
        &self,
        peer: Option<IpAddr>,
        name: &str,
        secret: &[u8],
    ) -> Result<Entered, Denied> {
        let entered =
            self.check(peer, name, secret).await.and_then(let_in).and_then(|entered| match entered.kind() {
                SlotKind::Password => Ok(entered),
                _ => Err(Denied::Credentials),
            });
        self.count(entered)
    }

    /// The account that a grant's token opens, which [`GrantToken::open`] has shown to be authentic.
    ///
    /// # Errors
    /// `Expired` if the grant was revoked, `Suspended` if the account is.
    pub async fn grant(&self, peer: Option<IpAddr>, token: &GrantToken) -> Result<Entered, Denied> {
        let (_, record) = self.find(&token.account).await?;
        self.open_grant(peer, token, record).await.and_then(let_in)
    }

    /// As [`Authenticator::grant`], also of an account that is suspended or removed: to end the grant, which
    /// would be back with the account, and for nothing else.
    pub async fn grant_to_end(&self, peer: Option<IpAddr>, token: &GrantToken) -> Result<Entered, Denied> {
        let (_, record) = self.find_to_end(&token.account).await?;
        self.open_grant(peer, token, record).await
    }

    async fn open_grant(
        &self,
        peer: Option<IpAddr>,
        token: &GrantToken,
        record: Option<AccountRecord>,
    ) -> Result<Entered, Denied> {
        let record = record.ok_or(Denied::Expired)?;
        let is_it = |slot: &&Slot| slot.kind() == SlotKind::Grant && slot.id() == token.slot;
        let slot = record.slots.iter().find(is_it).ok_or(Denied::Expired)?;
        let opened = record.opener()(slot, token.secret.bytes()).ok_or(Denied::Expired)?;
        let (root, slot) = (self.authentic(&record, opened, slot).await?, slot.id());
        self.known.note(record.id, peer.map(Network::of));
        Ok(Entered { record, root, slot, scopes: token.scopes })
    }

    /// Counts a token that this installation has not made, as a wrong password of no account, and
    /// waits as long as that deserves.
    pub async fn forged(&self, peer: Option<IpAddr>) -> Denied {
        let denied = match self.begin(peer.map(Network::of), Name::of(""), None).await {
            Ok(attempt) => {
                attempt.failed();
                Denied::Credentials
            }
            Err(denied) => denied,
        };
        self.metrics.denied(&denied);
        denied
    }

    /// The account that an access token opens; it has to be the one called `name`, if that is not
    /// empty, and the token has to be for `needed`.
    pub(super) async fn check_access_token(
        &self,
        peer: Option<IpAddr>,
        name: &str,
        token: &[u8],
        needed: Option<Scope>,
    ) -> Result<Entered, Denied> {
        let Some(token) = GrantToken::open(TokenKind::Access, token, self.directory.token_keys()) else {
            return self.fail(peer, name).await;
        };
        // The token of one account is a guess at any other one.
        let is_named = |name| self.directory.account_name(name).is_ok_and(|n| n.as_str() == token.account);
        if !name.is_empty() && !is_named(name) {
            return self.fail(peer, name).await;
        }
        if token.at <= self.clock.now() {
            return Err(Denied::Expired);
        }
        if needed.is_some_and(|needed| !token.scopes.has(needed)) {
            return Err(Denied::Scope);
        }
        self.grant(peer, &token).await
    }

    /// The account that the cookie of a web login opens.
    pub async fn web_login(&self, peer: Option<IpAddr>, cookie: &[u8]) -> Result<Entered, Denied> {
        self.count(self.check_web_login(peer, cookie, false).await.and_then(let_in))
    }

    /// As [`Authenticator::web_login`], also of an account that is suspended or removed: to end the login,
    /// which would be back with the account, and for nothing else.
    pub async fn web_login_to_end(&self, peer: Option<IpAddr>, cookie: &[u8]) -> Result<Entered, Denied> {
        self.count(self.check_web_login(peer, cookie, true).await)
    }

    async fn check_web_login(
        &self,
        peer: Option<IpAddr>,
        cookie: &[u8],
        is_to_end: bool,
    ) -> Result<Entered, Denied> {
        let Some((name, slot)) = named_in_web_login(cookie) else { return self.fail(peer, "").await };
        let (_, record) = match is_to_end {
            true => self.find_to_end(&name).await?,
            false => self.find(&name).await?,
        };
        let Some(record) = record else { return self.fail(peer, &name).await };
        let is_it = |known: &&Slot| known.kind() == SlotKind::WebLogin && known.id() == slot;
        // It has ended: a browser may go on sending it for a while.
        let slot = record.slots.iter().find(is_it).ok_or(Denied::Expired)?;
        let Some(opened) = record.opener()(slot, cookie) else { return self.fail(peer, &name).await };
        let made = slot.created().unwrap_or(Timestamp(0));
        let (root, slot) = (self.authentic(&record, opened, slot).await?, slot.id());
        self.note_use(record.id, slot, made).await?;
        self.known.note(record.id, peer.map(Network::of));
        Ok(Entered { record, root, slot, scopes: Scopes::EVERYTHING })
    }

    /// Writes down that a web login is used, at most once in [`limits::WEB_LOGIN_NOTED`].
    async fn note_use(&self, account: AccountId, slot: SlotId, made: Timestamp) -> Result<(), Denied> {
        let now = self.clock.now();
        let is_noted = |at: Timestamp| now.since(at) < limits::WEB_LOGIN_NOTED;
        if is_noted(made) || self.web_logins.at(account, slot).is_some_and(is_noted) {
            return Ok(());
        }
        let written = self.directory.login_use(account, slot).await.map_err(Denied::Unavailable)?;
        let used = written.map_or(made, |written| written.used.max(made));
        if self.directory.is_idle(SlotKind::WebLogin, used) {
            return Err(Denied::Expired);
        }
        if !is_noted(used)
            && let Err(error) = self.directory.note_login_use(account, slot).await
        {
            // The next request tries again.
            tracing::debug!(%error, "the use of a web login is not written down");
            return Ok(());
        }
        self.web_logins.note(account, slot, if is_noted(used) { used } else { now });
        Ok(())
    }

    async fn fail<T>(&self, peer: Option<IpAddr>, name: &str) -> Result<T, Denied> {
        let network = peer.map(Network::of);
        let (tried, record) = self.find(name).await?;
        self.begin(network, tried, record.as_ref()).await?.failed();
        Err(Denied::Credentials)
    }
}

impl WebLoginUses {
    fn at(&self, account: AccountId, slot: SlotId) -> Option<Timestamp> {
        self.lock().get(&(account, slot)).copied()
    }

    fn note(&self, account: AccountId, slot: SlotId, at: Timestamp) {
        self.lock().put((account, slot), at);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<(AccountId, SlotId), Timestamp>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
