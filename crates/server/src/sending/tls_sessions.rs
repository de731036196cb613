//! What TLS reports need (RFC 8460): for each day, domain and policy, how many TLS sessions with
//! other servers succeeded and how many failed, and why. Kept in the directory `tls-sessions` of
//! the data directory, one file a day; `sealpost queue tls-report` makes reports of them.
//!
//! Sessions are counted in memory and added to the file of their day every few seconds, so that a
//! crash costs the counts of that time and deliveries wait for nothing. Memory and files are
//! bounded: what exceeds a limit is counted without its details. Format:
//! `docs/format/sending-files.md`.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minicbor::{Decode, Encode};
use sealpost_base::calendar::{civil_from_days, days_from_civil};
use sealpost_base::limits::{
    TLS_REPORT_DAY_BYTES, TLS_REPORT_DAYS, TLS_REPORT_FAILURES, TLS_REPORT_POLICIES, TLS_REPORT_POLICY_BYTES,
};
use sealpost_base::{Clock, Error, Result};
use sealpost_delivery::reports::{PolicyUsed, TlsReports, TlsSession};
use sealpost_files::owner;

use super::watched::SendingMetrics;
use crate::blocking::blocking;

/// The directory, in the data directory.
const DIRECTORY: &str = "tls-sessions";
/// "Sealpost TLS sessions", version 1.
const MAGIC: [u8; 4] = *b"SPR\x01";
/// Bytes of a policy, or of a kind of failure, besides its texts.
const ROW_BYTES: usize = 128;
const DAY_SECONDS: i64 = 24 * 3600;

/// A day in UTC: days since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub i64);

/// The sessions of one day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct TlsDay {
    /// By policy; at most [`TLS_REPORT_POLICIES`].
    #[n(0)]
    pub policies: BTreeMap<AppliedPolicy, PolicySessions>,
    /// Sessions under policies beyond that limit: succeeded and failed.
    #[n(1)]
    pub others: (u64, u64),
}

/// A policy that a domain had.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct AppliedPolicy {
    /// The domain that mail was for.
    #[n(0)]
    pub domain: String,
    /// Its kind.
    #[n(1)]
    pub kind: PolicyKind,
    /// Its lines, or its TLSA records; without those beyond [`TLS_REPORT_POLICY_BYTES`].
    #[n(2)]
    pub text: Vec<String>,
    /// The mail server, for TLSA records: they are of one server.
    #[n(3)]
    pub host: Option<String>,
}

/// `policy-type` (RFC 8460 §4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum PolicyKind {
    /// TLSA records.
    #[n(0)]
    Tlsa,
    /// An MTA-STS policy.
    #[n(1)]
    Sts,
    /// None was found.
    #[n(2)]
    NotFound,
}

/// The sessions under a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct PolicySessions {
    /// Sessions that succeeded.
    #[n(0)]
    pub successes: u64,
    /// Sessions that failed, by kind; at most [`TLS_REPORT_FAILURES`] with servers, the others without.
    #[n(1)]
    pub failures: BTreeMap<SessionFailure, u64>,
}

/// How a session failed, and with which server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct SessionFailure {
    /// `result-type` (RFC 8460 §4.3).
    #[n(0)]
    pub result: String,
    /// `failure-reason-code`; empty if the result says all.
    #[n(1)]
    pub reason: String,
    /// The server's name.
    #[n(2)]
    pub host: Option<String>,
    /// The server's address.
    #[n(3)]
    pub address: Option<String>,
    /// `sending-mta-ip` (RFC 8460 §4.4): the address of this node that the connection came from.
    #[n(4)]
    pub source: Option<String>,
}

/// Counts sessions, for metrics and for reports.
pub(super) struct SessionRecorder {
    metrics: Arc<SendingMetrics>,
    sessions: Arc<TlsSessions>,
    clock: Arc<dyn Clock>,
}

/// Sessions that are not in a file yet.
pub(super) struct TlsSessions {
    directory: PathBuf,
    pending: Mutex<BTreeMap<Day, TlsDay>>,
}

