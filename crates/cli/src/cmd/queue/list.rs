//! `sealpost queue list`: what waits, why, and until when.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use sealpost_base::Timestamp;
use sealpost_mailformat::date::rfc3339;
use sealpost_queue::MailId;
use sealpost_queue::state::{Flags, Row, State, seconds};
use sealpost_queue::status::waits;
use serde::Serialize;

use super::chosen::{Chosen, choose};
use super::rules::RuleRow;
use super::selector::MailArgs;
use crate::cmd::stats::bytes;
use crate::global::Global;
use crate::output::{age, counted};
use crate::queues::{NodeQueue, Queues};
use crate::store::Purpose;

/// Recipients that are named of one mail.
const RECIPIENTS: usize = 3;
/// Different reasons that a summary counts; more are counted together.
const REASONS: usize = 1000;
/// Domains that a summary names: those with the most mail.
const DOMAINS: usize = 20;

/// Arguments of `sealpost queue list`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sealpost queue list
  sealpost queue list --domain example.com --limit 1000
  sealpost queue list --site mx.example.com
  sealpost queue list --summary
  sealpost queue list --json | jq '.mails[].why'")]
pub(super) struct Args {
    #[command(flatten)]
    mail: MailArgs,
    /// At most so many mails, the oldest first
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Print counts by reason and domain, and rules, instead of mails
    #[arg(long, conflicts_with_all = ["ids", "sender", "domain", "site"])]
    summary: bool,
}

/// A mail in the list.
#[derive(Serialize)]
struct MailRow {
    node: String,
    id: String,
    /// Empty: a report. Null: it cannot be read.
    from: Option<String>,
    /// The first recipients.
    recipients: Vec<String>,
    /// Recipients that are left.
    left: u16,
    size: u32,
    accepted: String,
    attempts: u8,
    why: String,
    until: Option<String>,
    #[serde(skip)]
    age: String,
}

#[derive(Serialize)]
struct Listed {
    mails: Vec<MailRow>,
    /// Whether there are more than requested.
    has_more: bool,
    /// Mails in these queues.
    queued: usize,
}

pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let queues = Queues::open(global, Purpose::Read).await?;
    let nodes = queues.of_node(args.mail.node.as_deref()).await?;
    let now = queues.data_dir.clock.now();
    if args.summary {
        let summaries: Vec<Summary> = nodes.iter().map(|queue| Summary::of(queue, now)).collect();
        global.output().show(&summaries, |all| all.iter().map(Summary::lines).collect())?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = args.mail.selector();
    let mut listed = Listed { mails: Vec::new(), has_more: false, queued: 0 };
    for queue in &nodes {
        listed.queued += queue.view.state().len();
        let (chosen, has_more) = choose(queue, &wanted, args.limit - listed.mails.len()).await;
        listed.has_more |= has_more;
        listed.mails.extend(chosen.into_iter().filter_map(|chosen| MailRow::of(queue, chosen, now)));
    }
    for queue in &nodes {
        if let Some(why) = queue.view.state().all_held() {
            global.output().note(format_args!("{}: the queue is on hold: {why}", queue.name));
        }
    }
    let has_several = nodes.len() > 1;
    global.output().show(&listed, |listed| listed.lines(has_several))?;
    Ok(ExitCode::SUCCESS)
}

impl Listed {
    fn lines(&self, has_several: bool) -> String {
        let mut text: String = self.mails.iter().map(|mail| mail.line(has_several)).collect();
        match (self.queued, self.has_more) {
            (0, _) => text.push_str("the queue is empty\n"),
            (queued, true) => text.push_str(&format!(
                "the first {} of {}; --limit shows more, --summary counts them\n",
                self.mails.len(),
                counted(queued, "mail", "mails")
            )),
            (queued, false) if self.mails.is_empty() => {
                text.push_str(&format!("none of {} matches\n", counted(queued, "mail", "mails")));
            }
            _ => {}
        }
        text
    }
}

impl MailRow {
    /// A chosen mail; `None` if it is not queued.
    fn of(queue: &NodeQueue, Chosen { id, mail }: Chosen, now: Timestamp) -> Option<Self> {
        let state = queue.view.state();
        let row = state.rows().get(id)?;
        let recipients = mail.as_ref().map(|mail| mail.recipients.iter().take(RECIPIENTS));
        let waits = waits(state, id, row, now);
        let why = match &mail {
            Ok(_) => waits.why,
            Err(e) => format!("it cannot be read: {e}"),
        };
        Some(MailRow {
            node: queue.name.clone(),
            id: id.to_string(),
            recipients: recipients.into_iter().flatten().map(|r| r.address.clone()).collect(),
            from: mail.ok().map(|mail| mail.from),
            left: row.recipients,
            size: row.size,
            accepted: rfc3339(seconds(row.accepted)),
            attempts: row.attempts,
            why,
            until: waits.until.map(rfc3339),
            age: age(now.since(seconds(row.accepted))),
        })
    }

