//! A process tree watched over time, by a thread of its own.
//!
//! Looking costs the machine something, most of all proportional set sizes, for which the kernel walks page tables
//! while the server waits for the lock on its memory. So each kind of sample waits at least [`REST`] times as long as the last one
//! took, however often it was asked for.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use sealpost_base::{Clock, SystemClock};

use super::Tree;
use crate::result::Sample;

/// A sample may take one part of this many of the time.
const REST: u32 = 20;

/// How often to look.
#[derive(Debug, Clone, Copy)]
pub struct Every {
    /// At CPU time, resident sets, threads.
    pub usage: Duration,
    /// At proportional set sizes and file descriptors.
    pub memory: Duration,
}

impl Default for Every {
    fn default() -> Self {
        Every { usage: Duration::from_millis(100), memory: Duration::from_secs(1) }
    }
}

/// Watches a tree until it is finished or dropped.
#[derive(Debug)]
pub struct Sampler {
    ask: Sender<Ask>,
    thread: Option<JoinHandle<Vec<Sample>>>,
}

/// The beginning of something that is measured.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// When, in seconds since the sampler began.
    pub at: f64,
    cpu_seconds: f64,
    bytes: u64,
    single: bool,
}

/// What was used since a [`Mark`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Use {
    /// When it ended, in seconds since the sampler began.
    pub at: f64,
    /// CPU seconds of the processes.
    pub cpu_seconds: f64,
    /// Memory at the mark, in bytes.
    pub begin_bytes: u64,
    /// The highest memory since then, in bytes: exact for a single process whose marks we may reset, else the highest
    /// proportional set size that was sampled.
    pub peak_bytes: u64,
}

enum Ask {
    Begin(Sender<Mark>),
    End(Mark, Sender<Use>),
}

impl Sampler {
    /// Begins to watch `tree`; times are counted from `start` of `clock`.
    pub fn start(tree: Tree, every: Every, clock: SystemClock) -> Self {
        let (ask, asked) = channel();
        let thread = std::thread::spawn(move || Watch::new(tree, every, clock).run(&asked));
        Sampler { ask, thread: Some(thread) }
    }

    /// Begins to measure: what follows has peaks of its own.
    pub fn begin(&self) -> Mark {
        let (to, from) = channel();
        let sent = self.ask.send(Ask::Begin(to)).is_ok();
        sent.then(|| from.recv().ok()).flatten().unwrap_or(Mark {
            at: 0.0,
            cpu_seconds: 0.0,
            bytes: 0,
            single: false,
        })
    }

    /// What was used since `mark`, which must be the last that was made.
    pub fn end(&self, mark: Mark) -> Use {
        let (to, from) = channel();
        let nothing = Use { at: mark.at, cpu_seconds: 0.0, begin_bytes: mark.bytes, peak_bytes: mark.bytes };
        let sent = self.ask.send(Ask::End(mark, to)).is_ok();
        sent.then(|| from.recv().ok()).flatten().unwrap_or(nothing)
    }

    /// Does `work`: what came of it, how many seconds of `clock` it took, and what was used meanwhile.
    pub async fn measured<T>(&self, clock: &SystemClock, work: impl Future<Output = T>) -> (T, f64, Use) {
        let mark = self.begin();
        let start = clock.monotonic();
        let done = work.await;
        let seconds = (clock.monotonic() - start).as_secs_f64();
        (done, seconds, self.end(mark))
    }

