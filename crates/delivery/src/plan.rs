//! Plans a mail for one server before the first command: the extensions of the server decide on forms and
//! parameters.

use sealpost_dns::DnsName;
use sealpost_smtp::client::Extensions;
use sealpost_smtp::types::{Body, ForwardPath, Host, Mail, Mailbox, Rcpt, ReversePath};

use crate::envelope::{BodyForm, Envelope, MessageSource, TlsDemand};
use crate::outcome::{Failure, Lacking, Reason, Scope, SuccessReports};

/// The commands to send.
#[derive(Debug)]
pub(crate) struct Plan {
    /// MAIL.
    pub mail: Mail,
    /// RCPT for each recipient, or why it cannot be sent.
    pub recipients: Vec<Result<Rcpt, Failure>>,
    /// The form of the message.
    pub form: BodyForm,
    /// Its size in bytes, about.
    pub size: u64,
    /// Which server reports success.
    pub reports: SuccessReports,
    /// Whether commands may be sent without waiting for replies (RFC 2920).
    pub pipelining: bool,
    /// Whether the message goes by BDAT (RFC 3030).
    pub chunking: bool,
}

/// Plans `envelope` for a server named `host` with `extensions`. Also returns the extensions that it lacks.
///
/// # Errors
/// Why the server cannot take the message at all.
pub(crate) fn plan(
    envelope: &Envelope,
    message: &dyn MessageSource,
    extensions: &Extensions,
    host: &str,
) -> (Lacking, Result<Plan, Failure>) {
    let dsn = extensions.has("DSN");
    let utf8 = extensions.has("SMTPUTF8");
    let eight_bit = extensions.has("8BITMIME");
    let lacking = Lacking {
        smtputf8: !utf8 && needs_utf8(envelope),
        eight_bit_mime: !eight_bit && envelope.facts.eight_bit,
        dsn: !dsn && wants_dsn(envelope),
        require_tls: !extensions.has("REQUIRETLS") && requires_tls(envelope),
    };
    (lacking, decide(envelope, message, extensions, host, lacking))
}

fn decide(
    envelope: &Envelope,
    message: &dyn MessageSource,
    extensions: &Extensions,
    host: &str,
    lacking: Lacking,
) -> Result<Plan, Failure> {
    if lacking.require_tls {
        return Err(Failure::new(Reason::RequireTlsLacking, host));
    }
    let no_utf8 = || Failure::new(Reason::SmtpUtf8Lacking, host);
    // RFC 6531 §3.5: a server without SMTPUTF8 gets neither such addresses nor such header fields.
    if lacking.smtputf8 && envelope.facts.utf8_header {
        return Err(no_utf8());
    }
    let from = match &envelope.sender {
        ReversePath::Mailbox(mailbox) if lacking.smtputf8 => {
            ReversePath::Mailbox(in_ascii(mailbox).ok_or_else(no_utf8)?)
        }
        other => other.clone(),
    };
    let form = if lacking.eight_bit_mime { BodyForm::SevenBit } else { BodyForm::AsIs };
    let size = message.size(form);
    // RFC 1870 §6.1: do not send a message above the announced limit.
    if extensions.size().is_some_and(|limit| size > limit) {
        return Err(Failure::new(Reason::TooLarge, host));
    }
    let dsn = extensions.has("DSN");
    let mail = Mail {
        size: extensions.has("SIZE").then_some(size),
        // RFC 6531 §3.6: SMTPUTF8 implies 8BITMIME, which such a server offers.
        body: (envelope.facts.eight_bit && form == BodyForm::AsIs).then_some(Body::EightBitMime),
        utf8: needs_utf8(envelope) && !lacking.smtputf8,
        ret: envelope.ret.filter(|_| dsn),
        envid: envelope.envid.clone().filter(|_| dsn),
        require_tls: requires_tls(envelope),
        ..Mail::new(from)
    };
    let recipients = envelope.recipients.iter().map(|recipient| {
        let to = match lacking.smtputf8 {
            true => in_ascii(&recipient.to).ok_or_else(|| no_utf8().with_scope(Scope::Recipient))?,
            false => recipient.to.clone(),
        };
        Ok(Rcpt {
            notify: recipient.notify.filter(|_| dsn),
            orcpt: recipient.orcpt.clone().filter(|_| dsn),
            ..Rcpt::new(ForwardPath::Mailbox(to))
        })
    });
    let pipelining = extensions.has("PIPELINING");
    Ok(Plan {
        mail,
        recipients: recipients.collect(),
        form,
        size,
        reports: if dsn { SuccessReports::NextServer } else { SuccessReports::Relayed },
        pipelining,
        // Without pipelining each chunk would cost a round trip.
        chunking: pipelining && extensions.has("CHUNKING"),
    })
}

/// Whether the mail can be sent with SMTPUTF8 only (RFC 6531 §3.4).
fn needs_utf8(envelope: &Envelope) -> bool {
    envelope.facts.utf8_header
        || !envelope.sender.is_ascii()
        || envelope.recipients.iter().any(|recipient| !recipient.to.is_ascii())
}

fn wants_dsn(envelope: &Envelope) -> bool {
    let recipient = |r: &crate::envelope::Recipient| r.notify.is_some() || r.orcpt.is_some();
    envelope.ret.is_some() || envelope.envid.is_some() || envelope.recipients.iter().any(recipient)
}

/// RFC 8689 §4.2.1 excepts reports, whose sender is empty.
pub(crate) fn requires_tls(envelope: &Envelope) -> bool {
    envelope.tls == TlsDemand::Require && envelope.sender != ReversePath::Null
}

/// The same address with A-labels (RFC 5891 §4.4); `None` if its local part is not ASCII.
fn in_ascii(mailbox: &Mailbox) -> Option<Mailbox> {
    if !mailbox.local.as_str().is_ascii() {
        return None;
    }
    let host = match mailbox.host.as_domain() {
        Some(domain) if !domain.is_ascii() => Host::domain(DnsName::new(domain)?.as_str())?,
        _ => mailbox.host.clone(),
    };
    Some(Mailbox { local: mailbox.local.clone(), host })
}
