//! The start of a sample: sender and date, deterministic from its number.

use sealpost_base::Timestamp;
use sealpost_mime::MessageBuilder;

/// 2026-03-02 08:00 UTC, a Monday.
const FIRST: i64 = 1_772_438_400;
/// Between one letter and the next, in seconds: a bit over five hours, so that every time of day occurs.
const STEP: i64 = 18_793;
/// Time zones that letters come from, in minutes east of UTC.
const ZONES: [i16; 6] = [0, 60, -300, 540, 330, -480];

/// A letter with this number; numbers are unique among the samples.
#[derive(Debug, Clone, Copy)]
pub struct Letter(pub u32);

impl Letter {
    /// When it arrived: some seconds after it was written.
    pub fn received(self) -> Timestamp {
        Timestamp::from_seconds(self.written() + 7)
    }

    /// What its Message-ID holds, with the angle brackets.
    pub fn id(self) -> String {
        format!("<sample-{}@example.org>", self.0)
    }

    /// Date, Message-ID, From and To.
    pub fn begin(self, from: (&str, &str), to: &str) -> MessageBuilder {
        let zone = ZONES[self.0 as usize % ZONES.len()];
        MessageBuilder::new()
            .date(self.written(), zone)
            .field("Message-ID", &self.id())
            .addresses("From", &[from])
            .addresses("To", &[("", to)])
    }

    /// The same as lines of a header, for messages that no builder would make.
    pub fn raw_head(self, from: &str, to: &str) -> String {
        let date = sealpost_mime::header::date::format(self.written(), 0);
        format!("Date: {date}\r\nMessage-ID: {}\r\nFrom: {from}\r\nTo: {to}\r\n", self.id())
    }

    fn written(self) -> i64 {
        FIRST + i64::from(self.0) * STEP
    }
}

/// People who write more than once.
pub const ADA: (&str, &str) = ("Ada Lovelace", "ada@example.org");
/// Another.
pub const GRACE: (&str, &str) = ("Grace Hopper", "grace@example.com");
/// Another, with an umlaut.
pub const JOERG: (&str, &str) = ("Jörg Müller", "joerg@example.net");
/// A program.
pub const ROBOT: (&str, &str) = ("Build Robot", "robot@ci.example.org");
