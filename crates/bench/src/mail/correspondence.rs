//! A mailbox of years of correspondence: any number of distinct messages, by people who answer each
//! other.
//!
//! Message `nth` depends on the seed and its number only, so that a mailbox of a hundred thousand
//! is never held in memory: the message that it answers is found by counting back. It has the
//! headers that clients ask for: several recipients, threads, lists, priorities, clients' own
//! fields; a third of the messages have alternatives, some have attachments.

use sealpost_base::{Random, SeededRandom, Timestamp};
use sealpost_mailformat::date::rfc3339;

use super::{Writer, base64};
use crate::words;

/// People who write.
const PEOPLE: u64 = 400;
/// How many of a hundred messages are answers.
const ANSWERS: u64 = 60;
/// How far back the answered message may be.
const RECENT: u64 = 200;
/// The most identifiers in one References field.
const REFERENCES: usize = 8;
/// When the first message arrived: 1 September 2023, 0:00 UTC. The trace searches for dates of the
/// half year after it.
const BEGAN: i64 = 1_693_526_400;
/// The time over which a mailbox filled up, in seconds: 182 days.
const SPAN: i64 = 182 * 86_400;
/// Between the Date fields of successive messages, in seconds.
const APART: i64 = 1_500;
/// Small messages have at least this and less than twice as many bytes, as far as their headers
/// allow.
const SMALL_BYTES: u64 = 1_000;
/// From this size on a message has the headers of mail that crossed the Internet: relays,
/// signatures.
const TRACED_BYTES: usize = 3_000;
/// From this size on, attachments.
const ATTACHED_BYTES: usize = 100_000;

const FIRST: [&str; 20] = [
    "Ada", "Boris", "Chloe", "David", "Elena", "Farid", "Greta", "Hassan", "Ines", "Jakub", "Katya", "Liam",
    "Mona", "Noah", "Olga", "Pavel", "Rosa", "Stefan", "Tilda", "Yvonne",
];
const LAST: [&str; 20] = [
    "Adler", "Baker", "Castro", "Dvorak", "Evans", "Fischer", "Garcia", "Haas", "Ivanov", "Jensen",
    "Kowalski", "Larch", "Moreau", "Novak", "Okafor", "Petrov", "Rossi", "Sato", "Tanaka", "Weber",
];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The length of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// 1 to 2 kB.
    Small,
    /// So many bytes.
    Bytes(usize),
}

/// Message `nth`, from 0. Every line ends with CRLF.
pub fn message(seed: u64, nth: u64, length: Length) -> Vec<u8> {
    let random = SeededRandom::new(number(seed, nth));
    let size = match length {
        Length::Small => (SMALL_BYTES + random.below(SMALL_BYTES)) as usize,
        Length::Bytes(size) => size,
    };
    let rare = nth % 100 == 17;
    let writer = Writer { random, words: words::list(), out: Vec::with_capacity(size + 512) };
    let mut letter = Letter { writer, seed, nth };
    letter.headers(size);
    match length {
        Length::Small => letter.small(size, rare),
        Length::Bytes(..TRACED_BYTES) => letter.writer.plain(size, rare),
        Length::Bytes(..ATTACHED_BYTES) => letter.writer.alternative(size, rare),
        Length::Bytes(_) => letter.writer.mixed(size, rare),
    }
    letter.writer.out
}

/// The flags of message `nth`, separated by blanks: most are read, some answered, few flagged or deleted.
pub fn flags(seed: u64, nth: u64) -> &'static str {
    match number(seed ^ 0xf1a6, nth) % 100 {
        0 => "\\Seen \\Deleted",
        1..=2 => "\\Seen \\Flagged",
        3..=12 => "\\Seen \\Answered",
        13..=22 => "",
        _ => "\\Seen",
    }
}

/// When message `nth` of `of` arrived: evenly spread over half a year.
pub fn received(nth: u64, of: u64) -> Timestamp {
    let share = i128::from(SPAN) * i128::from(nth) / i128::from(of.max(1));
    Timestamp::from_seconds(BEGAN + i64::try_from(share).unwrap_or(SPAN))
}

