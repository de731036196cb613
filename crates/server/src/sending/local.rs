//! Delivery of queued mail into accounts of this server.
//!
//! Recipients are resolved when the mail is delivered, not when it was submitted: what an alias leads
//! to may have changed. Each account gets one copy, whatever leads to it. All copies are stored
//! before any is delivered, and a recipient that leads to several accounts is delivered to none of
//! them while one has no room, so that trying again makes as few duplicates as can be.
//!
//! What an alias leads to on other servers goes into the queue again, as mail of its own, before the
//! copies are delivered. Reports to rewritten senders of forwarded mail come here too, and go back.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use sealpost_account::{Delivery, Stored};
use sealpost_base::{AccountId, Error, Kind, Result, SubmissionId};
use sealpost_delivery::envelope::{BodyForm, Envelope, MessageSource, TlsDemand};
use sealpost_delivery::outcome::{
    Attempt, Delivered, Failure, Outcome, PeerReply, Reason, Scope, SuccessReports,
};
use sealpost_delivery::transport::{Connection, Destination, SiteKey};
use sealpost_directory::{Outside, Recipient, Resolved, Usage};
use sealpost_queue::MailId;
use sealpost_session::Context;
use sealpost_smtp::types::{Mailbox, Reply, ReversePath};
use sealpost_submission::forwarder::{Forwarder, Onward};
use sealpost_submission::outbox::{Outbox, Refusal};
use sealpost_submission::vacation::responder::Away;

use super::convert;

/// The site of all domains that are served here.
const SITE: &str = "local";
/// Copies of one message that are stored, or delivered, at once.
const AT_ONCE: usize = 8;

/// The accounts of this server.
pub(super) struct Local {
    ctx: Arc<Context>,
    outbox: Outbox,
    site: SiteKey,
}

/// Delivers one mail after the other.
struct LocalConnection {
    ctx: Arc<Context>,
    outbox: Outbox,
}

/// The recipients of one mail, and what became of them.
struct Recipients {
    /// For each recipient what it leads to, or why it has failed.
    outcomes: Vec<Result<Reached, Failure>>,
    accounts: HashMap<AccountId, Recipient>,
}

/// What a recipient leads to.
struct Reached {
    accounts: Vec<AccountId>,
    outside: Vec<Outside>,
}

impl Reached {
    /// Whether the mail is only forwarded, to one address: reports are that one's then (RFC 3461 §5.2.7.2).
    fn is_one_outside(&self) -> bool {
        self.accounts.is_empty() && self.outside.len() == 1
    }

    /// Who reports that it got there.
    fn reports(&self) -> SuccessReports {
        match self.outside.len() {
            0 => SuccessReports::DeliveredHere,
            _ if self.is_one_outside() => SuccessReports::NextServer,
            _ => SuccessReports::Expanded,
        }
    }
}

impl Local {
    pub(super) fn new(ctx: Arc<Context>, outbox: Outbox) -> Self {
        Local { ctx, outbox, site: SiteKey::new(SITE) }
    }
}

#[async_trait]
impl Destination for Local {
    fn site(&self) -> &SiteKey {
        &self.site
    }

    async fn connect(&self, _demand: TlsDemand) -> Result<Box<dyn Connection>, Failure> {
        let (ctx, outbox) = (self.ctx.clone(), self.outbox.clone());
        Ok(Box::new(LocalConnection { ctx, outbox }))
    }
}

