//! What a client believes of the selected mailbox: made from the responses it got, and from nothing else.
//!
//! Every response is checked against what was believed before: numbers that exist, UIDs that
//! ascend, mod-sequences that do not go back, and flags that do not change without one.

use std::collections::{BTreeMap, BTreeSet};

/// What is known of one message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slot {
    pub uid: Option<u32>,
    /// Without `\Recent`.
    pub flags: Option<BTreeSet<String>>,
    /// The mod-sequence that came with these flags, if one did.
    pub flags_at: Option<u64>,
    /// The highest mod-sequence that was reported; 0: none.
    pub modseq: u64,
}

/// The items of a FETCH response that are compared.
#[derive(Debug, Clone, Default)]
pub struct Items {
    pub uid: Option<u32>,
    pub flags: Option<BTreeSet<String>>,
    pub recent: bool,
    pub modseq: Option<u64>,
}

/// The messages, as far as this client can name them.
#[derive(Debug, Clone)]
pub enum Messages {
    /// By sequence number.
    Numbered(Vec<Slot>),
    /// By UID (RFC 9586), and the number of those whose UID was not reported yet.
    ByUid { known: BTreeMap<u32, Slot>, unknown: usize },
}

impl Items {
    /// Reads `… (FLAGS (…) UID n MODSEQ (n) BODY[…] …`.
    pub fn parse(line: &str) -> Items {
        let line = line.split(" BODY[").next().unwrap();
        let line = line.split("(BODY[").next().unwrap();
        let mut items = Items::default();
        let digits = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
        if let Some((_, rest)) = line.split_once("FLAGS (") {
            let mut flags: BTreeSet<String> =
                rest.split_once(')').unwrap().0.split_whitespace().map(str::to_owned).collect();
            items.recent = flags.remove("\\Recent");
            items.flags = Some(flags);
        }
        for before in ["(UID ", " UID "] {
            if let Some((_, rest)) = line.split_once(before) {
                items.uid = Some(digits(rest) as u32);
            }
        }
        if let Some((_, rest)) = line.split_once("MODSEQ (") {
            items.modseq = Some(digits(rest));
        }
        items
    }
}

impl Slot {
    /// Learns what a FETCH response says.
    pub fn learn(&mut self, items: &Items) -> Result<(), String> {
        if let Some(uid) = items.uid {
            if self.uid.is_some_and(|known| known != uid) {
                return Err(format!("UID {uid} where {:?} was", self.uid));
            }
            self.uid = Some(uid);
        }
        if let Some(modseq) = items.modseq {
            if modseq < self.modseq {
                return Err(format!("MODSEQ went back from {} to {modseq}", self.modseq));
            }
            if let (Some(old), Some(new)) = (&self.flags, &items.flags)
                && self.flags_at == Some(modseq)
                && old != new
            {
                return Err(format!("flags changed from {old:?} to {new:?} at the same MODSEQ {modseq}"));
            }
            self.modseq = modseq;
        }
        if let Some(flags) = &items.flags {
            self.flags = Some(flags.clone());
            self.flags_at = items.modseq;
        }
        Ok(())
    }

    /// What a STORE of this client did to it.
    pub fn store(&mut self, sign: &str, flags: &[&str]) {
        let Some(known) = &mut self.flags else { return };
        match sign {
            "+" => known.extend(flags.iter().map(|flag| (*flag).to_owned())),
            "-" => known.retain(|flag| !flags.contains(&flag.as_str())),
            _ => *known = flags.iter().map(|flag| (*flag).to_owned()).collect(),
        }
        self.flags_at = None;
    }
}

impl Messages {
    pub fn new(by_uid: bool, exists: usize) -> Self {
        if by_uid {
            Messages::ByUid { known: BTreeMap::new(), unknown: exists }
        } else {
            Messages::Numbered(vec![Slot::default(); exists])
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Messages::Numbered(slots) => slots.len(),
            Messages::ByUid { known, unknown } => known.len() + unknown,
        }
    }

    pub fn slots(&self) -> Vec<&Slot> {
        match self {
            Messages::Numbered(slots) => slots.iter().collect(),
            Messages::ByUid { known, .. } => known.values().collect(),
        }
    }

    pub fn slots_mut(&mut self) -> Vec<&mut Slot> {
        match self {
            Messages::Numbered(slots) => slots.iter_mut().collect(),
            Messages::ByUid { known, .. } => known.values_mut().collect(),
        }
    }

