//! Reports what became of submissions: from a queue's state into the logs of their accounts, by their public
//! keys (RFC 8621 §7, `deliveryStatus`).
//!
//! The queue keeps what it has not reported. After a crash a node reports again, which changes nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use sealpost_account::submission::{Delivered, SubmissionNews};
use sealpost_base::{Error, Position, Result, SubmissionId};
use sealpost_directory::AccountName;
use sealpost_queue::event::{Event, Told};
use sealpost_queue::state::{Arrival, News, QueuedSubmission};
use sealpost_queue::{MailId, Queue};
use sealpost_session::Context;

/// News that follow each other so closely are one entry of an account's log.
const GATHER: Duration = Duration::from_millis(100);
/// Before a report is tried again that failed.
const RETRY: Duration = Duration::from_secs(10);
/// Submissions whose news are reported at once.
const AT_ONCE: usize = 500;

/// Reports what becomes of submissions in `queue` to their accounts. Never ends.
pub(super) async fn record_outcomes(queue: Queue, ctx: Arc<Context>) {
    let mut teller = Teller { queue, ctx, told: HashMap::new() };
    let mut changes = teller.queue.changes();
    loop {
        let is_complete = teller.tell_some().await;
        let retry = async {
            match is_complete {
                true => std::future::pending().await,
                false => tokio::time::sleep(RETRY).await,
            }
        };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = retry => {}
        }
        tokio::time::sleep(GATHER).await;
    }
}

struct Teller {
    queue: Queue,
    ctx: Arc<Context>,
    /// Up to where it has reported what the log does not say yet.
    told: HashMap<MailId, Position>,
}

/// What is to be reported of one submission.
struct Untold {
    mail: MailId,
    submission: SubmissionId,
    news: Vec<SubmissionNews>,
}

impl Teller {
    /// Whether all accounts know what there is to report.
    async fn tell_some(&mut self) -> bool {
        let (upto, accounts) = self.untold();
        let mut is_complete = true;
        for (account, untold) in accounts {
            let mails: Vec<MailId> = untold.iter().map(|one| one.mail).collect();
            match tell_account(&self.ctx, &account, untold).await {
                Ok(()) => {
                    self.told.extend(mails.iter().map(|mail| (*mail, upto)));
                    self.queue.record([Event::Told(Told { mails, upto })]);
                }
                Err(error) => {
                    is_complete = false;
                    tracing::warn!(account, %error, "cannot report to an account what became of its submissions");
                }
            }
        }
        is_complete
    }

    /// What accounts do not know, and the position of the queue's log that it is of.
    fn untold(&mut self) -> (Position, BTreeMap<String, Vec<Untold>>) {
        let state = self.queue.state();
        let mut accounts: BTreeMap<String, Vec<Untold>> = BTreeMap::new();
        let mut left = AT_ONCE;
        self.told.retain(|mail, upto| {
            let is_recorded = |news: &[(Position, News)]| news.iter().all(|(at, _)| at > upto);
            state.submission(*mail).is_some_and(|queued| !is_recorded(&queued.news))
        });
        for (mail, queued) in state.untold() {
            let news = self.news_of(mail, queued);
            if news.is_empty() {
                continue;
            }
            let untold = Untold { mail, submission: queued.of.id, news };
            accounts.entry(queued.of.account.clone()).or_default().push(untold);
            left -= 1;
            if left == 0 {
                break;
            }
        }
        (state.position(), accounts)
    }

    fn news_of(&self, mail: MailId, queued: &QueuedSubmission) -> Vec<SubmissionNews> {
        let told = self.told.get(&mail).copied().unwrap_or(Position::ZERO);
        let news = queued.news.iter().filter(|(at, _)| *at > told);
        news.map(|(_, news)| news_for_account(news)).collect()
    }
}

/// Appends the news to the account's log. One that is not there any more needs none.
async fn tell_account(ctx: &Context, name: &str, untold: Vec<Untold>) -> Result<()> {
    let name = AccountName::parse(name).map_err(|_| Error::internal("a submission of no account"))?;
    let Some(account) = ctx.directory.find(&name).await? else { return Ok(()) };
    let reports = untold.into_iter().map(|Untold { submission, news, .. }| {
        ctx.accounts.report_submission(account.id, &account.public, submission, news)
    });
    try_join_all(reports).await.map(drop)
}

fn news_for_account(news: &News) -> SubmissionNews {
    match news {
        News::Queued => SubmissionNews::Queued,
        News::Canceled => SubmissionNews::Canceled,
        News::Recipient { place, arrival, reply } => SubmissionNews::Recipient {
            place: *place,
            delivered: match arrival {
                Arrival::Waiting => Delivered::Queued,
                Arrival::Here => Delivered::Yes,
                Arrival::Elsewhere => Delivered::Unknown,
                Arrival::Failed => Delivered::No,
            },
            reply: reply.clone(),
        },
    }
}
