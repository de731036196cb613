//! Runs a scenario: phase by phase, with clients on several threads, and merges their measurements.
//!
//! Every thread has its own runtime and its part of the connections, so that nothing is shared
//! while a command is in flight. The task that calls [`run`] waits for the phases, reports progress
//! to the observer, and collects the threads' measurements when a phase is over. Threads are
//! monitored: a warning reports one that was busy most of a phase, or woke too late, since the
//! figures are then the bench's and not the server's.

mod drive;
mod job;
mod worker;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use sealpost_base::{Clock, SystemClock};
use tokio::sync::watch;

use super::protocol::Protocol;
use super::scenario::{Action, Extent, Phase, Scenario, Step};
use super::shared::{Options, Shared};
use super::target::Target;
use crate::UsageError;
use crate::process::{Sampler, own_cpu};
use crate::result::{self, Recorder};
use job::RunningPhase;
use worker::{Busy, Workers};

/// How often an observer gets progress.
const TICK: Duration = Duration::from_millis(250);
/// How long clients may take to end once the run is over.
const GOODBYE: Duration = Duration::from_secs(10);
/// A thread that was busy for this part of a phase was the bottleneck.
const BUSY: f64 = 0.85;
/// Shorter phases do not show how busy a thread was.
const JUDGED: Duration = Duration::from_millis(100);

/// Receives the progress of a run.
pub trait Observer {
    /// A phase begins, the `nth` of `of`, from 1.
    fn begins(&mut self, phase: &Phase, nth: usize, of: usize);
    /// Progress of the phase.
    fn progress(&mut self, progress: &Progress);
    /// The phase is over.
    fn ended(&mut self, phase: &Phase, result: &result::Phase);
}

/// The progress of a phase.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Since it began.
    pub elapsed: Duration,
    /// How long it will take, if it has a duration.
    pub duration: Option<Duration>,
    /// Rounds that were begun.
    pub rounds: u64,
    /// Rounds in all, if they are counted.
    pub of_rounds: Option<u64>,
    /// Open connections.
    pub open: u64,
    /// Successful commands since it began.
    pub done: u64,
    /// Errors, since it began.
    pub errors: u64,
    /// Bytes sent, since it began.
    pub sent: u64,
    /// Bytes received, since it began.
    pub received: u64,
}

/// The outcome of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Its phases.
    pub phases: Vec<result::Phase>,
    /// What makes the figures doubtful.
    pub warnings: Vec<String>,
    /// Bars that were missed.
    pub missed: Vec<String>,
    /// CPU seconds of the bench.
    pub cpu_seconds: f64,
    /// How long it took, in seconds.
    pub wall_seconds: f64,
    /// It was stopped before its end.
    pub stopped: bool,
}

/// Runs `scenario` against `target`. `sampler` monitors the server's processes, if they are known;
/// `stop` ends it early.
///
/// # Errors
/// If it cannot begin: no server for a protocol, no account, no mail; or if a setup phase failed,
/// as the phases after it would not measure what they claim.
pub async fn run(
    scenario: &Scenario,
    target: Target,
    options: &Options,
    sampler: Option<&Sampler>,
    stop: watch::Receiver<bool>,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    check(scenario, &target)?;
    let shared = Arc::new(Shared::new(scenario, target, options, Arc::new(SystemClock::new()))?);
    let workers = Workers::start(&shared, options.threads.max(1))?;
    let mut run = Run::new(scenario, shared, workers, sampler, stop, observer);
    if scenario.has_mailboxes(Protocol::Imap) {
        let mut stop = run.stop.clone();
        tokio::select! {
            learned = run.learn_names() => learned?,
            Ok(_) = stop.wait_for(|stop| *stop) => bail!("stopped before anything was measured"),
        }
    }
    let cpu = own_cpu();
    run.phases().await;
    for protocol in [Protocol::Imap, Protocol::Jmap] {
        if scenario.has_mailboxes(protocol) && !options.keep {
            run.clean(protocol).await;
        }
    }
    let mut outcome = run.finish().await?;
    outcome.cpu_seconds = own_cpu().saturating_sub(cpu).as_secs_f64();
    Ok(outcome)
}

