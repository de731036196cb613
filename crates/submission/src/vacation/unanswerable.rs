//! Mail that gets no vacation response, by its fields and by its sender (RFC 5230 §4.6, RFC 3834 §2).

use sealpost_mime::header::unfold;

/// Why a message gets no reply, from any sender and to any account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswerable {
    /// A program sent it (RFC 3834 §2: Auto-Submitted).
    Automatic,
    /// It came through a mailing list, or went to very many.
    List,
    /// A filter took it for spam.
    Spam,
    /// Its sender wants no such replies.
    Unwanted,
    /// It has passed so many servers that it may loop.
    Loop,
}

/// Why a message with this field gets no reply.
pub(super) fn of_field(name: &str, value: &[u8]) -> Option<Unanswerable> {
    let value = unfold(value).to_ascii_lowercase();
    let word = value.split([';', '(', ',', ' ', '\t']).next().unwrap_or_default();
    match name {
        // RFC 3834 §5: any value other than "no".
        "auto-submitted" => (word != "no").then_some(Unanswerable::Automatic),
        // RFC 3464, RFC 8098: reports, whatever their sender.
        "content-type" => (word == "multipart/report").then_some(Unanswerable::Automatic),
        // No standard defines it; lists and mass mail have it.
        "precedence" => matches!(word, "bulk" | "junk" | "list").then_some(Unanswerable::List),
        "x-spam-flag" | "x-spam-status" | "x-spam" => {
            matches!(word, "yes" | "true").then_some(Unanswerable::Spam)
        }
        // What Exchange asks by: OOF is "out of office".
        "x-auto-response-suppress" => value
            .split([',', ';', ' '])
            .any(|word| matches!(word, "all" | "oof" | "autoreply"))
            .then_some(Unanswerable::Unwanted),
        // RFC 5230 §4.6: List-Id and all others (RFC 2369, RFC 2919).
        _ => name.starts_with("list-").then_some(Unanswerable::List),
    }
}

/// Whether mail from that address is never answered: no person reads the reply (RFC 5230 §4.6, RFC
/// 3834 §2). The null sender is one; a postmaster is a person (RFC 5230 §4.6).
pub fn is_automatic_sender(address: &str) -> bool {
    let Some((local, _)) = address.rsplit_once('@') else { return true };
    let local = local.trim_matches('"').to_lowercase();
    // As `noreply+123` and `no_reply`.
    let plain: String = local.chars().filter(|c| !matches!(c, '-' | '_' | '.')).collect();
    let plain = plain.split('+').next().unwrap_or_default();
    let is_program = matches!(
        plain,
        "mailerdaemon" | "listserv" | "majordomo" | "noreply" | "donotreply" | "bounce" | "bounces"
    );
    is_program
        || local.starts_with("owner-")
        || ["noreply", "donotreply"].iter().any(|word| plain.ends_with(word))
        || ["-request", "-owner", "-bounce", "-bounces"].iter().any(|end| local.ends_with(end))
        // VERP: the address of a recipient is within.
        || ["bounce", "bounces"].iter().any(|word| {
            local.strip_prefix(word).is_some_and(|rest| rest.starts_with(['-', '+', '=']))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_that_forbids_a_reply() {
        for (field, why) in [
            ("Auto-Submitted: auto-replied", Some(Unanswerable::Automatic)),
            ("auto-submitted: auto-generated; owner-email=a@b", Some(Unanswerable::Automatic)),
            ("Auto-Submitted: no", None),
            ("Auto-Submitted: No (really)", None),
            ("Content-Type: multipart/report; report-type=delivery-status", Some(Unanswerable::Automatic)),
            ("Content-Type: multipart/mixed; boundary=x", None),
            ("Precedence: bulk", Some(Unanswerable::List)),
            ("Precedence: Junk", Some(Unanswerable::List)),
            ("Precedence:list", Some(Unanswerable::List)),
            ("Precedence: first-class", None),
            ("List-Id: <a.b.example>", Some(Unanswerable::List)),
            ("List-Unsubscribe: <mailto:a@b>", Some(Unanswerable::List)),
            ("LIST-POST: NO", Some(Unanswerable::List)),
            ("Listing: a", None),
            ("X-Spam-Flag: YES", Some(Unanswerable::Spam)),
            ("X-Spam-Flag: NO", None),
            ("X-Spam-Status: Yes, score=9", Some(Unanswerable::Spam)),
            ("X-Spam-Status: No, score=0", None),
            ("X-Spam: Yes", Some(Unanswerable::Spam)),
            ("X-Auto-Response-Suppress: DR, OOF, AutoReply", Some(Unanswerable::Unwanted)),
            ("X-Auto-Response-Suppress: All", Some(Unanswerable::Unwanted)),
            ("X-Auto-Response-Suppress: DR", None),
        ] {
            let (name, value) = field.split_once(':').unwrap();
            assert_eq!(of_field(&name.to_lowercase(), value.as_bytes()), why, "{field}");
        }
    }

    #[test]
    fn senders_that_no_person_reads() {
        for address in [
            "",
            "MAILER-DAEMON@a.example",
            "mailer-daemon@a.example",
            "owner-list@a.example",
            "list-owner@a.example",
            "list-request@a.example",
            "LISTSERV@a.example",
            "majordomo@a.example",
            "noreply@a.example",
            "no-reply@a.example",
            "No_Reply+17@a.example",
            "shop.noreply@a.example",
            "do-not-reply@a.example",
            "bounce@a.example",
            "bounces+jane=b.example@a.example",
            "list-bounces@a.example",
        ] {
            assert!(is_automatic_sender(address), "{address}");
        }
        for address in [
            "jane@a.example",
            "owner@a.example",
            "request@a.example",
            "bouncer@a.example",
            "replying@a.example",
        ] {
            assert!(!is_automatic_sender(address), "{address}");
        }
    }
}
