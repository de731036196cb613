//! What a client does, one thing after the other, at random.

use std::collections::BTreeSet;

use super::super::belief::{numbers, set};
use super::super::dialect::Dialect;
use super::Believer;

const FLAGS: [&str; 4] = ["\\Seen", "\\Flagged", "$One", "$Two"];

/// Something to do.
enum Action {
    Run(String),
    Store {
        prefix: &'static str,
        some: String,
    },
    Pipeline(Vec<String>),
    Append,
    Idle,
    Select {
        name: &'static str,
        read_only: bool,
    },
    /// CLOSE or UNSELECT.
    Close(&'static str),
    Reconnect,
    Learn,
}

impl Believer {
    /// Does something.
    pub async fn step(&mut self) {
        if self.is_cut_off() {
            return self.cut_off().await;
        }
        match self.choose() {
            Action::Run(text) => {
                let completion = self.run(&text).await;
                let fine = completion.starts_with("x OK") || completion.contains("[EXPUNGEISSUED]");
                self.check(fine, &format!("{text}: {completion}"));
            }
            Action::Store { prefix, some } => self.store(prefix, &some).await,
            Action::Pipeline(texts) => self.pipeline(texts).await,
            Action::Append => self.append().await,
            Action::Idle => self.idle().await,
            Action::Select { name, read_only } => self.select(name, read_only).await,
            Action::Close(how) => {
                self.run(how).await;
                self.leave();
            }
            Action::Reconnect => self.reconnect().await,
            Action::Learn => self.learn().await,
        }
    }

    fn choose(&self) -> Action {
        let select = || Action::Select { name: self.one(&self.readable()), read_only: self.below(8) == 0 };
        let target = || self.one(&self.writable());
        let Some(selected) = &self.selected else { return select() };
        let len = selected.messages.len();
        let known: Vec<u32> = selected.messages.slots().iter().filter_map(|slot| slot.uid).collect();
        let may_change = self.writable().contains(&selected.name);
        let (highest, read_only) = (selected.highest, selected.read_only || !may_change);
        let numbered = !self.dialect.names_uids() && len > 0 && self.below(2) == 0;
        let pick = || self.below(len) + 1;
        let uid = || if known.is_empty() { 1 } else { self.one(&known) };
        let some = if numbered { format!("{}:{}", pick(), pick()) } else { format!("{}:{}", uid(), uid()) };
        let prefix = if numbered { "" } else { "UID " };
        let modseq = self.dialect.modseq();
        let uids = || format!("{}:{}", uid(), uid());
        let next = || match self.below(6) {
            0 => "EXPUNGE".to_owned(),
            1 => format!("UID STORE {} +FLAGS (\\Deleted)", uids()),
            2 => format!("UID STORE {} FLAGS ($One \\Flagged)", uids()),
            3 => format!("UID FETCH {} (UID FLAGS BODY[TEXT])", uids()),
            4 if len < 40 => format!("UID COPY {} {}", uids(), target()),
            _ => "NOOP".to_owned(),
        };
        Action::Run(match self.below(26) {
            24 if !read_only => return Action::Pipeline((0..2 + self.below(3)).map(|_| next()).collect()),
            0 | 1 => "NOOP".to_owned(),
            2 => format!("{prefix}FETCH {some} (UID FLAGS)"),
            3 if modseq => format!("{prefix}FETCH {some} (UID FLAGS MODSEQ)"),
            4 if modseq => format!("{prefix}FETCH {some} (UID MODSEQ)"),
            5 if highest > 0 && modseq => {
                let vanished = if self.dialect.qresync() && !numbered { " VANISHED" } else { "" };
                format!("{prefix}FETCH {some} (FLAGS) (CHANGEDSINCE {highest}{vanished})")
            }
            6 => format!("{prefix}FETCH {some} (BODY[TEXT])"),
            7..=10 if !read_only => return Action::Store { prefix, some },
            11 | 12 if !read_only => format!("{prefix}STORE {some} +FLAGS (\\Deleted)"),
            13 if !read_only => "EXPUNGE".to_owned(),
            14 if !read_only => format!("UID EXPUNGE {}:{}", uid(), uid()),
            15 if len < 40 => format!("{prefix}COPY {some} {}", target()),
            16 if !read_only => {
                let one = if numbered { pick() } else { uid() as usize };
                format!("{prefix}MOVE {one} {}", target())
            }
            17 if !self.dialect.names_uids() => "SEARCH UNSEEN".to_owned(),
            17 => "UID SEARCH UNSEEN".to_owned(),
            18 if !self.dialect.names_uids() && len > 0 => format!("UID SEARCH 1:{len}"),
            18 if modseq => format!("UID SEARCH MODSEQ {}", highest.max(1)),
            19 if len < 40 => return Action::Append,
            20 => return Action::Idle,
            21 => return select(),
            22 => match self.below(3) {
                0 => return Action::Reconnect,
                1 => return Action::Close("UNSELECT"),
                _ => return Action::Close("CLOSE"),
            },
            _ => return Action::Learn,
        })
    }

