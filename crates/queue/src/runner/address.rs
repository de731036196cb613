//! Converts addresses and parameters of an envelope into those of SMTP.

use sealpost_delivery::envelope as wire;
use sealpost_smtp::types::{
    Host, LocalPart, Mailbox, Notify as WireNotify, OriginalRecipient, Return, ReversePath,
};

use crate::envelope::{Mail, Notify, Recipient, Ret, TlsDemand};

/// The address that an envelope keeps as text; `None` if it is no address with a domain (RFC 5321
/// §4.1.2).
pub fn mailbox(text: &str) -> Option<Mailbox> {
    let (local, domain) = text.rsplit_once('@')?;
    let local = match local.strip_prefix('"').and_then(|local| local.strip_suffix('"')) {
        None => local.to_owned(),
        Some(quoted) => {
            let (mut plain, mut chars) = (String::with_capacity(quoted.len()), quoted.chars());
            while let Some(c) = chars.next() {
                plain.extend(if c == '\\' { chars.next() } else { Some(c) });
            }
            plain
        }
    };
    let host = match domain.strip_prefix('[').and_then(|literal| literal.strip_suffix(']')) {
        Some(literal) => Host::literal(literal)?,
        None => Host::domain(domain)?,
    };
    Some(Mailbox { local: LocalPart::new(local)?, host })
}

/// The reverse-path of a mail. One that is no address counts as null: no report can reach it.
pub(super) fn sender(mail: &Mail) -> ReversePath {
    mailbox(&mail.from).map_or(ReversePath::Null, ReversePath::Mailbox)
}

/// The envelope to send for those recipients, and their places. Recipients without an address are left out.
pub(super) fn envelope(mail: &Mail, recipients: &[u16]) -> (wire::Envelope, Vec<u16>) {
    let (mut to, mut places) = (Vec::new(), Vec::new());
    for place in recipients {
        let recipient = mail.recipients.get(usize::from(*place));
        if let Some((recipient, mailbox)) = recipient.and_then(|r| Some((r, mailbox(&r.address)?))) {
            to.push(wire::Recipient { to: mailbox, notify: notify(recipient), orcpt: orcpt(recipient) });
            places.push(*place);
        }
    }
    let facts = wire::MessageFacts { eight_bit: mail.facts.eight_bit, utf8_header: mail.facts.utf8_header };
    let ret = mail.ret.map(|ret| match ret {
        Ret::Full => Return::Full,
        Ret::Headers => Return::Headers,
    });
    let envelope = wire::Envelope {
        sender: sender(mail),
        recipients: to,
        ret,
        envid: mail.envid.clone(),
        facts,
        tls: tls(mail),
        report_on: mail.report_on.as_ref().map(|of| (of.account.clone(), of.id)),
    };
    (envelope, places)
}

/// The demand of the mail on TLS.
pub(super) fn tls(mail: &Mail) -> wire::TlsDemand {
    match mail.tls {
        TlsDemand::Policy => wire::TlsDemand::Policy,
        TlsDemand::Require => wire::TlsDemand::Require,
        TlsDemand::Waive => wire::TlsDemand::Waive,
    }
}

fn notify(recipient: &Recipient) -> Option<WireNotify> {
    recipient.notify.map(|notify| match notify {
        Notify::NEVER => WireNotify::Never,
        notify => WireNotify::On {
            success: notify.has(Notify::SUCCESS),
            failure: notify.has(Notify::FAILURE),
            delay: notify.has(Notify::DELAY),
        },
    })
}

fn orcpt(recipient: &Recipient) -> Option<OriginalRecipient> {
    let (kind, address) = recipient.orcpt.as_ref()?.split_once(';')?;
    Some(OriginalRecipient { kind: kind.to_owned(), address: address.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_being_text() {
        for text in ["jane@example.org", "\"a b\\\"c\"@example.org", "x@[192.0.2.1]", "x@[IPv6:2001:db8::1]"]
        {
            assert_eq!(mailbox(text).unwrap().to_string(), text);
        }
        for bad in ["jane", "jane@", "jane@exa mple", "jane@[x]", "j\u{7}e@example.org"] {
            assert!(mailbox(bad).is_none(), "{bad}");
        }
    }
}
