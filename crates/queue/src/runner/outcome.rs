//! Converts the outcomes of a transport into those of the log.

use sealpost_delivery::outcome::{self as sent, Scope, SuccessReports};
use sealpost_smtp::types::Enhanced;

use crate::MailId;
use crate::event::{Failure, Outcome, Status, Taken};

/// Whether servers of the site work: they were reached, and took or refused this mail itself.
pub(super) fn site_works(outcomes: &[sent::Outcome]) -> bool {
    outcomes.iter().any(|outcome| match outcome {
        sent::Outcome::Delivered(_) => true,
        sent::Outcome::Deferred(failure) | sent::Outcome::Failed(failure) => {
            matches!(failure.scope, Scope::Recipient | Scope::Message)
        }
    })
}

/// Whether a failure shows that the site cannot be used now. A permanent failure is about the mail, and a
/// local one about this node.
pub(super) fn is_of_site(failure: &sent::Failure) -> bool {
    !failure.permanent && matches!(failure.scope, Scope::Connection | Scope::Site)
}

/// The server that took a mail, if one did, with its reply.
pub(super) fn taken(mail: MailId, attempt: &sent::Attempt) -> Option<Taken> {
    let server = attempt.server.as_ref()?;
    attempt.recipients.iter().find_map(|of| match of {
        sent::Outcome::Delivered(delivered)
            if !matches!(delivered.reports, SuccessReports::DeliveredHere | SuccessReports::Expanded) =>
        {
            Some(Taken::new(mail, &server.host, &delivered.reply.to_string()))
        }
        _ => None,
    })
}

/// An outcome as the log keeps it.
pub(super) fn outcome(of: &sent::Outcome) -> Outcome {
    match of {
        sent::Outcome::Delivered(delivered) => match delivered.reports {
            SuccessReports::NextServer => Outcome::Delivered,
            SuccessReports::Relayed => Outcome::Relayed,
            SuccessReports::DeliveredHere => Outcome::DeliveredHere,
            SuccessReports::Expanded => Outcome::Expanded,
        },
        sent::Outcome::Deferred(why) => Outcome::Deferred(failure(why)),
        sent::Outcome::Failed(why) => Outcome::Failed(failure(why)),
    }
}

/// A failure as the log keeps it.
pub(super) fn failure(of: &sent::Failure) -> Failure {
    let Enhanced { class, subject, detail } = of.status();
    let status = Status::new(class, subject, detail);
    match &of.reply {
        Some(reply) => Failure::at(&of.host, status, &reply.to_string(), true),
        None => Failure::at(&of.host, status, &of.reason.to_string(), false),
    }
}
