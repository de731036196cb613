//! What clients follow of the caller's own account beside its logs (RFC 8620 §7.1): share notifications,
//! vacation response, quotas (RFC 9425 §6), principals.

use std::collections::BTreeSet;

use sealpost_account::usage;
use sealpost_auth::standing::RecordSummary;
use sealpost_base::Result;
use sealpost_jmap::State;
use sealpost_jmap::capability::Capability;
use sealpost_mailbox::shared_accounts::{Reach, SharedAccount};
use sealpost_vault::Hash;

use crate::logs::Logs;
use crate::principal;
use crate::quota::Values;
use crate::share_notification;
use crate::shared_accounts;
use crate::user::User;
use crate::vacation;

/// What a client knows of it. Nothing of other owners' accounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OwnFacts {
    /// Changes of share notifications.
    notices: u64,
    /// Changes of the vacation response.
    vacation: u64,
    quota: Values,
    /// A print of the users that share something with the caller, or the other way round. The other users
    /// of the domain are not among them: to list them takes long.
    partners: u64,
}

/// Where it is found.
pub(crate) struct OwnSources {
    pub(crate) record: RecordSummary,
    /// A print of the accounts that other owners share.
    shared: String,
}

impl OwnSources {
    /// The record of an account, and what other owners share with it.
    pub(crate) fn new(record: RecordSummary, shared: &[SharedAccount]) -> Self {
        let each = |account: &SharedAccount| format!("{} {}\n", account.name, account.is_read_only());
        OwnSources { record, shared: shared.iter().map(each).collect() }
    }
}

impl OwnFacts {
    /// As it is now.
    pub(crate) fn now(logs: &Logs<'_>, sources: &OwnSources) -> Self {
        if logs.reach() != Reach::Own {
            return OwnFacts::default();
        }
        let (own_log, own) = logs.own();
        let shares = logs.iter().filter(|(log, _)| *log != own_log);
        let used = shares.fold(usage::of(own), |used, (_, share)| used.with(usage::of_share(share)));
        let mut grantees = BTreeSet::new();
        for (_, state) in logs.iter() {
            grantees.extend(state.acl().members().map(|member| member.name.clone()));
        }
        let partners = match grantees.is_empty() && sources.shared.is_empty() {
            true => 0,
            false => print_of(&format!("{grantees:?}{}", sources.shared)),
        };
        OwnFacts {
            notices: own.share_notices().changes,
            vacation: sources.record.vacation,
            quota: Values::of(sources.record.quotas, used),
            partners,
        }
    }

    /// What a client knows that knows nothing of it but the quotas.
    pub(crate) fn unknown(self) -> Self {
        let never = u64::MAX;
        OwnFacts { notices: never, vacation: never, partners: never, ..self }
    }

    /// What a client knows that knows all of it, perhaps but for the quotas.
    pub(crate) fn known(self, knows_quota: bool) -> Self {
        if knows_quota { self } else { OwnFacts { quota: Values::default(), ..self } }
    }

    /// A print of the quotas: they change with each message, the rest seldom.
    pub(crate) fn quota_print(&self) -> String {
        format!("{:08x}", print_of(self.quota.state().as_str()) as u32)
    }

    /// Text that is different after a change of something else than the quotas; empty if there is nothing.
    pub(crate) fn text(&self) -> String {
        let OwnFacts { notices, vacation, quota: _, partners } = self;
        match (notices, vacation, partners) {
            (0, 0, 0) => String::new(),
            (notices, 0, 0) => format!("{notices}\n"),
            _ => format!("{notices} {vacation} {partners}\n"),
        }
    }

    /// The types that changed since `before`, with their states.
    ///
    /// # Errors
    /// Store errors.
    pub(crate) async fn changed(&self, before: &OwnFacts, user: &User) -> Result<Vec<(&'static str, State)>> {
        let mut changed = Vec::new();
        if self.notices != before.notices {
            changed.push(("ShareNotification", share_notification::state_of(self.notices)));
        }
        if self.vacation != before.vacation && user.shared.outbox.is_some() {
            changed.push(("VacationResponse", vacation::state_at(self.vacation)));
        }
        // Each counts a type of mail, and a login without mail sees none (RFC 9425 §4.1).
        if self.quota != before.quota && user.grants(Capability::Mail) {
            changed.push(("Quota", self.quota.state()));
        }
        if self.partners != before.partners {
            let shared = shared_accounts::accounts(user).await?;
            changed.push(("Principal", principal::state(user, &shared).await?));
        }
        Ok(changed)
    }
}

fn print_of(text: &str) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&Hash::of(text.as_bytes()).0[..8]);
    u64::from_be_bytes(first)
}
