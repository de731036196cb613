//! One look at a process and its descendants while they come and go.
//!
//! A child that is waited for hands its CPU time to its parent. Whoever reads the parent before
//! that and the child after it misses all of it, and whoever reads them the other way round counts
//! it twice. So the tree is found first and then read from the root down: if everybody is still
//! there, nobody handed anything over unseen. If not, it is read again.

use std::collections::HashMap;

use super::Usage;

/// How often a tree is read that changes all the time.
const TRIES: u32 = 5;

/// What is known of one process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stat {
    pub parent: u32,
    pub usage: Usage,
}

/// The root and all below it, parents first; `pids` lists all processes of the machine, `stat` says
/// what one of them uses. CPU time that is missing because the tree never stood still is missing
/// from the result, but none is in it twice.
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
        // What is missing makes it less: the most is the nearest.
        if best.is_empty() || cpu(&read) > cpu(&best) {
            best = read;
        }
    }
    best
}

/// Who belongs to the root, parents first.
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

    /// A master (5) whose child is waited for when so many files were read. They used 1 and 8 seconds.
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
    fn a_tree_that_never_stands_still_is_read_all_the_same() {
        // A new child each time, gone before it can be read again.
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