    fn line(&self, has_several: bool) -> String {
        let node = if has_several { format!("{} ", self.node) } else { String::new() };
        let from = match self.from.as_deref() {
            Some("") => "<>",
            Some(from) => from,
            None => "?",
        };
        let more = usize::from(self.left).saturating_sub(self.recipients.len());
        let more = if more > 0 { format!(" +{more}") } else { String::new() };
        let until = self.until.as_ref().map(|until| format!("; until {until}")).unwrap_or_default();
        let (id, age, to, size) = (&self.id, &self.age, self.recipients.join(", "), bytes(self.size.into()));
        let attempts = counted(self.attempts, "attempt", "attempts");
        format!("{node}{id}  {age}  {from} -> {to}{more}  {size}  {attempts}: {}{until}\n", self.why)
    }
}

/// What is in one queue, counted.
#[derive(Serialize)]
struct Summary {
    node: String,
    /// The process that runs it, if it is of another node.
    run_by: Option<String>,
    mails: usize,
    bytes: u64,
    oldest: Option<String>,
    on_hold: Option<String>,
    reasons: Vec<Counted>,
    domains: Vec<Counted>,
    rules: Vec<RuleRow>,
    accepted: u64,
    delivered: u64,
    failed: u64,
    removed: u64,
}

#[derive(Serialize)]
struct Counted {
    what: String,
    mails: u64,
}

impl Summary {
    fn of(queue: &NodeQueue, now: Timestamp) -> Self {
        let state = queue.view.state();
        let (mut reasons, mut bytes, mut oldest) = (BTreeMap::<String, u64>::new(), 0, None);
        for (id, row) in state.rows().from(MailId(0)) {
            bytes += u64::from(row.size);
            oldest = oldest.into_iter().chain([row.accepted]).min();
            let mut why = reason(state, id, row, now);
            if reasons.len() >= REASONS && !reasons.contains_key(&why) {
                "other reasons".clone_into(&mut why);
            }
            *reasons.entry(why).or_default() += 1;
        }
        let most_first = |counts: Vec<(String, u64)>| {
            let mut counts: Vec<_> =
                counts.into_iter().map(|(what, mails)| Counted { what, mails }).collect();
            counts.sort_by(|a, b| b.mails.cmp(&a.mails).then_with(|| a.what.cmp(&b.what)));
            counts
        };
        let domains = state.domains().map(|(domain, mails)| (domain.to_owned(), u64::from(mails))).collect();
        let mut domains = most_first(domains);
        domains.truncate(DOMAINS);
        let totals = state.totals();
        let run_by = state.owner().map(|(_, name)| name.to_owned()).filter(|name| *name != queue.name);
        Summary {
            node: queue.name.clone(),
            run_by,
            mails: state.len(),
            bytes,
            oldest: oldest.map(|at| rfc3339(seconds(at))),
            on_hold: state.all_held().map(str::to_owned),
            reasons: most_first(reasons.into_iter().collect()),
            domains,
            rules: state.rules().map(RuleRow::from).collect(),
            accepted: totals.accepted,
            delivered: totals.delivered,
            failed: totals.failed,
            removed: totals.removed,
        }
    }

    fn lines(&self) -> String {
        let mut text = format!("node {}: {}", self.node, counted(self.mails, "mail", "mails"));
        if let Some(oldest) = &self.oldest {
            text.push_str(&format!(", {}, the oldest since {oldest}", bytes(self.bytes)));
        }
        text.push('\n');
        if let Some(node) = &self.run_by {
            text.push_str(&format!("  run by node {node}\n"));
        }
        if let Some(why) = &self.on_hold {
            text.push_str(&format!("  on hold: {why}\n"));
        }
        for rule in &self.rules {
            text.push_str(&format!("  {}", rule.line()));
        }
        for Counted { what, mails } in &self.reasons {
            text.push_str(&format!("  {mails:>8}  {what}\n"));
        }
        if !self.domains.is_empty() {
            text.push_str("  by domain:\n");
        }
        for Counted { what, mails } in &self.domains {
            text.push_str(&format!("  {mails:>8}  {what}\n"));
        }
        text.push_str(&format!(
            "  since the queue began: {} accepted; {} delivered, {} failed; {} removed\n",
            counted(self.accepted, "mail", "mails"),
            counted(self.delivered, "recipient", "recipients"),
            self.failed,
            self.removed
        ));
        text
    }
}

/// Why a mail waits, so that mails that wait for the same reason have the same.
fn reason(state: &State, id: MailId, row: &Row, now: Timestamp) -> String {
    if row.flags.has(Flags::HELD) {
        return match row.rule {
            0 => "held by the operator".to_owned(),
            rule => format!("held by rule {rule}"),
        };
    }
    if row.flags.has(Flags::FUTURE) {
        return "to be sent later, as its sender wants".to_owned();
    }
    if row.flags.has(Flags::SENDING) {
        return "being sent".to_owned();
    }
    match state.rows().failure(id) {
        Some(failure) if failure.is_reply => format!("{} replied {}", failure.host, failure.status),
        Some(failure) => failure.to_string(),
        None if seconds(row.next) > now => "an attempt failed".to_owned(),
        None => "waits for a connection".to_owned(),
    }
}
