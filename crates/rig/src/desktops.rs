//! A scenario of the load generator against a server under test of our own: a thousand desktop clients.
//!
//! Between filling the mailboxes and the clients' coming the server is started anew: whoever comes
//! then has not logged in lately, and nothing is in its caches. That is the morning after a
//! restart, the worst that an ordinary day has.

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

/// What `thunderbird` did to one server.
#[derive(Debug, Clone)]
pub struct Done {
    /// All its phases but those that prepare.
    pub phases: Vec<Phase>,
    /// What makes the figures doubtful.
    pub warnings: Vec<String>,
}

impl Done {
    /// Commands of all phases that ended well, how long they took, and how many did not end well.
    pub fn commands(&self) -> (u64, Latency, u64) {
        let commands = || self.phases.iter().flat_map(|phase| &phase.commands);
        let latency = Latency::merged(commands().map(|command| &command.latency));
        (
            commands().map(|command| command.count).sum(),
            latency,
            commands().map(sealpost_bench::result::Command::errors).sum(),
        )
    }

    /// How many logins there were, and how long they took.
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

    /// CPU seconds, and how long it took.
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
    // The server is thrown away, mailboxes and all.
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

/// A server of ours as the load generator sees one.
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
        users: accounts.iter().map(user).collect(),
    }
}

/// Says which phase it is.
pub(crate) struct Lines;

impl Observer for Lines {
    fn begins(&mut self, phase: &ScenarioPhase, nth: usize, of: usize) {
        eprintln!("  {nth}/{of} {}", phase.name);
    }

    fn progress(&mut self, _progress: &Progress) {}

    fn ended(&mut self, _phase: &ScenarioPhase, _result: &Phase) {}
}