impl Day {
    /// The name of its file: `2026-11-27`.
    pub fn name(self) -> String {
        let (year, month, day) = civil_from_days(self.0);
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// The day with that name.
    pub fn named(name: &str) -> Option<Self> {
        let mut parts = name.splitn(3, '-').map(str::parse);
        let (Some(Ok(year)), Some(Ok(month)), Some(Ok(day))) = (parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let (Ok(month), Ok(day)) = (u32::try_from(month), u32::try_from(day)) else { return None };
        let found = Day(days_from_civil(year, month, day));
        (found.name() == name).then_some(found)
    }
}

impl TlsDay {
    /// Adds `count` sessions with that result.
    fn add(&mut self, policy: AppliedPolicy, result: std::result::Result<(), SessionFailure>, count: u64) {
        let is_new = !self.policies.contains_key(&policy);
        let is_full = self.policies.len() >= TLS_REPORT_POLICIES;
        if is_new && (is_full || self.bytes() + policy.bytes() > TLS_REPORT_DAY_BYTES) {
            let of_others = if result.is_ok() { &mut self.others.0 } else { &mut self.others.1 };
            *of_others = of_others.saturating_add(count);
            return;
        }
        let has_room = self.bytes() + 2 * ROW_BYTES < TLS_REPORT_DAY_BYTES;
        let sessions = self.policies.entry(policy).or_default();
        let counted = match result {
            Ok(()) => &mut sessions.successes,
            Err(failure) => {
                let is_new = !sessions.failures.contains_key(&failure);
                let is_detailed = !is_new || has_room && sessions.failures.len() < TLS_REPORT_FAILURES;
                let failure = if is_detailed { failure } else { failure.without_server() };
                sessions.failures.entry(failure).or_default()
            }
        };
        *counted = counted.saturating_add(count);
    }

    /// Adds what another has of the same day.
    fn merge(&mut self, other: TlsDay) {
        self.others.0 = self.others.0.saturating_add(other.others.0);
        self.others.1 = self.others.1.saturating_add(other.others.1);
        for (policy, sessions) in other.policies {
            if sessions.successes > 0 {
                self.add(policy.clone(), Ok(()), sessions.successes);
            }
            for (failure, count) in sessions.failures {
                self.add(policy.clone(), Err(failure), count);
            }
        }
    }

    /// Memory that it takes, about.
    fn bytes(&self) -> usize {
        let of_failures = |sessions: &PolicySessions| sessions.failures.len() * 2 * ROW_BYTES;
        self.policies.iter().map(|(policy, sessions)| policy.bytes() + of_failures(sessions)).sum()
    }
}

impl AppliedPolicy {
    fn of(session: &TlsSession) -> Self {
        let (kind, lines) = match &session.policy {
            PolicyUsed::Tlsa(records) => (PolicyKind::Tlsa, &records[..]),
            PolicyUsed::Sts(lines) => (PolicyKind::Sts, &lines[..]),
            PolicyUsed::None => (PolicyKind::NotFound, &[][..]),
        };
        let mut left = TLS_REPORT_POLICY_BYTES;
        let fits = |line: &&String| {
            let fits = line.len() <= left;
            left = left.saturating_sub(line.len());
            fits
        };
        let host = session.host.as_ref().filter(|_| kind == PolicyKind::Tlsa);
        AppliedPolicy {
            domain: session.domain.to_string(),
            kind,
            text: lines.iter().take_while(fits).cloned().collect(),
            host: host.map(ToString::to_string),
        }
    }

    fn bytes(&self) -> usize {
        let lines: usize = self.text.iter().map(|line| line.len() + size_of::<String>()).sum();
        ROW_BYTES + self.domain.len() + lines + self.host.as_ref().map_or(0, String::len)
    }
}

impl PolicyKind {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Tlsa => "tlsa",
            PolicyKind::Sts => "sts",
            PolicyKind::NotFound => "no-policy-found",
        }
    }
}

impl SessionFailure {
    fn without_server(self) -> Self {
        SessionFailure { host: None, address: None, source: None, ..self }
    }
}

impl SessionRecorder {
    pub(super) fn new(
        metrics: Arc<SendingMetrics>,
        sessions: Arc<TlsSessions>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        SessionRecorder { metrics, sessions, clock }
    }
}

