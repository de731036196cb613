//! A consistent read of a process and its descendants while they come and go.
//!
//! A child that is waited for adds its CPU time to its parent's. Reading the parent before that and
//! the child after it misses all of it, and the other order counts it twice. So the tree is found
//! first and then read from the root down: if all processes are still there, no time moved in
//! between. If not, it is read again.

use std::collections::HashMap;

use super::Usage;

/// How often a changing tree is read.
const TRIES: u32 = 5;

/// The data of one process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stat {
    pub parent: u32,
    pub usage: Usage,
}

/// The root and its descendants, parents first; `pids` lists all processes of the machine, `stat`
/// reads one of them. If the tree keeps changing, some CPU time may be missing from the result, but
/// none is counted twice.
pub(super) fn snapshot(
    root: u32,
    pids: &mut dyn FnMut() -> Vec<u32>,
    stat: &mut dyn FnMut(u32) -> Option<Stat>,
) -> Vec<(u32, Usage)> {
    let cpu = |seen: &[(u32, Usage)]| seen.iter().map(|(_, usage)| usage.cpu_seconds).sum::<f64>();
    let mut best = Vec::new();
    for _ in 0..TRIES {
        let family = family(root, pids, stat);
        let read: Vec<_> = family.iter().filter_map(|pid| Some((*pid, stat(*pid)?.usage))).collect();
        if read.len() == family.len() {
            return read;
        }
        // Missing processes reduce the sum: the highest one is the nearest.
        if best.is_empty() || cpu(&read) > cpu(&best) {
            best = read;
        }
    }
    best
}

/// The root and its descendants, parents first.
fn family(
    root: u32,
    pids: &mut dyn FnMut() -> Vec<u32>,
    stat: &mut dyn FnMut(u32) -> Option<Stat>,
) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut found = Vec::new();
    for pid in pids() {
        match stat(pid) {
            Some(_) if pid == root => found.push(pid),
            Some(stat) => children.entry(stat.parent).or_default().push(pid),
            None => {}
        }
    }
    let mut next = 0;
    while next < found.len() {
        found.append(&mut children.remove(&found[next]).unwrap_or_default());
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A parent (5) whose child is waited for after so many reads. They used 1 and 8 seconds.
    fn seen(child: u32, reaped_after: u32) -> f64 {
        let mut reads = 0;
        let mut stat = |pid: u32| {
            let reaped = reads >= reaped_after;
            reads += 1;
            let (parent, cpu_seconds) = match (pid, reaped) {
                (5, false) => (1, 1.0),
                (5, true) => (1, 9.0),
                (_, true) => return None,
                (_, false) => (5, 8.0),
            };
            Some(Stat { parent, usage: Usage { cpu_seconds, processes: 1, ..Usage::default() } })
        };
        let mut pids = || if child < 5 { vec![child, 5] } else { vec![5, child] };
        let seen = snapshot(5, &mut pids, &mut stat);
        seen.iter().map(|(_, usage)| usage.cpu_seconds).sum()
    }

    #[test]
    fn a_child_that_is_waited_for_meanwhile_counts_once() {
        for child in [3, 7] {
            for reaped_after in 0..10 {
                assert_eq!(seen(child, reaped_after), 9.0, "child {child}, after {reaped_after} reads");
            }
        }
    }

    #[test]
    fn an_ever_changing_tree_is_still_read() {
        // A new child each time, which ends before it can be read again.
        let (mut nth, mut last) = (100, 0);
        let mut pids = || {
            nth += 1;
            vec![5, nth]
        };
        let mut stat = |pid: u32| {
            let gone = pid != 5 && pid == std::mem::replace(&mut last, pid.max(6));
            let usage = Usage { cpu_seconds: 2.0, processes: 1, ..Usage::default() };
            (!gone).then_some(Stat { parent: if pid == 5 { 1 } else { 5 }, usage })
        };
        assert_eq!(snapshot(5, &mut pids, &mut stat).len(), 1);
    }
}
