//! GETQUOTA, GETQUOTAROOT, SETQUOTA, and the limits behind them (RFC 9208).
//!
//! Each account has one quota root, which has its name and applies to all its mailboxes. An administrator may
//! read and change that of any account; other users may read their own.

use std::time::Duration;

use sealpost_account::rights::Rights;
use sealpost_account::{Account, AccountState, usage};
use sealpost_base::{Kind, limits};
use sealpost_directory::{AccountName, AccountRecord, Quotas, Resource, Role, StoreMoment, Usage};
use sealpost_imap::types::{AString, Atom, Code, Mailbox, QuotaLimit, QuotaResource, Response, Status};
use sealpost_mailbox::Access;
use sealpost_mailbox::quota_headroom::{OverQuota, QuotaHeadroom, UserQuota};
use sealpost_mailbox::resolve::ResolvedMailbox;

use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::user::User;
use sealpost_session::Context;

/// How long a session uses limits that another process may have changed, if the store does not report
/// changes.
const TRUSTED: Duration = Duration::from_secs(10);
/// Percentage of a limit above which a client is warned.
const SOFT_PERCENT: u64 = 90;
/// The unit of STORAGE and ANNOTATION-STORAGE, in bytes (RFC 9208 §5.1, §5.4).
const UNIT: u64 = 1024;

/// All resources with their names.
const RESOURCES: [(Resource, &str); 4] = [
    (Resource::Storage, "STORAGE"),
    (Resource::Messages, "MESSAGE"),
    (Resource::Mailboxes, "MAILBOX"),
    (Resource::Annotations, "ANNOTATION-STORAGE"),
];

/// A session's quota root.
pub(super) struct Quota {
    root: AccountName,
    limits: Quotas,
    /// The usage of the account's shares.
    shared: Usage,
    seen_changes: u64,
    /// When the limits were read: by the store's changes, if it reports them, and on the monotonic clock.
    seen: Option<StoreMoment>,
    read: Duration,
    /// The last recorded usage.
    noted: Usage,
    /// Whether the client was warned of a limit.
    warned: bool,
}

impl User {
    /// Records the account's usage, for deliveries while it is not loaded, and also at the end of the
    /// session. The session does not wait for it. If the record is lost, deliveries use the previous one.
    pub(super) fn note_usage(&mut self) {
        let account = self.account().clone();
        let usage = usage::of(&account.state());
        // Without limits the record is optional, so a session that changed nothing does not write it.
        let noted = std::mem::replace(&mut self.quota.noted, usage);
        if self.quota.limits == Quotas::default() && usage == noted {
            return;
        }
        let (ctx, limits, shared) = (self.shared.ctx.clone(), self.quota.limits, self.quota.shared);
        self.shared.ctx.usage.note(async move {
            let usage = usage::of(&account.state());
            ctx.usage.observed(account.id(), limits, usage, shared).await;
        });
    }

    /// Reads the limits again if another process may have changed them.
    pub(super) async fn refresh_quota(&mut self) -> Result<(), Failure> {
        let (changes, now) = (self.shared.ctx.usage.changes(), self.shared.ctx.clock.monotonic());
        let seen = self.directory().store_moment();
        let trusted = match seen {
            Some(_) => seen == self.quota.seen,
            None => now.saturating_sub(self.quota.read) < TRUSTED,
        };
        if self.quota.seen_changes != changes || !trusted {
            if let Some(record) = self.directory().find(&self.quota.root).await? {
                self.quota.limits = record.quotas();
            }
            (self.quota.seen_changes, self.quota.seen, self.quota.read) = (changes, seen, now);
        }
        let limits = &self.quota.limits;
        if limits.limit_messages() || limits.of(Resource::Annotations).is_some() {
            self.quota.shared = self.usage_in_own_shares().await?;
        }
        Ok(())
    }

    /// The headroom of the account's own log.
    pub(super) fn own_headroom(&self) -> QuotaHeadroom {
        QuotaHeadroom { limits: self.quota.limits, other: self.quota.shared }
    }

