//! The line between two messages: `From sender date`.

use sealpost_base::Timestamp;

use crate::header::{field_name, is_mail_field};

/// Bytes of a separator line that are examined; a longer line is text.
pub(super) const SEPARATOR_BYTES: usize = 2048;
/// Bytes of the line after it that are examined.
pub(super) const NEXT_LINE_BYTES: usize = 256;

/// The data of a separator line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FromLine {
    /// The envelope sender; `None` if there is none or it is a daemon's empty one.
    pub sender: Option<String>,
    /// When the message was delivered.
    pub date: Option<Timestamp>,
}

impl FromLine {
    /// Reads the line without its end; `None` if it does not begin `From `.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let rest = line.strip_prefix(b"From ")?;
        let text = String::from_utf8_lossy(rest);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let dated = crate::date::parse_delivered(&words);
        let (sender_ends, date) = dated.map_or((words.len(), None), |(begins, date)| (begins, Some(date)));
        let sender = words[..sender_ends].join(" ");
        let sender = (!sender.is_empty() && sender != "-" && sender != "MAILER-DAEMON").then_some(sender);
        Some(FromLine { sender, date })
    }
}

/// The state after the line before a possible separator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreviousLine {
    /// Nothing: the file begins here.
    Start,
    /// An empty line, or a body whose length is known.
    Empty,
    /// Text.
    Text,
}

/// Decides whether `ahead` (bytes from a line's start on) begins with a separator. Returns it with
/// its length, line end included.
///
/// RFC 4155 calls every such line a separator. But real files have unquoted `From ` lines in
/// messages, and separators without an empty line before them, without a date, or with one that
/// cannot be parsed. So a message has to begin after it, and the less a line looks like a
/// separator, the more evidence must follow.
pub(super) fn separator(ahead: &[u8], before: PreviousLine) -> Option<(FromLine, usize)> {
    if !ahead.starts_with(b"From ") {
        return None;
    }
    let within = &ahead[..ahead.len().min(SEPARATOR_BYTES)];
    let (line, length) = match memchr::memchr(b'\n', within) {
        Some(at) => (&ahead[..at], at + 1),
        None if within.len() == ahead.len() => (ahead, ahead.len()),
        None => return None,
    };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let from = FromLine::parse(line)?;
    let next = &ahead[length..];
    let field = field_name(&next[..next.len().min(NEXT_LINE_BYTES)]);
    let genuine = match before {
        PreviousLine::Start if from.date.is_some() => true,
        PreviousLine::Empty if from.date.is_some() => field.is_some() || begins_otherwise(next),
        PreviousLine::Start | PreviousLine::Empty if has_sender(line) => field.is_some(),
        PreviousLine::Start | PreviousLine::Empty => {
            field.is_some_and(|name| is_mail_field(name) || name.starts_with(b"X-"))
        }
        PreviousLine::Text => from.date.is_some() && field.is_some(),
    };
    genuine.then_some((from, length))
}

/// Whether `next` can be the start of a message although it is no field: its header is empty, or
/// begins with a line that was quoted.
fn begins_otherwise(next: &[u8]) -> bool {
    next.is_empty() || next.starts_with(b"\n") || next.starts_with(b"\r\n") || next.starts_with(b">From ")
}

/// Whether the first word of a line without a date is one that programs write there, and people do
/// not: an address, the name of the mail system, `-`, or nothing.
fn has_sender(line: &[u8]) -> bool {
    let word = line["From ".len()..].split(u8::is_ascii_whitespace).find(|word| !word.is_empty());
    word.is_none_or(|word| word == b"-" || word == b"MAILER-DAEMON" || word.contains(&b'@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_and_look_alikes() {
        let dated = "From a@b.c Thu Jan  1 00:00:10 1970\n";
        let (address, prose) = ("From a@b.c half past nine\n", "From the start, it rained\n");
        let (field, other, text) = ("Subject: x\n", "Color: red\n", "and rained.\n");
        for (line, next, before, expected) in [
            (dated, field, PreviousLine::Text, true),
            (dated, text, PreviousLine::Text, false),
            (dated, "\n", PreviousLine::Text, false),
            (dated, other, PreviousLine::Empty, true),
            (dated, "\nx\n", PreviousLine::Empty, true),
            (dated, "\r\nx\n", PreviousLine::Empty, true),
            (dated, ">From x\n", PreviousLine::Empty, true),
            (dated, "", PreviousLine::Empty, true),
            (dated, text, PreviousLine::Empty, false),
            (dated, "http://b.c/\n", PreviousLine::Empty, false),
            (dated, text, PreviousLine::Start, true),
            (address, other, PreviousLine::Empty, true),
            (address, "\n", PreviousLine::Empty, false),
            (address, field, PreviousLine::Text, false),
            ("From - \n", other, PreviousLine::Empty, true),
            ("From \r\n", other, PreviousLine::Empty, true),
            ("From MAILER-DAEMON\n", other, PreviousLine::Empty, true),
            (prose, field, PreviousLine::Empty, true),
            (prose, "X-Note: y\n", PreviousLine::Empty, true),
            (prose, other, PreviousLine::Empty, false),
            (prose, text, PreviousLine::Empty, false),
            (prose, field, PreviousLine::Text, false),
            (prose, field, PreviousLine::Start, true),
            (prose, other, PreviousLine::Start, false),
            (prose, text, PreviousLine::Start, false),
            ("From: a@b.c\n", field, PreviousLine::Empty, false),
        ] {
            let ahead = format!("{line}{next}");
            let found = separator(ahead.as_bytes(), before);
            assert_eq!(found.is_some(), expected, "{ahead:?} {before:?}");
            assert!(found.is_none_or(|(_, length)| length == line.len()), "{ahead:?}");
        }
        let endless = [&b"From "[..], &[b'x'; 5000], b"\nA: b\n"].concat();
        assert!(separator(&endless, PreviousLine::Start).is_none());
    }

    #[test]
    fn senders_and_dates() {
        for (line, sender, date) in [
            ("From a@b.c Thu Jan  1 00:00:10 1970", Some("a@b.c"), Some(10)),
            ("From a@b.c Fri, 23 May 2025 10:00:00 +0200", Some("a@b.c"), Some(1_747_987_200)),
            ("From 1832@xxx Fri May 23 08:00:00 +0000 2025", Some("1832@xxx"), Some(1_747_987_200)),
            ("From Ann Other 23 May 2025 08:00:00 GMT", Some("Ann Other"), Some(1_747_987_200)),
            ("From - Fri May 23 08:00:00 2025", None, Some(1_747_987_200)),
            ("From MAILER-DAEMON Fri May 23 2025 08:00:00", None, Some(1_747_987_200)),
            ("From a@b.c 2025-05-23 10:00:00 +0200", Some("a@b.c"), Some(1_747_987_200)),
            ("From a@b.c 2025-05-23T10:00:00+02:00", Some("a@b.c"), Some(1_747_987_200)),
            ("From Fri May 23 08:00:00 2025", None, Some(1_747_987_200)),
            ("From my point of view 23 May will be fine", Some("my point of view 23 May will be fine"), None),
            ("From ", None, None),
        ] {
            let from = FromLine::parse(line.as_bytes()).unwrap();
            let date = date.map(Timestamp::from_seconds);
            assert_eq!((from.sender.as_deref(), from.date), (sender, date), "{line}");
        }
    }
}
