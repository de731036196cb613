//! RCPT: the recipients of the message.

use sealpost_base::Kind;
use sealpost_directory::{Address, Resolved};
use sealpost_smtp::types::{ForwardPath, Host, Mail, Rcpt, Reply};

use super::forward;
use super::quota_check;
use super::replies;
use super::session::Session;
use super::transaction::Transaction;
use super::{Service, SmtpShared};
use sealpost_session::Context;

impl Session {
    pub(super) async fn rcpt(&mut self, rcpt: Rcpt) {
        let Some(transaction) = &self.transaction else { return self.out_of_order("Say MAIL first") };
        // RFC 3030 §2: the message has begun.
        if transaction.message.is_some() {
            return self.out_of_order("The message has begun");
        }
        if !transaction.envelope.mail.utf8 && !rcpt.to.is_ascii() {
            return self.refuse(replies::recipient_needs_utf8());
        }
        if transaction.envelope.recipients.len() >= self.shared.ctx.settings.recipients {
            return self.refuse(replies::too_many_recipients());
        }
        let added = match self.service {
            Service::Submission => self.add_submitted(rcpt).await,
            Service::Smtp | Service::Lmtp => self.add_recipient(rcpt).await,
        };
        match added {
            Ok(()) => {
                if let Some(stream) = self.connection.stream() {
                    stream.sends();
                }
                self.reply(replies::recipient_ok());
            }
            // A server in front of this one does not guess addresses; a strange client may.
            Err(reply) if self.is_lmtp() => self.reply(reply),
            Err(reply) => self.refuse(reply),
        }
    }

    async fn add_recipient(&mut self, rcpt: Rcpt) -> Result<(), Reply> {
        let Some(Transaction { envelope, .. }) = &self.transaction else {
            return Err(replies::out_of_order("Say MAIL first"));
        };
        let resolved = resolve(&self.shared, &rcpt.to, &envelope.mail).await?;
        forward::check(&self.shared, envelope, &resolved.outside)?;
        self.add(rcpt, resolved)
    }

    /// Adds a recipient of a submitted message. Refuses only users that do not exist here.
    async fn add_submitted(&mut self, rcpt: Rcpt) -> Result<(), Reply> {
        let (ctx, Some(outbox)) = (&self.shared.ctx, &self.shared.outbox) else {
            return Err(replies::unfinished());
        };
        let Some(Transaction { envelope, sender: Some(sender), .. }) = &self.transaction else {
            return Err(replies::out_of_order("Say MAIL first"));
        };
        // The same address twice is one recipient, unless it requests other reports (RFC 3461 §5.1).
        if envelope.recipients.iter().any(|recipient| recipient.is_of(&rcpt)) {
            return Ok(());
        }
        if let Some(account) = &sender.account {
            outbox
                .check_limits(account, envelope.recipients.len() + 1)
                .map_err(|reached| replies::sending_limit(&reached))?;
        }
        if is_local(ctx, &rcpt.to).await? {
            resolve(&self.shared, &rcpt.to, &envelope.mail).await?;
        }
        self.add(rcpt, Resolved::default())
    }

    fn add(&mut self, rcpt: Rcpt, resolved: Resolved) -> Result<(), Reply> {
        match &mut self.transaction {
            Some(transaction) => transaction.envelope.add(rcpt, resolved, &self.shared.envelopes),
            None => Err(replies::out_of_order("Say MAIL first")),
        }
    }
}

/// Whether a submitted message stays here.
async fn is_local(ctx: &Context, to: &ForwardPath) -> Result<bool, Reply> {
    let ForwardPath::Mailbox(mailbox) = to else { return Ok(true) };
    match ctx.directory.serves(&mailbox.host.to_string()).await {
        Ok(true) => Ok(true),
        // RFC 6409 §4.2: a domain has to be fully qualified.
        Ok(false) if mailbox.host.as_domain().is_some_and(|domain| !domain.contains('.')) => {
            Err(replies::incomplete_domain())
        }
        Ok(false) => Ok(false),
        Err(error) => {
            tracing::warn!(%error, "cannot list the domains of this server");
            Err(replies::storage(&error))
        }
    }
}

