//! `sealpost bench run`: a scenario, a server, a report.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use sealpost_bench::load::scenario::{Overrides, Scenario, count, duration, find};
use sealpost_bench::load::{self, Options};
use sealpost_bench::process::Every;

use super::measuring::{Measuring, writable, write};
use super::server::Running;
use super::stop::Stop;
use super::users::Users;
use super::{bounded_text, list, server};
use crate::exit::Usage;
use crate::global::Global;

/// The largest scenario that is read, in bytes.
const SCENARIO_BYTES: u64 = 1 << 20;

/// Arguments of `sealpost bench run`.
#[derive(clap::Args)]
#[command(
    after_help = "Clients work in mailboxes below SealpostBench, which are removed at the end. A scenario that \
                        changes other mailboxes, or delivers into inboxes, requires --write-inbox, unless the \
                        bench started the server itself.\n
The section [set] of a scenario has its parameters with their defaults; --connections 50 is short for \
                        --set connections=50, and so on.\n
Ctrl-C or SIGTERM ends the run early, within --timeout: the bench removes its mailboxes and shows the \
                        results so far; a second signal exits at once. Exit status 1 if a command failed or \
                        a bar was missed.\n
Examples:
  sealpost bench run fetch --sealpost
  sealpost bench run fill --imap 127.0.0.1:143 --users-file users --pid $(pidof -s dovecot)
  sealpost bench run thunderbird --imaps mail.example.org:993 \\
      --user-pattern 'user{}@example.org' --users 100 --password-file password \\
      --duration 10m --out report
  sealpost bench run jmap-webmail --jmap https://mail.example.org --users-file users --write-inbox
  sealpost bench run my-scenario.toml --lmtp-socket /run/lmtp --user me@localhost --write-inbox"
)]
pub struct Args {
    /// A scenario by name, or a file
    #[arg(value_name = "SCENARIO|FILE")]
    scenario: String,
    #[command(flatten)]
    server: server::Options,
    #[command(flatten)]
    users: Users,
    #[command(flatten)]
    load: Load,
    /// Keep the mailboxes, so that the next run does not fill them again
    #[arg(long)]
    keep: bool,
    /// Let the scenario deliver into inboxes and change other mailboxes
    #[arg(long)]
    write_inbox: bool,
    /// Write report.html, report.json and the plots as SVG into DIR
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Options that say how much is sent.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Load")]
struct Load {
    /// Number of clients
    #[arg(long, value_name = "N")]
    connections: Option<String>,
    /// Rounds per second of all clients, even if the server does not keep up (open loop)
    #[arg(long, value_name = "R")]
    rate: Option<String>,
    /// Length of the run, such as 30s or 10m
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Time in which all clients connect
    #[arg(long, value_name = "TIME")]
    ramp: Option<String>,
    /// Set a parameter of the scenario; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// The seed; the same seed sends the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads that send
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Timeout of a connection, a command or a delivery
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = timeout)]
    timeout: Duration,
}

fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("the timeout must be longer than zero".into()),
        time => Ok(time),
    }
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let users = args.server.accounts(&args.users, false)?.len();
    let scenario = read(&args.scenario, args.load.overrides(users)?)?;
    let users = args.server.accounts(&args.users, scenario.logs_in())?;
    if let Some(dir) = &args.out {
        writable(dir)?;
    }
    let room = sealpost_server::files::room_for_connections() as u64;
    if scenario.most_connections() > room {
        let most = scenario.most_connections();
        return Err(Usage(format!(
            "{most} connections need as many open files; the limit allows {room} (ulimit -n)"
        ))
        .into());
    }
    let messages = scenario.set.iter().find(|(name, _)| name == "count");
    let messages = messages.and_then(|(_, messages)| count(messages).ok()?.try_into().ok());
    let stop = Stop::on_signals(args.load.timeout)?;
    let running = stop.unless(args.server.running(users, messages)).await?;
    stop.ends_too(running.started());
    refuse_to_harm(&scenario, &running, args.write_inbox)?;
    let options = Options {
        seed: args.load.seed,
        threads: args.load.threads.into(),
        command_timeout: args.load.timeout,
        null: running.null,
        keep: args.keep || running.throwaway,
        ..Options::default()
    };
    let mut measuring = Measuring::begin(running, options, Every::default(), global);
    let (target, sampler) = (measuring.running.target.clone(), measuring.sampler.as_ref());
    let stopped = stop.stopped();
    let outcome =
        load::run(&scenario, target, &measuring.options, sampler, stopped, &mut measuring.shown).await;
    let parameters = scenario.set.iter().cloned().collect();
    let seen = measuring.finish(&scenario.name, parameters, outcome).await?;
    if let Some(dir) = &args.out {
        write(&seen.document, dir)?;
    }
    let output = global.output();
    if output.is_json() {
        output.json(&seen.document)?;
    } else {
        output.line(seen.text(args.out.as_deref()))?;
    }
    Ok(seen.exit())
}

fn read(name: &str, overrides: Overrides) -> Result<Scenario> {
    let parse = |file: &str, text: &str| Scenario::parse(file, text, &overrides).map_err(|e| Usage(e).into());
    if let Some(built_in) = find(name) {
        return parse(name, built_in.text);
    }
    if !Path::new(name).exists() {
        return Err(Usage(list::no_such(name)).into());
    }
    let text = bounded_text(Path::new(name), SCENARIO_BYTES)?
        .ok_or_else(|| Usage(format!("{name}: too large for a scenario")))?;
    parse(name, &text)
}

fn refuse_to_harm(scenario: &Scenario, running: &Running, allowed: bool) -> Result<()> {
    let writes = scenario.writes_elsewhere();
    if writes.is_empty() || allowed || running.throwaway {
        return Ok(());
    }
    Err(Usage(format!(
        "{} changes more than the bench's own mailboxes:\n  {}\n--write-inbox lets it",
        scenario.name,
        writes.join("\n  ")
    ))
    .into())
}

impl Load {
    fn overrides(&self, users: usize) -> Result<Overrides> {
        let mut set = BTreeMap::new();
        for pair in &self.set {
            let (name, value) =
                pair.split_once('=').ok_or_else(|| Usage(format!("--set {pair}: is written NAME=VALUE")))?;
            set.insert(name.to_owned(), value.to_owned());
        }
        let short = [
            ("connections", &self.connections),
            ("rate", &self.rate),
            ("duration", &self.duration),
            ("ramp", &self.ramp),
        ];
        for (name, value) in short {
            set.extend(value.iter().map(|value| (name.to_owned(), value.clone())));
        }
        for name in ["connections", "count"] {
            if set.get(name).is_some_and(|value| count(value) == Ok(0)) {
                return Err(Usage(format!("{name} is 0: nothing would be done; it is at least 1")).into());
            }
        }
        Ok(Overrides { set, users })
    }
}
