//! `sealpost queue suspend` and `resume`: rules for mail that is queued and that comes.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use sealpost_base::Error;
use sealpost_mailformat::date::rfc3339;
use sealpost_queue::event::{Rule, Selector};
use sealpost_queue::request::Action;
use sealpost_queue::retry::MAX_HOLD;
use serde::Serialize;

use super::requests::{NodeReply, RequestState, print_replies, request_change};
use super::selector::{SelectorArgs, span};
use crate::exit::Usage;
use crate::global::Global;
use crate::output::counted;
use crate::queues::{NodeQueue, Queues};
use crate::store::Purpose;

/// Arguments of `sealpost queue suspend`.
#[derive(clap::Args)]
#[command(after_help = "`sealpost queue list --summary` shows the rules.\n
Examples:
  sealpost queue suspend --domain example.com --for 2h
  sealpost queue suspend --sender jane@example.org --note \"password stolen?\"
  sealpost queue suspend --site mx.example.com")]
pub(super) struct Suspend {
    #[command(flatten)]
    selector: SelectorArgs,
    /// For how long, such as 30m, 2h or 3d; 30d at most [default: 30d]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    time: Option<Duration>,
    /// Why, for `queue list`
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// On the queue of this node [default: on all]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

/// Arguments of `sealpost queue resume`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sealpost queue resume 3
  sealpost queue resume --domain example.com")]
pub(super) struct Resume {
    /// The rule's number, as `suspend` and `list --summary` print it
    #[arg(value_name = "RULE", conflicts_with_all = ["sender", "domain", "site"])]
    rule: Option<u32>,
    #[command(flatten)]
    selector: SelectorArgs,
    /// On the queue of this node [default: on all]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

/// A rule as it is shown.
#[derive(Debug, Serialize)]
pub(super) struct RuleRow {
    pub rule: u32,
    pub sender: Option<String>,
    pub domain: Option<String>,
    pub site: Option<String>,
    pub until: String,
    pub note: String,
}

impl From<&Rule> for RuleRow {
    fn from(rule: &Rule) -> Self {
        let Selector { sender, domain, site, .. } = rule.selector.clone();
        RuleRow {
            rule: rule.number,
            sender,
            domain,
            site,
            until: rfc3339(rule.until),
            note: rule.note.clone(),
        }
    }
}

impl RuleRow {
    pub fn line(&self) -> String {
        let (sender, domain, site) = (self.sender.clone(), self.domain.clone(), self.site.clone());
        let selector = Selector { sender, domain, site, ..Selector::default() };
        let note = if self.note.is_empty() { String::new() } else { format!(": {}", self.note) };
        format!(
            "rule {}: holds mail {} until {}{note}\n",
            self.rule,
            SelectorArgs::words(&selector),
            self.until
        )
    }
}

pub(super) async fn suspend(args: Suspend, global: &Global) -> Result<ExitCode> {
    let time = args.time.unwrap_or(MAX_HOLD);
    if time > MAX_HOLD {
        return Err(Usage("a rule is for 30 days at most".to_owned()).into());
    }
    let selector = args.selector.selector();
    if !selector.is_given() {
        let why = "say which mail with --sender, --domain or --site; `hold --all` is for all mail";
        return Err(Usage(why.to_owned()).into());
    }
    let queues = Queues::open(global, Purpose::Change).await?;
    let nodes = queues.of_node(args.node.as_deref()).await?;
    let until = queues.data_dir.clock.now().after(time);
    let mut replies = request_change(&queues, &nodes, &Action::AddRule(until, args.note), &selector).await?;
    for reply in replies.iter_mut().filter(|reply| reply.state == RequestState::Done) {
        let after = queues.queue(reply.id()).await?;
        let same = |rule: &&Rule| rule.selector == selector;
        reply.rule = after.view.state().rules().filter(same).map(|rule| rule.number).max();
    }
    let words = SelectorArgs::words(&selector);
    print_replies(global, &replies, |reply| match reply.rule {
        Some(rule) => format!("rule {rule} holds mail {words} until {}", rfc3339(until)),
        None => "has as many rules as it may have; withdraw one first".to_owned(),
    })
}

pub(super) async fn resume(args: Resume, global: &Global) -> Result<ExitCode> {
    let queues = Queues::open(global, Purpose::Change).await?;
    let mut nodes = queues.of_node(args.node.as_deref()).await?;
    let selector = args.selector.selector();
    let is_meant = |rule: &Rule| match args.rule {
        Some(number) => rule.number == number,
        None => rule.selector == selector,
    };
    if args.rule.is_none() && !selector.is_given() {
        let why =
            "name the rule by its number, or by the --sender, --domain and --site that it was made with";
        return Err(Usage(why.to_owned()).into());
    }
    let has = |queue: &NodeQueue| queue.view.state().rules().any(is_meant);
    nodes.retain(has);
    match (nodes.len(), args.rule) {
        (0, _) => {
            let why = "there is no such rule; `sealpost queue list --summary` shows the rules";
            return Err(Error::not_found(why).into());
        }
        (2.., Some(number)) => {
            let names: Vec<&str> = nodes.iter().map(|queue| queue.name.as_str()).collect();
            let why =
                format!("several nodes have a rule {number}; name one with --node: {}", names.join(", "));
            return Err(Usage(why).into());
        }
        _ => {}
    }
    let replies =
        request_change(&queues, &nodes, &Action::RemoveRule(args.rule.unwrap_or(0)), &selector).await?;
    print_replies(global, &replies, |reply: &NodeReply| {
        format!("has withdrawn {}, and sends the mail that was held", counted(reply.rules, "rule", "rules"))
    })
}
