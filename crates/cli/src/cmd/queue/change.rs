//! `sealpost queue retry`, `hold`, `release`, `bounce` and `remove`: mail that is queued now.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use sealpost_queue::event::Selector;
use sealpost_queue::request::Action;
use sealpost_queue::retry::MAX_HOLD;

use super::requests::{NodeReply, mails, meant, print_replies, request_change};
use super::selector::{MailArgs, span};
use crate::exit::Usage;
use crate::global::Global;
use crate::queues::Queues;
use crate::store::Purpose;

/// Arguments of `sealpost queue retry`.
#[derive(clap::Args)]
#[command(after_help = "Held mail stays held: `release` sends it.\n
Examples:
  sealpost queue retry Q1f4
  sealpost queue retry --domain example.com
  sealpost queue retry --all")]
pub(super) struct Retry {
    #[command(flatten)]
    mail: MailArgs,
    /// All mail
    #[arg(long)]
    all: bool,
}

/// Arguments of `sealpost queue hold`.
#[derive(clap::Args)]
#[command(
    after_help = "New mail is not held: see `sealpost queue suspend`. With --all the node sends no mail, \
                        new mail included, until `release --all`.\n
Examples:
  sealpost queue hold Q1f4 --for 2h
  sealpost queue hold --sender jane@example.org
  sealpost queue hold --all --note \"checking what jane's account sent\""
)]
pub(super) struct Hold {
    #[command(flatten)]
    mail: MailArgs,
    /// All mail, until `release --all`
    #[arg(long, conflicts_with_all = ["ids", "sender", "domain", "site", "time"])]
    all: bool,
    /// For how long, such as 30m, 2h or 3d; 30d at most [default: 30d]
    #[arg(long = "for", value_name = "TIME", value_parser = span, id = "time")]
    time: Option<Duration>,
    /// Why everything is held, for `queue list`
    #[arg(long, value_name = "TEXT", requires = "all")]
    note: Option<String>,
}

/// Arguments of `sealpost queue release`.
#[derive(clap::Args)]
#[command(
    after_help = "Released mail is sent now, and fails five days from now. A rule holds its mail again \
                        when that is due: withdraw the rule with `resume`. With --all the queue \
                        sends again after `hold --all`, or after it was restored from a backup; mail \
                        held by its own hold or by a rule stays held.\n
Examples:
  sealpost queue release Q1f4
  sealpost queue release --sender jane@example.org
  sealpost queue release --all"
)]
pub(super) struct Release {
    #[command(flatten)]
    mail: MailArgs,
    /// The whole queue
    #[arg(long, conflicts_with_all = ["ids", "sender", "domain", "site"])]
    all: bool,
}

/// Arguments of `sealpost queue bounce`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sealpost queue bounce Q1f4
  sealpost queue bounce --domain exmaple.com")]
pub(super) struct Bounce {
    #[command(flatten)]
    mail: MailArgs,
    /// All mail
    #[arg(long)]
    all: bool,
}

/// Arguments of `sealpost queue remove`.
#[derive(clap::Args)]
#[command(after_help = "The server sends no report: the sender believes that the mail was delivered. Use \
                        `bounce` unless the mail is abuse.\n
Examples:
  sealpost queue remove Q1f4
  sealpost queue remove --sender jane@example.org --domain example.com")]
pub(super) struct Remove {
    #[command(flatten)]
    mail: MailArgs,
    /// All mail
    #[arg(long)]
    all: bool,
}

pub(super) async fn retry(args: Retry, global: &Global) -> Result<ExitCode> {
    let text = |reply: &NodeReply| format!("sends {} now, but for held mail", mails(reply.mails));
    about_mail(args.mail, args.all, &Action::Retry, global, text).await
}

pub(super) async fn hold(args: Hold, global: &Global) -> Result<ExitCode> {
    if args.all {
        let note = args.note.unwrap_or_else(|| "held by the operator".to_owned());
        let text = |_: &NodeReply| "sends nothing until `sealpost queue release --all`".to_owned();
        return about_all(args.mail.node.as_deref(), &Action::HoldAll(note), global, text).await;
    }
    let time = args.time.unwrap_or(MAX_HOLD);
    if time > MAX_HOLD {
        return Err(Usage("mail is held for 30 days at most".to_owned()).into());
    }
    let queues = Queues::open(global, Purpose::Change).await?;
    let action = Action::Hold(queues.data_dir.clock.now().after(time));
    let text = |reply: &NodeReply| format!("holds {}", mails(reply.mails));
    on(&queues, &args.mail, false, &action, global, text).await
}

pub(super) async fn release(args: Release, global: &Global) -> Result<ExitCode> {
    if args.all {
        let text = |_: &NodeReply| "sends again".to_owned();
        return about_all(args.mail.node.as_deref(), &Action::ReleaseAll, global, text).await;
    }
    let text = |reply: &NodeReply| format!("has released {}", mails(reply.mails));
    about_mail(args.mail, false, &Action::Release, global, text).await
}

pub(super) async fn bounce(args: Bounce, global: &Global) -> Result<ExitCode> {
    let text = |reply: &NodeReply| format!("has bounced {}", mails(reply.mails));
    about_mail(args.mail, args.all, &Action::Bounce, global, text).await
}

pub(super) async fn remove(args: Remove, global: &Global) -> Result<ExitCode> {
    let text = |reply: &NodeReply| format!("has removed {}", mails(reply.mails));
    about_mail(args.mail, args.all, &Action::Remove, global, text).await
}

async fn about_mail(
    mail: MailArgs,
    all: bool,
    action: &Action,
    global: &Global,
    text: impl Fn(&NodeReply) -> String,
) -> Result<ExitCode> {
    let queues = Queues::open(global, Purpose::Change).await?;
    on(&queues, &mail, all, action, global, text).await
}

async fn on(
    queues: &Queues,
    mail: &MailArgs,
    all: bool,
    action: &Action,
    global: &Global,
    text: impl Fn(&NodeReply) -> String,
) -> Result<ExitCode> {
    let selector = mail.selector();
    if all && selector.is_given() {
        return Err(Usage("--all is for all mail; leave it out to select some".to_owned()).into());
    }
    let selector = if all { Selector { all: Some(true), ..selector } } else { selector };
    let nodes = meant(queues, mail.node.as_deref(), &selector).await?;
    print_replies(global, &request_change(queues, &nodes, action, &selector).await?, text)
}

async fn about_all(
    node: Option<&str>,
    action: &Action,
    global: &Global,
    text: impl Fn(&NodeReply) -> String,
) -> Result<ExitCode> {
    let queues = Queues::open(global, Purpose::Change).await?;
    let nodes = queues.of_node(node).await?;
    print_replies(global, &request_change(&queues, &nodes, action, &Selector::default()).await?, text)
}
