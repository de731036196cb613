//! `sealpost bench trace`: every FETCH and SEARCH of a trace of real clients, over whole mailboxes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use sealpost_bench::load::scenario::duration;
use sealpost_bench::load::{self, Options};
use sealpost_bench::process::Every;
use sealpost_bench::result::Run;
use sealpost_bench::trace::{self, Line, Plan};
use serde::Serialize;

use super::measuring::{Measuring, writable, write};
use super::server;
use super::stop::Stop;
use super::users::Users;
use crate::exit::Usage;
use crate::global::Global;

/// The largest mailbox.
const MESSAGES: u64 = 1_000_000;
/// The most mailboxes: each takes up to five phases of a scenario.
const MAILBOXES: usize = 16;

/// Arguments of `sealpost bench trace`.
#[derive(clap::Args)]
#[command(
    after_help = "The commands are those that real clients sent to one server, in a trace of 240 different commands: \
                        52 shapes of FETCH and SEARCH, here over whole mailboxes of distinct messages. Each is sent \
                        once (`first`), then in --runs rounds of all commands (`warm`, the median). With --writes another \
                        client flags, delivers and moves messages of the same mailbox meanwhile (`writing`).\n
Without a server it starts a Sealpost of this version and removes it afterwards. Only the first account is used. The bench \
                        works in mailboxes below SealpostBench and removes them at the end; --keep leaves them filled for the \
                        next run. `first` is the first time in this mailbox: restart the server and use --keep to measure \
                        what it takes after a restart.\n
Examples:
  sealpost bench trace
  sealpost bench trace --messages 1000,10000 --writes 20
  sealpost bench trace --mail personal --runs 3 --json > personal.json
  sealpost bench trace --imap 127.0.0.1:143 --users-file users --pid $(pidof -s dovecot) \\
      --keep --out dovecot"
)]
pub struct Args {
    #[command(flatten)]
    server: server::Options,
    #[command(flatten)]
    users: Users,
    /// Messages of each mailbox, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1000",
          value_parser = clap::value_parser!(u64).range(1..=MESSAGES))]
    messages: Vec<u64>,
    /// The data set: small (1 to 2 kB), personal (sizes of a real mailbox), or a path to mail
    #[arg(long, value_name = "DATA", default_value = "small")]
    mail: String,
    /// Rounds after the first time
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Also measure beside a client that writes R times a second into the same mailbox
    #[arg(long, value_name = "R", value_parser = rate)]
    writes: Option<f64>,
    /// The seed; the same seed sends the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Timeout of a connection or a command
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = timeout)]
    timeout: Duration,
    /// Keep the mailboxes, so that the next run does not fill them again
    #[arg(long)]
    keep: bool,
    /// Write report.html, report.json and the plots as SVG into DIR
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 10_000.0 => Ok(rate),
        _ => Err("rounds a second, such as 20 or 0.5".into()),
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("the timeout must be longer than zero".into()),
        time => Ok(time),
    }
}

/// A document as `run` makes it, and the table.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    document: &'a Run,
    trace: &'a [Line],
}

