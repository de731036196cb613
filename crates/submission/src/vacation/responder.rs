//! [`VacationResponder`]: decides on mail that was delivered, and replies.
//!
//! A session hands over what it has delivered and continues ([`VacationResponder::delivered`]); a task
//! ([`VacationResponder::run`]) does the rest. A message whose turn does not come, because too many
//! wait or the process ends, gets no reply. None gets two: a reply is recorded before it is queued.
//!
//! An account without a vacation response costs nothing. One with a response whose dates are known
//! costs nothing outside of them; nor does a sender that has had a reply, or an account that has
//! replied too often.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{StreamExt, stream};
use lru::LruCache;
use sealpost_base::metrics::Counter;
use sealpost_base::{AccountId, Budget, Clock, Error, Kind, Permit, Random, Result, Timestamp, limits};
use sealpost_directory::{AccountName, AccountRecord, Directory, VacationMark};
use sealpost_queue::envelope::{Notify, Recipient, Source, TlsDemand};
use sealpost_vault::mail_key::MailKeys;
use tokio::sync::mpsc;

use super::Vacations;
use super::original::{Addressed, HeaderScan, Original};
use super::reply::reply;
use super::sent_replies::{SenderTag, SentReplies, Verdict, tags};
use super::settings::VacationSettings;
use super::unanswerable::is_automatic_sender;
use crate::outbox::{Order, Outbox, Refusal};
use crate::sender::may_send_as;

/// Messages that are decided on at once.
const AT_ONCE: usize = 4;
const CACHED: NonZeroUsize = NonZeroUsize::new(limits::VACATION_ACCOUNTS_CACHED).expect("not zero");
const LISTS: NonZeroUsize = NonZeroUsize::new(limits::VACATION_LISTS_CACHED).expect("not zero");

/// What a responder is made of.
pub struct ResponderParts {
    /// What is answered.
    pub vacations: Vacations,
    /// Whose addresses are whose, and to whom was replied.
    pub directory: Directory,
    /// What the list of replies is sealed under.
    pub mail_keys: MailKeys,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// For the boundaries of parts.
    pub random: Arc<dyn Random>,
    /// What headers are drawn from.
    pub memory: Budget,
}

/// Replies to delivered mail. Cheap to clone.
#[derive(Clone)]
pub struct VacationResponder(Arc<Inner>);

struct Inner {
    parts: ResponderParts,
    waiting: mpsc::Sender<Job>,
    jobs: tokio::sync::Mutex<mpsc::Receiver<Job>>,
    /// Settings without their texts.
    dates: Mutex<LruCache<AccountId, (VacationMark, VacationSettings)>>,
    sent: Mutex<LruCache<AccountId, Arc<SentReplies>>>,
    metrics: VacationMetrics,
}

/// What a responder counts.
#[derive(Debug, Default)]
pub struct VacationMetrics {
    /// Replies that the queue took.
    pub sent: Counter,
    /// Messages without a reply because their account has replied too often.
    pub limited: Counter,
    /// Messages without a decision: too many waited, there was no memory, or the store failed.
    pub dropped: Counter,
}

/// An account that has, or has had, a vacation response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    /// The account.
    pub id: AccountId,
    /// Its name.
    pub name: AccountName,
    /// Its vacation response.
    pub mark: VacationMark,
}

/// A message that arrives for such an account.
pub struct Scanning {
    scan: HeaderScan,
    permit: Permit,
}

struct Job {
    account: Away,
    sender: Arc<str>,
    original: Arc<(Original, Permit)>,
}

impl Scanning {
    /// Takes the next bytes of the message.
    pub fn push(&mut self, bytes: &[u8]) {
        self.scan.push(bytes);
    }

    /// Whether the rest of the message is of no interest.
    pub fn is_done(&self) -> bool {
        self.scan.is_done()
    }
}

impl VacationResponder {
    /// One over these parts; [`VacationResponder::run`] makes it work.
    pub fn new(parts: ResponderParts) -> Self {
        let (waiting, jobs) = mpsc::channel(limits::VACATION_WAITING);
        let (dates, sent) = (Mutex::new(LruCache::new(CACHED)), Mutex::new(LruCache::new(LISTS)));
        let (jobs, metrics) = (tokio::sync::Mutex::new(jobs), VacationMetrics::default());
        VacationResponder(Arc::new(Inner { parts, waiting, jobs, dates, sent, metrics }))
    }

