//! The binary `sealpost-sim`: one history after the other, until something is wrong or the time is over.

#![allow(clippy::print_stdout, reason = "it reports on its terminal")]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use sealpost_base::{Clock, Random, SystemClock, SystemRandom};
use sealpost_sim::{Outcome, Plan, history};

/// Simulates histories of several nodes on one store and checks what must hold.
#[derive(Parser)]
struct Arguments {
    /// The first seed [default: by chance].
    #[arg(long)]
    seed: Option<u64>,
    /// How long.
    #[arg(long, default_value_t = 60)]
    seconds_max: u64,
    /// How many histories at most.
    #[arg(long, default_value_t = u64::MAX)]
    histories: u64,
    /// Print the plan of each history.
    #[arg(long)]
    verbose: bool,
}

fn main() -> ExitCode {
    let args = Arguments::parse();
    let clock = SystemClock::new();
    let first = args.seed.unwrap_or_else(|| SystemRandom.next_u64() >> 16);
    println!("first seed {first}");
    let (mut count, mut all) = (0, Outcome::default());
    while count < args.histories && clock.monotonic() < Duration::from_secs(args.seconds_max) {
        let seed = first.wrapping_add(count);
        if args.verbose {
            println!("seed {seed}: {:?}", Plan::new(seed));
        }
        match history(seed) {
            Ok(outcome) => all.add(outcome),
            Err(wrong) => {
                println!("seed {seed}: {wrong}\n{:?}", Plan::new(seed));
                println!("again: make sim SEED={seed} ARGS=\"--histories 1\"");
                println!("{count} histories before it");
                return ExitCode::FAILURE;
            }
        }
        count += 1;
    }
    println!("{count} histories, nothing wrong: {all:?}");
    ExitCode::SUCCESS
}