/// Runs it.
pub async fn run(mut args: Args, global: &Global) -> Result<ExitCode> {
    if args.messages.len() > MAILBOXES {
        return Err(Usage(format!("--messages: at most {MAILBOXES} mailboxes")).into());
    }
    args.messages.sort_unstable();
    args.messages.dedup();
    args.server.or_sealpost();
    let users = args.server.accounts(&args.users, true)?;
    if let Some(dir) = &args.out {
        writable(dir)?;
    }
    let plan = Plan { messages: args.messages, mail: args.mail, runs: args.runs, writes: args.writes };
    let scenario = trace::scenario(&plan).map_err(Usage)?;
    let stop = Stop::on_signals(args.timeout)?;
    let largest = plan.messages.last().and_then(|most| u32::try_from(*most).ok());
    let running = stop.unless(args.server.running(users, largest)).await?;
    stop.ends_too(running.started());
    let options = Options {
        seed: args.seed,
        command_timeout: args.timeout,
        null: running.null,
        keep: args.keep || running.throwaway,
        ..Options::default()
    };
    let mut measuring = Measuring::begin(running, options, Every::default(), global);
    let (target, sampler) = (measuring.running.target.clone(), measuring.sampler.as_ref());
    let stopped = stop.stopped();
    let outcome =
        load::run(&scenario, target, &measuring.options, sampler, stopped, &mut measuring.shown).await;
    let parameters: BTreeMap<String, String> = scenario.set.iter().cloned().collect();
    let seen = measuring.finish(trace::TITLE, parameters, outcome).await?;
    if let Some(dir) = &args.out {
        write(&seen.document, dir)?;
    }
    let lines = trace::table(&plan, &seen.document.servers[0]);
    let output = global.output();
    if output.is_json() {
        output.json(&Shown { document: &seen.document, trace: &lines })?;
    } else {
        output.line(text(&lines, plan.writes.is_some()))?;
        output.line(seen.brief(args.out.as_deref()))?;
    }
    Ok(seen.exit())
}

fn text(lines: &[Line], writes: bool) -> String {
    let mut out = Vec::new();
    for mailbox in lines.chunk_by(|a, b| a.messages == b.messages) {
        out.push(head(mailbox[0].messages, writes));
        out.extend(
            mailbox.iter().map(|line| row(&line.brief, line.first_ms, line.warm_ms, line.beside_ms, writes)),
        );
        let sum = |of: fn(&Line) -> Option<f64>| mailbox.iter().map(of).sum::<Option<f64>>();
        let all = format!("all {} commands", mailbox.len());
        out.push(row(
            &all,
            sum(|line| line.first_ms),
            sum(|line| line.warm_ms),
            sum(|line| line.beside_ms),
            writes,
        ));
        out.push(String::new());
    }
    out.join("\n")
}

fn head(messages: u64, writes: bool) -> String {
    let writing = if writes { "    writing    ×" } else { "" };
    format!("{:>10} {:>10}{writing}  ms for each command, {messages} messages", "first", "warm")
}

fn row(name: &str, first: Option<f64>, warm: Option<f64>, beside: Option<f64>, writes: bool) -> String {
    let ms = |value: Option<f64>| value.map_or("–".into(), |ms| format!("{ms:.2}"));
    let ratio = beside.zip(warm.filter(|warm| *warm > 0.0)).map(|(beside, warm)| beside / warm);
    let ratio = ratio.map_or("–".into(), |ratio| format!("{ratio:.1}"));
    let writing = if writes { format!(" {:>10} {ratio:>4}", ms(beside)) } else { String::new() };
    format!("{:>10} {:>10}{writing}  {name}", ms(first), ms(warm))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(command: &'static str, first_ms: Option<f64>, warm_ms: f64) -> Line {
        let (brief, warm_ms, beside_ms) = (command.to_owned(), Some(warm_ms), Some(2.0 * warm_ms));
        Line { messages: 1000, command, brief, commands: 1, bytes: 9, first_ms, warm_ms, beside_ms }
    }

    #[test]
    fn figures_stand_in_columns_and_are_summed() {
        let lines = [line("FETCH 1:* (FLAGS)", Some(3.0), 1.5), line("SEARCH UNSEEN", None, 0.25)];
        let table = text(&lines, true);
        let rows: Vec<&str> = table.lines().collect();
        assert_eq!(rows[1], "      3.00       1.50       3.00  2.0  FETCH 1:* (FLAGS)");
        assert_eq!(rows[2], "         –       0.25       0.50  2.0  SEARCH UNSEEN");
        assert_eq!(rows[3], "         –       1.75       3.50  2.0  all 2 commands");
        assert_eq!(rows[0].find('f'), rows[0].find("first"));
        assert!(!text(&lines, false).contains("writing"));
    }

    #[test]
    fn a_rate_is_a_positive_number() {
        assert_eq!(rate("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "x", "inf", "NaN"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
