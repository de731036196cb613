//! The envelope of a submission: the one that the client gives, or the one that the message's header says
//! (RFC 8621 §7).

use std::collections::BTreeSet;

use sealpost_account::submission::PathAddress;
use sealpost_base::{Timestamp, limits};
use sealpost_directory::AccountRecord;
use sealpost_jmap::SetError;
use sealpost_jmap::date::Date;
use sealpost_jmap::error::{SetErrorDetail, SetErrorType};
use sealpost_jmap::read::FromJson;
use sealpost_jmap::submission::{Envelope, EnvelopeAddress};
use sealpost_mime::header::address::parse_list;
use sealpost_mime::header::{raw_fields, unfold};
use sealpost_queue::envelope::Recipient;
use sealpost_queue::runner::mailbox;
use sealpost_submission::forwarder::Route;
use sealpost_submission::outbox::{Outbox, Refusal};
use sealpost_submission::parameters::{self, MailParameters, WrongParameter};
use sealpost_submission::sender::matches_pattern;

use super::refused::{Refused, invalid, limit};

/// An envelope that was checked.
pub(super) struct Checked {
    pub(super) from: PathAddress,
    pub(super) to: Vec<PathAddress>,
    pub(super) mail: MailParameters,
    pub(super) recipients: Vec<Recipient>,
}

/// The envelope that the header of a message says. `identity` is the address of the identity that sends.
pub(crate) fn of_header(header: &[u8], identity: &str) -> Result<Envelope, SetError> {
    let mut senders = [("sender", Vec::new()), ("from", Vec::new())];
    let mut to = Vec::new();
    for (name, field) in raw_fields(header) {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let value = || unfold(&field[field.iter().position(|byte| *byte == b':').map_or(0, |at| at + 1)..]);
        match name.as_str() {
            "sender" | "from" => {
                let (_, found) = &mut senders[usize::from(name == "from")];
                if !found.is_empty() {
                    return Err(invalid(&name, "the message has the field several times"));
                }
                *found = addresses(&value());
            }
            "to" | "cc" | "bcc" => to.extend(addresses(&value())),
            _ => {}
        }
    }
    let [(_, sender), (_, from)] = &senders;
    let (name, found) = if sender.is_empty() { ("from", from) } else { ("sender", sender) };
    let mail_from = match found.as_slice() {
        [] => return Err(invalid("from", "the message has no From address")),
        [one] if matches_pattern(identity, one) => one.clone(),
        [one] if identity.starts_with("*@") => {
            let text = format!("the identity is not for mail from {one}");
            return Err(SetError::from(SetErrorType::ForbiddenMailFrom).describe(text));
        }
        // RFC 8621 §7: the identity's address is used instead.
        [_] => identity.to_owned(),
        // RFC 8621 §7: several addresses are refused.
        [..] => return Err(invalid(name, "there are several addresses and no single sender")),
    };
    let plain = |email: String| EnvelopeAddress { email, parameters: None };
    Ok(Envelope { mail_from: plain(mail_from), rcpt_to: to.into_iter().map(plain).collect() })
}

/// The addresses of a field, those in groups too.
fn addresses(value: &str) -> Vec<String> {
    let (list, _) = parse_list(value);
    let found = list.into_iter().filter_map(|address| match (address.mailbox, address.host) {
        // With quotes where the local part needs them; what is no address is refused later.
        (Some(local), Some(host)) => {
            let text = format!("{local}@{host}");
            Some(mailbox(&text).map_or(text, |mailbox| mailbox.to_string()))
        }
        _ => None,
    });
    found.collect()
}