    /// The vacation responses that it sends.
    pub fn vacations(&self) -> &Vacations {
        &self.0.parts.vacations
    }

    /// What it counts.
    pub fn metrics(&self) -> &VacationMetrics {
        &self.0.metrics
    }

    /// A message from `sender`, empty for the null sender, begins. `None` if it will get no reply.
    pub fn begin(&self, sender: &str) -> Option<Scanning> {
        // RFC 3834 §2, RFC 5230 §4.6.
        if is_automatic_sender(sender) {
            return None;
        }
        // Never waits: the message must not.
        let permit = self.0.parts.memory.try_acquire(limits::VACATION_HEADER_BYTES);
        if permit.is_none() {
            self.0.metrics.dropped.increment();
        }
        Some(Scanning { scan: HeaderScan::default(), permit: permit? })
    }

    /// The message from `sender` is durable in these accounts. Never waits.
    pub fn delivered(&self, message: Scanning, sender: &str, accounts: impl IntoIterator<Item = Away>) {
        let original = message.scan.finish();
        if original.unanswerable.is_some() {
            return;
        }
        let (original, sender) = (Arc::new((original, message.permit)), Arc::<str>::from(sender));
        for account in accounts {
            let job = Job { account, sender: sender.clone(), original: original.clone() };
            if self.0.waiting.try_send(job).is_err() {
                self.0.metrics.dropped.increment();
            }
        }
    }

    /// Replies through `outbox` until it is dropped.
    pub async fn run(&self, outbox: &Outbox) {
        let mut jobs = self.0.jobs.lock().await;
        let jobs = stream::poll_fn(|context| jobs.poll_recv(context));
        jobs.for_each_concurrent(AT_ONCE, |job| self.handle(outbox, job)).await;
    }

    /// Decides on all that waits.
    #[cfg(test)]
    pub(super) async fn settle(&self, outbox: &Outbox) {
        let mut jobs = self.0.jobs.lock().await;
        while let Ok(job) = jobs.try_recv() {
            self.handle(outbox, job).await;
        }
    }

    async fn handle(&self, outbox: &Outbox, job: Job) {
        match self.answer(outbox, &job).await {
            Ok(Some(Verdict::Limited)) => self.0.metrics.limited.increment(),
            Ok(_) => {}
            Err(refusal) => {
                self.0.metrics.dropped.increment();
                tracing::warn!(account = %job.account.name, error = %refusal, "a vacation response was not sent");
            }
        }
    }

