//! Several sessions on one mailbox, at random: the updates of each add up to the mailbox.

use std::collections::BTreeSet;

use sealpost_base::SeededRandom;
use sealpost_session::Settings;

use crate::imap_world::{Client, TestServer};

const SESSIONS: usize = 4;
const STEPS: usize = 150;

/// A client that relies on the updates alone.
struct Believer {
    client: Client,
    /// The messages by sequence number: their flags, where they were reported.
    messages: Vec<Option<BTreeSet<String>>>,
    /// Messages whose flags the last command reported.
    told: BTreeSet<usize>,
}

impl Believer {
    async fn new(world: &mut TestServer) -> Self {
        let mut believer =
            Believer { client: world.login().await, messages: Vec::new(), told: BTreeSet::new() };
        believer.run("SELECT INBOX").await;
        believer
    }

    async fn run(&mut self, command: &str) -> String {
        let lines = self.client.command(command).await;
        self.told.clear();
        // RFC 3501 §7.4.1
        let numbered = ["FETCH", "STORE", "SEARCH"].iter().any(|name| command.starts_with(name));
        for line in &lines[..lines.len() - 1] {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["*", n, "EXISTS"] => {
                    let n = n.parse().unwrap();
                    assert!(n >= self.messages.len(), "{command}: EXISTS must not take messages away");
                    self.messages.resize(n, None);
                }
                ["*", n, "EXPUNGE"] => {
                    assert!(!numbered, "{command}: no EXPUNGE here");
                    self.messages.remove(n.parse::<usize>().unwrap() - 1);
                }
                ["*", n, "FETCH", ..] if line.contains("FLAGS (") => {
                    let flags = line.split_once("FLAGS (").unwrap().1.split_once(')').unwrap().0;
                    let flags = flags.split(' ').filter(|f| !f.is_empty() && *f != "\\Recent");
                    let n: usize = n.parse().unwrap();
                    self.told.insert(n);
                    self.messages[n - 1] = Some(flags.map(str::to_owned).collect());
                }
                _ => {}
            }
        }
        lines[lines.len() - 1].clone()
    }

    async fn step(&mut self, random: &SeededRandom) {
        let len = self.messages.len() as u64;
        let pick = |bound: u64| random.below(bound.max(1)) + 1;
        let flag = ["\\Seen", "\\Flagged", "$One", "$Two"][random.below(4) as usize];
        let sign = ["+", "-", ""][random.below(3) as usize];
        let silent = ["", ".SILENT"][random.below(2) as usize];
        let (a, b) = (pick(len), pick(len));
        let command = match random.below(13) {
            0 | 1 => "NOOP".to_owned(),
            2 if len > 0 => format!("FETCH {a}:{b} (FLAGS)"),
            3 if len > 0 => format!("STORE {a}:{b} {sign}FLAGS{silent} ({flag})"),
            4 => format!("UID STORE {a}:{b} {sign}FLAGS{silent} ({flag} \\Answered)"),
            5 if len > 0 => format!("STORE {a} +FLAGS{silent} (\\Deleted)"),
            6 => "EXPUNGE".to_owned(),
            7 if len > 0 && len < 40 => format!("COPY {a}:{b} INBOX"),
            8 if len > 0 => format!("MOVE {a} Archive"),
            9 => "SEARCH UNSEEN".to_owned(),
            10 if len > 0 => format!("FETCH {a} (BODY[TEXT])"),
            11 => format!("UID FETCH {a}:* (FLAGS)"),
            12 if len < 40 => {
                self.append(flag).await;
                return;
            }
            _ => "CHECK".to_owned(),
        };
        let completion = self.run(&command).await;
        let fine = completion.starts_with("x OK") || completion.contains("[EXPUNGEISSUED]");
        assert!(fine, "{command}: {completion}");
        if let (Some(rest), true) = (command.strip_prefix("STORE "), command.contains(".SILENT")) {
            self.believe_silent(rest, sign, flag);
        }
        if command.starts_with("UID STORE") && silent == ".SILENT" {
            // Which of its messages have these UIDs it does not know; it asks.
            self.forget_flags();
        }
    }

    /// The client's conclusion from a silent STORE: flags without another report are as it set
    /// them.
    fn believe_silent(&mut self, rest: &str, sign: &str, flag: &str) {
        let (set, _) = rest.split_once(' ').unwrap();
        let mut ends = set.split(':').map(|n| n.parse::<usize>().unwrap());
        let a = ends.next().unwrap();
        let b = ends.next().unwrap_or(a);
        for n in a.min(b)..=a.max(b) {
            if self.told.contains(&n) {
                continue;
            }
            let (sign, flag) = if rest.contains("\\Deleted") { ("+", "\\Deleted") } else { (sign, flag) };
            if let Some(flags) = &mut self.messages[n - 1] {
                match sign {
                    "+" => drop(flags.insert(flag.to_owned())),
                    "-" => drop(flags.remove(flag)),
                    _ => *flags = BTreeSet::from([flag.to_owned()]),
                }
            }
        }
    }

    fn forget_flags(&mut self) {
        self.messages.iter_mut().for_each(|flags| *flags = None);
    }

    async fn append(&mut self, flag: &str) {
        let completion = self.run(&format!("APPEND INBOX ({flag}) {{14+}}\r\nSubject: x\r\n\r\n")).await;
        assert!(completion.contains("APPENDUID"), "{completion}");
    }
}

