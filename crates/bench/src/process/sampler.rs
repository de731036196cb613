//! Samples a process tree over time, on a separate thread.
//!
//! Sampling costs the machine time, most of all proportional set sizes, for which the kernel walks
//! page tables while the server waits for the lock on its memory. So each kind of sample waits at
//! least [`REST`] times as long as the last one took, whatever the interval.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use sealpost_base::{Clock, SystemClock};

use super::{Tree, files, proportional_bytes};
use crate::result::Sample;

/// A sample may take one part of this many of the time.
const REST: u32 = 20;

/// The kernel keeps no common high-water mark of several processes, so their memory is sampled at
/// least this often.
const SEVERAL: Duration = Duration::from_millis(100);
/// With fewer samples than this a peak may be missed.
const PEAK_SAMPLES: u32 = 4;

/// The sampling intervals.
#[derive(Debug, Clone, Copy)]
pub struct Every {
    /// Of CPU time, resident sets, threads.
    pub usage: Duration,
    /// Of proportional set sizes and file descriptors; shorter with several processes.
    pub memory: Duration,
}

impl Default for Every {
    fn default() -> Self {
        Every { usage: Duration::from_millis(100), memory: Duration::from_secs(1) }
    }
}

impl Every {
    fn memory_of(&self, processes: usize) -> Duration {
        if processes > 1 { self.memory.min(SEVERAL) } else { self.memory }
    }
}

/// Samples a tree until it is finished or dropped.
#[derive(Debug)]
pub struct Sampler {
    requests: Sender<Request>,
    thread: Option<JoinHandle<Vec<Sample>>>,
}

/// The beginning of a measurement.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mark {
    /// When, in seconds since the sampler began.
    pub at: f64,
    cpu_seconds: f64,
    bytes: u64,
    single: bool,
}

/// The use since a [`Mark`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Use {
    /// When it ended, in seconds since the sampler began.
    pub at: f64,
    /// CPU seconds of the processes.
    pub cpu_seconds: f64,
    /// Memory at the mark, in bytes.
    pub begin_bytes: u64,
    /// The highest memory since then, in bytes: exact for a single process whose marks we may
    /// reset, else the highest proportional set size that was sampled.
    pub peak_bytes: u64,
    /// There may have been more: samples were too rare, or ended early.
    pub peak_at_least: bool,
    /// When no process of the tree was left, in seconds since the sampler began: the figures are
    /// those until then.
    pub ended_at: Option<f64>,
}

enum Request {
    Begin(Sender<Mark>),
    End(Mark, Sender<Use>),
    EndedAt(Sender<Option<f64>>),
}

impl Sampler {
    /// Begins to sample `tree`; times are counted from `start` of `clock`.
    pub fn start(tree: Tree, every: Every, clock: SystemClock) -> Self {
        let (requests, receiver) = channel();
        let thread = std::thread::spawn(move || SamplerThread::new(tree, every, clock).run(&receiver));
        Sampler { requests, thread: Some(thread) }
    }

    /// Begins a measurement with peaks of its own.
    pub fn begin(&self) -> Mark {
        let (to, from) = channel();
        let sent = self.requests.send(Request::Begin(to)).is_ok();
        sent.then(|| from.recv().ok()).flatten().unwrap_or_default()
    }

    /// The use since `mark`, which must be the last one.
    pub fn end(&self, mark: Mark) -> Use {
        let (to, from) = channel();
        let nothing = Use { at: mark.at, begin_bytes: mark.bytes, peak_bytes: mark.bytes, ..Use::default() };
        let sent = self.requests.send(Request::End(mark, to)).is_ok();
        sent.then(|| from.recv().ok()).flatten().unwrap_or(nothing)
    }

    /// When no process of the tree was left, in seconds since the sampler began; `None` as long as
    /// one lives.
    pub fn ended_at(&self) -> Option<f64> {
        let (to, from) = channel();
        let sent = self.requests.send(Request::EndedAt(to)).is_ok();
        sent.then(|| from.recv().ok()).flatten().flatten()
    }

