//! One client, from its first connection to its last.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sealpost_base::{Random, SeededRandom};

use super::job::RunningPhase;
use crate::load::client::imap::Imap;
use crate::load::client::jmap::Jmap;
use crate::load::client::smtp::{Delivery, Smtp};
use crate::load::client::{Client, Fail, Thread};
use crate::load::protocol::Protocol;
use crate::load::scenario::template::Names;
use crate::load::scenario::{Action, Phase, Step, uniform};
use crate::load::schedule::{Schedule, TIMER, counted_from};

/// A client gives up after so many failed connections in a row.
const FAILURES: u32 = 5;
/// Its pause after the first; doubled after each further one.
const BACKOFF: Duration = Duration::from_millis(100);

/// Names of a phase's commands, created once.
pub struct Plan {
    first: Vec<Vec<Rc<str>>>,
    steps: Vec<Vec<Rc<str>>>,
    last: Vec<Vec<Rc<str>>>,
    /// Sum of the weights up to and with each step; empty if all are run in order.
    weights: Vec<u64>,
    /// A round has several commands, and is counted as a whole too.
    rounds: bool,
}

impl Plan {
    /// That of `phase`.
    pub fn new(phase: &Phase) -> Self {
        let names = |steps: &[Step]| steps.iter().map(names_of).collect();
        let mut sum = 0;
        let weights = phase.steps.iter().filter_map(|step| step.weight).map(|weight| {
            sum += u64::from(weight);
            sum
        });
        let weights: Vec<u64> = weights.collect();
        let several =
            phase.steps.iter().map(|step| step.actions.len() * step.times as usize).sum::<usize>() > 1;
        Plan {
            first: names(&phase.first),
            steps: names(&phase.steps),
            last: names(&phase.last),
            rounds: phase.rate.is_some() && weights.is_empty() && several,
            weights,
        }
    }
}

fn names_of(step: &Step) -> Vec<Rc<str>> {
    match (&step.name, &step.actions[..]) {
        (Some(name), [_]) => vec![(**name).into()],
        (_, actions) => actions.iter().map(|action| action.name().into()).collect(),
    }
}

enum Session {
    Imap(Box<Imap>),
    Smtp(Box<Smtp>),
    Jmap(Box<Jmap>),
}

struct Driver {
    client: Rc<Client>,
    job: Arc<RunningPhase>,
    plan: Rc<Plan>,
    session: Option<Session>,
    deliveries: u64,
    schedule: Schedule,
    /// Failures in a row.
    failures: u32,
    /// The end of the last backoff: that time is not charged to the server.
    backed_off: Duration,
}

/// Runs a client of `job`, until it is done.
pub async fn client(thread: Rc<Thread>, job: Arc<RunningPhase>, plan: Rc<Plan>, connection: usize) {
    let settled = {
        let (job, told) = (job.clone(), Cell::new(false));
        move || {
            if !told.replace(true) {
                job.settled();
            }
        }
    };
    let client = Rc::new(new_client(&thread, &job, connection, Box::new(settled)));
    let mut driver = Driver::new(&client, &job, plan);
    let place = tokio::select! {
        place = job.place() => place,
        () = client.stopped() => None,
    };
    let over = tokio::select! {
        over = driver.rounds() => over,
        () = overdue(&client, &job) => {
            driver.cut_off();
            Err(Fail::Stopped)
        }
    };
    driver.count_left();
    if over != Err(Fail::Stopped) {
        driver.last().await;
    }
    if job.phase.hold && driver.session.is_some() {
        (client.settled)();
        client.stopped().await;
    }
    drop(driver);
    drop(place);
    (client.settled)();
    job.left();
}

