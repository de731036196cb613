//! The script's answers about messages: SEARCH, FETCH, STORE and EXPUNGE.

use super::session::{CUT, DRIP, ENDLESS, Session};
use super::{Box_, Fault};

impl Session {
    /// SEARCH and FETCH.
    pub(super) fn read(
        &mut self,
        command: &str,
        words: &[&str],
        mailbox: &Box_,
    ) -> (Vec<u8>, Option<String>) {
        if words.get(1) == Some(&"SEARCH") {
            let half = self.has(&Fault::HalfListed);
            let wanted = if words.get(2) == Some(&"UID") { words.get(3).copied() } else { None };
            let all = mailbox.messages.keys().filter(|uid| wanted.is_none_or(|set| contains(set, **uid)));
            let uids: Vec<String> = all.filter(|uid| !half || **uid % 2 == 0).map(u32::to_string).collect();
            let answer = if command.contains("RETURN") {
                let all = if uids.is_empty() { String::new() } else { format!(" ALL {}", uids.join(",")) };
                format!("* ESEARCH (TAG \"x\") UID{all}\r\n")
            } else {
                format!("* SEARCH {}\r\n", uids.join(" "))
            };
            return (answer.into_bytes(), Some("OK searched".into()));
        }
        let set = words.get(2).copied().unwrap_or("");
        if command.contains("BODY.PEEK[]") {
            self.bodies(mailbox, set)
        } else {
            self.flags(mailbox, set, command)
        }
    }

    fn flags(&self, mailbox: &Box_, set: &str, command: &str) -> (Vec<u8>, Option<String>) {
        let since: u64 = command
            .split_once("CHANGEDSINCE ")
            .and_then(|(_, rest)| rest.split([' ', ')']).next()?.parse().ok())
            .unwrap_or(0);
        let half = self.has(&Fault::HalfListed);
        let mut out = String::from_utf8(self.unasked()).unwrap();
        if command.contains("HEADER.FIELDS") {
            return self.headers(mailbox, set, command);
        }
        if command.ends_with("(UID INTERNALDATE)") {
            return self.internal_dates(mailbox, set);
        }
        if command.contains("VANISHED") {
            let gone: Vec<String> = mailbox
                .vanished
                .iter()
                .filter(|(_, at)| **at > since)
                .map(|(uid, _)| uid.to_string())
                .collect();
            if !gone.is_empty() {
                out.push_str(&format!("* VANISHED (EARLIER) {}\r\n", gone.join(",")));
            }
        }
        for (nth, (uid, (flags, _))) in mailbox.messages.iter().enumerate() {
            let changed = mailbox.modseqs.get(uid).is_some_and(|modseq| *modseq > since);
            if contains(set, *uid) && changed && !(half && uid % 2 == 1) {
                out.push_str(&format!("* {} FETCH (UID {uid} FLAGS ({flags}))\r\n", nth + 1));
            }
        }
        (out.into_bytes(), Some("OK fetched".into()))
    }

    fn internal_dates(&self, mailbox: &Box_, set: &str) -> (Vec<u8>, Option<String>) {
        let (mut out, others) = (String::new(), self.dates());
        for (nth, uid) in mailbox.messages.keys().enumerate().filter(|(_, uid)| contains(set, **uid)) {
            if self.has(&Fault::CutAt(*uid)) {
                let mut out = out.into_bytes();
                out.extend_from_slice(CUT);
                return (out, None);
            }
            let other = others.iter().find(|(of, _)| of == uid).map(|(_, date)| *date);
            let date = other.unwrap_or("\"17-Jul-1996 02:44:25 -0700\"");
            out.push_str(&format!("* {} FETCH (UID {uid} INTERNALDATE {date})\r\n", nth + 1));
        }
        (out.into_bytes(), Some("OK fetched".into()))
    }