/// Resolves an address. All its accounts have quota for a message of the size in MAIL.
async fn resolve(shared: &SmtpShared, to: &ForwardPath, mail: &Mail) -> Result<Resolved, Reply> {
    let ctx = &shared.ctx;
    let resolved = match (to, &shared.outbox) {
        // RFC 5321 §4.5.1
        (ForwardPath::Postmaster, _) => ctx.directory.resolve("postmaster").await,
        (ForwardPath::Mailbox(mailbox), Some(outbox)) => {
            outbox.forwarder().resolve(mailbox, &mail.from).await
        }
        (ForwardPath::Mailbox(mailbox), None) => ctx.directory.resolve(&mailbox.to_string()).await,
    };
    let resolved = match resolved {
        Ok(resolved) => resolved,
        Err(error) if error.kind() == Kind::Denied => return Err(replies::reports_only()),
        Err(error) if error.kind() == Kind::NotFound || Address::parse(&to.to_string()).is_err() => {
            return Err(unknown(ctx, to).await);
        }
        Err(error) => {
            tracing::warn!(%error, "a recipient could not be looked up");
            return Err(replies::recipient(&error));
        }
    };
    check_room(ctx, to, &resolved, mail.size).await?;
    Ok(resolved)
}

/// The reply to an unknown address: this server does not serve its domain, or it has no account or alias. A
/// local part that asks to relay to another domain (`user%domain`, `domain!user`, a quoted address) counts as
/// a foreign address too; RFC 5321 §4.1.2 leaves its meaning to the host of the domain.
async fn unknown(ctx: &Context, to: &ForwardPath) -> Reply {
    let ForwardPath::Mailbox(mailbox) = to else { return replies::no_such_user() };
    let domains = [Some(mailbox.host.to_string()), routed_domain(mailbox.local.as_str()).map(str::to_owned)];
    for domain in domains.into_iter().flatten() {
        match ctx.directory.serves(&domain).await {
            Ok(true) => {}
            Ok(false) => return replies::relaying_denied(),
            Err(error) => {
                tracing::warn!(%error, "cannot list the domains of this server");
                break;
            }
        }
    }
    replies::no_such_user()
}

/// The domain to which a local part asks to relay, if it does.
fn routed_domain(local: &str) -> Option<&str> {
    let (user, domain) = match local.rsplit_once(['%', '@']) {
        Some(routed) => routed,
        None => local.split_once('!').map(|(domain, user)| (user, domain))?,
    };
    let is_domain = |text: &str| text.contains('.') && Host::domain(text).is_some();
    (!user.is_empty() && is_domain(domain)).then_some(domain)
}

/// Refuses a recipient whose quota does not permit a message of the size in MAIL, if there is one.
/// An alias is refused if any of its accounts is over quota: the client retries, and no account
/// gets it twice.
async fn check_room(
    ctx: &Context,
    to: &ForwardPath,
    resolved: &Resolved,
    declared: Option<u64>,
) -> Result<(), Reply> {
    // RFC 5321 §4.5.1: always accept mail for the postmaster.
    if *to == ForwardPath::Postmaster {
        return Ok(());
    }
    let bytes = declared.unwrap_or(0).max(1);
    for recipient in &resolved.recipients {
        if let Some(reply) = quota_check::over_quota(ctx, recipient.id, recipient.quotas, bytes).await {
            return Err(reply);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_parts_that_ask_for_another_domain() {
        for (local, domain) in [
            ("jane%elsewhere.example", Some("elsewhere.example")),
            ("jane%a.example%b.example", Some("b.example")),
            ("jane@elsewhere.example", Some("elsewhere.example")),
            ("elsewhere.example!jane", Some("elsewhere.example")),
            ("a.example!b.example!jane", Some("a.example")),
            ("100%", None),
            ("100%sure", None),
            ("%elsewhere.example", None),
            ("wow!", None),
            ("!wow", None),
            ("jane", None),
        ] {
            assert_eq!(routed_domain(local), domain, "{local}");
        }
    }
}
