//! A scenario of the load generator against our own server under test: a thousand desktop clients.
//!
//! The server is restarted between filling the mailboxes and the clients' start, so that no client
//! has logged in recently, and its caches are empty. That is the morning after a restart, the worst
//! case of an ordinary day.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use sealpost_base::SystemClock;
use sealpost_bench::load::{
    self, Observer, Options, Progress, Scenario,
    scenario::{Overrides, Phase as ScenarioPhase, find},
    target::{Endpoint, TargetAddr, User},
};
use sealpost_bench::process::{Every, Sampler};
use sealpost_bench::result::{Latency, Phase};
use tokio::sync::watch;

use crate::server::{PASSWORD, STOP_TIMEOUT, Server, Target};

/// The results of `thunderbird` against one server.
#[derive(Debug, Clone)]
pub struct Done {
    /// All its phases except the setup.
    pub phases: Vec<Phase>,
    /// Reasons to doubt the figures.
    pub warnings: Vec<String>,
}

impl Done {
    /// Successful commands of all phases, their latency, and the number of failed ones.
    pub fn commands(&self) -> (u64, Latency, u64) {
        let commands = || self.phases.iter().flat_map(|phase| &phase.commands);
        let latency = Latency::merged(commands().map(|command| &command.latency));
        (
            commands().map(|command| command.count).sum(),
            latency,
            commands().map(sealpost_bench::result::Command::errors).sum(),
        )
    }

    /// The number of logins, and their latency.
    pub fn logins(&self) -> (u64, Latency) {
        let logins =
            || self.phases.iter().flat_map(|phase| &phase.commands).filter(|command| command.name == "LOGIN");
        let latency = Latency::merged(logins().map(|command| &command.latency));
        (logins().map(|command| command.count).sum(), latency)
    }

    /// The highest memory, in bytes.
    pub fn peak_bytes(&self) -> u64 {
        self.phases.iter().filter_map(|phase| phase.peak_bytes).max().unwrap_or(0)
    }

    /// CPU seconds, and the duration.
    pub fn cpu(&self) -> (f64, f64) {
        let each = self.phases.iter();
        each.fold((0.0, 0.0), |(cpu, wall), p| (cpu + p.cpu_seconds.unwrap_or(0.0), wall + p.seconds()))
    }
}

/// Runs `thunderbird` with `users` accounts, which start within `ramp`, for `duration` in all.
pub async fn measure(
    target: &Target,
    dir: &Path,
    users: usize,
    (ramp, duration): (Duration, Duration),
    seed: u64,
) -> Result<Done> {
    let accounts: Vec<String> = (0..users).map(|nth| format!("desk{nth:04}@localhost")).collect();
    let built_in = find("thunderbird").context("no such scenario")?;
    let set = [("duration", duration), ("ramp", ramp)];
    let set = set.into_iter().map(|(name, time)| (name.to_owned(), format!("{}s", time.as_secs()))).collect();
    let mut all = Scenario::parse(built_in.name, built_in.text, &Overrides { set, users })
        .map_err(anyhow::Error::msg)?;
    let (prepare, rest) = std::mem::take(&mut all.phases).into_iter().partition(|phase| phase.setup);
    // The server is discarded, including its mailboxes.
    let options = Options { seed, keep: true, ..Options::default() };
    let mut done = Done { phases: Vec::new(), warnings: Vec::new() };
    for (phases, measured) in [(prepare, false), (rest, true)] {
        let scenario = Scenario { phases, ..all.clone() };
        let server = target.start(&dir.join("data"), &accounts).await?;
        let sampler = Sampler::start(server.tree, Every::default(), SystemClock::new());
        let (_go_on, stop) = watch::channel(false);
        let reached = reached(&server, &accounts);
        let outcome = load::run(&scenario, reached, &options, Some(&sampler), stop, &mut Lines).await?;
        server.stop(STOP_TIMEOUT).await?;
        if measured {
            done = Done { phases: outcome.phases, warnings: outcome.warnings };
        }
    }
    Ok(done)
}

/// A server of ours as a target of the load generator.
pub fn reached(server: &Server, accounts: &[String]) -> load::Target {
    let at = |address: std::net::SocketAddr| Endpoint {
        addr: TargetAddr::Tcp(address.to_string(), vec![address]),
        tls: None,
    };
    let user = |name: &String| User { name: name.clone(), password: PASSWORD.into() };
    load::Target {
        name: server.name.to_owned(),
        imap: Some(at(server.imap)),
        smtp: server.smtp.map(at),
        lmtp: Some(at(server.lmtp)),
        submission: server.submission.map(at),
        jmap: server.http.map(at),
        users: accounts.iter().map(user).collect(),
    }
}

/// Prints the current phase.
pub(crate) struct Lines;

impl Observer for Lines {
    fn begins(&mut self, phase: &ScenarioPhase, nth: usize, of: usize) {
        eprintln!("  {nth}/{of} {}", phase.name);
    }

    fn progress(&mut self, _progress: &Progress) {}

    fn ended(&mut self, _phase: &ScenarioPhase, _result: &Phase) {}
}