    pub fn by_uid(&mut self, uid: u32) -> Option<&mut Slot> {
        self.slots_mut().into_iter().find(|slot| slot.uid == Some(uid))
    }

    /// Whether every message's UID is known.
    pub fn all_named(&self) -> bool {
        match self {
            Messages::Numbered(slots) => slots.iter().all(|slot| slot.uid.is_some()),
            Messages::ByUid { unknown, .. } => *unknown == 0,
        }
    }

    /// `* n EXISTS`
    pub fn exists(&mut self, n: usize) -> Result<(), String> {
        if n < self.len() {
            return Err(format!("EXISTS {n} takes messages away from {}", self.len()));
        }
        let more = n - self.len();
        match self {
            Messages::Numbered(slots) => slots.resize(slots.len() + more, Slot::default()),
            Messages::ByUid { unknown, .. } => *unknown += more,
        }
        Ok(())
    }

    /// `* n EXPUNGE`
    pub fn expunge(&mut self, n: usize) -> Result<(), String> {
        match self {
            Messages::Numbered(slots) if (1..=slots.len()).contains(&n) => drop(slots.remove(n - 1)),
            _ => return Err(format!("no message {n} to expunge")),
        }
        Ok(())
    }

    /// One UID of `* VANISHED`: the client must know that it existed (RFC 7162 §3.2.10.2).
    pub fn vanish(&mut self, uid: u32) -> Result<(), String> {
        let wrong = || Err(format!("UID {uid} vanished, and was never there"));
        match self {
            Messages::Numbered(slots) => {
                if let Some(at) = slots.iter().position(|slot| slot.uid == Some(uid)) {
                    slots.remove(at);
                    return Ok(());
                }
                // One of those that have no UID yet, between the UIDs below and above.
                let below = slots.iter().rposition(|slot| slot.uid.is_some_and(|known| known < uid));
                let first = below.map_or(0, |at| at + 1);
                if slots.get(first).is_none_or(|slot| slot.uid.is_some()) {
                    return wrong();
                }
                slots.remove(first);
                // It is unknown which of them it was, and so are the reports about the others by
                // number.
                for slot in slots[first..].iter_mut().take_while(|slot| slot.uid.is_none()) {
                    *slot = Slot::default();
                }
            }
            Messages::ByUid { known, unknown } => {
                if known.remove(&uid).is_none() {
                    match unknown.checked_sub(1) {
                        Some(left) => *unknown = left,
                        None => return wrong(),
                    }
                }
            }
        }
        Ok(())
    }

    /// `* n FETCH (…)`
    pub fn fetch(&mut self, n: usize, items: &Items) -> Result<(), String> {
        let Messages::Numbered(slots) = self else { return Err("FETCH with a message number".into()) };
        let len = slots.len();
        let Some(slot) = n.checked_sub(1).and_then(|at| slots.get_mut(at)) else {
            return Err(format!("FETCH {n} of {len}"));
        };
        slot.learn(items)?;
        let uids: Vec<u32> = slots.iter().filter_map(|slot| slot.uid).collect();
        if uids.is_sorted_by(|a, b| a < b) { Ok(()) } else { Err(format!("UIDs do not ascend: {uids:?}")) }
    }

    /// `* uid UIDFETCH (…)`
    pub fn uid_fetch(&mut self, uid: u32, items: &Items) -> Result<(), String> {
        let Messages::ByUid { known, unknown } = self else { return Err("UIDFETCH".into()) };
        if !known.contains_key(&uid) {
            *unknown = unknown.checked_sub(1).ok_or(format!("UIDFETCH {uid} of nothing that exists"))?;
        }
        let slot = known.entry(uid).or_insert(Slot { uid: Some(uid), ..Slot::default() });
        slot.learn(items)
    }
}

/// `1:3,7` as numbers.
pub fn numbers(set: &str) -> Vec<u32> {
    let mut out = Vec::new();
    for range in set.split(',') {
        let (a, b) = range.split_once(':').unwrap_or((range, range));
        let (a, b): (u32, u32) = (a.parse().unwrap(), b.parse().unwrap());
        out.extend(a.min(b)..=a.max(b));
    }
    out
}

/// Numbers as a set.
pub fn set(numbers: impl IntoIterator<Item = u32>) -> String {
    numbers.into_iter().map(|n| n.to_string()).collect::<Vec<_>>().join(",")
}