    async fn store(&mut self, prefix: &str, some: &str) {
        let sign = self.one(&["+", "-", ""]);
        let silent = self.one(&["", ".SILENT"]);
        let flags = [self.one(&FLAGS), self.one(&FLAGS)];
        let Some(selected) = &self.selected else { return };
        let condition = match self.below(5) {
            _ if !self.dialect.modseq() => String::new(),
            0 => " (UNCHANGEDSINCE 0)".to_owned(),
            1 => format!(" (UNCHANGEDSINCE {})", selected.highest),
            2 => format!(" (UNCHANGEDSINCE {})", self.below(selected.highest as usize + 2)),
            _ => String::new(),
        };
        let text = format!("{prefix}STORE {some}{condition} {sign}FLAGS{silent} ({})", flags.join(" "));
        let (completion, command) = self.run_command(&text).await;
        let refused = ["[EXPUNGEISSUED]", "[MODIFIED "].iter().any(|code| completion.contains(code));
        self.check(completion.starts_with("x OK") || refused, &format!("{text}: {completion}"));
        // The client's conclusion: flags without another report are as it set them.
        let targets: BTreeSet<u32> = numbers(some).into_iter().collect();
        let by_uid = prefix == "UID ";
        let Some(selected) = &mut self.selected else { return };
        for (n, slot) in (1..).zip(selected.messages.slots_mut()) {
            let name = if by_uid { slot.uid } else { Some(n) };
            match name {
                Some(name) if targets.contains(&name) => {
                    let told = command.told.contains(&name);
                    if !told && !command.modified.contains(&name) {
                        slot.store(sign, &flags);
                    } else if told && !silent.is_empty() && self.dialect == Dialect::Notify {
                        // Reported at once, before or after: the order is open.
                        slot.flags = None;
                    }
                }
                // It may be one of them: nothing is known of it any more.
                None => slot.flags = None,
                Some(_) => {}
            }
        }
    }

    /// Several commands at once, none of which needs the answer of another.
    async fn pipeline(&mut self, texts: Vec<String>) {
        let all: String = texts.iter().map(|text| format!("x {text}\r\n")).collect();
        self.client.send(all.as_bytes()).await;
        for text in texts {
            self.story.push(format!("C: {text} (pipelined)"));
            let lines = self.client.answer().await;
            let completion = self.believe(&text, lines).0;
            self.check(completion.starts_with("x OK"), &format!("{text}: {completion}"));
        }
    }

    async fn append(&mut self) {
        let (mailbox, flag) = (self.one(&self.writable()), self.one(&FLAGS));
        let text = format!("APPEND {mailbox} ({flag}) {{14+}}\r\nSubject: x\r\n\r\n");
        let completion = self.run(&text).await;
        self.check(completion.contains("[APPENDUID "), &completion);
    }

    async fn idle(&mut self) {
        self.story.push("C: IDLE".into());
        self.client.send(b"x IDLE\r\n").await;
        let mut lines = Vec::new();
        loop {
            let line = self.client.line().await;
            let begun = line.starts_with("+ ");
            lines.push(line);
            if begun {
                self.client.send(b"DONE\r\n").await;
            }
            if lines.last().is_some_and(|line| line.starts_with("x ")) {
                break;
            }
        }
        self.believe("IDLE", lines);
    }

    /// Fetches everything unknown.
    pub(super) async fn learn(&mut self) {
        let Some(selected) = &self.selected else { return };
        if !selected.messages.all_named() {
            self.run("UID FETCH 1:* (UID)").await;
        }
        let Some(selected) = &self.selected else { return };
        let slots = selected.messages.slots();
        let unknown: Vec<u32> =
            slots.iter().filter(|slot| slot.flags.is_none()).filter_map(|slot| slot.uid).collect();
        if unknown.is_empty() {
            return;
        }
        let items = if self.dialect.modseq() { "UID FLAGS MODSEQ" } else { "UID FLAGS" };
        self.run(&format!("UID FETCH {} ({items})", set(unknown))).await;
    }
}
