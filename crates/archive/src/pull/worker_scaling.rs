//! [`WorkerScaling`]: how many connections work on a folder, and whether one more would speed it
//! up.
//!
//! Each connection costs the server a login and both sides processor time, which is wasted where
//! one connection is already as fast as the server, the network, or the writer of the backup. So
//! they are added one at a time: while what is left would take long, as long as the last one made a
//! difference, and not while the present ones wait for the writer.

use std::time::Duration;

/// The remaining time must be longer than this: less is done before another connection has logged
/// in and selected the folder.
const LONG: Duration = Duration::from_secs(2);
/// How long a rate is measured before it counts.
const MEASURED: Duration = Duration::from_millis(300);
/// How much faster a connection has to make it for another one to be added.
const FASTER: f64 = 1.1;
/// After one that made no difference, the next one waits this long: conditions may have changed.
/// One that does not begin to fetch is not waited for any longer either.
const NOT_BEFORE: Duration = Duration::from_secs(30);

/// The connections of a folder.
#[derive(Debug, Default)]
pub(super) struct WorkerScaling {
    /// How many there are.
    connections: usize,
    /// The last one left.
    closed: bool,
    measured: Option<Measured>,
}

/// The progress of a folder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// When it was taken.
    pub(super) at: Duration,
    /// Bytes that have come.
    pub(super) bytes: u64,
    /// How long its connections have waited for the writer, summed.
    pub(super) waited: Duration,
}

/// What came since a connection joined.
#[derive(Debug)]
struct Measured {
    since: Progress,
    /// Bytes a second before it joined.
    before: f64,
    /// The rate is not evaluated before this time has passed.
    wait: Duration,
}

impl WorkerScaling {
    /// Adds a connection, whatever is left.
    pub(super) fn join(&mut self) {
        self.connections += 1;
    }

    /// A connection has nothing more to do here; returns whether it was the last one.
    pub(super) fn leave(&mut self) -> bool {
        self.connections = self.connections.saturating_sub(1);
        self.closed |= self.connections == 0;
        self.closed
    }

    /// What to fetch is known now.
    pub(super) fn begin(&mut self, now: Progress) {
        self.measured = Some(Measured { since: now, before: 0.0, wait: MEASURED });
    }

    /// A connection has logged in, selected the folder, and begins to fetch: from now on it can
    /// make a difference.
    pub(super) fn works(&mut self, now: Progress) {
        if let Some(measured) = &mut self.measured
            && self.connections > 1
        {
            (measured.since, measured.wait) = (now, MEASURED);
        }
    }