/// Returns one command timeout after the end of the phase, or after its clients were stopped:
/// waiting ends then.
async fn overdue(client: &Client, job: &RunningPhase) {
    let command_timeout = client.thread.shared.command_timeout;
    let ended = async {
        match job.deadline() {
            Some(deadline) => tokio::time::sleep(deadline.saturating_sub(client.thread.now())).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = ended => {}
        () = client.stopped() => {}
    }
    tokio::time::sleep(command_timeout).await;
}

fn new_client(thread: &Rc<Thread>, job: &RunningPhase, connection: usize, settled: Box<dyn Fn()>) -> Client {
    let accounts = thread.shared.target.users.len().max(1);
    // Clients of different phases and connections get different random numbers, the same with the
    // same seed.
    let seed =
        SeededRandom::new(thread.shared.seed.rotate_left(17) ^ ((job.nth as u64) << 40) ^ connection as u64);
    Client {
        thread: thread.clone(),
        connection,
        account: connection % accounts,
        random: SeededRandom::new(seed.next_u64()),
        round: Cell::new(0),
        messages: Cell::new(0),
        uid_seen: Cell::new(0),
        batch: Cell::new((1, 1)),
        mod_seq: Cell::new(0),
        deadline: job.deadline(),
        stop: RefCell::new(job.stop()),
        settled,
    }
}

/// The server's syntax of mailbox names, asked with its first account.
pub async fn names(thread: &Rc<Thread>) -> Result<Names, Fail> {
    let job = RunningPhase::new(0, Phase::bare("", 1), thread.now());
    let client = Rc::new(new_client(thread, &job, 0, Box::new(|| ())));
    let now = thread.now();
    let endpoint = thread.shared.target.endpoint(Protocol::Imap);
    let place = endpoint.map(ToString::to_string).unwrap_or_default();
    let mut imap = Imap::connect(&client, now).await.map_err(|fail| match fail {
        Fail::Closed(_) | Fail::Timeout => Fail::Closed(format!("{place} cannot be reached: {fail}")),
        fail => Fail::Protocol(format!("{place}: {fail}")),
    })?;
    let account = |fail: Fail| Fail::Protocol(format!("the first account: {fail}"));
    imap.login(&"LOGIN".into(), now).await.map_err(account)?;
    imap.names().await.map_err(account)
}

/// When the client starts, since the phase began.
fn starts_after(phase: &Phase, client: &Client) -> Duration {
    phase.ramp.mul_f64(client.connection as f64 / phase.connections.max(1) as f64)
}

impl Driver {
    fn new(client: &Rc<Client>, job: &Arc<RunningPhase>, plan: Rc<Plan>) -> Self {
        let (phase, nth) = (&job.phase, client.connection as u64);
        let start = starts_after(phase, client);
        let seed = client.random.next_u64();
        Driver {
            client: client.clone(),
            job: job.clone(),
            plan,
            session: None,
            deliveries: 0,
            schedule: Schedule::new(phase.rate, phase.arrivals, nth, phase.connections, start, seed),
            failures: 0,
            backed_off: Duration::ZERO,
        }
    }

    async fn rounds(&mut self) -> Result<(), Fail> {
        let (client, job) = (self.client.clone(), self.job.clone());
        let phase = &job.phase;
        let start = starts_after(phase, &client);
        client.pause((job.began + start).saturating_sub(client.thread.now())).await?;
        let limit = job.rounds_of(client.connection);
        for round in 0.. {
            if limit.is_some_and(|limit| round >= limit) || client.is_stopped() {
                break;
            }
            let Some(from) = self.wait_until_due().await? else { break };
            client.round.set(round);
            job.rounds.fetch_add(1, Ordering::Relaxed);
            match self.round(from).await {
                Ok(()) => self.failures = 0,
                Err(Fail::Stopped) => return Err(Fail::Stopped),
                Err(fail) => {
                    job.undone.fetch_add(1, Ordering::Relaxed);
                    if !self.recover(&fail).await? {
                        break;
                    }
                }
            }
            let pause = phase.think.draw(&client.random);
            if !self.rest_until(client.thread.now() + self.client.within_phase(pause)).await? {
                break;
            }
        }
        Ok(())
    }

    /// Counts rounds that were due and will not begin.
    fn count_left(&self) {
        let Some(deadline) = self.job.deadline().filter(|_| !self.client.is_stopped()) else { return };
        let left = self.schedule.left(deadline - self.job.began);
        self.job.skipped.fetch_add(left, Ordering::Relaxed);
    }

    /// Waits for `pause`, and reads responses meanwhile.
    async fn rest(&mut self, pause: Duration) -> Result<(), Fail> {
        match &mut self.session {
            // Without a pause, responses are read with the next command.
            Some(Session::Imap(imap)) if !pause.is_zero() => imap.rest(pause).await,
            _ => self.client.pause(pause).await,
        }
    }

    /// The same up to a time, which may have passed, reconnecting if necessary. False if the client
    /// gave up.
    async fn rest_until(&mut self, until: Duration) -> Result<bool, Fail> {
        loop {
            match self.rest(until.saturating_sub(self.client.thread.now())).await {
                Ok(()) => return Ok(true),
                Err(Fail::Stopped) => return Err(Fail::Stopped),
                Err(fail) => {
                    if !self.recover(&fail).await? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Waits until the next round is due; returns from when it counts, or `None` after the last
    /// one.
    async fn wait_until_due(&mut self) -> Result<Option<Duration>, Fail> {
        let (client, job) = (self.client.clone(), self.job.clone());
        let (now, deadline) = (client.thread.now(), job.deadline());
        // Rounds that were due but not begun in time are not begun any more.
        if deadline.is_some_and(|deadline| now >= deadline) {
            return Ok(None);
        }
        let due = self.schedule.due().map(|due| job.began + due);
        if deadline.is_some_and(|deadline| due.unwrap_or(now) >= deadline) {
            return Ok(None);
        }
        let Some(due) = due else { return Ok(Some(now)) };
        let free = due > now;
        if !self.rest_until(due).await? {
            job.skipped.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        let now = client.thread.now();
        if due < self.backed_off {
            // The delay was a backoff, not the server's.
            return Ok(Some(self.backed_off));
        }
        let counter = match free {
            false => Some(&job.late),
            true if now - due > TIMER => Some(&job.overslept),
            true => None,
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Some(counted_from(due, now, free)))
    }

    async fn round(&mut self, from: Duration) -> Result<(), Fail> {
        let (job, plan) = (self.job.clone(), self.plan.clone());
        let steps = &job.phase.steps;
        if plan.weights.is_empty() {
            let mut first = Some(from);
            for (step, names) in steps.iter().zip(&plan.steps) {
                self.step(step, names, first.take()).await?;
            }
        } else {
            let total = plan.weights.last().copied().unwrap_or(1);
            let drawn = self.client.random.below(total);
            let at = plan.weights.partition_point(|sum| *sum <= drawn);
            self.step(&steps[at], &plan.steps[at], Some(from)).await?;
        }
        if plan.rounds {
            self.client.thread.ok("(round)", from, 0, 0);
        }
        Ok(())
    }

    /// Runs `step`, as often as it asks for; its first command counts from `from`.
    async fn step(&mut self, step: &Step, names: &[Rc<str>], mut from: Option<Duration>) -> Result<(), Fail> {
        for _ in 0..step.times {
            let from = from.take().unwrap_or_else(|| self.client.thread.now());
            if matches!(step.actions[..], [Action::Reconnect]) {
                self.drained().await?;
                self.session = None;
                self.ensure(from).await?;
            } else {
                self.ensure(from).await?;
                self.batches(step, names, from).await?;
            }
            self.rest(self.client.within_phase(step.think.draw(&self.client.random))).await?;
        }
        Ok(())
    }

    /// Runs `step` once, or once for each batch of the selected mailbox.
    async fn batches(&mut self, step: &Step, names: &[Rc<str>], from: Duration) -> Result<(), Fail> {
        let Some(batch) = step.batch else { return self.once(step, names, from).await };
        // The number of messages is known once SELECT is answered.
        self.drained().await?;
        let exists = match &mut self.session {
            Some(Session::Imap(imap)) => imap.exists(),
            Some(Session::Jmap(jmap)) => jmap.exists(step).await?,
            _ => 0,
        };
        let mut from = Some(from);
        for turn in batch.batches(exists) {
            if self.client.is_stopped() {
                return Err(Fail::Stopped);
            }
            self.client.batch.set(turn);
            self.ensure(self.client.thread.now()).await?;
            let from = from.take().unwrap_or_else(|| self.client.thread.now());
            self.once(step, names, from).await?;
        }
        Ok(())
    }

    async fn once(&mut self, step: &Step, names: &[Rc<str>], from: Duration) -> Result<(), Fail> {
        let pipeline = self.job.phase.pipeline;
        match &mut self.session {
            Some(Session::Imap(imap)) => {
                imap.step(step, names, from, pipeline).await?;
                if imap.is_closed() {
                    // Commands in flight are lost.
                    let fail = Fail::Closed("the server closed the connection".into());
                    let asked = step.actions.contains(&Action::Logout);
                    if imap.abandon(&fail) == 0 && !asked {
                        let why = imap.why(&fail);
                        self.client.thread.error("(connection)", fail.kind(), || why);
                    }
                    self.session = None;
                }
                Ok(())
            }
            Some(Session::Jmap(jmap)) => jmap.step(step, names, from).await,
            Some(Session::Smtp(_)) => {
                for (action, name) in step.actions.iter().zip(names) {
                    match action {
                        Action::Deliver(data) => self.deliver(data, name, from, step.notified).await?,
                        Action::Wait(pause) => {
                            let pause = pause.draw(&self.client.random);
                            self.client.pause(self.client.within_phase(pause)).await?;
                        }
                        _ => {}
                    }
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    async fn deliver(&mut self, data: &str, name: &str, from: Duration, notified: bool) -> Result<(), Fail> {
        let shared = self.client.thread.shared.clone();
        let (clients, accounts) =
            (self.job.phase.connections.max(1), shared.target.users.len().max(1) as u64);
        let nth = self.deliveries * clients + self.client.connection as u64;
        self.deliveries += 1;
        let count = (self.job.phase.recipients as u64).min(accounts);
        let recipients: Vec<usize> = (0..count).map(|n| ((nth * count + n) % accounts) as usize).collect();
        let Some(data) = shared.data.get(data) else { return Ok(()) };
        let message = data.message(nth);
        let Some(Session::Smtp(smtp)) = &mut self.session else { return Ok(()) };
        smtp.deliver(&Delivery { name, from, recipients: &recipients, message: &message, notified }).await
    }

    /// Connects and does the first steps, if there is no connection.
    async fn ensure(&mut self, from: Duration) -> Result<(), Fail> {
        if self.session.is_some() {
            return Ok(());
        }
        let (job, plan) = (self.job.clone(), self.plan.clone());
        let phase = &job.phase;
        self.session = Some(match phase.protocol {
            Protocol::Imap => Session::Imap(Box::new(Imap::connect(&self.client, from).await?)),
            Protocol::Jmap => {
                let small = phase.actions().any(|action| *action == Action::Events);
                Session::Jmap(Box::new(Jmap::connect(&self.client, small, from).await?))
            }
            protocol => {
                Session::Smtp(Box::new(Smtp::connect(&self.client, protocol, phase.auth, from).await?))
            }
        });
        for (step, names) in phase.first.iter().zip(&plan.first) {
            for _ in 0..step.times {
                self.once(step, names, self.client.thread.now()).await?;
            }
        }
        Ok(())
    }

    async fn drained(&mut self) -> Result<(), Fail> {
        match &mut self.session {
            Some(Session::Imap(imap)) => imap.drained().await,
            _ => Ok(()),
        }
    }

    /// After a failure: counts it, and waits before the next try. False if there is none.
    async fn recover(&mut self, fail: &Fail) -> Result<bool, Fail> {
        self.failures += 1;
        let thread = self.client.thread.clone();
        match self.session.take() {
            Some(Session::Imap(mut imap)) => {
                // A refused login is counted already.
                let counted = matches!(fail, Fail::Denied(_) | Fail::Unavailable(_));
                if imap.abandon(fail) == 0 && !counted {
                    thread.error("(connection)", fail.kind(), || imap.why(fail));
                }
            }
            // Each of them was counted already.
            Some(Session::Jmap(_)) => {}
            Some(Session::Smtp(_)) if *fail == Fail::NotNotified => {}
            Some(Session::Smtp(_)) => thread.error("(connection)", fail.kind(), || fail.to_string()),
            None => thread.error("CONNECT", fail.kind(), || fail.to_string()),
        }
        if matches!(fail, Fail::Denied(_) | Fail::NotNotified) || self.failures >= FAILURES {
            self.job.abandoned.fetch_add(1, Ordering::Relaxed);
            return Ok(false);
        }
        let wait = BACKOFF * 2u32.pow(self.failures.min(6));
        self.client.pause(wait.mul_f64(0.5 + uniform(&self.client.random))).await?;
        self.backed_off = self.client.thread.now();
        Ok(true)
    }

    /// Ends at once: commands in flight count as failed, if they wait for the server.
    fn cut_off(&mut self) {
        if let Some(Session::Imap(mut imap)) = self.session.take() {
            let fail = if self.client.is_stopped() { Fail::Stopped } else { Fail::Timeout };
            imap.abandon(&fail);
        }
        if !self.client.is_stopped() {
            self.job.undone.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends with the scenario's last steps.
    async fn last(&mut self) {
        let (job, plan) = (self.job.clone(), self.plan.clone());
        let mut ended = self.drained().await;
        for (step, names) in job.phase.last.iter().zip(&plan.last) {
            if ended.is_ok() && self.session.is_some() {
                ended = self.step(step, names, None).await;
            }
        }
        match (ended, &mut self.session) {
            (Err(fail), Some(Session::Imap(imap))) => {
                imap.abandon(&fail);
            }
            (Ok(()), Some(Session::Smtp(smtp))) => smtp.quit().await,
            _ => {}
        }
    }
}
