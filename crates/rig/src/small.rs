//! Many small messages in threads: a mailbox of years of correspondence, for SORT, THREAD and
//! SEARCH.
//!
//! About 2.5 kB each: trace headers, signatures, people who write to each other, replies with
//! references, lists, encoded subjects. The same seed gives the same mailbox.

use std::collections::VecDeque;
use std::path::Path;

use anyhow::{Context, Result};
use sealpost_base::calendar::civil_from_days;
use sealpost_base::{Random, SeededRandom};
use sealpost_bench::words;

/// People who write.
const PEOPLE: u64 = 400;
/// How many recent messages may be answered.
const RECENT: usize = 300;
/// Message identifiers in one References field.
const REFERENCES: usize = 12;
/// When the first message was sent, in seconds since 1970.
const BEGAN: u64 = 1_500_000_000;
/// Seconds between two messages.
const APART: u64 = 900;
/// One in so many messages has [`sealpost_bench::mail::RARE_WORD`] in its text.
const RARE_EVERY: usize = 1000;
/// One in so many is flagged, one in so many is unseen.
const FLAGGED_EVERY: usize = 50;
const UNSEEN_EVERY: usize = 10;

/// The local part of a sender whose messages are searched for.
pub const SOUGHT_PERSON: &str = "yvonne.larch";
/// A word of subjects that is searched for.
pub const SOUGHT_SUBJECT: &str = "invoice";

/// A generated mailbox, and the expected results of searches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Contents {
    /// Messages.
    pub messages: usize,
    /// From [`SOUGHT_PERSON`].
    pub from: usize,
    /// With [`SOUGHT_SUBJECT`] in the subject.
    pub subject: usize,
    /// Flagged.
    pub flagged: usize,
    /// With the rare word in the text.
    pub rare: usize,
}

/// A message that may be answered.
struct Written {
    id: String,
    references: Vec<String>,
    subject: String,
}

struct Mailbox {
    random: SeededRandom,
    words: Vec<&'static str>,
    recent: VecDeque<Written>,
    contents: Contents,
}

/// Writes a Maildir of `messages` messages to `dir`.
///
/// # Errors
/// If the directory cannot be written.
pub fn write_maildir(dir: &Path, seed: u64, messages: usize) -> Result<Contents> {
    for sub in ["cur", "new", "tmp"] {
        std::fs::create_dir_all(dir.join(sub))?;
    }
    let mut mailbox = Mailbox {
        random: SeededRandom::new(seed),
        words: words::list(),
        recent: VecDeque::new(),
        contents: Contents::default(),
    };
    for nth in 0..messages {
        let flagged = if nth % FLAGGED_EVERY == 7 { "F" } else { "" };
        let seen = if nth % UNSEEN_EVERY == 3 { "" } else { "S" };
        mailbox.contents.flagged += flagged.len();
        let name = format!("cur/{}.M{nth:06}P1.bench:2,{flagged}{seen}", BEGAN + nth as u64 * APART);
        std::fs::write(dir.join(&name), mailbox.message(nth)).with_context(|| name)?;
    }
    Ok(mailbox.contents)
}

impl Mailbox {
    fn message(&mut self, nth: usize) -> String {
        let (from, to) = (self.person(), self.person());
        let at = (BEGAN + nth as u64 * APART) as i64 + self.random.below(APART) as i64;
        let id = format!("{:x}.{:x}@mail{}.sender.example", self.random.next_u64(), nth, from % 7);
        let answered = (!self.recent.is_empty() && self.random.below(100) < 65)
            .then(|| self.random.below(self.recent.len() as u64) as usize)
            .map(|at| &self.recent[at]);
        let (subject, references) = match answered {
            Some(answered) => {
                let mut references = answered.references.clone();
                references.push(answered.id.clone());
                let surplus = references.len().saturating_sub(REFERENCES);
                // The first one is the thread's; those after it are dropped first.
                references.drain(1.min(surplus)..1.min(surplus) + surplus);
                (answered.subject.clone(), references)
            }
            None => (self.subject(), Vec::new()),
        };
        let mut out = self.trace(at, to);
        let shown = if references.is_empty() { subject.clone() } else { format!("Re: {subject}") };
        out += &format!("From: {}\nTo: {}", address(from), address(to));
        for _ in 0..self.random.below(3) {
            out += &format!(",\n {}", address(self.person()));
        }
        out += &format!("\nSubject: {}\nDate: {}\nMessage-ID: <{id}>\n", encoded(&shown), date(at));
        if let Some(last) = references.last() {
            let all: Vec<String> = references.iter().map(|id| format!("<{id}>")).collect();
            out += &format!("In-Reply-To: <{last}>\nReferences: {}\n", all.join("\n "));
        }
        if from % 9 == 0 {
            let list = from % 5;
            out += &format!(
                "List-Id: A list <list{list}.lists.example>\nPrecedence: list\nX-BeenThere: list{list}@lists.example\n"
            );
        }
        out += "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\
                User-Agent: Example Mail 12.4 (2131)\n\n";
        self.text(nth, &mut out);
        self.contents.messages += 1;
        self.contents.from += usize::from(address(from).contains(SOUGHT_PERSON));
        self.contents.subject += usize::from(shown.to_ascii_lowercase().contains(SOUGHT_SUBJECT));
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(Written { id, references, subject });
        out
    }

