//! `sealpost top`: what the server is doing, as it happens.

mod client;
mod columns;
mod screen;
mod terminal;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use sealpost_server::admin::{Order, Request};
use tokio::signal::unix::{SignalKind, signal};

use self::client::Source;
use self::terminal::Terminal;
use crate::config::Config;
use crate::global::Global;

/// How often it looks.
const PERIOD: Duration = Duration::from_secs(1);
/// Sessions and accounts in one snapshot for programs.
const ROWS: usize = 100;
/// The width of output without a terminal.
const PLAIN_WIDTH: usize = 140;

/// Arguments of `sealpost top`.
#[derive(clap::Args)]
#[command(
    after_help = "On a terminal, top refreshes every second: q quits, o changes the order of sessions. \
                        Elsewhere, and with --once or --json, it prints once; numbers are then totals \
                        since the server started.\n
Examples:
  sealpost top --dir /var/lib/sealpost
  sealpost top --once
  sealpost top --json | jq .memory"
)]
pub struct Args {
    /// Print once and exit
    #[arg(long)]
    once: bool,
    /// Which sessions come first
    #[arg(long, value_enum, default_value_t)]
    order: SessionOrder,
    /// The admin socket of the server [default: that of the first server on the data directory]
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
}

/// Which sessions come first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SessionOrder {
    /// Sessions with a running command first, then by bytes transferred
    #[default]
    Busy,
    /// By bytes transferred
    Bytes,
    /// The oldest
    Age,
}

impl SessionOrder {
    fn next(self) -> Self {
        match self {
            SessionOrder::Busy => SessionOrder::Bytes,
            SessionOrder::Bytes => SessionOrder::Age,
            SessionOrder::Age => SessionOrder::Busy,
        }
    }

    fn order(self) -> Order {
        match self {
            SessionOrder::Busy => Order::Busy,
            SessionOrder::Bytes => Order::Bytes,
            SessionOrder::Age => Order::Age,
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            SessionOrder::Busy => "busy first",
            SessionOrder::Bytes => "most bytes first",
            SessionOrder::Age => "oldest first",
        }
    }
}

/// Shows it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let dir = if args.socket.is_some() { PathBuf::new() } else { Config::load(global)?.directory };
    let mut source = Source::connect(args.socket, dir)?;
    let output = global.output();
    if args.once || output.is_json() || !std::io::stdout().is_terminal() {
        let stats = source.ask(&Request::stats(ROWS, args.order.order(), ROWS))?;
        let text = |stats: &_| screen::lines(stats, None, args.order, PLAIN_WIDTH, usize::MAX).join("\n");
        output.show(&stats, text)?;
        return Ok(ExitCode::SUCCESS);
    }
    watch(source, args.order).await?;
    Ok(ExitCode::SUCCESS)
}

async fn watch(mut source: Source, mut order: SessionOrder) -> Result<()> {
    let on = |kind| signal(kind).context("cannot listen to signals");
    let (mut resized, mut interrupted) = (on(SignalKind::window_change())?, on(SignalKind::interrupt())?);
    let (mut terminated, mut hung_up) = (on(SignalKind::terminate())?, on(SignalKind::hangup())?);
    let mut terminal = Terminal::begin()?;
    let mut keys = terminal.keys();
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut before, mut now, mut stopped) = (None, None, None);
    loop {
        tokio::select! {
            _ = ticks.tick() => match source.ask(&Request::stats(ROWS, order.order(), ROWS)) {
                Ok(stats) => {
                    before = now.replace(stats);
                    stopped = None;
                }
                // Continues after a restart of the server.
                Err(e) if now.is_some() => stopped = Some(format!("{e:#}")),
                Err(e) => return Err(e),
            },
            _ = resized.recv() => {}
            _ = interrupted.recv() => return Ok(()),
            _ = terminated.recv() => return Ok(()),
            _ = hung_up.recv() => return Ok(()),
            Some(key) = keys.recv() => match key {
                // What Ctrl-C and Ctrl-D send when the terminal does not make signals of them.
                b'q' | b'Q' | 3 | 4 => return Ok(()),
                b'o' => order = order.next(),
                _ => {}
            },
        }
        if let Some(now) = &now {
            let (width, height) = terminal.size();
            let mut lines = screen::lines(now, before.as_ref(), order, width, height);
            if let Some(why) = &stopped {
                lines = screen::stopped(why, lines, width, height);
            }
            terminal.show(&lines)?;
        }
    }
}
