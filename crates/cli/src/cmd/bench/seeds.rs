//! `sealpost bench seeds`: the measurements that Aerogramme's authors published, theirs beside ours.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use sealpost_bench::load::Options;
use sealpost_bench::result::Run;
use sealpost_bench::seeds::{self, Line, OFTEN, USERS};
use serde::Serialize;

use super::measuring::{Measuring, writable, write};
use super::server;
use super::stop::Stop;
use super::users::Users;
use crate::global::Global;

/// Arguments of `sealpost bench seeds`.
#[derive(clap::Args)]
#[command(
    after_help = "Without a server it starts a Sealpost of this version and removes it afterwards. Any other server must have 16 \
                        accounts. Clients work in mailboxes below SealpostBench, which are removed at the end. Memory and CPU \
                        are measured only with --pid. Aerogramme's figures are from its authors' machine (\"Does Aerogramme \
                        use too much memory?\", 2024, https://aerogramme.deuxfleurs.fr/blog/2024-ram-usage-encryption-s3/): \
                        compare orders of magnitude.\n
Examples:
  sealpost bench seeds
  sealpost bench seeds --imap 127.0.0.1:143 --users-file users --pid $(pidof -s dovecot) \\
      --out report"
)]
pub struct Args {
    #[command(flatten)]
    server: server::Options,
    #[command(flatten)]
    users: Users,
    /// The seed; the same seed sends the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write report.html, report.json and the plots as SVG into DIR
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A document as `run` makes it, and the figures.
#[derive(Serialize)]
struct SeedsReport<'a> {
    #[serde(flatten)]
    document: &'a Run,
    figures: &'a [Line],
}

/// Runs it.
pub async fn run(mut args: Args, global: &Global) -> Result<ExitCode> {
    args.server.or_sealpost();
    args.users.users.get_or_insert(USERS);
    let users = args.server.accounts(&args.users, true)?;
    if args.server.knows_accounts() {
        seeds::check(users.len())?;
    }
    if let Some(dir) = &args.out {
        writable(dir)?;
    }
    let stop = Stop::on_signals(Options::default().command_timeout)?;
    let running = stop.unless(args.server.running(users, None)).await?;
    stop.ends_too(running.started());
    let options =
        Options { seed: args.seed, keep: running.throwaway, null: running.null, ..Options::default() };
    let mut measuring = Measuring::begin(running, options, OFTEN, global);
    let (target, sampler) = (measuring.running.target.clone(), measuring.sampler.as_ref());
    let stopped = stop.stopped();
    let outcome = seeds::run(target, &measuring.options, sampler, stopped, &mut measuring.shown).await;
    let seen = measuring.finish(seeds::TITLE, BTreeMap::new(), outcome).await?;
    if let Some(dir) = &args.out {
        write(&seen.document, dir)?;
    }
    let figures = seeds::table(&seen.document.servers[0]);
    let output = global.output();
    if output.is_json() {
        output.json(&SeedsReport { document: &seen.document, figures: &figures })?;
    } else {
        output.line(seen.text(args.out.as_deref()))?;
        output.line(text(&figures, &seen.document.servers[0].name))?;
    }
    Ok(seen.exit())
}

fn text(figures: &[Line], name: &str) -> String {
    let head = ("", seeds::STUDY, name);
    let lines = figures.iter().map(|line| (line.name, line.theirs, &*line.ours));
    let line = |(name, theirs, ours)| format!("{name:<40} {theirs:>18}  {ours}");
    std::iter::once(head).chain(lines).map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theirs_stands_beside_ours() {
        let figures = [Line { name: "COPY of 1,000", theirs: "0.8 s", ours: "5.0 ms".into() }];
        let text = text(&figures, "Sealpost");
        let (head, line) = text.split_once('\n').unwrap();
        assert_eq!(head.find("Sealpost"), line.find("5.0 ms"));
        assert!(line.starts_with("COPY of 1,000 ") && line.contains(" 0.8 s "), "{line}");
    }
}