/// `1-Feb-2024 10:30:00 +0000` with blanks as `between` the parts of the date: IMAP has hyphens
/// (RFC 9051 §9, date-time).
pub fn date_text(at: Timestamp, between: char) -> String {
    let text = rfc3339(at);
    let month = text[5..7].parse::<usize>().map_or("Jan", |month| MONTHS[(month + 11) % 12]);
    format!("{}{between}{month}{between}{} {} +0000", &text[8..10], &text[..4], &text[11..19])
}

/// A number derived from the seed and the message's number.
fn number(seed: u64, nth: u64) -> u64 {
    SeededRandom::new(seed.rotate_left(32) ^ nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next_u64()
}

/// The message that `nth` answers, if any.
fn answered(seed: u64, nth: u64) -> Option<u64> {
    let draw = number(seed ^ 0xa45e, nth);
    (nth > 0 && draw % 100 < ANSWERS).then(|| nth - 1 - (draw >> 8) % nth.min(RECENT))
}

/// The first message of the thread, then the last ones before `nth`, oldest first.
fn ancestors(seed: u64, nth: u64) -> Vec<u64> {
    let mut all: Vec<u64> = std::iter::successors(answered(seed, nth), |nth| answered(seed, *nth)).collect();
    all.reverse();
    let surplus = all.len().saturating_sub(REFERENCES);
    all.drain(1.min(surplus)..1.min(surplus) + surplus);
    all
}

fn id(seed: u64, nth: u64) -> String {
    let draw = number(seed ^ 0x1d, nth);
    format!("<{draw:x}.{nth:x}@mail{}.sender.example>", draw % 7)
}

struct Letter {
    writer: Writer,
    seed: u64,
    nth: u64,
}

impl Letter {
    fn line(&mut self, line: &str) {
        self.writer.line(line);
    }

    fn one_in(&self, many: u64) -> bool {
        self.writer.random.below(many) == 0
    }

    /// A sender: few write much, many write little.
    fn person(&self) -> u64 {
        self.writer.random.below(PEOPLE).min(self.writer.random.below(PEOPLE))
    }

    fn headers(&mut self, size: usize) {
        let at =
            Timestamp::from_seconds(BEGAN + self.nth as i64 * APART + self.writer.random.below(900) as i64);
        let (from, to) = (self.person(), self.person());
        self.line(&format!("Return-Path: <{}>", mailbox(from)));
        let hops = if size < TRACED_BYTES { 1 } else { 3 };
        for hop in 0..hops {
            let queue = self.writer.random.below(1 << 40);
            self.line(&format!(
                "Received: from relay{hop}.sender.example (relay{hop}.sender.example [192.0.2.{hop}])"
            ));
            self.line(&format!("\tby mx.reader.example with ESMTPS id {queue:010X}; {}", date_text(at, ' ')));
        }
        if size >= TRACED_BYTES {
            self.signature();
        }
        self.line(&format!("From: {}", address(from)));
        self.line(&format!("To: {}", address(to)));
        let copies = self.writer.random.below(3);
        for nth in 0..copies {
            let copied = address(self.person());
            let comma = if nth + 1 < copies { "," } else { "" };
            self.line(&format!("{}{copied}{comma}", if nth == 0 { "Cc: " } else { " " }));
        }
        self.thread();
        self.line(&format!("Date: {}", date_text(at, ' ')));
        self.line(&format!("Message-ID: {}", id(self.seed, self.nth)));
        self.of_clients(from);
        self.line("MIME-Version: 1.0");
    }

    fn thread(&mut self) {
        let ancestors = ancestors(self.seed, self.nth);
        let first = ancestors.first().copied().unwrap_or(self.nth);
        let random = SeededRandom::new(number(self.seed ^ 0x5b, first));
        let sentence = words::sentence(&random, &self.writer.words);
        let subject: String = sentence.trim_end_matches('.').chars().take(50).collect();
        let re = if ancestors.is_empty() { "" } else { "Re: " };
        self.line(&format!("Subject: {}", encoded(&format!("{re}{}", subject.trim_end()))));
        if let Some(last) = ancestors.last() {
            self.line(&format!("In-Reply-To: {}", id(self.seed, *last)));
            let all: Vec<String> = ancestors.iter().map(|nth| id(self.seed, *nth)).collect();
            self.line(&format!("References: {}", all.join("\r\n ")));
        }
    }

    fn signature(&mut self) {
        self.line("DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=sender.example; s=mail;");
        let mut bytes = vec![0; 192];
        self.writer.random.fill(&mut bytes);
        self.line("\th=From:To:Subject:Date; b=");
        for line in base64(&bytes).lines() {
            self.line(&format!("\t{line}"));
        }
    }

    /// Fields that some clients and lists write, and others ask for.
    fn of_clients(&mut self, from: u64) {
        match from % 6 {
            0 => self.line("X-Mailer: Example Mail 12.4 (2131)"),
            1 => self.line("User-Agent: Example Mail/115.7"),
            2 => {
                let topic = self.writer.random.below(1 << 40);
                self.line(&format!(
                    "Thread-Topic: Topic {topic:x}\r\nContent-Class: urn:content-classes:message"
                ));
            }
            _ => {}
        }
        if self.one_in(12) {
            self.line("X-Priority: 1\r\nPriority: urgent\r\nImportance: high");
        }
        if self.one_in(10) {
            self.line(&format!("Reply-To: {}", address(from + 1)));
        }
        if from.is_multiple_of(9) {
            let list = from % 5;
            self.line(&format!("List-Id: A list <list{list}.lists.example>\r\nPrecedence: list"));
            self.line(&format!("List-Unsubscribe: <mailto:leave@list{list}.lists.example>"));
        }
    }

    fn small(&mut self, size: usize, rare: bool) {
        match self.writer.random.below(10) {
            0..=1 => self.small_mixed(size, rare),
            2..=4 => self.small_alternative(size, rare),
            _ => self.writer.plain(size, rare),
        }
    }

    /// Plain text and the same as HTML.
    fn small_alternative(&mut self, size: usize, rare: bool) {
        let boundary = format!("=_a{:08x}", self.writer.random.below(1 << 32));
        self.line(&format!("Content-Type: multipart/alternative; boundary=\"{boundary}\"\r\n"));
        let each = size.saturating_sub(self.writer.out.len() + 220) / 2;
        self.line(&format!("--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n"));
        self.writer.text(each, rare);
        self.line(&format!("--{boundary}\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<html><body><p>"));
        self.writer.text(each, rare);
        self.line(&format!("</p></body></html>\r\n--{boundary}--"));
    }

    /// Text, often in two forms, and a small table attached.
    fn small_mixed(&mut self, size: usize, rare: bool) {
        let boundary = format!("=_m{:08x}", self.writer.random.below(1 << 32));
        self.line(&format!("Content-Type: multipart/mixed; boundary=\"{boundary}\"\r\n\r\n--{boundary}"));
        if self.one_in(2) {
            let alternative = self.writer.out.len() + 300;
            self.small_alternative(alternative, rare);
        } else {
            self.line("Content-Type: text/plain; charset=utf-8\r\n");
            self.writer.text(100, rare);
        }
        self.line(&format!("--{boundary}\r\nContent-Type: text/csv; name=\"table-{}.csv\"", self.nth));
        self.line("Content-Transfer-Encoding: base64\r\nContent-Disposition: attachment\r\n");
        let left = size.saturating_sub(self.writer.out.len() + 30) / 78 * 57;
        let row = |row: usize| format!("{row};{};ok\r\n", self.writer.random.below(10_000));
        let rows: String = (0..1 + left / 12).map(row).collect();
        let encoded = base64(rows.as_bytes());
        self.line(&format!("{}\r\n--{boundary}--", encoded.trim_end()));
    }
}

fn mailbox(person: u64) -> String {
    let (first, last) = (FIRST[person as usize % 20], LAST[person as usize / 20 % 20]);
    let site = if person % 11 == 1 { "other" } else { "sender" };
    format!("{first}.{last}@{site}.example").to_ascii_lowercase()
}

fn address(person: u64) -> String {
    let (first, last) = (FIRST[person as usize % 20], LAST[person as usize / 20 % 20]);
    match person % 11 {
        0 => format!("=?utf-8?Q?{first}_{last}_=28B=C3=BCro=29?= <{}>", mailbox(person)),
        1 => mailbox(person),
        _ => format!("\"{last}, {first}\" <{}>", mailbox(person)),
    }
}

/// Encoded as RFC 2047 §4.2 requires for non-ASCII text.
fn encoded(subject: &str) -> String {
    if subject.is_ascii() {
        return subject.to_owned();
    }
    let quoted = |byte: u8| match byte {
        b' ' => "_".to_owned(),
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("={byte:02X}"),
    };
    format!("=?utf-8?Q?{}?=", subject.bytes().map(quoted).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn small_messages_are_small_and_no_two_are_alike() {
        let all: HashSet<Vec<u8>> = (0..2_000).map(|nth| message(7, nth, Length::Small)).collect();
        assert_eq!(all.len(), 2_000);
        let bytes: usize = all.iter().map(Vec::len).sum();
        assert!((1_200..1_900).contains(&(bytes / all.len())), "{}", bytes / all.len());
        assert!(all.iter().all(|mail| mail.len() < 2_600), "{:?}", all.iter().map(Vec::len).max());
        let with = |needle: &str| {
            all.iter().filter(|mail| memchr::memmem::find(mail, needle.as_bytes()).is_some()).count()
        };
        assert_eq!(with(words::RARE), 20);
        for (needle, least) in [
            ("\r\nReferences: ", 800),
            ("\r\nCc: ", 900),
            ("multipart/alternative", 500),
            ("multipart/mixed", 250),
            ("\r\nList-Unsubscribe: ", 100),
            ("\r\nX-Priority: ", 80),
            ("\r\nThread-Topic: ", 150),
        ] {
            assert!(with(needle) >= least, "{needle} in {}", with(needle));
        }
        let bare = |mail: &Vec<u8>| {
            memchr::memchr_iter(b'\n', mail).count() != memchr::memmem::find_iter(mail, "\r\n").count()
        };
        assert!(!all.iter().any(bare));
    }

    #[test]
    fn long_messages_have_the_size_that_was_asked_for() {
        for size in [5_000, 25_000, 1_000_000] {
            let length = message(3, 9, Length::Bytes(size)).len();
            assert!(length.abs_diff(size) < size / 8, "{length} for {size}");
        }
    }

    #[test]
    fn an_answer_refers_to_messages_before_it() {
        let nth = (0..500).find(|nth| ancestors(1, *nth).len() == REFERENCES).unwrap();
        assert!(ancestors(1, nth).is_sorted() && ancestors(1, nth).iter().all(|ancestor| *ancestor < nth));
        let text = String::from_utf8(message(1, nth, Length::Small)).unwrap();
        let last = id(1, *ancestors(1, nth).last().unwrap());
        assert!(text.contains(&format!("\r\nIn-Reply-To: {last}\r\n")) && text.contains("\r\nSubject: "));
    }

    #[test]
    fn a_mailbox_fills_over_half_a_year_whatever_its_size() {
        assert_eq!(date_text(received(0, 10), '-'), "01-Sep-2023 00:00:00 +0000");
        assert_eq!(date_text(received(99_999, 100_000), ' '), "29 Feb 2024 23:57:22 +0000");
        let unseen = (0..1_000).filter(|nth| flags(1, *nth).is_empty()).count();
        assert!((60..150).contains(&unseen), "{unseen}");
    }
}