    /// The headroom of a mailbox's log.
    pub(super) async fn headroom_at(&self, resolved: &ResolvedMailbox) -> Result<QuotaHeadroom, Failure> {
        Ok(self.user_quota().headroom_at(resolved).await?)
    }

    /// The limits on what this user may store.
    pub(super) fn user_quota(&self) -> UserQuota<'_> {
        UserQuota {
            user: self.resolver(),
            own: self.own_headroom(),
            directory: self.directory(),
            tracker: &self.shared.ctx.usage,
        }
    }

    /// Writes `* NO [OVERQUOTA]` once when usage approaches a limit: in the selected state, or in a command
    /// that adds data (RFC 9208 §4.3.1).
    pub(super) fn warn_of_quota(&mut self, responses: &mut Responses) {
        if self.quota.limits == Quotas::default() {
            return;
        }
        let near = self.quota.near(&self.account().state());
        let before = std::mem::replace(&mut self.quota.warned, near.is_some());
        if let (Some(resource), false) = (near, before) {
            let text = format!("the limit of {} is nearly reached", name(resource));
            responses.out().status(None, Status::No, Some(&Code::OverQuota), &text);
        }
    }

    async fn own_record(&self) -> Result<AccountRecord, Failure> {
        Ok(self.directory().get(&self.quota.root).await?)
    }

    /// The account record for a quota root, if this user may see it.
    async fn record_of(&self, root: &AString) -> Result<AccountRecord, Failure> {
        let own = self.own_record().await?;
        let name = root.as_str().and_then(|root| self.directory().account_name(root).ok());
        if name.as_ref() == Some(&own.name) {
            return Ok(own);
        }
        // RFC 9208 §8: users must not learn which other accounts exist, and their usage.
        if own.role != Role::Admin {
            return Err(Reply::no(Code::NoPerm, "that quota root is not yours").into());
        }
        let none = || Failure::Reply(Reply::no(Code::NonExistent, "no such quota root"));
        self.directory().get(&name.ok_or_else(none)?).await.map_err(|error| match error.kind() {
            Kind::NotFound => none(),
            _ => error.into(),
        })
    }
}

/// GETQUOTA.
pub(super) async fn get_quota(user: &User, responses: &mut Responses, root: &AString) -> Outcome {
    let record = user.record_of(root).await?;
    write_quota(user, responses, &record).await?;
    Ok(Reply::ok("GETQUOTA completed"))
}

/// GETQUOTAROOT. The mailbox need not exist (RFC 9208 §4.1.2).
pub(super) async fn get_quota_root(user: &User, responses: &mut Responses, mailbox: &Mailbox) -> Outcome {
    // Other users' shares count for their owners, whose usage this user must not learn (RFC 9208 §8). Such a
    // mailbox has no root here.
    if let Ok(resolved) = user.resolve(mailbox).await
        && matches!(resolved.access, Access::Share { owner: false, .. })
    {
        // RFC 9208 §6
        resolved.require(Rights::READ)?;
        let (mailbox, roots) = (mailbox.clone(), Vec::new());
        responses.out().response(&Response::QuotaRoot { mailbox, roots });
        return Ok(Reply::ok("GETQUOTAROOT completed"));
    }
    let record = user.own_record().await?;
    let roots = vec![AString::from(record.name.as_str())];
    responses.out().response(&Response::QuotaRoot { mailbox: mailbox.clone(), roots });
    write_quota(user, responses, &record).await?;
    Ok(Reply::ok("GETQUOTAROOT completed"))
}

/// SETQUOTA. Removes limits that it does not name (RFC 9208 §4.1.3).
pub(super) async fn set_quota(
    user: &User,
    responses: &mut Responses,
    root: &AString,
    limits: &[QuotaLimit],
) -> Outcome {
    if user.own_record().await?.role != Role::Admin {
        return Err(Reply::no(Code::NoPerm, "only an administrator may do that").into());
    }
    let quotas = parse(limits)?;
    let name = user.record_of(root).await?.name;
    let record = user.directory().update(&name, |record| {
        record.set_quotas(quotas);
        Ok(record.clone())
    });
    let record = record.await?;
    user.shared.ctx.usage.settle(record.id).await?;
    user.shared.ctx.usage.limits_changed();
    tracing::info!(account = %name, ?quotas, "an administrator changed what an account may hold");
    write_quota(user, responses, &record).await?;
    Ok(Reply::ok("SETQUOTA completed"))
}

