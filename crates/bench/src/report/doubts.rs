//! Reasons to doubt a comparison: runs that are not of the same thing, had errors, or are
//! identical.

use std::collections::BTreeSet;

use anyhow::Result;

use sealpost_base::counted;

use crate::UsageError;
use crate::result::Run;

/// Removes duplicate runs from each side, and returns the reasons to doubt the comparison.
/// `arguments` are those that `given` was read from: files of runs of the same thing, joined by
/// commas.
///
/// # Errors
/// If they are runs of different scenarios, which cannot be compared.
pub fn doubts(arguments: &[String], given: &mut [(String, Vec<Run>)]) -> Result<Vec<String>> {
    let mut doubts = Vec::new();
    let mut names = Vec::new();
    for (argument, (_, runs)) in arguments.iter().zip(given.iter_mut()) {
        let mut once: Vec<Run> = Vec::new();
        for (name, run) in argument.split(',').zip(std::mem::take(runs)) {
            if once.contains(&run) {
                doubts.push(format!("{name}: this run was given before, and counts once"));
            } else {
                once.push(run);
                names.push(name);
            }
        }
        *runs = once;
    }
    for (nth, (label, runs)) in given.iter().enumerate() {
        let before = &given[..nth];
        let twin = before.iter().find(|(_, others)| runs.iter().any(|run| others.contains(run)));
        if let Some((other, _)) = twin {
            doubts.push(format!("{label} and {other} have a run in common: it is compared with itself"));
        }
    }
    let all: Vec<(&str, &Run)> = names.into_iter().zip(given.iter().flat_map(|(_, runs)| runs)).collect();
    let Some((first, like)) = all.first() else { return Ok(doubts) };
    if let Some((name, run)) = all.iter().find(|(_, run)| run.title != like.title) {
        let (one, other) = (&like.title, &run.title);
        let wrong =
            format!("{first} is of {one}, {name} of {other}: only runs of the same scenario can be compared");
        return Err(UsageError(wrong).into());
    }
    differences(&all, &mut doubts);
    let failed = all.iter().filter(|(_, run)| run.errors() > 0);
    doubts.extend(failed.map(|(name, run)| format!("{name}: {}", counted(run.errors(), "error", "errors"))));
    let ended = all.iter().flat_map(|(name, run)| run.ended_early().map(move |server| (name, server)));
    doubts
        .extend(ended.map(|(name, server)| format!("{name}: the processes of {} ended early", server.name)));
    Ok(doubts)
}

/// Seed, data, connections and all else that the load depended on.
fn differences(all: &[(&str, &Run)], doubts: &mut Vec<String>) {
    let keys: BTreeSet<&str> =
        all.iter().flat_map(|(_, run)| run.parameters.keys()).map(String::as_str).collect();
    let each = |value: &dyn Fn(&Run) -> String| all.iter().map(|(_, run)| value(run)).collect::<Vec<_>>();
    let mut values = vec![
        ("seed", each(&|run| run.seed.to_string())),
        ("threads", each(&|run| run.generator.threads.to_string())),
        ("machine", each(&|run| run.machine.line())),
    ];
    let parameter = |run: &Run, key| run.parameters.get(key).map_or("none", String::as_str).to_owned();
    values.extend(keys.into_iter().map(|key| (key, each(&|run| parameter(run, key)))));
    for (key, values) in &values {
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for (value, (name, _)) in values.iter().zip(all) {
            if !seen.iter().any(|(other, _)| other == value) {
                seen.push((value, name));
            }
        }
        if seen.len() > 1 {
            let each: Vec<_> = seen.iter().map(|(value, name)| format!("{value} in {name}")).collect();
            doubts.push(format!("not the same {key}: {}", each.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Command, Failure, Phase, ServerRun};

    fn run(seed: u64, connections: &str) -> Run {
        let parameters = [("connections".to_owned(), connections.to_owned())].into();
        Run { title: "fetch".into(), seed, parameters, ..Run::default() }
    }

    fn said(arguments: &[&str], runs: &[Vec<Run>]) -> (Vec<usize>, Result<Vec<String>>) {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let mut given: Vec<_> = arguments.iter().cloned().zip(runs.iter().cloned()).collect();
        let doubts = doubts(&arguments, &mut given);
        (given.iter().map(|(_, runs)| runs.len()).collect(), doubts)
    }

    #[test]
    fn runs_of_the_same_thing_leave_no_doubt() {
        let later = Run { began: 5, ..run(1, "4") };
        assert!(said(&["a", "b"], &[vec![run(1, "4")], vec![later]]).1.unwrap().is_empty());
    }

    #[test]
    fn differences_are_reported() {
        let doubts = said(&["a", "b"], &[vec![run(1, "4")], vec![run(2, "8")]]).1.unwrap();
        assert_eq!(doubts, ["not the same seed: 1 in a, 2 in b", "not the same connections: 4 in a, 8 in b"]);
        let other = Run { title: "idle".into(), ..run(1, "4") };
        let why = said(&["a", "b"], &[vec![run(1, "4")], vec![other]]).1.unwrap_err().to_string();
        assert_eq!(why, "a is of fetch, b of idle: only runs of the same scenario can be compared");
    }

    #[test]
    fn a_run_given_twice_counts_once() {
        let (runs, doubts) = said(
            &["a,a,c", "a"],
            &[vec![run(1, "4"), run(1, "4"), Run { began: 1, ..run(1, "4") }], vec![run(1, "4")]],
        );
        let doubts = doubts.unwrap();
        assert_eq!(runs, [2, 1]);
        assert_eq!(doubts[0], "a: this run was given before, and counts once");
        assert_eq!(doubts[1], "a and a,a,c have a run in common: it is compared with itself");
    }

    #[test]
    fn errors_are_said() {
        let errors = [("NO".to_owned(), Failure { count: 3, ..Failure::default() })].into();
        let command = Command { errors, ..Command::default() };
        let phase = Phase { commands: vec![command], ..Phase::default() };
        let server = ServerRun { phases: vec![phase], ..ServerRun::default() };
        let bad = Run { servers: vec![server], ..run(1, "4") };
        assert_eq!(said(&["a", "b"], &[vec![run(1, "4")], vec![bad]]).1.unwrap(), ["b: 3 errors"]);
    }
}