fn check(scenario: &Scenario, target: &Target) -> Result<()> {
    if let Some(protocol) = scenario.protocols().into_iter().find(|p| target.endpoint(*p).is_none()) {
        let (name, upper) = (protocol.name(), protocol.name().to_uppercase());
        let at = if protocol == Protocol::Jmap { "URL" } else { "HOST:PORT" };
        let wrong = format!("{} speaks {upper}: where is the server? --{name} {at}", scenario.name);
        return Err(UsageError(wrong).into());
    }
    if target.users.is_empty() {
        let wrong = "no account was given: --users-file FILE, or --user NAME with --password-file FILE";
        return Err(UsageError(wrong.into()).into());
    }
    Ok(())
}

struct Run<'a> {
    scenario: &'a Scenario,
    shared: Arc<Shared>,
    workers: Workers,
    sampler: Option<&'a Sampler>,
    stop: watch::Receiver<bool>,
    observer: &'a mut dyn Observer,
    began: Duration,
    alongside: Vec<Arc<RunningPhase>>,
    held: Vec<Arc<RunningPhase>>,
    outcome: Outcome,
    /// What failed in the setup.
    unprepared: Option<String>,
    /// When it was stopped.
    stopped_at: Option<Duration>,
}

impl<'a> Run<'a> {
    fn new(
        scenario: &'a Scenario,
        shared: Arc<Shared>,
        workers: Workers,
        sampler: Option<&'a Sampler>,
        stop: watch::Receiver<bool>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let began = shared.clock.monotonic();
        let (alongside, held, outcome) = (Vec::new(), Vec::new(), Outcome::default());
        let (unprepared, stopped_at) = (None, None);
        Run {
            scenario,
            shared,
            workers,
            sampler,
            stop,
            observer,
            began,
            alongside,
            held,
            outcome,
            unprepared,
            stopped_at,
        }
    }

    async fn phases(&mut self) {
        let of = self.scenario.phases.len();
        for (nth, phase) in self.scenario.phases.iter().enumerate() {
            if *self.stop.borrow() {
                self.outcome.stopped = true;
                break;
            }
            self.observer.begins(phase, nth + 1, of);
            if phase.alongside {
                let job = self.begin(nth, phase);
                self.alongside.push(job);
                continue;
            }
            let result = self.phase(nth, phase).await;
            self.outcome.missed.extend(phase.bars.iter().filter_map(|bar| bar.miss(&result)));
            self.observer.ended(phase, &result);
            if phase.setup && !self.outcome.stopped {
                self.unprepared = setup_failure(&result);
            }
            self.outcome.phases.push(result);
            if self.unprepared.is_some() {
                break;
            }
        }
        self.end_alongside().await;
        let goodbye = GOODBYE.min(self.shared.command_timeout);
        for job in std::mem::take(&mut self.held) {
            job.end();
            let _ = tokio::time::timeout(goodbye, job.all_left()).await;
        }
    }

    fn begin(&mut self, nth: usize, phase: &Phase) -> Arc<RunningPhase> {
        let job = Arc::new(RunningPhase::new(nth, phase.clone(), self.shared.clock.monotonic()));
        self.workers.begin(&job);
        job
    }

    async fn phase(&mut self, nth: usize, phase: &Phase) -> result::Phase {
        let mark = self.sampler.map(Sampler::begin);
        let before = self.shared.counts();
        let open = self.shared.open.load(Ordering::Relaxed);
        self.shared.most_open.store(open, Ordering::Relaxed);
        let (began, cpu) = (self.shared.clock.monotonic(), own_cpu());
        self.workers.mark().await;
        let job = self.begin(nth, phase);
        self.wait(&job, before).await;
        if phase.hold {
            self.held.push(job.clone());
        } else {
            self.end_alongside().await;
        }
        let ended = self.shared.clock.monotonic();
        let (recorder, busy) = self.workers.collect().await;
        let used = mark.and_then(|mark| Some((mark, self.sampler?.end(mark))));
        let counts = self.shared.counts();
        self.judge(&job, &recorder, &busy, ended - began);
        let mut result = result::Phase {
            name: phase.name.clone(),
            begin: (began - self.began).as_secs_f64(),
            end: (ended - self.began).as_secs_f64(),
            connections: self.shared.most_open.load(Ordering::Relaxed),
            bytes_sent: counts[2] - before[2],
            bytes_received: counts[3] - before[3],
            generator_cpu_seconds: Some(own_cpu().saturating_sub(cpu).as_secs_f64()),
            commands: recorder.finish(),
            messages: phase.messages.map(|messages| messages.saturating_mul(job.rounds_done())),
            ..result::Phase::default()
        };
        if let Some((mark, used)) = used {
            result.set_use(mark, used);
        }
        result
    }