/// Checks all of an envelope: what the account may send, and to whom mail can be sent.
pub(super) async fn check(
    outbox: &Outbox,
    account: &AccountRecord,
    envelope: Envelope,
    now: Timestamp,
) -> Result<Checked, Refused> {
    let Envelope { mail_from, rcpt_to } = envelope;
    let from = mail_from.email.clone();
    // RFC 5321 §4.5.5: notifications have the null sender; their From is checked all the same.
    if !from.is_empty() {
        match outbox.check_sender(account, &from).await {
            Ok(()) => {}
            Err(refusal @ Refusal::Sender(_)) => {
                let error = SetError::from(SetErrorType::ForbiddenMailFrom);
                return Err(error.describe(refusal.to_string()).into());
            }
            Err(refusal) => return Err(refusal.into()),
        }
    }
    let mail = parameters::of_mail(pairs(&mail_from), now, rfc3339).map_err(wrong_parameter)?;
    let mut seen = BTreeSet::new();
    let rcpt_to: Vec<_> = rcpt_to.into_iter().filter(|to| seen.insert(to.email.clone())).collect();
    check_count(rcpt_to.len())?;
    let (mut recipients, mut bad) = (Vec::with_capacity(rcpt_to.len()), Vec::new());
    for to in &rcpt_to {
        match outbox.forwarder().route(&to.email, &from).await? {
            Route::Nowhere => bad.push(to.email.clone()),
            Route::Here | Route::Elsewhere => {
                recipients.push(parameters::of_recipient(&to.email, pairs(to)).map_err(wrong_parameter)?);
            }
        }
    }
    if !bad.is_empty() {
        let error = SetError::from(SetErrorType::InvalidRecipients).describe("no mail can be sent there");
        return Err(error.with(SetErrorDetail::InvalidRecipients(bad)).into());
    }
    outbox.check_limits(account, recipients.len()).map_err(|reached| limit(&reached))?;
    Ok(Checked { from: path(mail_from), to: rcpt_to.into_iter().map(path).collect(), mail, recipients })
}

fn check_count(recipients: usize) -> Result<(), SetError> {
    match recipients {
        0 => Err(SetErrorType::NoRecipients.into()),
        1..=limits::SUBMISSION_RECIPIENTS => Ok(()),
        _ => Err(SetError::from(SetErrorType::TooManyRecipients)
            .with(SetErrorDetail::MaxRecipients(limits::SUBMISSION_RECIPIENTS as u64))),
    }
}

fn pairs(address: &EnvelopeAddress) -> impl Iterator<Item = (&str, Option<&str>)> {
    address.parameters.iter().flatten().map(|(name, value)| (name.as_str(), value.as_deref()))
}

fn path(address: EnvelopeAddress) -> PathAddress {
    let parameters = address.parameters.map(|all| all.into_iter().collect());
    PathAddress { address: address.email, parameters }
}

fn wrong_parameter(wrong: WrongParameter) -> SetError {
    let text = format!("{}: {}", wrong.keyword, wrong.why);
    SetError::invalid_properties(vec!["envelope".to_owned()], text)
}

/// A date and time as HOLDUNTIL has it (RFC 4865 §6: that of RFC 3339).
fn rfc3339(text: &str) -> Option<Timestamp> {
    Date::from_json(text.into()).ok().map(|date| date.moment.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(header: &str, identity: &str) -> Result<(String, Vec<String>), SetErrorType> {
        let envelope = of_header(header.as_bytes(), identity).map_err(|error| error.error)?;
        Ok((envelope.mail_from.email, envelope.rcpt_to.into_iter().map(|to| to.email).collect()))
    }

    #[test]
    fn recipients_are_those_of_to_cc_and_bcc() {
        let header = "From: me@a.example\r\nTo: x@b.example, G: y@b.example;\r\nCc: z@b.example\r\n\
                      Bcc: Q <q@b.example>\r\nReply-To: no@b.example\r\n\r\nTo: body@b.example\r\n";
        let to = ["x", "y", "z", "q"].map(|name| format!("{name}@b.example")).to_vec();
        assert_eq!(of(header, "me@a.example"), Ok(("me@a.example".to_owned(), to)));
    }

    #[test]
    fn the_sender_is_one_that_the_identity_allows() {
        let from = |header: &str, identity| of(header, identity).map(|(from, _)| from);
        let me = || Ok("me@a.example".to_owned());
        assert_eq!(from("From: other@a.example\r\n", "me@a.example"), me());
        assert_eq!(
            from("From: o@a.example\r\nSender: ME@a.example\r\n", "me@a.example"),
            Ok("ME@a.example".into())
        );
        assert_eq!(from("From: me@a.example\r\n", "*@a.example"), me());
        assert_eq!(from("From: me@b.example\r\n", "*@a.example"), Err(SetErrorType::ForbiddenMailFrom));
        assert_eq!(
            from("From: a@a.example, b@a.example\r\n", "me@a.example"),
            Err(SetErrorType::InvalidEmail)
        );
        let two = "From: a@a.example\r\nFrom: b@a.example\r\n";
        assert_eq!(from(two, "me@a.example"), Err(SetErrorType::InvalidEmail));
        assert_eq!(from("To: a@a.example\r\n", "me@a.example"), Err(SetErrorType::InvalidEmail));
    }
}
