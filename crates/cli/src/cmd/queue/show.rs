//! `sealpost queue show`: everything that is known of queued mail.

use std::process::ExitCode;

use anyhow::Result;
use futures::StreamExt;
use sealpost_base::{AccountId, Timestamp};
use sealpost_mailformat::date::rfc3339;
use sealpost_queue::MailId;
use sealpost_queue::envelope::{Body, Mail, Source, TlsDemand};
use sealpost_queue::state::{expires, seconds};
use sealpost_queue::status::waits;
use sealpost_queue::trace::Traced;
use serde::Serialize;

use super::chosen::{Chosen, choose};
use super::requests::meant;
use super::selector::MailArgs;
use crate::cmd::stats::bytes;
use crate::cmd::trace::Step;
use crate::data_dir::DataDir;
use crate::exit::Usage;
use crate::global::Global;
use crate::queues::{NodeQueue, Queues};
use crate::store::Purpose;

/// The most mails shown at once.
const MAILS: usize = 100;
/// The most recipients shown of one mail without `--json`.
const RECIPIENTS: usize = 50;

/// Arguments of `sealpost queue show`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sealpost queue show Q1f4
  sealpost queue show --site mx.example.com")]
pub(super) struct Args {
    #[command(flatten)]
    mail: MailArgs,
}

#[derive(Serialize)]
struct Shown {
    node: String,
    id: String,
    why: String,
    until: Option<String>,
    from: String,
    account: Option<String>,
    message_id: Option<String>,
    source: &'static str,
    size: u32,
    accepted: String,
    /// The time after which it fails.
    expires: String,
    attempts: u8,
    next: String,
    tls: &'static str,
    /// Whether the body is an object of its own.
    large: bool,
    recipients: Vec<RecipientRow>,
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct RecipientRow {
    address: String,
    /// `left` or `done`.
    state: &'static str,
    status: Option<String>,
    last: Option<String>,
}

pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let queues = Queues::open(global, Purpose::Read).await?;
    let selector = args.mail.selector();
    let nodes = meant(&queues, args.mail.node.as_deref(), &selector).await?;
    let now = queues.data_dir.clock.now();
    let mut shown = Vec::new();
    for queue in &nodes {
        let (chosen, has_more) = choose(queue, &selector, MAILS - shown.len()).await;
        for Chosen { id, .. } in chosen {
            shown.push(show(&queues.data_dir, queue, id, now).await?);
        }
        if has_more {
            global.output().note(format_args!("the first {MAILS}; `sealpost queue list` names all"));
            break;
        }
    }
    global.output().show(&shown, |shown| shown.iter().map(Shown::lines).collect::<Vec<_>>().join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

async fn show(data_dir: &DataDir, queue: &NodeQueue, id: MailId, now: Timestamp) -> Result<Shown> {
    let (view, state) = (&queue.view, queue.view.state());
    let row = state.rows().get(id).ok_or_else(|| Usage(format!("{id} is not queued")))?;
    let mail = view.read(id).await?;
    let trace = view.trace(&Traced::Mail(id), 1).await?;
    let steps = trace.mails.get(&id).map(|traced| Step::of(&mail, &traced.steps)).unwrap_or_default();
    let waits = waits(state, id, row, now);
    let recipients = mail.recipients.iter().enumerate().map(|(place, recipient)| {
        let left = state.left(id, place);
        let last = left.clone().flatten();
        RecipientRow {
            address: recipient.address.clone(),
            state: if left.is_some() { "left" } else { "done" },
            status: last.as_ref().map(|failure| failure.status.to_string()),
            last: last.map(|failure| failure.to_string()),
        }
    });
    Ok(Shown {
        node: queue.name.clone(),
        id: id.to_string(),
        why: waits.why,
        until: waits.until.map(rfc3339),
        account: account_name(data_dir, mail.account).await,
        message_id: mail.message_id.clone(),
        source: source(&mail),
        size: row.size,
        accepted: rfc3339(mail.accepted),
        expires: rfc3339(expires(row)),
        attempts: row.attempts,
        next: rfc3339(seconds(row.next)),
        tls: match mail.tls {
            TlsDemand::Policy => "by policy",
            TlsDemand::Require => "required",
            TlsDemand::Waive => "not required",
        },
        large: matches!(mail.body, Body::Object(_)),
        recipients: recipients.collect(),
        from: mail.from,
        steps,
    })
}

/// Where a mail comes from, in a word.
pub(in crate::cmd) fn source(mail: &Mail) -> &'static str {
    match mail.source {
        Source::Submission => "submission",
        Source::Forward => "forward",
        Source::Report => "report",
        Source::Vacation => "vacation",
    }
}

/// The name of an account; its id if no record that can be read has it.
async fn account_name(data_dir: &DataDir, id: Option<AccountId>) -> Option<String> {
    let id = id?;
    let mut records = data_dir.directory.list();
    while let Some(record) = records.next().await {
        if let Ok(record) = record
            && record.id == id
        {
            return Some(record.name.to_string());
        }
    }
    Some(id.to_string())
}

impl Shown {
    fn lines(&self) -> String {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        let until = self.until.as_ref().map(|until| format!("; until {until}")).unwrap_or_default();
        let from = if self.from.is_empty() { "<>" } else { &self.from };
        let mut text = format!(
            "{} on node {}: {}{until}\n\
             from        {from}\naccount     {}\nMessage-ID  {}\nsource      {}\nsize        {}\naccepted    {}\n\
             attempts    {}, the next at {}\nexpires     {}\nTLS         {}\nrecipients\n",
            self.id,
            self.node,
            self.why,
            or_none(&self.account),
            or_none(&self.message_id),
            self.source,
            bytes(self.size.into()),
            self.accepted,
            self.attempts,
            self.next,
            self.expires,
            self.tls,
        );
        for row in self.recipients.iter().take(RECIPIENTS) {
            let last = match (&row.last, row.state) {
                (Some(last), _) => last.as_str(),
                (None, "done") => "done",
                (None, _) => "no attempt yet",
            };
            text.push_str(&format!("  {}: {last}\n", row.address));
        }
        if self.recipients.len() > RECIPIENTS {
            text.push_str(&format!("  and {} more; --json shows all\n", self.recipients.len() - RECIPIENTS));
        }
        if !self.steps.is_empty() {
            text.push_str("history\n");
        }
        self.steps.iter().for_each(|step| text.push_str(&step.line()));
        text
    }
}