    /// Runs `work`; returns its result, its duration in seconds of `clock`, and the use meanwhile.
    pub async fn measured<T>(&self, clock: &SystemClock, work: impl Future<Output = T>) -> (T, f64, Use) {
        let mark = self.begin();
        let start = clock.monotonic();
        let done = work.await;
        let seconds = (clock.monotonic() - start).as_secs_f64();
        (done, seconds, self.end(mark))
    }

    /// Ends it; returns all samples, in order.
    pub fn finish(mut self) -> Vec<Sample> {
        // The thread ends when the sender is gone.
        self.requests = channel().0;
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

struct SamplerThread {
    tree: Tree,
    every: Every,
    clock: SystemClock,
    began: Duration,
    samples: Vec<Sample>,
    /// When, on the clock, the next sample is due, and the next with memory.
    usage_due: Duration,
    memory_due: Duration,
    /// CPU seconds so far. They never decrease: the use of ended processes stays counted.
    cpu_seconds: f64,
    /// The highest proportional set size since the last mark, and how many samples there were.
    peak_pss: u64,
    samples_taken: u32,
    /// The mark is of a single process, with the kernel's high-water mark when it was last read.
    single: bool,
    high_water: u64,
    /// When no process was left.
    ended_at: Option<f64>,
}

impl SamplerThread {
    fn new(tree: Tree, every: Every, clock: SystemClock) -> Self {
        let began = clock.monotonic();
        SamplerThread {
            tree,
            every,
            clock,
            began,
            samples: Vec::new(),
            usage_due: began,
            memory_due: began,
            cpu_seconds: 0.0,
            peak_pss: 0,
            samples_taken: 0,
            single: false,
            high_water: 0,
            ended_at: None,
        }
    }

    fn run(mut self, requests: &Receiver<Request>) -> Vec<Sample> {
        loop {
            let now = self.clock.monotonic();
            if now >= self.usage_due {
                self.sample(now >= self.memory_due);
                continue;
            }
            match requests.recv_timeout(self.usage_due - now) {
                Ok(Request::Begin(to)) => drop(to.send(self.begin())),
                Ok(Request::End(mark, to)) => drop(to.send(self.end(mark))),
                Ok(Request::EndedAt(to)) => {
                    self.sample(false);
                    let _ = to.send(self.ended_at);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.sample(true);
                    return self.samples;
                }
            }
        }
    }

    fn begin(&mut self) -> Mark {
        self.single = self.tree.pids().len() == 1 && self.tree.reset_peak();
        (self.peak_pss, self.high_water) = (0, 0);
        let at = self.sample(true);
        self.samples_taken = 0;
        let bytes = if self.single { self.high_water } else { self.peak_pss };
        Mark { at, cpu_seconds: self.cpu_seconds, bytes, single: self.single }
    }

    fn end(&mut self, mark: Mark) -> Use {
        let at = self.sample(true);
        let has_ended = self.ended_at.is_some();
        let alone = self.samples.last().is_some_and(|last| last.processes == 1);
        let single = mark.single && (has_ended || alone);
        Use {
            at,
            cpu_seconds: self.cpu_seconds - mark.cpu_seconds,
            begin_bytes: mark.bytes,
            peak_bytes: if single { self.high_water } else { self.peak_pss },
            peak_at_least: has_ended || (!single && self.samples_taken < PEAK_SAMPLES),
            ended_at: self.ended_at,
        }
    }

    /// Takes a sample; returns its time, in seconds since it began.
    fn sample(&mut self, memory: bool) -> f64 {
        let start = self.clock.monotonic();
        let at = (start - self.began).as_secs_f64();
        let (pids, usage) = self.tree.sample();
        if self.single {
            self.high_water = self.high_water.max(self.tree.peak_bytes());
        }
        let looked = self.clock.monotonic();
        let (pss, files) =
            if memory { (Some(proportional_bytes(&pids)), files(&pids)) } else { (None, None) };
        let end = self.clock.monotonic();
        self.usage_due = end + self.every.usage.max(REST * (looked - start));
        if memory {
            self.memory_due = end + self.every.memory_of(pids.len()).max(REST * (end - looked));
            self.peak_pss = self.peak_pss.max(pss.unwrap_or(0));
            self.samples_taken += 1;
        }
        self.cpu_seconds = self.cpu_seconds.max(usage.cpu_seconds);
        if usage.processes == 0 {
            // It has ended: its earlier use stays.
            self.ended_at.get_or_insert(at);
            return at;
        }
        self.ended_at = None;
        self.samples.push(Sample {
            at,
            cpu_seconds: self.cpu_seconds,
            rss_bytes: usage.rss_bytes,
            pss_bytes: pss,
            threads: usage.threads,
            files,
            processes: usage.processes,
        });
        at
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
        // Enough work for the kernel's clock, which ticks every 10 ms.
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
    fn a_rarely_sampled_peak_of_several_processes_is_a_bound() {
        let mut child = std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let tree = Tree::new(child.id());
        let (clock, wait) = (SystemClock::new(), Duration::from_secs(10));
        let start = clock.monotonic();
        while tree.pids().len() < 2 && clock.monotonic() - start < wait {
            std::thread::yield_now();
        }
        let sampler = Sampler::start(tree, Every::default(), SystemClock::new());
        let mark = sampler.begin();
        let short = sampler.end(mark);
        let long = (0..PEAK_SAMPLES).fold(short, |_, _| sampler.end(mark));
        tree.pids().iter().for_each(|pid| drop(kill(*pid)));
        child.wait().unwrap();
        assert!(short.peak_at_least && short.peak_bytes > 0, "{short:?}");
        assert!(!long.peak_at_least, "{long:?}");
        let (one, two) = (Every::default().memory_of(1), Every::default().memory_of(2));
        assert!(two == SEVERAL && one > two);
    }

    fn kill(pid: u32) -> std::io::Result<std::process::ExitStatus> {
        std::process::Command::new("kill").arg(pid.to_string()).status()
    }

    #[test]
    fn an_unreaped_server_counts_as_ended() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tree = Tree::new(child.id());
        let sampler = Sampler::start(tree, Every::default(), SystemClock::new());
        let mark = sampler.begin();
        assert_eq!(sampler.ended_at(), None);
        child.kill().unwrap();
        let (clock, wait) = (SystemClock::new(), Duration::from_secs(10));
        let start = clock.monotonic();
        while !tree.pids().is_empty() && clock.monotonic() - start < wait {
            std::thread::yield_now();
        }
        let used = sampler.end(mark);
        let after = sampler.begin();
        let later = sampler.end(after);
        child.wait().unwrap();
        assert!(used.peak_bytes > 100_000 && used.ended_at.is_some(), "{used:?}");
        assert!(later.ended_at.is_some_and(|ended_at| ended_at <= after.at), "{later:?}");
        assert!(sampler.finish().iter().all(|sample| sample.rss_bytes > 0));
    }

    #[test]
    fn samples_of_an_ended_server_are_kept() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let sampler = Sampler::start(Tree::new(child.id()), Every::default(), SystemClock::new());
        let mark = sampler.begin();
        child.kill().unwrap();
        child.wait().unwrap();
        let used = sampler.end(mark);
        assert!(used.cpu_seconds >= 0.0 && used.peak_bytes > 100_000 && used.peak_at_least, "{used:?}");
        assert!(used.ended_at.is_some_and(|ended_at| ended_at >= mark.at), "{used:?}");
        assert_eq!(sampler.ended_at(), used.ended_at);
        assert!(sampler.finish().iter().all(|sample| sample.processes == 1));
    }
}