#[async_trait]
impl Connection for LocalConnection {
    async fn send(&mut self, envelope: &Envelope, message: &dyn MessageSource) -> Attempt {
        let (ctx, forwarder) = (&*self.ctx, self.outbox.forwarder());
        let mut recipients = Recipients::resolve(ctx, forwarder, envelope).await;
        recipients.check_room(ctx, message.size(BodyForm::AsIs)).await;
        let stored = recipients.store(ctx, &envelope.sender, message).await;
        let stored = recipients.forward(ctx, forwarder, envelope, message, stored).await;
        recipients.deliver(ctx, stored, envelope.report_on.as_ref()).await;
        answer(&self.outbox, &envelope.sender, recipients.away(), message).await;
        let failure = Failure::new(Reason::LocalFailure, "");
        let outcomes = recipients.outcomes.into_iter().map(|outcome| match outcome {
            Ok(reached) => {
                let reports = reached.reports();
                let done = if reports == SuccessReports::DeliveredHere { "Delivered" } else { "Forwarded" };
                let reply = PeerReply::new(&Reply::status(250, (2, 1, 5), done));
                Outcome::Delivered(Delivered { reply, reports })
            }
            Err(failure) => failure.outcome(),
        });
        Attempt { recipients: outcomes.collect(), ..Attempt::failed(0, &failure) }
    }

    fn is_reusable(&self) -> bool {
        true
    }

    async fn quit(self: Box<Self>) {}
}

impl Recipients {
    async fn resolve(ctx: &Context, forwarder: &Forwarder, envelope: &Envelope) -> Self {
        let mut recipients = Recipients { outcomes: Vec::new(), accounts: HashMap::new() };
        for recipient in &envelope.recipients {
            let outcome = match forwarder.resolve(&recipient.to, &envelope.sender).await {
                Ok(Resolved { recipients: accounts, outside }) => {
                    let ids = accounts.iter().map(|account| account.id).collect();
                    recipients.accounts.extend(accounts.into_iter().map(|account| (account.id, account)));
                    Ok(Reached { accounts: ids, outside })
                }
                Err(error) => Err(unresolved(ctx, &recipient.to, &error)),
            };
            recipients.outcomes.push(outcome);
        }
        recipients
    }

    /// Recipients fail of which an account has no room for a message of that size.
    async fn check_room(&mut self, ctx: &Context, bytes: u64) {
        for id in self.wanted() {
            let Some(account) = self.accounts.get(&id) else { continue };
            let (quotas, message) = (account.quotas, Usage::of_messages(1, bytes));
            let lacks = ctx.usage.lacks(id, quotas, message).await.unwrap_or_else(|error| {
                // What cannot be found out keeps no mail out.
                tracing::warn!(account = %id, %error, "cannot read the usage of an account");
                None
            });
            if lacks.is_none() {
                continue;
            }
            let reply = match quotas.exceeded(Usage::default(), message) {
                Some(_) => {
                    Reply::status(552, (5, 2, 2), "The message is larger than the whole mailbox may be")
                }
                None => Reply::status(452, (4, 2, 2), "The mailbox is full"),
            };
            self.fail(id, &failure(ctx, Reason::RecipientRefused, &reply));
        }
    }

    /// Stores a copy for each account that is to get one.
    async fn store(
        &mut self,
        ctx: &Context,
        sender: &ReversePath,
        message: &dyn MessageSource,
    ) -> Vec<(AccountId, Stored)> {
        let mut copies = Vec::new();
        for some in self.wanted().chunks(AT_ONCE) {
            let storing = some.iter().map(|id| store(ctx, *id, sender, message));
            for (id, stored) in some.iter().zip(join_all(storing).await) {
                match stored {
                    Ok(stored) => copies.push((*id, stored)),
                    Err(error) => self.fail(*id, &unstored(ctx, &error)),
                }
            }
        }
        self.retain_wanted(&mut copies);
        copies
    }

    /// Queues the message for the outside addresses of recipients that have not failed. If that
    /// fails, so do they; the copies that are still wanted then.
    async fn forward(
        &mut self,
        ctx: &Context,
        forwarder: &Forwarder,
        envelope: &Envelope,
        message: &dyn MessageSource,
        mut copies: Vec<(AccountId, Stored)>,
    ) -> Vec<(AccountId, Stored)> {
        let onward = self.onward(envelope);
        if onward.recipients.is_empty() {
            return copies;
        }
        if let Err(refusal) = forward(forwarder, onward, message).await {
            let failure = unforwarded(ctx, &refusal);
            for outcome in &mut self.outcomes {
                if outcome.as_ref().is_ok_and(|reached| !reached.outside.is_empty()) {
                    *outcome = Err(failure.clone());
                }
            }
            self.retain_wanted(&mut copies);
        }
        copies
    }