    /// Ends it: all samples, in order.
    pub fn finish(mut self) -> Vec<Sample> {
        // The thread ends when nobody can ask any more.
        self.ask = channel().0;
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

struct Watch {
    tree: Tree,
    every: Every,
    clock: SystemClock,
    began: Duration,
    samples: Vec<Sample>,
    /// When, on the clock, the next sample is due, and the next with memory.
    usage_due: Duration,
    memory_due: Duration,
    /// The highest proportional set size since the last mark.
    peak_pss: u64,
}

impl Watch {
    fn new(tree: Tree, every: Every, clock: SystemClock) -> Self {
        let began = clock.monotonic();
        Watch {
            tree,
            every,
            clock,
            began,
            samples: Vec::new(),
            usage_due: began,
            memory_due: began,
            peak_pss: 0,
        }
    }

    fn run(mut self, asked: &Receiver<Ask>) -> Vec<Sample> {
        loop {
            let now = self.clock.monotonic();
            if now >= self.usage_due {
                self.sample(now >= self.memory_due);
                continue;
            }
            match asked.recv_timeout(self.usage_due - now) {
                Ok(Ask::Begin(to)) => drop(to.send(self.begin())),
                Ok(Ask::End(mark, to)) => drop(to.send(self.end(mark))),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.sample(true);
                    return self.samples;
                }
            }
        }
    }

    fn begin(&mut self) -> Mark {
        let single = self.tree.pids().len() == 1 && self.tree.reset_peak();
        self.peak_pss = 0;
        self.sample(true);
        let (at, cpu_seconds) = self.samples.last().map_or((0.0, 0.0), |last| (last.at, last.cpu_seconds));
        let bytes = if single { self.tree.peak_bytes() } else { self.peak_pss };
        Mark { at, cpu_seconds, bytes, single }
    }

    fn end(&mut self, mark: Mark) -> Use {
        self.sample(true);
        let (at, cpu_seconds) =
            self.samples.last().map_or((mark.at, 0.0), |last| (last.at, last.cpu_seconds));
        let single = mark.single && self.tree.pids().len() == 1;
        let peak_bytes = if single { self.tree.peak_bytes() } else { self.peak_pss };
        Use {
            at,
            cpu_seconds: (cpu_seconds - mark.cpu_seconds).max(0.0),
            begin_bytes: mark.bytes,
            peak_bytes,
        }
    }

    fn sample(&mut self, memory: bool) {
        let start = self.clock.monotonic();
        let usage = self.tree.usage();
        let looked = self.clock.monotonic();
        let (pss, files) =
            if memory { (Some(self.tree.proportional_bytes()), self.tree.files()) } else { (None, None) };
        let end = self.clock.monotonic();
        self.usage_due = end + self.every.usage.max(REST * (looked - start));
        if memory {
            self.memory_due = end + self.every.memory.max(REST * (end - looked));
            self.peak_pss = self.peak_pss.max(pss.unwrap_or(0));
        }
        if usage.processes == 0 {
            // It has ended: nothing is not what it used.
            return;
        }
        self.samples.push(Sample {
            at: (start - self.began).as_secs_f64(),
            cpu_seconds: usage.cpu_seconds,
            rss_bytes: usage.rss_bytes,
            pss_bytes: pss,
            threads: usage.threads,
            files,
            processes: usage.processes,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_cpu_between_marks_are_seen() {
        let every = Every { usage: Duration::from_millis(1), memory: Duration::from_millis(1) };
        let tree = Tree::new(std::process::id());
        let sampler = Sampler::start(tree, every, SystemClock::new());
        let mark = sampler.begin();
        // Enough work for the clock of the kernel, which ticks every 10 ms.
        let mut filled = vec![1u8; 64 << 20];
        let start = crate::process::own_cpu();
        while crate::process::own_cpu() - start < Duration::from_millis(50) {
            filled.iter_mut().step_by(4096).for_each(|byte| *byte = byte.wrapping_mul(3));
        }
        let used = sampler.end(mark);
        assert_eq!(filled.len(), 64 << 20);
        let samples = sampler.finish();
        assert!(used.cpu_seconds >= 0.02, "{used:?}");
        assert!(used.peak_bytes >= 64 << 20 && used.at >= mark.at, "{used:?}");
        assert!(samples.len() >= 3 && samples.is_sorted_by(|a, b| a.at <= b.at));
        assert!(samples.iter().any(|sample| sample.pss_bytes.is_some()));
    }

    #[test]
    fn a_server_that_ends_leaves_what_was_seen() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let sampler = Sampler::start(Tree::new(child.id()), Every::default(), SystemClock::new());
        let mark = sampler.begin();
        child.kill().unwrap();
        child.wait().unwrap();
        let used = sampler.end(mark);
        assert!(used.cpu_seconds >= 0.0);
        assert!(sampler.finish().iter().all(|sample| sample.processes == 1));
    }
}
