//! A resolver that answers from memory, for tests of everything that asks DNS.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::answer::{Answer, LookupError, Record, RecordType};
use crate::name::DnsName;
use crate::resolver::Resolver;

/// TTL of its answers.
const TTL: Duration = Duration::from_secs(3600);
/// Aliases that are followed.
const ALIASES: usize = 8;

/// A scripted result for a name, instead of an answer from its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// It never answers.
    Stall,
    /// Its name servers fail.
    Fail,
    /// Its answers fail validation.
    Bogus,
}

/// Names and their records. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ScriptedResolver {
    zone: Arc<Mutex<Zone>>,
    lookups: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Zone {
    names: BTreeMap<DnsName, Name>,
}

#[derive(Debug, Default)]
struct Name {
    records: Vec<Record>,
    insecure: bool,
    script: Option<Script>,
    only: Option<RecordType>,
}

impl ScriptedResolver {
    /// Without any name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record. Answers are secure only for names given to [`ScriptedResolver::add_secure`].
    ///
    /// # Panics
    /// If `name` is not a domain name.
    pub fn add(&self, name: &str, record: Record) {
        self.change(name, |entry| {
            entry.insecure = true;
            entry.records.push(record);
        });
    }

    /// Adds a record as in a signed zone.
    ///
    /// # Panics
    /// If `name` is not a domain name.
    pub fn add_secure(&self, name: &str, record: Record) {
        self.change(name, |entry| entry.records.push(record));
    }

    /// All lookups of `name` do as `script` says.
    ///
    /// # Panics
    /// If `name` is not a domain name.
    pub fn script(&self, name: &str, script: Script) {
        self.change(name, |entry| (entry.script, entry.only) = (Some(script), None));
    }

    /// Lookups of `name` for `kind` do as `script` says; others are answered.
    ///
    /// # Panics
    /// If `name` is not a domain name.
    pub fn script_type(&self, name: &str, kind: RecordType, script: Script) {
        self.change(name, |entry| (entry.script, entry.only) = (Some(script), Some(kind)));
    }

    /// Removes a name.
    ///
    /// # Panics
    /// If `name` is not a domain name.
    pub fn remove(&self, name: &str) {
        self.zone().names.remove(&parse(name));
    }

    /// How many lookups there were.
    pub fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Name)) {
        change(self.zone().names.entry(parse(name)).or_default());
    }

    fn zone(&self) -> MutexGuard<'_, Zone> {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer, or the scripted result instead.
    fn answer(&self, name: &DnsName, kind: RecordType) -> Result<Result<Answer, LookupError>, Script> {
        let zone = self.zone();
        let (mut owner, mut secure) = (name.clone(), true);
        for _ in 0..ALIASES {
            let Some(found) = zone.names.get(&owner) else {
                return Ok(Err(LookupError::NoSuchName { secure: false }));
            };
            if let Some(script) = found.script.filter(|_| found.only.is_none_or(|only| only == kind)) {
                return Err(script);
            }
            secure &= !found.insecure;
            let records: Vec<Record> = found.records.iter().filter(|r| r.kind() == kind).cloned().collect();
            if !records.is_empty() {
                return Ok(Ok(Answer { records, secure, ttl: TTL, owner }));
            }
            let alias = found.records.iter().find_map(|record| match record {
                Record::Cname(target) => Some(target.clone()),
                _ => None,
            });
            match alias {
                Some(target) => owner = target,
                None => return Ok(Err(LookupError::NoData { secure })),
            }
        }
        Ok(Err(LookupError::Failed("too many aliases")))
    }
}

#[allow(clippy::unwrap_used, reason = "for tests, as the documentation of the callers says")]
fn parse(name: &str) -> DnsName {
    DnsName::new(name).unwrap()
}

#[async_trait]
impl Resolver for ScriptedResolver {
    async fn lookup(&self, name: &DnsName, kind: RecordType) -> Result<Answer, LookupError> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        match self.answer(name, kind) {
            Ok(outcome) => outcome,
            Err(Script::Fail) => Err(LookupError::Failed("name servers failed")),
            Err(Script::Bogus) => Err(LookupError::Bogus),
            Err(Script::Stall) => std::future::pending().await,
        }
    }
}
