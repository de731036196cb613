//! The bytes of a notification (RFC 8098 §3): text for people, then fields for programs, then perhaps the
//! message that it is about.

use sealpost_jmap::SetError;
use sealpost_jmap::mdn::{ActionMode, DispositionType, Mdn, MdnDisposition, SendingMode};
use sealpost_mime::encode;
use sealpost_mime::header::address::parse_list;
use sealpost_mime::header::{fields, text, unfold};
use sealpost_queue::runner::mailbox;

use crate::submission::invalid_property;

/// Fields that the server writes itself: no extension has their names (RFC 8098 §3.1).
const FIELDS: [&str; 7] = [
    "reporting-ua",
    "mdn-gateway",
    "original-recipient",
    "final-recipient",
    "original-message-id",
    "disposition",
    "error",
];

/// Fields of the header that a notification has.
pub(crate) const FIELDS_OF_HEADER: [&str; 8] =
    ["From", "To", "Subject", "In-Reply-To", "References", "Auto-Submitted", "MIME-Version", "Content-Type"];

/// A notification about a message with that header, as its reader may send it; `None` if its sender wants
/// none.
pub(crate) fn notification_about(header: &[u8]) -> Option<String> {
    let original = Original::of(header);
    let mdn = Mdn {
        for_email_id: None,
        subject: None,
        text_body: None,
        include_original_message: false,
        reporting_ua: None,
        disposition: MdnDisposition {
            action_mode: ActionMode::Manual,
            sending_mode: SendingMode::Automatically,
            disposition_type: DispositionType::Displayed,
        },
        mdn_gateway: None,
        original_recipient: None,
        final_recipient: None,
        original_message_id: None,
        error: None,
        extension_fields: None,
    };
    let notification = Notification {
        mdn: &mdn,
        original: &original,
        name: "Me",
        address: "me@here.example",
        to: &original.notify,
        final_recipient: "rfc822; me@here.example",
        boundary: "boundary",
    };
    let (before, after) = notification.text().ok().filter(|_| !original.notify.is_empty())?;
    Some(before + &after)
}

/// What the message says that a notification is about.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Original {
    /// Where its sender wants notifications (RFC 8098 §2.1).
    pub(super) notify: Vec<String>,
    /// Its sender requires an option that this server does not know (RFC 8098 §2.2).
    pub(super) requires_more: bool,
    /// Original-Recipient (RFC 8098 §2.3).
    pub(super) recipient: Option<String>,
    /// Message-ID.
    pub(super) message_id: Option<String>,
    subject: Option<String>,
}

impl Original {
    /// As the header of a message says it.
    pub(super) fn of(header: &[u8]) -> Self {
        let mut found = Original::default();
        for (name, value) in fields(header) {
            let value = || unfold(value).trim().to_owned();
            match &*String::from_utf8_lossy(name).to_ascii_lowercase() {
                "disposition-notification-to" if found.notify.is_empty() => {
                    let (list, _) = parse_list(&value());
                    let mailboxes = list.into_iter().filter(|address| address.is_mailbox());
                    let text = mailboxes.filter_map(|one| Some(format!("{}@{}", one.mailbox?, one.host?)));
                    found.notify = text.filter_map(|text| Some(mailbox(&text)?.to_string())).collect();
                }
                "disposition-notification-options" => {
                    found.requires_more |= value()
                        .to_ascii_lowercase()
                        .split([';', ',', '='])
                        .any(|word| word.trim() == "required");
                }
                "original-recipient" => found.recipient = Some(value()).filter(|value| is_field_value(value)),
                "message-id" => found.message_id = Some(value()).filter(|value| is_field_value(value)),
                "subject" => found.subject = Some(value()),
                _ => {}
            }
        }
        found
    }

    /// The subject of a notification about it.
    pub(super) fn subject(&self) -> String {
        let subject = self.subject.as_ref().map(|subject| text(subject.as_bytes()));
        format!("Disposition notification: {}", subject.unwrap_or_default()).trim_end().to_owned()
    }
}