#[tokio::test]
async fn reports_to_sessions_add_up() {
    for seed in 0..6 {
        let random = SeededRandom::new(seed);
        let mut world = TestServer::new(Settings::default()).await;
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            sessions.push(Believer::new(&mut world).await);
        }
        for step in 0..STEPS {
            if random.below(8) == 0 {
                world.deliver(None, b"Subject: delivered\r\n\r\nbody\r\n").await;
            }
            let who = random.below(SESSIONS as u64) as usize;
            sessions[who].step(&random).await;
            if step % 50 == 49 {
                quiet(&mut sessions, &world, seed).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_add_up_under_concurrent_commands() {
    for seed in 0..4 {
        let mut world = TestServer::new(Settings::default()).await;
        let mut talking = Vec::new();
        for i in 0..SESSIONS as u64 {
            let mut session = Believer::new(&mut world).await;
            talking.push(tokio::spawn(async move {
                let random = SeededRandom::new(1000 + seed * 10 + i);
                for _ in 0..STEPS / 2 {
                    session.step(&random).await;
                }
                session
            }));
        }
        for _ in 0..20 {
            world.deliver(None, b"Subject: delivered\r\n\r\nbody\r\n").await;
        }
        let mut sessions = Vec::new();
        for session in talking {
            sessions.push(session.await.unwrap());
        }
        quiet(&mut sessions, &world, seed).await;
    }
}

/// After all updates, every client has the same view, and it is right.
async fn quiet(sessions: &mut [Believer], world: &TestServer, seed: u64) {
    let account = world.account().await;
    for session in sessions.iter_mut() {
        session.run("NOOP").await;
    }
    let truth: Vec<BTreeSet<String>> = {
        let state = account.state();
        let inbox = state.inbox();
        let names = |row: sealpost_account::Row| {
            let set = state.flags(row.flags);
            let keywords = set.keywords.iter().map(|k| state.keyword_name(*k).to_owned());
            set.system.names().map(str::to_owned).chain(keywords).collect()
        };
        inbox.all_rows().map(names).collect()
    };
    for (i, session) in sessions.iter_mut().enumerate() {
        assert_eq!(session.messages.len(), truth.len(), "seed {seed}, session {i}");
        for (n, (believed, flags)) in session.messages.iter().zip(&truth).enumerate() {
            if let Some(believed) = believed {
                assert_eq!(believed, flags, "seed {seed}, session {i}, message {}", n + 1);
            }
        }
        if !truth.is_empty() {
            session.run("FETCH 1:* (FLAGS)").await;
        }
        assert_eq!(session.messages.iter().flatten().collect::<Vec<_>>(), truth.iter().collect::<Vec<_>>());
    }
}