    /// Waits until all clients of `job` are done, reporting progress to the observer.
    async fn wait(&mut self, job: &RunningPhase, before: [u64; 4]) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut stop = self.stop.clone();
        let mut stopped = false;
        let duration = match job.phase.extent {
            Extent::Time(time) => Some(time),
            _ => None,
        };
        // In a phase without clients nothing is sent.
        let silence = duration.filter(|_| job.phase.connections == 0).unwrap_or(Duration::ZERO);
        let done = async {
            tokio::time::sleep(silence).await;
            job.done().await;
        };
        tokio::pin!(done);
        loop {
            tokio::select! {
                () = &mut done => return,
                _ = tick.tick() => {
                    let now = self.shared.counts();
                    let [done, errors, sent, received] = std::array::from_fn(|nth| now[nth] - before[nth]);
                    self.observer.progress(&Progress {
                        elapsed: self.shared.clock.monotonic().saturating_sub(job.began),
                        duration,
                        rounds: job.rounds.load(Ordering::Relaxed),
                        of_rounds: job.all_rounds(),
                        open: self.shared.open.load(Ordering::Relaxed),
                        done, errors, sent, received,
                    });
                }
                Ok(_) = stop.wait_for(|stop| *stop), if !stopped => {
                    stopped = true;
                    self.outcome.stopped = true;
                    self.stopped_at.get_or_insert(self.shared.clock.monotonic());
                    job.end();
                    if silence > Duration::ZERO {
                        return;
                    }
                }
            }
        }
    }

    async fn end_alongside(&mut self) {
        for job in &self.alongside {
            job.end();
        }
        let goodbye = GOODBYE.min(self.shared.command_timeout);
        for job in std::mem::take(&mut self.alongside) {
            let _ = tokio::time::timeout(goodbye, job.all_left()).await;
        }
    }

    /// Adds warnings if the figures of a phase are rather the bench's than the server's.
    fn judge(&mut self, job: &RunningPhase, recorder: &Recorder, busy: &[Busy], wall: Duration) {
        let phase = &job.phase;
        if phase.setup {
            return;
        }
        let (stopped, null) = (self.outcome.stopped, self.shared.null);
        let mut warn = |text: String| self.outcome.warnings.push(format!("{}: {text}", phase.name));
        if let Some(text) = bottleneck(busy, wall) {
            warn(text);
        }
        for left_out in
            std::mem::take(&mut *self.shared.left_out.lock().unwrap_or_else(PoisonError::into_inner))
        {
            warn(left_out);
        }
        let unreachable = recorder.only_failed("CONNECT");
        match unreachable {
            Some(("closed", failure)) => warn(format!("the server cannot be reached: {}", failure.example)),
            Some((_, failure)) => warn(format!("no client got in: {}", failure.example)),
            None => {}
        }
        let rounds = job.rounds.load(Ordering::Relaxed);
        let not_begun = job.all_rounds().filter(|_| !stopped).map_or(0, |all| all.saturating_sub(rounds));
        let skipped = job.skipped.load(Ordering::Relaxed);
        let undone = not_begun + skipped + job.undone.load(Ordering::Relaxed);
        if undone > 0 && unreachable.is_none() {
            let all = job.all_rounds().unwrap_or(rounds + skipped);
            warn(format!("{undone} of {all} rounds were not done"));
        }
        let (overslept, late) = (job.overslept.load(Ordering::Relaxed), job.late.load(Ordering::Relaxed));
        if phase.rate.is_some() && rounds > 0 && unreachable.is_none() {
            if overslept * 100 > rounds {
                warn(format!(
                    "the bench fell behind its schedule: {overslept} of {rounds} rounds began late though their client was free"
                ));
            }
            if late * 2 > rounds && null {
                warn(format!(
                    "the bench was the bottleneck: {late} of {rounds} rounds were due while their client was still busy, though no server was measured; it cannot keep up with the rate (--threads and --connections give it more)"
                ));
            } else if late * 2 > rounds {
                warn(format!(
                    "{late} of {rounds} rounds were due while their client still waited for the server: it does not keep up with the rate, or there are too few connections"
                ));
            }
        }
        let abandoned = job.abandoned.load(Ordering::Relaxed);
        if abandoned > 0 {
            warn(format!("{abandoned} of {} clients gave up", phase.connections));
        }
        if recorder.counts().0 == 0 && phase.connections > 0 {
            warn("nothing ended well".into());
        }
    }

    /// Asks the server, as the first account, for its syntax of mailbox names.
    async fn learn_names(&mut self) -> Result<()> {
        let names = self.workers.names().await?;
        let _ = self.shared.names.set(names);
        Ok(())
    }

    /// Removes the bench's mailboxes from every account that may have some.
    async fn clean(&mut self, protocol: Protocol) {
        let most =
            self.scenario.phases.iter().filter(|p| p.protocol == protocol).map(|p| p.connections).max();
        let accounts = most.unwrap_or(0).min(self.shared.target.users.len() as u64);
        let login = (protocol == Protocol::Imap).then(|| Step::plain(Action::Login));
        let phase = Phase {
            // Not all at once: logins are expensive for a server.
            at_once: Some(16 * self.workers.count() as u64),
            protocol,
            first: login.into_iter().collect(),
            steps: vec![Step::plain(Action::Clean)],
            ..Phase::bare("clean up", accounts)
        };
        // A stopped run must not leave mailboxes behind.
        self.stop = watch::channel(false).1;
        let stopped = self.outcome.stopped;
        self.observer.begins(&phase, self.scenario.phases.len() + 1, self.scenario.phases.len() + 1);
        let before = self.shared.counts();
        let job = self.begin(self.scenario.phases.len(), &phase);
        // After a stop, this and the pending commands together get one command timeout.
        let left = self.stopped_at.map_or(Duration::MAX, |at| {
            self.shared.command_timeout.saturating_sub(self.shared.clock.monotonic().saturating_sub(at))
        });
        if tokio::time::timeout(left, self.wait(&job, before)).await.is_err() {
            job.end();
            self.outcome.warnings.push("clean up: it took too long; mailboxes of the bench are left".into());
        }
        self.outcome.stopped = stopped;
        let (recorder, _) = self.workers.collect().await;
        for command in recorder.finish() {
            for failure in command.errors.values() {
                self.outcome.warnings.push(format!("clean up: {}: {}", command.name, failure.example));
            }
        }
    }

    async fn finish(mut self) -> Result<Outcome> {
        self.outcome.wall_seconds = (self.shared.clock.monotonic() - self.began).as_secs_f64();
        self.workers.end().await;
        match self.unprepared {
            Some(what) => bail!("{what}; nothing was measured"),
            None => Ok(self.outcome),
        }
    }
}