    /// `UID STORE set +FLAGS.SILENT (flags)` and `UID EXPUNGE set`.
    pub(super) fn store(&self, words: &[&str]) -> (Vec<u8>, Option<String>) {
        let adds_keyword = words.get(3).is_some_and(|word| word.starts_with('+'))
            && words[4..].iter().any(|word| !word.trim_matches(['(', ')']).starts_with('\\'));
        if adds_keyword && self.has(&Fault::NoKeywords) {
            return (Vec::new(), Some("NO Too many user flags in mailbox".into()));
        }
        let is_named = |word: &str| words[2..].iter().any(|flag| flag.trim_matches(['(', ')']) == word);
        let refuses = |fault: &Fault| matches!(fault, Fault::NoKeyword(word) if is_named(word));
        if adds_keyword && self.world.lock().unwrap().faults.iter().any(refuses) {
            return (Vec::new(), Some("NO this keyword is not allowed".into()));
        }
        let mut world = self.world.lock().unwrap();
        let Some(mailbox) = self.selected.as_ref().and_then(|name| world.boxes.get_mut(name)) else {
            return (Vec::new(), Some("BAD nothing selected".into()));
        };
        let uids: Vec<u32> =
            mailbox.messages.keys().copied().filter(|uid| contains(words[2], *uid)).collect();
        for uid in uids {
            let old = mailbox.messages[&uid].0.clone();
            if words[1] == "EXPUNGE" {
                if old.contains("\\Deleted") {
                    mailbox.expunge(uid);
                }
                continue;
            }
            let named: Vec<&str> = words[4..].iter().map(|word| word.trim_matches(['(', ')'])).collect();
            let mut flags: Vec<&str> =
                old.split(' ').filter(|flag| !flag.is_empty() && !named.contains(flag)).collect();
            if words[3].starts_with('+') {
                flags.extend(named);
            }
            mailbox.set_flags(uid, &flags.join(" "));
        }
        (Vec::new(), Some("OK done".into()))
    }

    /// The header fields that messages are recognized by.
    fn headers(&self, mailbox: &Box_, set: &str, command: &str) -> (Vec<u8>, Option<String>) {
        let (half, wrong) = (self.has(&Fault::HalfListed), self.has(&Fault::WrongSizes));
        let fields = command.rsplit_once("HEADER.FIELDS (").unwrap().1.trim_end_matches([')', ']']);
        let mut out = String::new();
        for (nth, (uid, (flags, bytes))) in mailbox.messages.iter().enumerate() {
            if !contains(set, *uid) || half && uid % 2 == 1 {
                continue;
            }
            let text = String::from_utf8_lossy(bytes);
            let named = |line: &&str| {
                line.split_once(':')
                    .is_some_and(|(name, _)| fields.split(' ').any(|field| field.eq_ignore_ascii_case(name)))
            };
            let lines = text.lines().take_while(|line| !line.is_empty()).filter(named);
            let header: String = lines.map(|line| format!("{line}\r\n")).chain(["\r\n".into()]).collect();
            out.push_str(&format!(
                "* {} FETCH (UID {uid} FLAGS ({flags}) RFC822.SIZE {} INTERNALDATE \"17-Jul-1996 02:44:25 -0700\" \
                 BODY[HEADER.FIELDS ({fields})] {{{}}}\r\n{header})\r\n",
                nth + 1,
                bytes.len() + usize::from(wrong),
                header.len()
            ));
        }
        (out.into_bytes(), Some("OK fetched".into()))
    }

    /// The messages that a command may process, and what is answered about the rest.
    pub(super) fn limited(&self, mut mailbox: Box_, set: &str) -> (Box_, Option<String>) {
        let limit = {
            let world = self.world.lock().unwrap();
            world.faults.iter().find_map(|f| if let Fault::MessageLimit(n) = f { Some(*n) } else { None })
        };
        let asked: Vec<u32> = mailbox.messages.keys().copied().filter(|uid| contains(set, *uid)).collect();
        let Some(limit) = limit.filter(|limit| asked.len() > *limit) else { return (mailbox, None) };
        let lowest = asked[asked.len() - limit];
        mailbox.messages.retain(|uid, _| *uid >= lowest);
        (mailbox, Some(format!("OK [MESSAGELIMIT {limit} {lowest}] not all")))
    }