    /// What became of a message; `None` if no reply is due.
    async fn answer(&self, outbox: &Outbox, job: &Job) -> Result<Option<Verdict>, Refusal> {
        let Away { id, name, mark } = &job.account;
        let ResponderParts { vacations, directory, mail_keys, clock, random, .. } = &self.0.parts;
        let now = clock.now();
        let Some(dates) = self.dates(*id, *mark).await? else { return Ok(None) };
        if !dates.is_active(now) {
            return Ok(None);
        }
        let tags = tags(mail_keys, *id, dates.round, &job.sender);
        // Replies only become more, so a refusal that is remembered holds.
        let remembered = self.sent().get(id).cloned();
        let verdict = remembered.map_or(Verdict::Reply, |sent| sent.verdict(&tags, now));
        if verdict != Verdict::Reply {
            return Ok(Some(verdict));
        }
        let record = match directory.get(name).await {
            Ok(record) if record.id == *id && record.suspended.is_none() => record,
            Ok(_) => return Ok(None),
            Err(e) if e.kind() == Kind::NotFound => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let Some(from) = self.own_address(&record, &job.sender, &job.original.0).await? else {
            return Ok(None);
        };
        let Some(settings) = gone_is_none(vacations.read(*id, *mark).await)? else { return Ok(None) };
        match self.record_reply(*id, &tags, now).await? {
            Verdict::Reply => {}
            verdict => return Ok(Some(verdict)),
        }
        let unique = format!("{:016x}{:016x}", random.next_u64(), random.next_u64());
        let message = reply(&settings, &job.original.0, &from, &job.sender, &unique);
        let mut submission = outbox.begin(order(record, &job.sender));
        submission.write(&message).await?;
        let mail = submission.finish().await?.id;
        self.0.metrics.sent.increment();
        tracing::info!(%mail, account = %name, "queued a vacation response");
        Ok(Some(Verdict::Reply))
    }

    /// The settings of that mark without their texts; `None` if they were replaced since.
    async fn dates(&self, id: AccountId, mark: VacationMark) -> Result<Option<VacationSettings>> {
        let remembered = self.lock_dates().get(&id).filter(|(of, _)| *of == mark).cloned();
        if let Some((_, settings)) = remembered {
            return Ok(Some(settings));
        }
        let Some(settings) = gone_is_none(self.0.parts.vacations.read(id, mark).await)? else {
            return Ok(None);
        };
        let settings = VacationSettings { subject: None, text: None, html: None, ..settings };
        self.lock_dates().put(id, (mark, settings.clone()));
        Ok(Some(settings))
    }

    /// The address of the account to which the message was sent, as its header says (RFC 5230 §4.5).
    /// `None` if there is none, or the sender is the account itself.
    async fn own_address(
        &self,
        record: &AccountRecord,
        sender: &str,
        original: &Original,
    ) -> Result<Option<Addressed>> {
        let directory = &self.0.parts.directory;
        let is_own = async |address: &str| {
            let domain = address.rsplit_once('@').map_or("", |(_, domain)| domain);
            Ok::<_, Error>(directory.serves(domain).await? && may_send_as(directory, record, address).await?)
        };
        if is_own(sender).await? {
            return Ok(None);
        }
        let mut looked_up = 0;
        for addressed in original.addressed() {
            let domain = addressed.address.rsplit_once('@').map_or("", |(_, domain)| domain);
            if !directory.serves(domain).await? {
                continue;
            }
            looked_up += 1;
            if looked_up > limits::VACATION_ADDRESSES {
                break;
            }
            if is_own(&addressed.address).await? {
                return Ok(Some(addressed));
            }
        }
        Ok(None)
    }

    /// Records a reply, unless none is allowed. After an error none is sent.
    async fn record_reply(&self, id: AccountId, tags: &[SenderTag], now: Timestamp) -> Result<Verdict> {
        let ResponderParts { directory, mail_keys, random, .. } = &self.0.parts;
        for _ in 0..limits::RECORD_ATTEMPTS {
            let (sent, version) = SentReplies::read(directory, mail_keys, id).await?;
            let verdict = sent.verdict(tags, now);
            let Some(tag) = tags.first().filter(|_| verdict == Verdict::Reply) else {
                self.sent().put(id, Arc::new(sent));
                return Ok(verdict);
            };
            let more = sent.with(*tag, now);
            if more.write(directory, mail_keys, id, version, &**random).await? {
                self.sent().put(id, Arc::new(more));
                return Ok(Verdict::Reply);
            }
        }
        Err(Error::retry(format!("the vacation replies of {id} change too quickly")))
    }

    fn lock_dates(&self) -> MutexGuard<'_, LruCache<AccountId, (VacationMark, VacationSettings)>> {
        self.0.dates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent(&self) -> MutexGuard<'_, LruCache<AccountId, Arc<SentReplies>>> {
        self.0.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A vacation response that was replaced is none.
fn gone_is_none<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(e) if e.kind() == Kind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// RFC 3834 §3.3, §4, RFC 5230 §5.1: to the reverse-path, from the null sender and with NOTIFY=NEVER, so
/// that no report of it comes back.
fn order(record: AccountRecord, to: &str) -> Order {
    Order {
        account: Some(Arc::new(record)),
        from: String::new(),
        recipients: vec![Recipient { notify: Some(Notify::NEVER), ..Recipient::new(to) }],
        ret: None,
        envid: None,
        release: None,
        tls: TlsDemand::Policy,
        trace: Vec::new(),
        source: Source::Vacation,
    }
}
