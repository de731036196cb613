//! The date of a message whose INTERNALDATE is not known: that of its Date field.

use sealpost_imap::types::DateTime;
use sealpost_mime::header::{self, date};

use super::folder::date_time;
use super::{Folder, Stored};

/// Bytes that are searched for the field.
const HEAD_BYTES: usize = 64 * 1024;
/// The first second of the year 10000: IMAP writes four digits.
const END_SECONDS: i64 = 253_402_300_800;

/// When the message was received; if that is not known, the date in its header.
pub(crate) fn received_or_sent(folder: &dyn Folder, stored: &Stored) -> Option<DateTime> {
    stored.internaldate.or_else(|| sent(&folder.head(stored.uid, HEAD_BYTES).ok()?))
}

/// The first Date field of a message that begins with `head`. A date before 1970, which no mail
/// has, counts as none: servers refuse messages for it.
pub(crate) fn sent(head: &[u8]) -> Option<DateTime> {
    let (_, value) = header::fields(head).find(|(name, _)| name.eq_ignore_ascii_case(b"date"))?;
    let date = date::parse(&header::unfold(value))?;
    let is_mail = 0..END_SECONDS - 24 * 3600;
    date_time(date.seconds, date.zone).filter(|_| is_mail.contains(&date.seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_says_when_it_was_sent() {
        let seconds = |head: &str| sent(head.as_bytes()).map(|date| date.timestamp().seconds());
        let monday = Some(1_605_513_907);
        assert_eq!(seconds("A: b\r\ndate:\r\n Mon, 16 Nov 2020 09:05:07 +0100\r\n\r\n"), monday);
        assert_eq!(seconds("Date: 16 Nov 2020 08:05:07 GMT\nDate: 1 Jan 1999 00:00:00 +0000\n\nx"), monday);
        for head in ["", "A: b\r\n\r\nDate: 16 Nov 2020 08:05:07 GMT\r\n", "Date: soon\n\n"] {
            assert_eq!(seconds(head), None, "{head}");
        }
        assert_eq!(seconds("Date: 1 Jan 0100 00:00:00 +0000\n\n"), None);
        let zone = sent(b"Date: Mon, 16 Nov 2020 09:05:07 +0100\n").map(DateTime::zone_minutes);
        assert_eq!(zone, Some(60));
    }
}
