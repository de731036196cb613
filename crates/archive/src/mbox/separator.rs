//! The line between two messages: `From sender date`.

use sealpost_base::Timestamp;

/// Bytes of a separator line that are looked at; a longer line is text.
pub(super) const SEPARATOR_BYTES: usize = 2048;
/// Bytes of the line after it that are looked at.
pub(super) const NEXT_LINE_BYTES: usize = 256;

/// What a separator line says.
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
        let dated = crate::date::parse_asctime(&words);
        let (sender_ends, date) = dated.map_or((words.len(), None), |(begins, date)| (begins, Some(date)));
        let sender = words[..sender_ends].join(" ");
        let sender = (!sender.is_empty() && sender != "-" && sender != "MAILER-DAEMON").then_some(sender);
        Some(FromLine { sender, date })
    }
}

/// Where the line before a possible separator leaves us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// An empty line, or the start of the file.
    Empty,
    /// Text.
    Text,
}

/// Decides whether `ahead` (bytes from a line's start on) begins with a separator. Returns it with its length,
/// line end included.
///
/// Files in the wild hold unquoted `From ` lines in messages, and separators without an empty line before
/// them. So a separator must have a date, or a header field must follow; after text it must have both.
pub(super) fn separator(ahead: &[u8], before: Before) -> Option<(FromLine, usize)> {
    if !ahead.starts_with(b"From ") {
        return None;
    }
    let within = &ahead[..ahead.len().min(SEPARATOR_BYTES)];
    let (line, length) = match memchr::memchr(b'\n', within) {
        Some(at) => (&ahead[..at], at + 1),
        None if within.len() == ahead.len() => (ahead, ahead.len()),
        None => return None,
    };
    let from = FromLine::parse(line.strip_suffix(b"\r").unwrap_or(line))?;
    let next = &ahead[length..];
    let genuine = match before {
        Before::Empty => from.date.is_some() || is_field(next),
        Before::Text => from.date.is_some() && begins_message(next),
    };
    genuine.then_some((from, length))
}

/// Whether `next` looks like the first line of a message: a header field, an empty line, or the end.
fn begins_message(next: &[u8]) -> bool {
    if next.is_empty() || next.starts_with(b"\n") || next.starts_with(b"\r\n") || next.starts_with(b">From ")
    {
        return true;
    }
    is_field(next)
}

/// Whether `next` begins with a header field (RFC 5322 §2.2, blanks before the colon as in §4.5).
fn is_field(next: &[u8]) -> bool {
    let next = &next[..next.len().min(NEXT_LINE_BYTES)];
    let name_ends = next.iter().position(|b| !(33..=126).contains(b) || *b == b':').unwrap_or(next.len());
    let after = &next[name_ends..];
    let blanks = after.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    name_ends > 0 && after.get(blanks) == Some(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_and_look_alikes() {
        let dated = b"From a@b.c Thu Jan  1 00:00:10 1970\n";
        let plain = b"From the start, it rained\n";
        for (ahead, before, expected) in [
            ([&dated[..], b"Subject: x\n"].concat(), Before::Text, true),
            ([&dated[..], b"no header here\n"].concat(), Before::Empty, true),
            ([&dated[..], b"no header here\n"].concat(), Before::Text, false),
            ([&plain[..], b"Subject: x\n"].concat(), Before::Empty, true),
            ([&plain[..], b"and rained.\n"].concat(), Before::Empty, false),
            ([&plain[..], b"Subject: x\n"].concat(), Before::Text, false),
            (b"From: a@b.c\n".to_vec(), Before::Empty, false),
            ([&b"From "[..], &[b'x'; 5000], b"\nA: b\n"].concat(), Before::Empty, false),
        ] {
            assert_eq!(
                separator(&ahead, before).is_some(),
                expected,
                "{:?}",
                String::from_utf8_lossy(&ahead)
            );
        }
        let (from, length) = separator(dated, Before::Empty).unwrap();
        assert_eq!((from.sender.as_deref(), from.date), (Some("a@b.c"), Some(Timestamp(10_000))));
        assert_eq!(length, dated.len());
    }
}
