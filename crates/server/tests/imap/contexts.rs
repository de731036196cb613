//! Results that are kept up to date (RFC 5267), replayed from the updates that a client gets, equal
//! those of a new search, whatever other sessions do.

use sealpost_base::{Random, SeededRandom};
use sealpost_session::Settings;

use crate::imap_world::{Client, TestServer};

/// A result as a client has it.
struct Replay {
    tag: String,
    sorted: bool,
    numbers: Vec<u32>,
}

fn below(random: &dyn Random, n: u32) -> u32 {
    let mut bytes = [0; 4];
    random.fill(&mut bytes);
    u32::from_le_bytes(bytes) % n
}

fn numbers(set: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for range in set.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once(':').unwrap_or((range, range));
        numbers.extend(first.parse::<u32>().unwrap()..=last.parse().unwrap());
    }
    numbers
}

impl Replay {
    fn apply(&mut self, add: bool, pairs: &str) {
        let words: Vec<&str> = pairs.split(' ').collect();
        for pair in words.chunks(2) {
            let (position, set) = (pair[0].parse::<usize>().unwrap(), numbers(pair[1]));
            assert_eq!(position == 0, !self.sorted, "{pairs}");
            match (self.sorted, add) {
                (true, true) => drop(self.numbers.splice(position - 1..position - 1, set)),
                (true, false) => {
                    let gone: Vec<u32> =
                        self.numbers.splice(position - 1..position - 1 + set.len(), []).collect();
                    assert_eq!(gone, set);
                }
                (false, true) => {
                    assert!(set.iter().all(|n| !self.numbers.contains(n)), "{pairs} is there already");
                    self.numbers.extend(set);
                    self.numbers.sort_unstable();
                }
                (false, false) => {
                    assert!(set.iter().all(|n| self.numbers.contains(n)), "{pairs} is not there");
                    self.numbers.retain(|n| !set.contains(n));
                }
            }
        }
    }
}

/// Replays the updates that a command reported about the results.
fn replay(results: &mut [Replay], lines: &[String]) {
    for line in lines {
        if let Some(number) = line.strip_prefix("* ").and_then(|rest| rest.strip_suffix(" EXPUNGE")) {
            let number: u32 = number.parse().unwrap();
            // The one by number: what is expunged went before.
            let by_number = &mut results[1].numbers;
            assert!(!by_number.contains(&number), "{number} is expunged and still there");
            by_number.iter_mut().filter(|n| **n > number).for_each(|n| *n -= 1);
        }
        let Some(rest) = line.strip_prefix("* ESEARCH (TAG \"") else { continue };
        let (tag, rest) = rest.split_once("\")").unwrap();
        let Some(result) = results.iter_mut().find(|result| result.tag == tag) else { continue };
        for (name, add) in [("ADDTO (", true), ("REMOVEFROM (", false)] {
            if let Some((_, pairs)) = rest.split_once(name) {
                result.apply(add, pairs.strip_suffix(')').unwrap());
            }
        }
    }
}

async fn append(client: &mut Client, subject: &str) -> Vec<String> {
    let message = format!("Subject: {subject}\r\n\r\nbody of {subject}\r\n");
    let flags = if subject.len().is_multiple_of(2) { "\\Seen" } else { "" };
    let lines = client.command(&format!("APPEND INBOX ({flags}) {{{}+}}\r\n{message}", message.len())).await;
    assert!(lines.last().unwrap().starts_with("x OK"), "{lines:?}");
    lines
}

/// One command of a session that changes something, by chance.
async fn change(client: &mut Client, random: &dyn Random) -> Vec<String> {
    let uid = below(random, 40) + 1;
    let flag = ["\\Seen", "\\Flagged", "\\Deleted", "$a", "$b"][below(random, 5) as usize];
    let sign = ["+", "-"][below(random, 2) as usize];
    let silent = ["", ".SILENT"][below(random, 2) as usize];
    let to = uid + below(random, 4);
    match below(random, 10) {
        0..=4 => client.ok(&format!("UID STORE {uid}:{to} {sign}FLAGS{silent} ({flag})")).await,
        5 => client.ok("EXPUNGE").await,
        6 => client.ok(&format!("UID MOVE {uid}:{to} Archive")).await,
        7 => client.ok(&format!("UID FETCH {uid}:{to} FLAGS")).await,
        _ => {
            let subject = ["apple", "Re: apple", "pear", "[l] plum", "Apple tree"][below(random, 5) as usize];
            append(client, subject).await
        }
    }
}

#[tokio::test]
async fn the_reported_changes_add_up_to_the_result() {
    for seed in 0..6 {
        let random = SeededRandom::new(seed);
        let mut world = TestServer::new(Settings::default()).await;
        let (mut watcher, mut other) = (world.login().await, world.login().await);
        for n in 0..12 {
            append(&mut watcher, ["apple", "pear", "Re: plum"][n % 3]).await;
        }
        watcher.ok("SELECT INBOX").await;
        other.ok("SELECT INBOX").await;
        let searches = [
            ("UID SEARCH", "", "OR UNSEEN KEYWORD $a"),
            ("SEARCH", "", "UNDELETED OR SUBJECT apple KEYWORD $b"),
            ("UID SORT", "(SUBJECT REVERSE ARRIVAL) UTF-8 ", "OR SEEN FLAGGED"),
            ("UID SORT", "(REVERSE SIZE) UTF-8 ", "NOT KEYWORD $a"),
        ];
        let mut results = Vec::new();
        for (i, (command, how, what)) in searches.iter().enumerate() {
            let tag = format!("u{i}");
            watcher.send(format!("{tag} {command} RETURN (UPDATE ALL) {how}{what}\r\n").as_bytes()).await;
            let mut found = Vec::new();
            loop {
                let line = watcher.line().await;
                if let Some((_, set)) = line.split_once(" ALL ") {
                    found = numbers(set);
                }
                if line.starts_with(&format!("{tag} OK")) {
                    break;
                }
            }
            results.push(Replay { tag, sorted: !how.is_empty(), numbers: found });
        }
        for step in 0..120 {
            if below(&random, 3) == 0 {
                let lines = change(&mut watcher, &random).await;
                replay(&mut results, &lines);
            } else {
                change(&mut other, &random).await;
                continue;
            }
            let lines = watcher.ok("NOOP").await;
            replay(&mut results, &lines);
            for (result, (command, how, what)) in results.iter_mut().zip(&searches) {
                let lines = watcher.ok(&format!("{command} RETURN (ALL) {how}{what}")).await;
                let all = lines.iter().find_map(|line| line.split_once(" ALL ")).map(|(_, set)| numbers(set));
                let expected = all.unwrap_or_default();
                assert_eq!(result.numbers, expected, "{} seed {seed} step {step}: {lines:?}", result.tag);
            }
        }
    }
}