    fn bodies(&mut self, mailbox: &Box_, set: &str) -> (Vec<u8>, Option<String>) {
        if self.has(&Fault::Silent) {
            return (Vec::new(), None);
        }
        if self.has(&Fault::EndlessLine) {
            return ([b"* 1 FETCH (FLAGS (", ENDLESS].concat(), None);
        }
        let mut out = self.unasked();
        let mut refused = false;
        for (nth, (uid, (flags, bytes))) in mailbox.messages.iter().enumerate() {
            if !contains(set, *uid) || self.has(&Fault::Skip(*uid)) {
                continue;
            }
            if self.has(&Fault::RefuseAt(*uid)) {
                refused = true;
                continue;
            }
            let sent = self.sent;
            let bye = self.once(|fault| matches!(fault, Fault::Bye(after, _) if *after <= sent));
            if let Some(Fault::Bye(_, text)) = bye {
                out.extend_from_slice(format!("* BYE {text}\r\n").as_bytes());
                out.extend_from_slice(CUT);
                return (out, None);
            }
            let n = nth + 1;
            let ends = self.once(|fault| *fault == Fault::StandInThenEnd(*uid)).is_some();
            if ends || self.has(&Fault::StandInAt(*uid)) {
                let filler = "?".repeat(bytes.len());
                let begin = format!("* {n} FETCH (UID {uid} FLAGS () BODY[] {{{}}}\r\n", filler.len());
                out.extend_from_slice(format!("{begin}{filler})\r\n").as_bytes());
                refused = true;
                if ends {
                    out.extend_from_slice(
                        format!("* NO [CORRUPTION] message UID {uid} is damaged\r\n").as_bytes(),
                    );
                    out.extend_from_slice(CUT);
                    return (out, None);
                }
                continue;
            }
            let other = self.dates().into_iter().find(|(of, _)| of == uid).map(|(_, date)| date);
            let date = format!("INTERNALDATE {}", other.unwrap_or("\"17-Jul-1996 02:44:25 -0700\""));
            let size = bytes.len();
            let cut = self.has(&Fault::CutAt(*uid))
                || self.once(|fault| *fault == Fault::CutOnceAt(*uid)).is_some();
            if cut {
                out.extend_from_slice(
                    format!("* {n} FETCH (UID {uid} FLAGS () {date} BODY[] {{{size}}}\r\n").as_bytes(),
                );
                out.extend_from_slice(&bytes[..size / 2]);
                out.extend_from_slice(CUT);
                return (out, None);
            }
            let huge = self.world.lock().unwrap().faults.iter().find_map(|fault| match fault {
                Fault::HugeAt(of, bytes) if of == uid => Some((*bytes, ENDLESS)),
                Fault::DripAt(of) if of == uid => Some((1_000_000, DRIP)),
                _ => None,
            });
            if let Some((bytes, end)) = huge {
                let begin = format!("* {n} FETCH (UID {uid} FLAGS () {date} BODY[] {{{bytes}}}\r\n");
                out.extend_from_slice(&[begin.as_bytes(), end].concat());
                return (out, None);
            }
            if self.has(&Fault::NilAt(*uid)) {
                out.extend_from_slice(
                    format!("* {n} FETCH (UID {uid} FLAGS ({flags}) BODY[] NIL)\r\n").as_bytes(),
                );
                continue;
            }
            let literal = if self.has(&Fault::Quoted(*uid)) {
                b"\"quoted \\\"text\\\"\"".to_vec()
            } else if self.has(&Fault::Literal8(*uid)) {
                [format!("~{{{size}}}\r\n").as_bytes(), bytes].concat()
            } else {
                [format!("{{{size}}}\r\n").as_bytes(), bytes].concat()
            };
            let (before, after) = if self.has(&Fault::Reordered) {
                ("RFC822.SIZE 3 ".to_owned(), format!(" {date} FLAGS ({flags}) UID {uid}"))
            } else {
                (format!("UID {uid} FLAGS ({flags}) {date} "), String::new())
            };
            out.extend_from_slice(format!("* {n} FETCH ({before}BODY[] ").as_bytes());
            out.extend_from_slice(&literal);
            out.extend_from_slice(after.as_bytes());
            out.extend_from_slice(b")\r\n");
            self.sent += 1;
        }
        let completion = if refused { "NO some messages cannot be read" } else { "OK fetched" };
        (out, Some(completion.into()))
    }
}

impl Session {
    /// Unsolicited messages.
    fn unasked(&self) -> Vec<u8> {
        let world = self.world.lock().unwrap();
        let unasked =
            world.faults.iter().filter_map(|f| if let Fault::Unasked(n) = f { Some(*n) } else { None });
        let message = |uid: u32| {
            let small = format!("* 1 FETCH (UID {uid} FLAGS () BODY[] {{5}}\r\nwrong)\r\n");
            let large = format!("* 1 FETCH (BODY[] {{100000}}\r\n{} UID {uid})\r\n", "w".repeat(100_000));
            small + &large
        };
        unasked.map(message).collect::<String>().into_bytes()
    }
}

fn contains(set: &str, uid: u32) -> bool {
    set.split(',').any(|part| {
        let (first, last) = part.split_once(':').unwrap_or((part, part));
        let last = if last == "*" { u32::MAX } else { last.parse().unwrap() };
        (first.parse().unwrap()..=last).contains(&uid)
    })
}