    /// The outside addresses, each once, with the reports that are wanted of them.
    fn onward(&self, envelope: &Envelope) -> Onward {
        let mut onward = Onward::plain(envelope.sender.clone(), Vec::new());
        onward.ret = envelope.ret.map(convert::ret);
        onward.envid.clone_from(&envelope.envid);
        onward.tls = convert::tls(envelope.tls);
        let mut seen = HashSet::new();
        for (recipient, reached) in envelope.recipients.iter().zip(&self.outcomes) {
            let Ok(reached) = reached else { continue };
            let notify = convert::notify(recipient.notify, reached.is_one_outside());
            let orcpt = recipient.orcpt.as_ref().map(|orcpt| format!("{};{}", orcpt.kind, orcpt.address));
            for to in &reached.outside {
                if seen.insert(to.address.canonical().clone()) {
                    onward.recipients.push((to.clone(), notify, orcpt.clone()));
                }
            }
        }
        onward
    }

    /// Delivers the copies. One is a report, if that is so, on a submission of that account.
    async fn deliver(
        &mut self,
        ctx: &Context,
        mut copies: Vec<(AccountId, Stored)>,
        report_on: Option<&(String, SubmissionId)>,
    ) {
        while !copies.is_empty() {
            let some = copies.split_off(copies.len().saturating_sub(AT_ONCE));
            let delivering = some.into_iter().filter_map(|(id, stored)| {
                let account = self.accounts.get(&id)?;
                let about = report_on.filter(|(name, _)| *name == account.name.as_str()).map(|(_, id)| *id);
                Some(async move { (id, deliver(ctx, account, stored, about).await) })
            });
            for (id, delivered) in join_all(delivering).await {
                if let Err(error) = delivered {
                    self.fail(id, &unstored(ctx, &error));
                }
            }
        }
    }

