//! A scenario of the load generator against a server under test of our own: a thousand desktop clients.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use sealpost_base::SystemClock;
use tokio::sync::watch;

use crate::load::scenario::{Overrides, Phase as ScenarioPhase, find};
use crate::load::target::{Endpoint, Place, User};
use crate::load::{self, Observer, Options, Progress, Scenario};
use crate::process::{Every, Sampler};
use crate::result::{Latency, Phase};
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
            commands().map(crate::result::Command::errors).sum(),
        )
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

/// Runs `thunderbird` with `users` accounts for `duration`.
pub async fn measure(
    target: &Target,
    dir: &Path,
    users: usize,
    duration: Duration,
    seed: u64,
) -> Result<Done> {
    let accounts: Vec<String> = (0..users).map(|nth| format!("desk{nth:04}@localhost")).collect();
    let server = target.start(&dir.join("data"), &accounts).await?;
    let built_in = find("thunderbird").context("no such scenario")?;
    let set = [("duration", format!("{}s", duration.as_secs())), ("ramp", "20s".into())];
    let set = set.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let scenario = Scenario::parse(built_in.name, built_in.text, &Overrides { set, users })
        .map_err(anyhow::Error::msg)?;
    let sampler = Sampler::start(server.tree, Every::default(), SystemClock::new());
    // The server is thrown away, mailboxes and all.
    let options = Options { seed, keep: true, ..Options::default() };
    let (_go_on, stop) = watch::channel(false);
    let outcome =
        load::run(&scenario, reached(&server, &accounts), &options, Some(&sampler), stop, &mut Lines).await?;
    server.stop(STOP_TIMEOUT).await?;
    let setup = |name: &str| scenario.phases.iter().any(|phase| phase.setup && phase.name == name);
    let phases = outcome.phases.into_iter().filter(|phase| !setup(&phase.name)).collect();
    Ok(Done { phases, warnings: outcome.warnings })
}

/// A server of ours as the load generator sees one.
pub fn reached(server: &Server, accounts: &[String]) -> load::Target {
    let at = |address: std::net::SocketAddr| Endpoint {
        place: Place::Tcp(address.to_string(), vec![address]),
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