    /// A sender: few write much, many write little.
    fn person(&self) -> u64 {
        self.random.below(PEOPLE).min(self.random.below(PEOPLE))
    }

    fn subject(&self) -> String {
        let sentence = words::sentence(&self.random, &self.words);
        sentence.trim_end_matches('.').chars().take(50).collect::<String>().trim_end().to_owned()
    }

    fn trace(&self, at: i64, to: u64) -> String {
        let mut out = format!(
            "Return-Path: <bounce-{:x}@sender.example>\nDelivered-To: {}@reader.example\n",
            at,
            mailbox(to)
        );
        for hop in (0..3).rev() {
            out += &format!(
                "Received: from relay{hop}.sender.example (relay{hop}.sender.example [192.0.2.{hop}])\n\tby \
                 mx{hop}.reader.example (Postfix) with ESMTPS id {:012X}\n\tfor <{}@reader.example>; {}\n",
                self.random.below(1 << 48),
                mailbox(to),
                date(at + 2 * hop),
            );
        }
        out += "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=sender.example; s=mail;\n\
                \th=From:To:Subject:Date:Message-ID; b=";
        for _ in 0..5 {
            let line: String = (0..4).map(|_| format!("{:016x}", self.random.next_u64())).collect();
            out += &format!("\n\t{line}");
        }
        out + "\n"
    }

    fn text(&mut self, nth: usize, out: &mut String) {
        if nth % RARE_EVERY == 17 {
            *out += &format!("The {} ink was ordered on Monday.\n", words::RARE);
            self.contents.rare += 1;
        }
        for _ in 0..3 + self.random.below(10) {
            let quote = if self.random.below(5) == 0 { "> " } else { "" };
            *out += &format!("{quote}{}\n", words::sentence(&self.random, &self.words));
        }
    }
}

/// Twenty first names and twenty last names: as many people as there are.
const FIRST: [&str; 20] = [
    "Ada", "Boris", "Chloe", "David", "Elena", "Farid", "Greta", "Hassan", "Ines", "Jakub", "Katya", "Liam",
    "Mona", "Noah", "Olga", "Pavel", "Rosa", "Stefan", "Tilda", "Yvonne",
];
const LAST: [&str; 20] = [
    "Adler", "Baker", "Castro", "Dvorak", "Evans", "Fischer", "Garcia", "Haas", "Ivanov", "Jensen",
    "Kowalski", "Larch", "Moreau", "Novak", "Okafor", "Petrov", "Rossi", "Sato", "Tanaka", "Weber",
];

fn mailbox(person: u64) -> String {
    format!("{}.{}", FIRST[person as usize % 20], LAST[person as usize / 20 % 20]).to_ascii_lowercase()
}

fn address(person: u64) -> String {
    let (first, last) = (FIRST[person as usize % 20], LAST[person as usize / 20 % 20]);
    let mailbox = mailbox(person);
    match person % 11 {
        0 => format!("=?utf-8?Q?{first}_{last}_=28B=C3=BCro=29?= <{mailbox}@sender.example>"),
        1 => format!("{mailbox}@other.example"),
        _ => format!("\"{last}, {first}\" <{mailbox}@sender.example>"),
    }
}

/// Encoded as RFC 2047 requires for non-ASCII text.
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

/// A date as header fields carry it, in UTC.
fn date(at: i64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, clock) = (at.div_euclid(86_400), at.rem_euclid(86_400));
    let (year, month, day) = civil_from_days(days);
    let name = MONTHS[(month as usize - 1) % 12];
    format!("{day} {name} {year} {:02}:{:02}:{:02} +0000", clock / 3600, clock / 60 % 60, clock % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_writes_the_same_mailbox() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, seed| write_maildir(&dir.path().join(name), seed, 2100).unwrap();
        let contents = write("a", 1);
        assert_eq!(
            (contents, contents.messages, contents.flagged, contents.rare),
            (write("b", 1), 2100, 42, 3)
        );
        assert!(contents.from > 0 && contents.subject > 10);
        assert_ne!(contents, write("c", 2));
        let read = |name: &str| {
            let files = std::fs::read_dir(dir.path().join(name).join("cur")).unwrap();
            let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
            files.sort();
            files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect::<Vec<_>>()
        };
        let mails = read("a");
        assert_eq!(mails, read("b"));
        let bytes: usize = mails.iter().map(String::len).sum();
        assert!((2000..3500).contains(&(bytes / mails.len())), "{}", bytes / mails.len());
        let replies = mails.iter().filter(|mail| mail.contains("\nIn-Reply-To: ")).count();
        assert!((1000..1700).contains(&replies), "{replies}");
        assert_eq!(date(0), "1 Jan 1970 00:00:00 +0000");
        assert_eq!(date(951_782_399), "28 Feb 2000 23:59:59 +0000");
    }
}