    /// Adds a connection if it would be of use: `left` is the number of bytes not asked for yet.
    pub(super) fn help(&mut self, now: Progress, left: u64) -> bool {
        let Some(measured) = self.measured.as_mut().filter(|_| !self.closed && left > 0) else {
            return false;
        };
        let since = measured.since;
        let (took, new) = (now.at.saturating_sub(since.at), now.bytes.saturating_sub(since.bytes));
        // A large message arrives all at once: no bytes so far means nothing.
        if took < measured.wait || (new == 0 && took < NOT_BEFORE) {
            return false;
        }
        // The writer is what is slow.
        if now.waited.saturating_sub(since.waited) * 2 > took * self.connections as u32 {
            measured.since = now;
            return false;
        }
        let rate = new as f64 / took.as_secs_f64();
        if left as f64 <= rate * LONG.as_secs_f64() {
            if took > LONG {
                // The transfer may become slower later.
                measured.since = now;
            }
            return false;
        }
        let helped = rate >= measured.before * FASTER;
        let before = if helped { rate } else { 0.0 };
        *measured = Measured { since: now, before, wait: NOT_BEFORE };
        self.connections += usize::from(helped);
        helped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn progress(at: Duration, bytes: u64) -> Progress {
        Progress { at, bytes, waited: Duration::ZERO }
    }

    /// How many connections there are after so many seconds of a folder of so many MiB, if `rate`
    /// says how many MiB a second come over so many connections, and each of them begins to fetch
    /// so many tenths of a second after it was asked.
    fn after_with(seconds: u64, folder: u64, login: u64, rate: impl Fn(usize) -> u64) -> usize {
        let mut worker_scaling = WorkerScaling::default();
        worker_scaling.join();
        worker_scaling.begin(progress(Duration::ZERO, 0));
        let (mut came, mut working, mut works_at) = (0, 1, None);
        for tenth in 1..=seconds * 10 {
            let now = Duration::from_millis(tenth * 100);
            came = (came + rate(working) * MIB / 10).min(folder * MIB);
            if works_at == Some(tenth) {
                working += 1;
                worker_scaling.works(progress(now, came));
            }
            if worker_scaling.help(progress(now, came), folder * MIB - came) {
                works_at = Some(tenth + login);
            }
        }
        worker_scaling.connections
    }

    fn after(seconds: u64, folder: u64, rate: impl Fn(usize) -> u64) -> usize {
        after_with(seconds, folder, 1, rate)
    }

    #[test]
    fn short_work_gets_no_additional_connection() {
        assert_eq!(after(10, 500, |_| 500), 1);
        assert_eq!(after(10, 500, |connections| 150 * connections as u64), 2);
    }

    #[test]
    fn they_come_while_they_make_it_faster() {
        assert_eq!(after(2, 10_000, |connections| 10 * connections as u64), 6);
        assert_eq!(after(3, 10_000, |connections| 10 * connections.min(3) as u64), 4);
        assert_eq!(after(29, 100_000, |_| 500), 2);
    }

    #[test]
    fn a_slow_login_does_not_count_against_a_connection() {
        assert_eq!(after_with(13, 10_000, 40, |connections| 10 * connections as u64), 4);
        assert_eq!(after_with(13, 10_000, 40, |_| 10), 2);
    }

    #[test]
    fn later_another_one_is_tried() {
        assert_eq!(after(29, 1_000_000, |_| 10), 2);
        assert_eq!(after(32, 1_000_000, |_| 10), 3);
        let never = u64::MAX / 2;
        assert_eq!(after_with(59, 1_000_000, never, |_| 10), 2);
        assert_eq!(after_with(62, 1_000_000, never, |_| 10), 3);
    }

    #[test]
    fn where_nothing_comes_for_long_another_one_helps() {
        assert_eq!(after(29, 1, |_| 0), 1);
        assert_eq!(after(32, 1, |_| 0), 2);
    }

    #[test]
    fn folders_that_become_slow_get_more_workers() {
        let mut worker_scaling = WorkerScaling::default();
        worker_scaling.join();
        worker_scaling.begin(progress(Duration::ZERO, 0));
        let (folder, mut came) = (2000 * MIB, 0);
        for second in 1..=60 {
            came = (came + if second <= 19 { 100 * MIB } else { MIB }).min(folder);
            // Three seconds of a hundred are left when only one more comes each second.
            let now = progress(Duration::from_secs(second), came);
            let helped = worker_scaling.help(now, folder.saturating_sub(came) / 10);
            if helped {
                assert!((20..25).contains(&second), "{second}");
                return;
            }
        }
        panic!("no connection was added");
    }

    #[test]
    fn no_connection_is_added_while_the_writer_is_slow() {
        let mut worker_scaling = WorkerScaling::default();
        worker_scaling.join();
        worker_scaling.begin(progress(Duration::ZERO, 0));
        for second in 1..=60 {
            let at = Duration::from_secs(second);
            // Six tenths of the time, for the first half minute.
            let waited = at.min(Duration::from_secs(30)) * 6 / 10;
            let helped = worker_scaling.help(Progress { at, bytes: second * MIB, waited }, 1000 * MIB);
            assert_eq!(helped, second == 31, "{second}");
            if helped {
                return;
            }
        }
    }

    #[test]
    fn no_connection_is_added_before_or_after_the_work() {
        let later = Duration::from_secs(60);
        let mut worker_scaling = WorkerScaling::default();
        worker_scaling.join();
        assert!(!worker_scaling.help(progress(later, 0), MIB));
        worker_scaling.begin(progress(Duration::ZERO, 0));
        assert!(!worker_scaling.help(progress(later, MIB), 0));
        assert!(worker_scaling.leave());
        assert!(!worker_scaling.help(progress(later, 0), MIB));
    }
}