/// Whether a text can be the value of a field: printable ASCII, and not so long that it must be folded.
fn is_field_value(text: &str) -> bool {
    !text.is_empty() && text.len() <= 900 && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// A notification that is to be written.
pub(super) struct Notification<'a> {
    pub(super) mdn: &'a Mdn,
    pub(super) original: &'a Original,
    /// Of the identity that sends.
    pub(super) name: &'a str,
    /// In From.
    pub(super) address: &'a str,
    pub(super) to: &'a [String],
    pub(super) final_recipient: &'a str,
    pub(super) boundary: &'a str,
}

impl Notification<'_> {
    /// What comes before the message that it is about, and what comes after it.
    ///
    /// # Errors
    /// `invalidProperties`, if something cannot be written.
    pub(super) fn text(&self) -> Result<(String, String), SetError> {
        let (boundary, mdn) = (self.boundary, self.mdn);
        let mut before = self.header();
        before += &format!("--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n");
        before += "Content-Transfer-Encoding: quoted-printable\r\n\r\n";
        let text = mdn.text_body.as_deref().unwrap_or(self.default_text());
        before += &encode::quoted_printable(text);
        before += &format!("\r\n--{boundary}\r\nContent-Type: message/disposition-notification\r\n\r\n");
        before += &self.fields()?;
        if mdn.include_original_message {
            before += &format!("\r\n--{boundary}\r\nContent-Type: message/rfc822\r\n\r\n");
        }
        Ok((before, format!("\r\n--{boundary}--\r\n")))
    }

    fn header(&self) -> String {
        let subject = self.mdn.subject.clone().unwrap_or_else(|| self.original.subject());
        let mut header = encode::list("From", &[encode::mailbox(self.name, self.address)]);
        header += &encode::list("To", self.to);
        header += &encode::unstructured("Subject", &subject);
        if let Some(id) = &self.original.message_id {
            header += &format!("In-Reply-To: {id}\r\nReferences: {id}\r\n");
        }
        // RFC 3834 §5: what no person has sent.
        if self.mdn.disposition.sending_mode == SendingMode::Automatically {
            header += "Auto-Submitted: auto-replied\r\n";
        }
        let boundary = self.boundary;
        header += "MIME-Version: 1.0\r\nContent-Type: multipart/report;\r\n";
        header += &format!(" report-type=disposition-notification;\r\n boundary=\"{boundary}\"\r\n\r\n");
        header
    }

    /// The text of a client that gave none.
    fn default_text(&self) -> &'static str {
        match self.mdn.disposition.disposition_type {
            DispositionType::Displayed => {
                "The message was displayed. This does not mean that it was read or understood."
            }
            DispositionType::Deleted => "The message was deleted. It may not have been displayed before.",
            DispositionType::Dispatched => "The message was sent on.",
            DispositionType::Processed => "The message was processed without being displayed.",
        }
    }

    /// The fields (RFC 8098 §3.1).
    fn fields(&self) -> Result<String, SetError> {
        let (mdn, original) = (self.mdn, self.original);
        let mut out = String::new();
        let mut push = |name: &str, property: &str, value: &str| match is_field_value(value) {
            true => {
                out += &format!("{name}: {value}\r\n");
                Ok(())
            }
            false => Err(invalid_property(property, "printable ASCII only, at most 900 bytes")),
        };
        if let Some(agent) = &mdn.reporting_ua {
            push("Reporting-UA", "reportingUA", agent)?;
        }
        if let Some(gateway) = &mdn.mdn_gateway {
            push("MDN-Gateway", "mdnGateway", gateway)?;
        }
        if let Some(recipient) = original.recipient.as_ref().or(mdn.original_recipient.as_ref()) {
            push("Original-Recipient", "originalRecipient", recipient)?;
        }
        push("Final-Recipient", "finalRecipient", self.final_recipient)?;
        if let Some(id) = original.message_id.as_ref().or(mdn.original_message_id.as_ref()) {
            push("Original-Message-ID", "originalMessageId", id)?;
        }
        let disposition = &mdn.disposition;
        let modes = format!("{}/{}", disposition.action_mode.name(), disposition.sending_mode.name());
        push("Disposition", "disposition", &format!("{modes}; {}", disposition.disposition_type.name()))?;
        for error in mdn.error.iter().flatten() {
            push("Error", "error", error)?;
        }
        for (name, value) in mdn.extension_fields.iter().flatten() {
            let is_name =
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
            if !is_name || FIELDS.contains(&&*name.to_ascii_lowercase()) {
                return Err(invalid_property("extensionFields", "not the name of an extension"));
            }
            push(name, "extensionFields", value)?;
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const HEADER: &[u8] = b"From: s@there.example\r\nSubject: =?utf-8?q?caf=C3=A9?=\r\n\
        Message-ID: <1@there.example>\r\nDisposition-Notification-To: S <s@there.example>, t@there.example\r\n\
        Original-Recipient: rfc822;me@here.example\r\n\r\n";

    fn mdn() -> Mdn {
        Mdn {
            for_email_id: None,
            subject: None,
            text_body: None,
            include_original_message: false,
            reporting_ua: Some("here; Reader 1".to_owned()),
            disposition: MdnDisposition {
                action_mode: ActionMode::Manual,
                sending_mode: SendingMode::Manually,
                disposition_type: DispositionType::Displayed,
            },
            mdn_gateway: None,
            original_recipient: None,
            final_recipient: None,
            original_message_id: None,
            error: None,
            extension_fields: None,
        }
    }

    fn written(mdn: &Mdn) -> Result<String, SetError> {
        let original = Original::of(HEADER);
        let notification = Notification {
            mdn,
            original: &original,
            name: "Me",
            address: "me@here.example",
            to: &original.notify,
            final_recipient: "rfc822; me@here.example",
            boundary: "b",
        };
        notification.text().map(|(before, after)| before + &after)
    }

    #[test]
    fn a_notification_has_text_and_fields() {
        let text = written(&mdn()).unwrap();
        for expected in [
            "To: s@there.example, t@there.example\r\n",
            "In-Reply-To: <1@there.example>\r\n",
            "report-type=disposition-notification",
            "Reporting-UA: here; Reader 1\r\n",
            "Original-Recipient: rfc822;me@here.example\r\nFinal-Recipient: rfc822; me@here.example\r\n",
            "Original-Message-ID: <1@there.example>\r\n",
            "Disposition: manual-action/mdn-sent-manually; displayed\r\n",
            "\r\n--b--\r\n",
        ] {
            assert!(text.contains(expected), "{expected:?} in {text}");
        }
        assert!(!text.contains("Auto-Submitted"));
    }

    #[test]
    fn no_value_begins_another_line() {
        let with = |name: &str, value: &str| {
            let fields = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            written(&Mdn { extension_fields: Some(fields), ..mdn() })
        };
        assert!(with("X-Extension", "value").unwrap().contains("X-Extension: value\r\n"));
        for (name, value) in
            [("X", "a\r\nDisposition: x"), ("X: y", "a"), ("", "a"), ("Error", "a"), ("X", "é")]
        {
            assert!(with(name, value).is_err(), "{name:?} {value:?}");
        }
        let agent = Mdn { reporting_ua: Some("a\nb".to_owned()), ..mdn() };
        assert!(written(&agent).is_err());
    }

    #[test]
    fn required_options_are_noticed() {
        let of = |options: &str| {
            Original::of(format!("Disposition-Notification-Options: {options}\r\n").as_bytes()).requires_more
        };
        assert!(of("x=required,1") && !of("x=optional,1"));
    }
}