impl TlsReports for SessionRecorder {
    fn record(&self, session: TlsSession) {
        let result = session.result.map_err(|problem| SessionFailure {
            result: problem.name().to_owned(),
            reason: problem.reason_code().to_owned(),
            host: session.host.as_ref().map(ToString::to_string),
            address: session.address.map(|address| address.to_string()),
            source: session.source.map(|address| address.to_string()),
        });
        let day = Day(self.clock.now().seconds().div_euclid(DAY_SECONDS));
        self.sessions.pending().entry(day).or_default().add(AppliedPolicy::of(&session), result, 1);
        self.metrics.record(session);
    }
}

impl TlsSessions {
    pub(super) fn new(data: &Path) -> Self {
        TlsSessions { directory: data.join(DIRECTORY), pending: Mutex::default() }
    }

    /// Adds what was counted to the files, and removes those of days long ago.
    pub(super) async fn save(&self) {
        let pending = std::mem::take(&mut *self.pending());
        for (day, sessions) in pending {
            let (directory, added) = (self.directory.clone(), sessions.clone());
            if let Err(error) = blocking(move || add_to_file(&directory, day, added)).await {
                tracing::warn!(%error, "cannot write the TLS sessions of this node; this is tried again");
                let mut pending = self.pending();
                pending.entry(day).or_default().merge(sessions);
                while pending.len() > TLS_REPORT_DAYS {
                    pending.pop_first();
                }
            }
        }
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<Day, TlsDay>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The days of which the node with that data directory has sessions, the oldest first.
///
/// # Errors
/// `Retry` if the directory cannot be read.
pub fn days(data: &Path) -> Result<Vec<Day>> {
    listed(&data.join(DIRECTORY))
}

/// The sessions of a day.
///
/// # Errors
/// `Retry` if the file cannot be read, `Corrupt` if it is damaged.
pub fn read(data: &Path, day: Day) -> Result<TlsDay> {
    read_file(&data.join(DIRECTORY).join(day.name()))
}

fn listed(directory: &Path) -> Result<Vec<Day>> {
    let entries = match fs::read_dir(directory) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|e| failed(directory, e))?,
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut days: Vec<Day> = names.filter_map(|name| Day::named(&name)).collect();
    days.sort_unstable();
    Ok(days)
}

fn add_to_file(directory: &Path, day: Day, sessions: TlsDay) -> Result<()> {
    let path = directory.join(day.name());
    let is_first = !path.exists();
    let mut all = read_file(&path).unwrap_or_else(|error| {
        tracing::warn!(%error, "the TLS sessions of a day cannot be read; they are counted from zero");
        TlsDay::default()
    });
    all.merge(sessions);
    if is_first {
        owner::make_directory(directory).map_err(|e| failed(directory, e))?;
        remove_old(directory, day)?;
    }
    let bytes = minicbor::to_vec(&all).unwrap_or_default();
    let temporary = directory.join("new");
    let written = owner::create_anew(&temporary).and_then(|mut file| {
        std::io::Write::write_all(&mut file, &[&MAGIC[..], &bytes].concat())?;
        file.sync_data()?;
        fs::rename(&temporary, &path)
    });
    written.map_err(|e| failed(&path, e))
}

/// Removes the files of all but the last days before `day`. A clock that jumped ahead removes none of
/// the days that it comes back to.
fn remove_old(directory: &Path, day: Day) -> Result<()> {
    let days = listed(directory)?;
    let before: Vec<&Day> = days.iter().filter(|other| **other < day).collect();
    for old in before.iter().rev().skip(TLS_REPORT_DAYS - 1) {
        let path = directory.join(old.name());
        fs::remove_file(&path).map_err(|e| failed(&path, e))?;
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<TlsDay> {
    let most = 4 * TLS_REPORT_DAY_BYTES as u64;
    let bytes = match fs::metadata(path).and_then(|found| match found.len() > most {
        true => Err(std::io::Error::other("it is too large")),
        false => fs::read(path),
    }) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(TlsDay::default()),
        bytes => bytes.map_err(|e| failed(path, e))?,
    };
    let wrong = || Error::corrupt(format!("{} is damaged", path.display()));
    let rest = bytes.strip_prefix(&MAGIC).ok_or_else(wrong)?;
    minicbor::decode(rest).map_err(|e| wrong().with_source(e))
}

fn failed(path: &Path, e: std::io::Error) -> Error {
    Error::retry(path.display().to_string()).with_source(owner::explained(path, e))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sealpost_base::{FakeClock, Timestamp};
    use sealpost_delivery::reports::TlsProblem;
    use sealpost_delivery::tls::CertificateProblem;
    use sealpost_dns::DnsName;

    use super::*;

    /// 2026-11-27 23:59:50 UTC.
    const LATE: Timestamp = Timestamp(1_795_823_990_000);

    fn session(domain: &str, policy: PolicyUsed, result: std::result::Result<(), TlsProblem>) -> TlsSession {
        let host = DnsName::new(&format!("mx.{domain}"));
        let (address, source) = (Some("192.0.2.1".parse().unwrap()), Some("192.0.2.9".parse().unwrap()));
        TlsSession { domain: DnsName::new(domain).unwrap(), policy, host, address, source, result }
    }

    fn recorder(data: &Path, clock: &Arc<FakeClock>) -> (SessionRecorder, Arc<TlsSessions>) {
        let sessions = Arc::new(TlsSessions::new(data));
        (SessionRecorder::new(Arc::default(), sessions.clone(), clock.clone()), sessions)
    }

    #[test]
    fn days_have_one_name() {
        let day = Day(LATE.seconds().div_euclid(DAY_SECONDS));
        assert_eq!((day.name().as_str(), Day::named("2026-11-27")), ("2026-11-27", Some(day)));
        for name in ["2026-11-31", "2026-1-1", "new", "2026-11-27.new", "2026-11", "-1-01-01"] {
            assert_eq!(Day::named(name), None, "{name}");
        }
    }

    #[tokio::test]
    async fn sessions_are_added_to_the_file_of_their_day() {
        let (data, clock) = (tempfile::tempdir().unwrap(), Arc::new(FakeClock::new(LATE)));
        let (recorder, sessions) = recorder(data.path(), &clock);
        let sts = || PolicyUsed::Sts(vec!["version: STSv1".to_owned(), "mx: mx.a.example".to_owned()]);
        let expired = Err(TlsProblem::Certificate(CertificateProblem::Expired));
        recorder.record(session("a.example", sts(), Ok(())));
        recorder.record(session("a.example", sts(), expired));
        sessions.save().await;
        recorder.record(session("a.example", sts(), expired));
        recorder.record(session("a.example", PolicyUsed::Tlsa(vec!["3 1 1 00".to_owned()]), Ok(())));
        clock.advance(Duration::from_secs(60));
        recorder.record(session("b.example", PolicyUsed::None, Ok(())));
        sessions.save().await;
        let days = days(data.path()).unwrap();
        assert_eq!(days.iter().map(|day| day.name()).collect::<Vec<_>>(), ["2026-11-27", "2026-11-28"]);
        let first = read(data.path(), days[0]).unwrap();
        let rows: Vec<_> = first.policies.iter().collect();
        let [(tlsa, of_tlsa), (sts, of_sts)] = rows[..] else { panic!("{rows:?}") };
        assert_eq!(
            (tlsa.kind, tlsa.host.as_deref(), of_tlsa.successes),
            (PolicyKind::Tlsa, Some("mx.a.example"), 1)
        );
        assert_eq!((sts.kind, sts.host.as_deref(), of_sts.successes), (PolicyKind::Sts, None, 1));
        let (failure, count) = of_sts.failures.first_key_value().unwrap();
        assert_eq!((failure.result.as_str(), *count), ("certificate-expired", 2));
        assert_eq!(failure.address.as_deref(), Some("192.0.2.1"));
        assert_eq!(failure.source.as_deref(), Some("192.0.2.9"));
        assert_eq!(read(data.path(), days[1]).unwrap().policies.len(), 1);
        assert_eq!(recorder.metrics.tls_failures.read(), 2);
    }

    #[test]
    fn sessions_beyond_the_limits_are_counted_without_details() {
        let mut day = TlsDay::default();
        let policy =
            |n: usize| AppliedPolicy::of(&session(&format!("d{n}.example"), PolicyUsed::None, Ok(())));
        for n in 0..TLS_REPORT_POLICIES + 10 {
            day.add(policy(n), Ok(()), 1);
        }
        assert_eq!((day.policies.len(), day.others), (TLS_REPORT_POLICIES, (10, 0)));
        let failure = |n: usize| SessionFailure {
            result: "certificate-expired".to_owned(),
            reason: String::new(),
            host: Some(format!("mx{n}.example")),
            address: None,
            source: None,
        };
        for n in 0..TLS_REPORT_FAILURES + 10 {
            day.add(policy(0), Err(failure(n)), 1);
        }
        day.add(policy(TLS_REPORT_POLICIES), Err(failure(0)), 1);
        let failures = &day.policies[&policy(0)].failures;
        assert_eq!((failures.len(), failures[&failure(0).without_server()]), (TLS_REPORT_FAILURES + 1, 10));
        assert_eq!(day.others, (10, 1));
        // Long policies: as many as the bytes of a day allow for, each cut at its limit.
        let mut day = TlsDay::default();
        let lines: Vec<_> = (0..100).map(|n| format!("mx: {n:0200}.example")).collect();
        for n in 0..TLS_REPORT_POLICIES {
            let session = session(&format!("d{n}.example"), PolicyUsed::Sts(lines.clone()), Ok(()));
            let policy = AppliedPolicy::of(&session);
            assert!(policy.text.iter().map(String::len).sum::<usize>() <= TLS_REPORT_POLICY_BYTES);
            day.add(policy, Ok(()), 1);
        }
        assert!(day.bytes() <= TLS_REPORT_DAY_BYTES && day.others.0 > 0);
        assert_eq!(day.policies.len() as u64 + day.others.0, TLS_REPORT_POLICIES as u64);
        let file = minicbor::to_vec(&day).unwrap();
        assert!(file.len() <= TLS_REPORT_DAY_BYTES);
    }

    #[tokio::test]
    async fn old_days_go_and_damage_costs_one_day() {
        let (data, clock) = (tempfile::tempdir().unwrap(), Arc::new(FakeClock::new(LATE)));
        let (recorder, sessions) = recorder(data.path(), &clock);
        for _ in 0..TLS_REPORT_DAYS + 3 {
            recorder.record(session("a.example", PolicyUsed::None, Ok(())));
            sessions.save().await;
            clock.advance(Duration::from_secs(24 * 3600));
        }
        let kept = days(data.path()).unwrap();
        assert_eq!(kept.len(), TLS_REPORT_DAYS);
        let last = kept[kept.len() - 1];
        fs::write(data.path().join(DIRECTORY).join(last.name()), b"SPR\x01garbage").unwrap();
        assert!(read(data.path(), last).is_err_and(|e| e.kind() == sealpost_base::Kind::Corrupt));
        clock.advance(Duration::from_secs(0));
        sessions.pending().entry(last).or_default().others.0 = 1;
        sessions.save().await;
        assert_eq!(read(data.path(), last).unwrap().others, (1, 0));
    }

    #[tokio::test]
    async fn sessions_wait_while_the_disk_takes_nothing() {
        let (data, clock) = (tempfile::tempdir().unwrap(), Arc::new(FakeClock::new(LATE)));
        let (recorder, sessions) = recorder(data.path(), &clock);
        // A file where the directory should be.
        fs::write(data.path().join(DIRECTORY), b"").unwrap();
        for _ in 0..TLS_REPORT_DAYS + 3 {
            recorder.record(session("a.example", PolicyUsed::None, Ok(())));
            sessions.save().await;
            clock.advance(Duration::from_secs(24 * 3600));
        }
        assert_eq!(sessions.pending().len(), TLS_REPORT_DAYS);
        fs::remove_file(data.path().join(DIRECTORY)).unwrap();
        sessions.save().await;
        assert_eq!(days(data.path()).unwrap().len(), TLS_REPORT_DAYS);
    }
}
