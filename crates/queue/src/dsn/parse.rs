//! Reads the status part of a report (RFC 3464 §2.1) that another server sent about mail of this one.
//!
//! Reading never fails. It skips lines that are no fields, and leaves out the rest beyond a limit.

use sealpost_base::limits;

use super::Action;

/// Recipients that are read of one report.
pub const RECIPIENTS: usize = limits::SMTP_RECIPIENTS;
/// Bytes of one field that are kept.
pub const FIELD_BYTES: usize = 1024;

/// What a report says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryStatus {
    /// The envelope id that the sender gave (RFC 3464 §2.2.1).
    pub envelope_id: Option<String>,
    /// The server that reports, without the type.
    pub reporting_mta: Option<String>,
    /// Recipients, as far as they are complete.
    pub recipients: Vec<RecipientStatus>,
}

/// What a report says of one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientStatus {
    /// The address that the sender gave, without the type.
    pub original: Option<String>,
    /// The address in question, without the type.
    pub recipient: String,
    /// What happened to the mail; `None` for an unknown action.
    pub action: Option<Action>,
    /// The status code, as written.
    pub status: String,
    /// The server that the reporter spoke to, without the type.
    pub remote_mta: Option<String>,
    /// The reply of that server, without the type.
    pub diagnostic: Option<String>,
}

/// Reads the content of a `message/delivery-status` or `message/global-delivery-status` part.
pub fn delivery_status(content: &[u8]) -> DeliveryStatus {
    let mut groups = groups(content).into_iter();
    let mut status = DeliveryStatus::default();
    if let Some(message) = groups.next() {
        status.envelope_id = value(&message, "original-envelope-id").map(str::to_owned);
        status.reporting_mta = value(&message, "reporting-mta").map(|mta| untyped(mta).to_owned());
    }
    status.recipients = groups.filter_map(|group| recipient(&group)).take(RECIPIENTS).collect();
    status
}

type Group = Vec<(String, String)>;

fn recipient(group: &Group) -> Option<RecipientStatus> {
    let optional = |name| value(group, name).map(|text| untyped(text).to_owned());
    let action = value(group, "action")?.to_ascii_lowercase();
    Some(RecipientStatus {
        original: optional("original-recipient"),
        recipient: optional("final-recipient")?,
        action: match action.as_str() {
            "failed" => Some(Action::Failed),
            "delayed" => Some(Action::Delayed),
            "delivered" => Some(Action::Delivered),
            "relayed" => Some(Action::Relayed),
            "expanded" => Some(Action::Expanded),
            _ => None,
        },
        status: value(group, "status").unwrap_or_default().to_owned(),
        remote_mta: optional("remote-mta"),
        diagnostic: optional("diagnostic-code"),
    })
}

/// The fields of each group. Empty lines separate groups.
fn groups(content: &[u8]) -> Vec<Group> {
    let (mut groups, mut group) = (Vec::new(), Group::new());
    for line in content.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = String::from_utf8_lossy(&line[..line.len().min(FIELD_BYTES)]);
        if line.trim().is_empty() {
            if !group.is_empty() {
                groups.push(std::mem::take(&mut group));
            }
            if groups.len() > RECIPIENTS {
                return groups;
            }
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = group.last_mut()
                && value.len() < FIELD_BYTES
            {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':')
            && group.len() < 64
        {
            group.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    if !group.is_empty() {
        groups.push(group);
    }
    groups
}

fn value<'a>(group: &'a Group, name: &str) -> Option<&'a str> {
    group.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
}

/// The value behind the type of an address or name: `rfc822; jane@example.org`.
fn untyped(text: &str) -> &str {
    text.split_once(';').map_or(text, |(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc_is_read() {
        // RFC 3464, appendix E.1.
        let content = b"Reporting-MTA: dns; cs.utk.edu\r\n\r\nOriginal-Recipient: rfc822;louisl@larry.slip.umd.edu\r\n\
            Final-Recipient: rfc822;louisl@larry.slip.umd.edu\r\nAction: failed\r\nStatus: 4.0.0\r\n\
            Diagnostic-Code: smtp; 426 connection\r\n timed out\r\nLast-Attempt-Date: Thu, 7 Jul 1994 17:15:49 -0400\r\n";
        let status = delivery_status(content);
        assert_eq!(status.reporting_mta.as_deref(), Some("cs.utk.edu"));
        let [recipient] = &status.recipients[..] else { panic!("{status:?}") };
        assert_eq!(recipient.action, Some(Action::Failed));
        assert_eq!(recipient.diagnostic.as_deref(), Some("426 connection timed out"));
    }

    #[test]
    fn garbage_and_excess_are_left_out() {
        let one = "Final-Recipient: rfc822; a@b\nAction: expanded\n\n";
        let many = format!("Reporting-MTA: dns; x\n\n{}", one.repeat(RECIPIENTS + 500));
        assert_eq!(delivery_status(many.as_bytes()).recipients.len(), RECIPIENTS);
        let long = format!("Reporting-MTA: dns; {}\n {}", "x".repeat(100_000), "y\n ".repeat(100_000));
        assert!(delivery_status(long.as_bytes()).reporting_mta.unwrap().len() <= 2 * FIELD_BYTES);
        assert_eq!(delivery_status(b"\xff\xfe\n\n: : :\nno field"), DeliveryStatus::default());
    }
}