    /// The accounts of recipients that have not failed, each once.
    fn wanted(&self) -> Vec<AccountId> {
        let mut wanted: Vec<AccountId> =
            self.outcomes.iter().flatten().flat_map(|reached| &reached.accounts).copied().collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// Those of them that have, or have had, a vacation response.
    fn away(&self) -> Vec<Away> {
        let accounts = self.wanted().into_iter().filter_map(|id| self.accounts.get(&id));
        let away = accounts.filter_map(|account| {
            Some(Away { id: account.id, name: account.name.clone(), mark: account.vacation? })
        });
        away.collect()
    }

    /// Drops the copies that no recipient is left for.
    fn retain_wanted(&self, copies: &mut Vec<(AccountId, Stored)>) {
        let wanted = self.wanted();
        copies.retain(|(id, _)| wanted.contains(id));
    }

    /// The recipients that lead to an account have failed.
    fn fail(&mut self, id: AccountId, failure: &Failure) {
        for outcome in &mut self.outcomes {
            if outcome.as_ref().is_ok_and(|reached| reached.accounts.contains(&id)) {
                *outcome = Err(failure.clone());
            }
        }
    }
}

async fn store(
    ctx: &Context,
    account: AccountId,
    sender: &ReversePath,
    message: &dyn MessageSource,
) -> Result<Stored> {
    let mut ingest = ctx.accounts.ingest(account).await?;
    // RFC 5321 §4.4: final delivery adds the return path. The trace is in the message already.
    ingest.write(format!("Return-Path: <{sender}>\r\n").as_bytes()).await?;
    let mut pieces = message.open(BodyForm::AsIs).await?;
    while let Some(piece) = pieces.next().await? {
        ingest.write(&piece).await?;
    }
    ingest.finish_to_deliver().await
}

async fn deliver(
    ctx: &Context,
    to: &Recipient,
    stored: Stored,
    report_on: Option<SubmissionId>,
) -> Result<()> {
    let (bytes, delivery) = (stored.size(), Delivery::to_inbox(ctx.clock.now()));
    let delivery = Delivery { report_on, ..delivery };
    ctx.accounts.deliver(to.id, &to.public, stored, delivery).await?;
    ctx.usage.delivered(to.id, to.quotas, Usage::of_messages(1, bytes)).await;
    Ok(())
}

/// The message is in accounts that may have a vacation response. What fails here fails no delivery.
async fn answer(outbox: &Outbox, sender: &ReversePath, away: Vec<Away>, message: &dyn MessageSource) {
    if away.is_empty() {
        return;
    }
    let sender = match sender {
        ReversePath::Null => String::new(),
        ReversePath::Mailbox(mailbox) => mailbox.to_string(),
    };
    let Some(mut scanning) = outbox.vacation().begin(&sender) else { return };
    let read = async {
        let mut pieces = message.open(BodyForm::AsIs).await?;
        while !scanning.is_done()
            && let Some(piece) = pieces.next().await?
        {
            scanning.push(&piece);
        }
        Ok::<_, Error>(())
    };
    match read.await {
        Ok(()) => outbox.vacation().delivered(scanning, &sender, away),
        Err(error) => tracing::warn!(%error, "a vacation response was not sent"),
    }
}

async fn forward(
    forwarder: &Forwarder,
    onward: Onward,
    message: &dyn MessageSource,
) -> Result<MailId, Refusal> {
    let mut forwarding = forwarder.begin(onward).await;
    let mut pieces = message.open(BodyForm::AsIs).await?;
    while let Some(piece) = pieces.next().await? {
        forwarding.write(&piece).await?;
    }
    forwarding.finish().await
}

/// Why a message does not go on: for now, unless it has been here before.
fn unforwarded(ctx: &Context, refusal: &Refusal) -> Failure {
    let reply = match refusal {
        Refusal::Loop => Reply::status(554, (5, 4, 6), "This message loops"),
        Refusal::Limit(reached) => {
            Reply::status(450, (4, 7, 1), format!("The alias forwards at most {reached}"))
        }
        refusal => {
            tracing::warn!(error = %refusal, "queued mail could not be forwarded; it waits");
            return failure(ctx, Reason::LocalFailure, &later());
        }
    };
    failure(ctx, Reason::RecipientRefused, &reply)
}

/// Why an address leads to no account.
fn unresolved(ctx: &Context, to: &Mailbox, error: &Error) -> Failure {
    let reply = match error.kind() {
        Kind::NotFound => Reply::status(550, (5, 1, 1), "No such user here"),
        Kind::Invalid => Reply::status(550, (5, 1, 3), "The address is not valid"),
        Kind::Denied => Reply::status(550, (5, 7, 1), "This address takes reports only"),
        Kind::Limit => Reply::status(451, (4, 2, 4), "The alias expands too far"),
        _ => {
            tracing::warn!(%error, recipient = %to, "a recipient could not be looked up; the mail waits");
            return failure(ctx, Reason::LocalFailure, &later());
        }
    };
    failure(ctx, Reason::RecipientRefused, &reply)
}

/// Why an account did not get it: always for now, because no mistake here may cost a message.
fn unstored(ctx: &Context, error: &Error) -> Failure {
    tracing::warn!(%error, "queued mail could not be delivered into an account; it waits");
    let reply = match error.kind() {
        Kind::Limit => Reply::status(452, (4, 3, 1), "Insufficient system resources"),
        _ => later(),
    };
    failure(ctx, Reason::LocalFailure, &reply)
}

fn later() -> Reply {
    Reply::status(451, (4, 3, 0), "Storage is not available")
}

fn failure(ctx: &Context, reason: Reason, reply: &Reply) -> Failure {
    let scope = if reason == Reason::LocalFailure { Scope::Local } else { Scope::Recipient };
    Failure::new(reason, &*ctx.hostname).with_reply(PeerReply::new(reply)).with_scope(scope)
}
