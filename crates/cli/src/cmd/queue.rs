//! `sealpost queue`: mail that waits to be sent, and what the operator does about it.
//!
//! A command only reads queues. It sends changes as requests to the node that runs the queue, and
//! waits until that has made them.

mod change;
mod chosen;
mod list;
mod requests;
mod rules;
mod selector;
mod show;
mod tls_report;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

pub(super) use self::show::source;
use crate::global::Global;

/// Arguments of `sealpost queue`.
#[derive(clap::Args)]
#[command(after_help = "Mail is named by its id, or selected by sender, recipient domain or mail server. \
                        hold, release and the like act on mail that is queued now; suspend also acts on \
                        mail that comes.\n
Examples:
  sealpost queue list
  sealpost queue list --summary
  sealpost queue show Q1f4
  sealpost queue retry --domain example.com
  sealpost queue suspend --site mx.example.com --for 2h --note \"they are down\"")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List queued mail: why each waits, and until when
    List(list::Args),
    /// Show queued mail: recipients, attempts, the last replies
    Show(show::Args),
    /// Send mail now instead of at its next attempt
    Retry(change::Retry),
    /// Do not send mail that is queued now, until it is released
    Hold(change::Hold),
    /// Send mail that is held
    Release(change::Release),
    /// Fail mail now, and report that to its senders
    Bounce(change::Bounce),
    /// Remove mail without a report to its senders
    Remove(change::Remove),
    /// Hold matching new mail, by a rule with an end
    Suspend(rules::Suspend),
    /// Withdraw rules of `suspend`, and send the mail that they hold
    Resume(rules::Resume),
    /// Show TLS sessions with other servers by day, domain and policy, as TLS reports have them
    TlsReport(tls_report::Args),
}

/// Runs it.
///
/// # Errors
/// As the command says.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    match args.command {
        Command::List(args) => list::run(args, global).await,
        Command::Show(args) => show::run(args, global).await,
        Command::Retry(args) => change::retry(args, global).await,
        Command::Hold(args) => change::hold(args, global).await,
        Command::Release(args) => change::release(args, global).await,
        Command::Bounce(args) => change::bounce(args, global).await,
        Command::Remove(args) => change::remove(args, global).await,
        Command::Suspend(args) => rules::suspend(args, global).await,
        Command::Resume(args) => rules::resume(args, global).await,
        Command::TlsReport(args) => tls_report::run(args, global).await,
    }
}
