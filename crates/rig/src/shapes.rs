//! The shapes of a published trace of IMAP clients: its commands, with the parts that vary between
//! mailboxes made equal.
//!
//! `crates/bench/data/trace-shapes.tsv` is the result for the trace that `sealpost bench trace` repeats:
//!
//! ```text
//! sealpost-rig shapes imap_commands_dataset.log imap_commands_summary.csv > crates/bench/data/trace-shapes.tsv
//! ```
//!
//! The log has one line for each different command, in the format of Rust's `Debug`; the summary
//! has how often each verb was sent. In a shape, message sets are `1:*`, a mod-sequence is
//! `{modseq}`, mailboxes besides INBOX are `{mailbox}`, and of commands that differ in dates, in
//! the length of a part or in the search text only the first is kept.

mod imap;
mod value;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use value::Value;

/// A command of the trace, made comparable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// `FETCH`.
    pub verb: String,
    /// In its wire form: `UID FETCH 1:* (FLAGS)`.
    pub command: String,
    /// The same, without differences in dates, lengths and texts.
    key: String,
}

/// Writes the table for the files at `log` and `summary`.
///
/// # Errors
/// If they cannot be read, or have another form.
pub fn table(log: &Path, summary: &Path) -> Result<String> {
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
    summarize(&read(log)?, &read(summary)?)
}

fn summarize(log: &str, summary: &str) -> Result<String> {
    let mut shapes: Vec<(Shape, u32)> = Vec::new();
    for (nth, line) in log.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let shape = Value::parse(line).and_then(|value| imap::shape(&value));
        let shape = shape.with_context(|| format!("line {}", nth + 1))?;
        match shapes.iter_mut().find(|(other, _)| other.key == shape.key) {
            Some((_, count)) => *count += 1,
            None => shapes.push((shape, 1)),
        }
    }
    let counts = counts(summary)?;
    shapes.sort_by(|(a, more), (b, less)| {
        a.verb.cmp(&b.verb).then(less.cmp(more)).then(a.command.cmp(&b.command))
    });
    let mut out = String::from(
        "# What real IMAP clients sent to one server, made by `sealpost-rig shapes` (crates/rig/src/shapes.rs).\n\
         # Of each verb: how often it was sent, in how many different commands.\n",
    );
    for (verb, (sent, different)) in &counts {
        let _ = writeln!(out, "#\t{verb}\t{sent}\t{different}");
    }
    out += "# Of each shape: its verb, how many of the different commands have it, the command.\n";
    for (shape, commands) in &shapes {
        let _ = writeln!(out, "{}\t{commands}\t{}", shape.verb, shape.command);
    }
    Ok(out)
}

/// How often each verb was sent, and in how many different commands.
fn counts(summary: &str) -> Result<BTreeMap<String, (u64, u64)>> {
    let mut counts = BTreeMap::new();
    for line in summary.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        ensure!(cells.len() == 3, "{line:?} is not count,command,aggregation");
        let count = cells[0].parse().with_context(|| line.to_owned())?;
        let entry: &mut (u64, u64) = counts.entry(cells[1].to_ascii_uppercase()).or_default();
        match cells[2] {
            "Raw" => entry.0 = count,
            "Unique" => entry.1 = count,
            other => anyhow::bail!("{other:?} is neither Raw nor Unique"),
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_one_shape_are_counted_together() {
        let log = "Noop \n\
            Search { charset: None, criteria: Since(2024-01-31), uid: true } }\n\
            Search { charset: None, criteria: Since(2024-02-01), uid: true } }\n\
            Fetch { sequence_set: SequenceSet([Single(Value(6))]+), modifiers: [], macro_or_item_names: MessageDataItemNames([Flags]), uid: true } }\n\
            Fetch { sequence_set: SequenceSet([Range(Value(1), Asterisk)]+), modifiers: [ChangedSince(5)], macro_or_item_names: MessageDataItemNames([Flags]), uid: true } }\n\
            Fetch { sequence_set: SequenceSet([Range(Value(2), Asterisk)]+), modifiers: [], macro_or_item_names: MessageDataItemNames([Flags]), uid: true } }\n";
        let table = summarize(log, "count,command,aggregation\n7,Fetch,Raw\n3,Fetch,Unique\n").unwrap();
        let rows: Vec<&str> = table.lines().filter(|line| !line.starts_with("# ")).collect();
        assert_eq!(
            rows,
            [
                "#\tFETCH\t7\t3",
                "FETCH\t2\tUID FETCH 1:* (FLAGS)",
                "FETCH\t1\tUID FETCH 1:* (FLAGS) (CHANGEDSINCE {modseq})",
                "NOOP\t1\tNOOP",
                "SEARCH\t2\tUID SEARCH SINCE 31-Jan-2024",
            ]
        );
    }

    #[test]
    fn a_malformed_trace_is_refused_with_its_line() {
        let wrong = |log: &str, summary: &str| format!("{:#}", summarize(log, summary).unwrap_err());
        assert!(wrong("Noop\nFrobnicate", "").starts_with("line 2: "), "{}", wrong("Noop\nFrobnicate", ""));
        assert!(wrong("Noop", "head\n1,Noop").contains("count,command,aggregation"));
        assert!(wrong("Noop", "head\n1,Noop,Odd").contains("neither Raw nor Unique"));
    }
}
