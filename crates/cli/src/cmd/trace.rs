//! `sealpost trace`: a mail from its acceptance to its delivery or failure.

use std::process::ExitCode;

use anyhow::Result;
use sealpost_base::Timestamp;
use sealpost_mailformat::date::rfc3339;
use sealpost_queue::MailId;
use sealpost_queue::envelope::Mail;
use sealpost_queue::event::{Event, Outcome};
use sealpost_queue::status::waits;
use sealpost_queue::trace::{Traced, TracedMail};
use serde::Serialize;

use super::queue::source;
use super::stats::bytes;
use crate::exit::NOT_FOUND;
use crate::global::Global;
use crate::output::{counted, warn};
use crate::queues::{NodeQueue, Queues};
use crate::store::Purpose;

/// Recipients that are named of one mail or of one attempt.
const RECIPIENTS: usize = 50;

/// Arguments of `sealpost trace`.
#[derive(clap::Args)]
#[command(
    after_help = "Mail is known for 30 days after it left the queue, or as long as its history takes less than \
                  64 MiB. An address is one of the sender or of a recipient, or @DOMAIN for all of a domain.\n
Examples:
  sealpost trace joe@example.com
  sealpost trace '<20261126.abc@example.org>'
  sealpost trace Q1f4 --json
  sealpost trace @example.com --limit 100"
)]
pub struct Args {
    /// An address, a Message-ID, or the id of a mail; "<>" for reports
    #[arg(value_name = "MESSAGE-ID|ADDRESS|ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    mail: String,
    /// At most so many mails of each node, the last ones
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// On the queue of this node [default: on all]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

/// Something that happened to a mail.
#[derive(Debug, Serialize)]
pub(super) struct Step {
    at: String,
    /// `delivered`, `relayed`, `deferred`, `failed`, `held`, `released`, …
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    recipient: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl Step {
    fn new(at: Timestamp, what: &'static str, text: Option<String>) -> Self {
        Step { at: rfc3339(at), what, recipient: None, status: None, text }
    }

    /// What happened to `mail`, a step for each recipient of an attempt.
    pub(super) fn of(mail: &Mail, events: &[(Timestamp, Event)]) -> Vec<Step> {
        let (mut steps, mut server) = (Vec::new(), None);
        for (at, event) in events {
            // It stands right before the attempt that it is about.
            if let Event::Taken(taken) = event {
                server = Some(taken.to_string());
                continue;
            }
            let mut some = Self::of_event(mail, *at, event);
            if let Some(server) = server.take() {
                let taken = some.iter_mut().filter(|step| matches!(step.what, "delivered" | "relayed"));
                taken.for_each(|step| step.text = Some(server.clone()));
            }
            steps.extend(some);
        }
        steps
    }

    fn of_event(mail: &Mail, at: Timestamp, event: &Event) -> Vec<Step> {
        let one = |what, text| vec![Step::new(at, what, text)];
        match event {
            Event::Attempted(attempted) => {
                let outcomes = attempted.outcomes.iter().take(RECIPIENTS);
                let mut steps: Vec<Step> =
                    outcomes.map(|(place, outcome)| Self::of_outcome(mail, at, *place, outcome)).collect();
                let more = attempted.outcomes.len().saturating_sub(RECIPIENTS);
                if more > 0 {
                    let text = format!("{} more", counted(more, "recipient", "recipients"));
                    steps.push(Step::new(at, "attempted", Some(text)));
                }
                steps
            }
            Event::DelayReported(_) => one("delay_reported", None),
            Event::Held(held) if held.rule > 0 => {
                one("held", Some(format!("by rule {}, until {}", held.rule, rfc3339(held.until))))
            }
            Event::Held(held) => one("held", Some(format!("by the operator, until {}", rfc3339(held.until)))),
            Event::Released(_) => one("released", None),
            Event::Retried(_) => one("retried", Some("by the operator".to_owned())),
            Event::Removed(_) => one("removed", Some("by the operator".to_owned())),
            Event::Canceled(_) => one("canceled", Some("by the sender, unless it was too late".to_owned())),
            _ => Vec::new(),
        }
    }

    fn of_outcome(mail: &Mail, at: Timestamp, place: u16, outcome: &Outcome) -> Step {
        let (what, failure) = match outcome {
            Outcome::Delivered => ("delivered", None),
            Outcome::DeliveredHere => ("delivered_here", None),
            Outcome::Relayed => ("relayed", None),
            Outcome::Expanded => ("expanded", None),
            Outcome::Deferred(failure) => ("deferred", Some(failure)),
            Outcome::Failed(failure) => ("failed", Some(failure)),
        };
        let address = mail.recipients.get(usize::from(place)).map(|recipient| recipient.address.clone());
        Step {
            recipient: Some(address.unwrap_or_else(|| format!("recipient {}", place + 1))),
            status: failure.map(|failure| failure.status.to_string()),
            text: failure.map(ToString::to_string),
            ..Step::new(at, what, None)
        }
    }

    pub(super) fn line(&self) -> String {
        let what = match self.what {
            "delivered" => "delivered to its server",
            "delivered_here" => "delivered into a mailbox here",
            "relayed" => "handed on; that server does not report delivery",
            "expanded" => "sent on to the several addresses of an alias",
            "failed" => "failed permanently",
            "delay_reported" => "the delay was reported to the sender",
            what => what,
        };
        let recipient = self.recipient.as_ref().map(|address| format!("{address}: ")).unwrap_or_default();
        let text = self.text.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
        format!("  {}  {recipient}{what}{text}\n", self.at)
    }
}

/// A mail that was found.
#[derive(Serialize)]
struct Found {
    node: String,
    id: String,
    /// Whether it is still queued, and why.
    queued: bool,
    why: Option<String>,
    until: Option<String>,
    from: String,
    recipients: Vec<String>,
    recipient_count: usize,
    message_id: Option<String>,
    source: &'static str,
    size: u64,
    accepted: String,
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct Answer {
    mails: Vec<Found>,
    /// Earlier mails match as well.
    has_more: bool,
    /// What was accepted before is not known; of the queue that knows least.
    since: Option<String>,
}

/// Runs it.
///
/// # Errors
/// What the store says.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let queues = Queues::open(global, Purpose::Read).await?;
    let wanted = Traced::parse(&args.mail);
    let now = queues.data_dir.clock.now();
    let mut answer = Answer { mails: Vec::new(), has_more: false, since: None };
    let mut since = None;
    for queue in queues.of_node(args.node.as_deref()).await? {
        let trace = queue.view.trace(&wanted, args.limit).await?;
        answer.has_more |= trace.has_more;
        since = since.max(trace.since);
        if trace.unreadable > 0 {
            warn(format_args!(
                "sealpost: {}: {} of its history cannot be read; `sealpost check` names them",
                queue.name,
                counted(trace.unreadable, "object", "objects")
            ));
        }
        answer.mails.extend(trace.mails.iter().map(|(id, traced)| Found::of(&queue, *id, traced, now)));
    }
    answer.since = since.map(rfc3339);
    global.output().show(&answer, |answer| answer.lines(&args.mail))?;
    Ok(if answer.mails.is_empty() { ExitCode::from(NOT_FOUND) } else { ExitCode::SUCCESS })
}

impl Found {
    fn of(queue: &NodeQueue, id: MailId, traced: &TracedMail, now: Timestamp) -> Self {
        let (mail, state) = (&traced.mail, queue.view.state());
        let waits = state.rows().get(id).map(|row| waits(state, id, row, now));
        let addresses = mail.recipients.iter().take(RECIPIENTS);
        Found {
            node: queue.name.clone(),
            id: id.to_string(),
            queued: waits.is_some(),
            why: waits.as_ref().map(|waits| waits.why.clone()),
            until: waits.and_then(|waits| waits.until).map(rfc3339),
            from: mail.from.clone(),
            recipients: addresses.map(|recipient| recipient.address.clone()).collect(),
            recipient_count: mail.recipients.len(),
            message_id: mail.message_id.clone(),
            source: source(mail),
            size: mail.facts.size,
            accepted: rfc3339(mail.accepted),
            steps: Step::of(mail, &traced.steps),
        }
    }

    fn lines(&self) -> String {
        let from = if self.from.is_empty() { "<>" } else { &self.from };
        let more = self.recipient_count - self.recipients.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message_id = self.message_id.as_deref().unwrap_or("no Message-ID");
        let mut text = format!(
            "{} on node {}: from {from} to {}{more}, {}, {message_id}\n  {}  accepted ({})\n",
            self.id,
            self.node,
            self.recipients.join(", "),
            bytes(self.size),
            self.accepted,
            self.source
        );
        self.steps.iter().for_each(|step| text.push_str(&step.line()));
        if let Some(why) = &self.why {
            let until = self.until.as_ref().map(|until| format!("; until {until}")).unwrap_or_default();
            text.push_str(&format!("  still queued: {why}{until}\n"));
        }
        text
    }
}

impl Answer {
    fn lines(&self, wanted: &str) -> String {
        let mut text = self.mails.iter().map(Found::lines).collect::<Vec<_>>().join("\n");
        let since = self.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
        if self.mails.is_empty() {
            text = format!("no mail of {wanted} is known{since}\n");
        } else if self.has_more {
            text.push_str("earlier mail matches as well; --limit shows more\n");
        }
        text
    }
}