async fn write_quota(user: &User, responses: &mut Responses, record: &AccountRecord) -> Result<(), Failure> {
    let usage = user.shared.ctx.usage.usage(record.id).await?;
    let resources = resources(&record.quotas(), &usage);
    let root = AString::from(record.name.as_str());
    responses.out().response(&Response::Quota { root, resources });
    Ok(())
}

impl Quota {
    /// The quota of an account, with the limits in its record.
    pub(super) fn new(env: &Context, account: &Account, record: &AccountRecord) -> Self {
        let state = account.state();
        let mut quota = Quota {
            root: record.name.clone(),
            limits: record.quotas(),
            shared: Usage::default(),
            seen_changes: env.usage.changes(),
            seen: env.directory.store_moment(),
            read: env.clock.monotonic(),
            noted: usage::of(&state),
            warned: false,
        };
        quota.warned = quota.near(&state).is_some();
        quota
    }

    /// A resource whose usage is above the warning threshold.
    fn near(&self, state: &AccountState) -> Option<Resource> {
        let usage = usage::of(state).with(self.shared);
        Resource::ALL.into_iter().find(|resource| {
            let used = u128::from(usage.of(*resource)) * 100;
            self.limits.of(*resource).is_some_and(|limit| used > u128::from(limit) * u128::from(SOFT_PERCENT))
        })
    }
}

/// `NO [OVERQUOTA]` (RFC 9208 §4.3.1)
impl From<OverQuota> for Reply {
    fn from(OverQuota(resource): OverQuota) -> Self {
        let text = match resource {
            Resource::Storage => "the account is full",
            Resource::Messages => "the account has as many messages as it may have",
            Resource::Mailboxes => "the account has as many mailboxes as it may have",
            Resource::Annotations => "the account has as much metadata as it may have",
        };
        Reply::no(Code::OverQuota, text)
    }
}

impl From<OverQuota> for Failure {
    fn from(over: OverQuota) -> Self {
        Failure::Reply(over.into())
    }
}

fn name(resource: Resource) -> &'static str {
    RESOURCES.iter().find(|(known, _)| *known == resource).map_or("", |(_, name)| name)
}

/// The unit of a resource, in bytes.
fn unit(resource: Resource) -> u64 {
    match resource {
        Resource::Storage | Resource::Annotations => UNIT,
        Resource::Messages | Resource::Mailboxes => 1,
    }
}

/// Limits of every account (RFC 9208 §3.2 advises to report them too).
fn inherent(resource: Resource) -> Option<u64> {
    match resource {
        Resource::Mailboxes => Some(limits::MAILBOXES as u64),
        Resource::Annotations => Some(limits::METADATA_BYTES as u64),
        Resource::Storage | Resource::Messages => None,
    }
}

/// The limited resources with their usage, rounded up; usage within a limit never exceeds it after rounding.
fn resources(quotas: &Quotas, usage: &Usage) -> Vec<QuotaResource> {
    let limited = RESOURCES.iter().filter_map(|(resource, name)| {
        let limit = quotas.of(*resource).into_iter().chain(inherent(*resource)).min()?;
        let unit = unit(*resource);
        let most = i64::MAX.unsigned_abs();
        Some(QuotaResource {
            name: Atom::new(name).ok()?,
            usage: usage.of(*resource).div_ceil(unit).min(most),
            limit: limit.div_ceil(unit).min(most),
        })
    });
    limited.collect()
}

/// The limits in a SETQUOTA.
fn parse(limits: &[QuotaLimit]) -> Result<Quotas, Reply> {
    let mut quotas = Quotas::default();
    for QuotaLimit { name, limit } in limits {
        let known = RESOURCES.iter().find(|(_, known)| *name == **known);
        let (resource, _) = known.ok_or_else(|| Reply::no(Code::Cannot, "no such resource"))?;
        quotas.set(*resource, Some(limit.saturating_mul(unit(*resource))));
    }
    Ok(quotas)
}