/// The warning about threads that were busy, or would have been with a processor, most of the time.
fn bottleneck(busy: &[Busy], wall: Duration) -> Option<String> {
    let most = busy.iter().max_by_key(|busy| busy.cpu + busy.waited)?;
    let part = |time: Duration| (time.as_secs_f64() / wall.as_secs_f64().max(1e-9)).min(1.0);
    let (worked, all) = (part(most.cpu), part(most.cpu + most.waited));
    if wall < JUDGED || all < BUSY {
        return None;
    }
    let percent = |part: f64| format!("{:.0}%", 100.0 * part);
    Some(if worked >= BUSY {
        let worked = percent(worked);
        format!(
            "the bench was the bottleneck: a thread of it was busy {worked} of the time (--threads gives it more)"
        )
    } else {
        let (worked, all) = (percent(worked), percent(all));
        format!(
            "the bench was the bottleneck: a thread of it had work {all} of the time and a processor {worked} of it (others use this machine too)"
        )
    })
}

/// What failed in a setup phase, as text.
fn setup_failure(phase: &result::Phase) -> Option<String> {
    let failed = || phase.commands.iter().filter(|command| command.errors() > 0);
    let errors: u64 = failed().map(result::Command::errors).sum();
    let first = failed().find_map(|command| Some((command, command.errors.iter().next()?)));
    let (command, (kind, failure)) = first?;
    let (name, example) = (&command.name, &failure.example);
    Some(format!(
        "the preparations failed: {}: {errors} errors, such as {name}: {kind}: {example}",
        phase.name
    ))
}

/// For tests: runs a scenario on the present thread's `LocalSet`, with the caller's clock.
#[doc(hidden)]
pub async fn run_here(
    scenario: &Scenario,
    target: Target,
    options: &Options,
    clock: Arc<dyn Clock>,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    check(scenario, &target)?;
    if options.threads != 1 {
        bail!("one thread is here");
    }
    let shared = Arc::new(Shared::new(scenario, target, options, clock)?);
    let workers = Workers::here(&shared);
    let stop = watch::channel(false);
    let mut run = Run::new(scenario, shared, workers, None, stop.1, observer);
    if scenario.has_mailboxes(Protocol::Imap) {
        run.learn_names().await?;
    }
    run.phases().await;
    run.finish().await
}

#[cfg(test)]
mod tests;
