//! The reply: a message of its own, that nothing replies to (RFC 5230 §5, RFC 3834 §3).

use sealpost_base::limits;
use sealpost_mime::decode::html::HtmlText;
use sealpost_mime::encode::{mailbox, quoted_printable, unstructured};

use super::original::{Addressed, Original};
use super::settings::VacationSettings;

/// The text if the owner wrote none.
const DEFAULT_TEXT: &str =
    "Thank you for your message. I am away at present and will read it when I am back.\r\n";
/// The subject of a reply to a message without one.
const DEFAULT_SUBJECT: &str = "Automatic reply";

/// The reply to `original` from the address that it was sent to. Date and Message-ID are added on
/// the way into the queue. `unique`: what separates its parts.
pub fn reply(
    settings: &VacationSettings,
    original: &Original,
    from: &Addressed,
    to: &str,
    unique: &str,
) -> Vec<u8> {
    // RFC 5230 §5.4, §5.5: From is the address that was written to, To the reverse-path.
    let mut message = format!("From: {}\r\nTo: <{to}>\r\n", mailbox(&from.name, &from.address));
    message.push_str(&unstructured("Subject", &subject(settings, original)));
    if let Some(id) = &original.message_id {
        // RFC 5230 §5.8, RFC 5322 §3.6.4.
        let ids = original.references.iter().filter(|known| *known != id).chain([id]);
        let ids: Vec<String> = ids.map(|id| format!("<{id}>")).collect();
        message.push_str(&format!("In-Reply-To: <{id}>\r\nReferences: {}\r\n", ids.join("\r\n ")));
    }
    // RFC 5230 §5.6, RFC 3834 §5.
    message.push_str("Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n");
    message.push_str(&body(settings, unique));
    message.into_bytes()
}

fn subject(settings: &VacationSettings, original: &Original) -> String {
    if let Some(subject) = settings.subject.as_ref().filter(|subject| !subject.is_empty()) {
        return subject.clone();
    }
    // RFC 5230 §5.3; RFC 3834 §3.2: not much of what the sender wrote.
    match original.subject.as_deref().map(str::trim).filter(|subject| !subject.is_empty()) {
        Some(subject) => {
            let begin: String = subject.chars().take(limits::VACATION_QUOTED_CHARS).collect();
            format!("Auto: {begin}")
        }
        None => DEFAULT_SUBJECT.to_owned(),
    }
}

/// The fields of the body, the empty line, and the body. RFC 8621 §8: a text is made of the HTML,
/// and a default one if there is neither.
fn body(settings: &VacationSettings, unique: &str) -> String {
    let text = settings.text.clone();
    let Some(html) = &settings.html else {
        return part("plain", text.as_deref().unwrap_or(DEFAULT_TEXT));
    };
    let text = text.unwrap_or_else(|| text_of(html));
    // No line of quoted-printable has `=_` (RFC 2045 §6.7).
    let boundary = format!("=_{unique}");
    let (text, html) = (part("plain", &text), part("html", html));
    format!(
        "Content-Type: multipart/alternative; boundary=\"{boundary}\"\r\n\r\n\
         --{boundary}\r\n{text}\r\n--{boundary}\r\n{html}\r\n--{boundary}--\r\n"
    )
}

fn part(subtype: &str, text: &str) -> String {
    let mut encoded = quoted_printable(text);
    if !encoded.ends_with("\r\n") {
        encoded.push_str("\r\n");
    }
    format!(
        "Content-Type: text/{subtype}; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{encoded}"
    )
}

fn text_of(html: &str) -> String {
    let (mut text, mut reader) = (String::new(), HtmlText::default());
    reader.push(html, &mut text);
    reader.finish(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: &str = "joe@elsewhere.example";

    fn text(settings: &VacationSettings, original: &Original, name: &str) -> String {
        let from = Addressed { address: "jane@here.example".to_owned(), name: name.to_owned() };
        String::from_utf8(reply(settings, original, &from, TO, "00")).unwrap()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn a_reply_refers_to_the_message() {
        let settings = VacationSettings { text: some("Away.\n"), ..VacationSettings::default() };
        let original = Original {
            subject: some("Hälló"),
            message_id: some("2@x"),
            references: vec!["0@x".to_owned(), "1@x".to_owned()],
            ..Original::default()
        };
        assert_eq!(
            text(&settings, &original, "Jane Doe"),
            "From: Jane Doe <jane@here.example>\r\nTo: <joe@elsewhere.example>\r\n\
             Subject: =?utf-8?B?QXV0bzogSMOkbGzDsw==?=\r\nIn-Reply-To: <2@x>\r\n\
             References: <0@x>\r\n <1@x>\r\n <2@x>\r\nAuto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n\
             Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nAway.\r\n"
        );
    }

    #[test]
    fn omitted_vacation_settings_have_defaults() {
        let all = text(&VacationSettings::default(), &Original::default(), "");
        assert!(
            all.contains("From: jane@here.example\r\n") && all.contains("Subject: Automatic reply\r\n"),
            "{all}"
        );
        assert!(all.contains("Thank you for your message.") && !all.contains("References"), "{all}");
        let own = VacationSettings { subject: some("Away"), ..VacationSettings::default() };
        let original = Original { subject: some("x"), ..Original::default() };
        assert!(text(&own, &original, "").contains("Subject: Away\r\n"));
        let long = Original { subject: Some("x".repeat(10_000)), ..Original::default() };
        assert!(text(&VacationSettings::default(), &long, "").len() < 1000);
    }

    #[test]
    fn html_comes_with_a_text() {
        let html =
            VacationSettings { html: some("<p>Away &amp; <b>happy</b></p>"), ..VacationSettings::default() };
        let both = text(&html, &Original::default(), "");
        assert!(both.contains("multipart/alternative; boundary=\"=_00\""), "{both}");
        assert!(both.contains("\r\n\r\nAway & happy\r\n\r\n--=_00\r\n"), "{both}");
        assert!(both.ends_with("<p>Away &amp; <b>happy</b></p>\r\n\r\n--=_00--\r\n"), "{both}");
        let own = VacationSettings { text: some("--=_00"), ..html };
        let both = text(&own, &Original::default(), "");
        assert_eq!(both.matches("\r\n--=_00\r\n").count(), 2, "{both}");
    }
}
