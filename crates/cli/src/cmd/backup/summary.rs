//! The result of `sealpost backup`.

use std::collections::BTreeSet;

use indicatif::HumanBytes;
use serde::Serialize;

use crate::output::counted;

/// The result, for people and as JSON.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) accounts: u64,
    pub(super) copied: u64,
    pub(super) bytes: u64,
    pub(super) already: u64,
    /// Objects that the server removed meanwhile.
    pub(super) gone: u64,
    /// Objects whose bytes at TO differ; TO keeps its own.
    pub(super) differing: BTreeSet<String>,
    /// Objects at FROM that cannot be read.
    pub(super) unreadable: BTreeSet<String>,
    /// Unreadable objects of derived data, which the server rebuilds.
    pub(super) unreadable_derived: BTreeSet<String>,
    /// Objects that were not copied because an earlier one is unreadable.
    pub(super) held_back: BTreeSet<String>,
    /// Log entries that a repair of the log at TO left out; they would contradict the repaired log.
    pub(super) repaired_without: BTreeSet<String>,
    /// Damage of the database of FROM: its listings may lack objects.
    pub(super) damage: Vec<String>,
}

impl Summary {
    /// Whether TO has everything but derived data.
    pub(super) fn is_complete(&self) -> bool {
        let names = [&self.differing, &self.unreadable, &self.repaired_without];
        names.iter().all(|names| names.is_empty()) && self.damage.is_empty()
    }

    pub(super) fn to_text(&self) -> String {
        let Summary { from, to, accounts, copied, bytes, already, gone, .. } = self;
        let (bytes, logs) = (HumanBytes(*bytes), counted(*accounts, "log", "logs"));
        let copied = counted(*copied, "object", "objects");
        let already = counted(*already, "was", "were");
        let mut text =
            format!("{from} to {to}: {logs}; {copied} copied and read back ({bytes}), {already} there");
        if *gone > 0 {
            text.push_str(&format!(", {} removed meanwhile", counted(*gone, "was", "were")));
        }
        let kinds = [
            (self.unreadable.len(), "not copied: unreadable"),
            (self.held_back.len(), "not copied: behind an unreadable or differing one"),
            (self.repaired_without.len(), "not copied: left out by a repair of the log at the destination"),
            (
                self.unreadable_derived.len(),
                "of derived data not copied: unreadable; the server makes such objects again",
            ),
        ];
        for (count, what) in kinds.into_iter().filter(|(count, _)| *count > 0) {
            text.push_str(&format!("\n{} {what}", counted(count, "object", "objects")));
        }
        for path in &self.differing {
            text.push_str(&format!("\ndiffers: {path}"));
        }
        for what in &self.damage {
            text.push_str(&format!("\nthe database of {from} is damaged: {what}"));
        }
        if !self.damage.is_empty() {
            text.push_str(
                "\nobjects may be missing from the backup; repair the store (sealpost store \
                           repair), and run the command again",
            );
        }
        text
    }
}
