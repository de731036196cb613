//! Why a recipient did not get the mail, and how far the failure reaches.

use std::fmt;

use minicbor::{Decode, Encode};
use sealpost_smtp::types::Enhanced;

use super::{Outcome, PeerReply, Reason};

/// Why a recipient did not get the mail.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Failure {
    /// The reason.
    #[n(0)]
    pub reason: Reason,
    /// How far the failure reaches.
    #[n(1)]
    pub scope: Scope,
    /// Whether trying again can help.
    #[n(2)]
    pub permanent: bool,
    /// The server's reply, if there was one.
    #[n(3)]
    pub reply: Option<PeerReply>,
    /// The server or the name in question, for the operator; empty if there is none.
    #[n(4)]
    pub host: String,
}

impl Failure {
    /// A failure without a reply, of the scope and permanence that `reason` has as a rule.
    pub fn new(reason: Reason, host: impl Into<String>) -> Self {
        let (scope, permanent) = reason.rule();
        Failure { reason, scope, permanent, reply: None, host: host.into() }
    }

    /// The same failure with the server's reply.
    #[must_use]
    pub fn with_reply(mut self, reply: PeerReply) -> Self {
        self.permanent = reply.code / 100 == 5;
        self.reply = Some(reply);
        self
    }

    /// The same failure with another scope.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// The outcome of a recipient with this failure.
    pub fn outcome(self) -> Outcome {
        if self.permanent { Outcome::Failed(self) } else { Outcome::Deferred(self) }
    }

    /// The status for reports (RFC 3463): the server's own code, or that of the reason.
    pub fn status(&self) -> Enhanced {
        let reply = self.reply.as_ref().and_then(|reply| reply.enhanced);
        reply.unwrap_or_else(|| self.reason.status(self.permanent))
    }

    /// Whether a route's second choice may succeed where this one failed: the server refuses this
    /// node rather than the recipient or the message.
    pub fn concerns_route(&self) -> bool {
        match self.reason {
            Reason::ConnectionRefused
            | Reason::Unreachable
            | Reason::TimedOut(_)
            | Reason::ConnectionLost(_)
            | Reason::GreetingRefused
            | Reason::AuthenticationFailed => self.scope != Scope::Recipient,
            // RFC 3463 §3.8: security or policy status.
            Reason::SenderRefused | Reason::RecipientRefused | Reason::MessageRefused => {
                self.status().subject == 7
            }
            _ => false,
        }
    }
}

impl fmt::Display for Failure {
    /// One line for an operator: the reason, the server, its reply.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        if !self.host.is_empty() {
            write!(f, " ({})", self.host)?;
        }
        if let Some(reply) = &self.reply {
            write!(f, ": {reply}")?;
        }
        Ok(())
    }
}

/// How far a failure reaches: which other deliveries to expect to fail the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Scope {
    /// This recipient of this message.
    #[n(0)]
    Recipient,
    /// This message, for all recipients at this site; other messages may pass.
    #[n(1)]
    Message,
    /// This connection; another one may work.
    #[n(2)]
    Connection,
    /// The whole destination: none of its servers works now.
    #[n(3)]
    Site,
    /// This node; the destination is not to blame.
    #[n(4)]
    Local,
}

#[cfg(test)]
mod tests {
    use sealpost_smtp::types::Reply;

    use super::super::REPLY_TEXT_CHARS;
    use super::*;
    use crate::outcome::Step;

    #[test]
    fn replies_are_bounded_and_printable() {
        let reply = Reply::status(550, (5, 1, 1), "no\r\nsuch\u{7f}user").with_line("x".repeat(100_000));
        let kept = PeerReply::new(&reply);
        assert_eq!(kept.text.chars().count(), REPLY_TEXT_CHARS);
        assert!(kept.text.starts_with("no??such?user xxx"));
        let failure = Failure::new(Reason::RecipientRefused, "mx.example").with_reply(kept);
        assert!(failure.permanent);
        let line = failure.to_string();
        assert!(
            line.starts_with("the server refused the recipient (mx.example): 550 5.1.1 no??such"),
            "{line}"
        );
    }

    #[test]
    fn failures_survive_storage() {
        let reply = PeerReply::new(&Reply::status(451, (4, 7, 1), "later"));
        for reason in [Reason::NoSuchDomain, Reason::TimedOut(Step::MessageEnd), Reason::BadDestination] {
            for failure in [Failure::new(reason, ""), Failure::new(reason, "h").with_reply(reply.clone())] {
                let bytes = minicbor::to_vec(&failure).unwrap();
                assert_eq!(minicbor::decode::<Failure>(&bytes).unwrap(), failure);
            }
        }
    }

    #[test]
    fn a_second_route_helps_against_policy_only() {
        let refused = |code, enhanced: (u8, u16, u16)| {
            let reply = PeerReply::new(&Reply::status(code, enhanced, "x"));
            Failure::new(Reason::RecipientRefused, "h").with_reply(reply).concerns_route()
        };
        assert!(refused(550, (5, 7, 1)));
        assert!(!refused(550, (5, 1, 1)));
        assert!(Failure::new(Reason::GreetingRefused, "h").concerns_route());
        assert!(!Failure::new(Reason::NullMx, "h").concerns_route());
    }
}
