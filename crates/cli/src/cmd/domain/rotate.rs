//! `sealpost domain rotate`: new keys for a domain, in two steps.

use std::process::ExitCode;

use anyhow::Result;
use sealpost_base::Error;
use sealpost_base::limits::DOMAIN_CHECK_TIME;
use sealpost_dns::deadline::DeadlineResolver;
use sealpost_dns::{DnsName, LookupError, Resolver, ResolverExt};
use sealpost_server::settings::sending::Resolver as ResolverSetting;
use sealpost_submission::domain_keys::{KeyInfo, Stage};
use serde::Serialize;

use super::check::{Key, judge_key, resolver};
use super::records::{WantedRecord, key_name, wanted};
use super::{KeyRow, name, plan};
use crate::data_dir::DataDir;
use crate::exit::{FAILED, TEMPORARY};
use crate::global::Global;
use crate::queues::domain_keys;

/// Arguments of `sealpost domain rotate`.
#[derive(clap::Args)]
#[command(
    after_help = "The first run makes keys and prints their records. Publish these, and run the command again: it \
                  asks DNS, and when it has the records the new keys sign. Leave the old records for a week.\n
Examples:
  sealpost domain rotate example.org
  sealpost domain rotate example.org --now"
)]
pub(super) struct Args {
    /// The domain
    #[arg(value_name = "DOMAIN")]
    domain: String,
    /// Use new keys without asking DNS for their records
    #[arg(long)]
    now: bool,
    /// Ask this name server, or "system" or "recursive" [default: sending.resolver of the
    /// configuration]
    #[arg(long, value_name = "ADDRESS")]
    resolver: Option<ResolverSetting>,
}

#[derive(Serialize)]
struct Rotated {
    domain: String,
    /// `made`: publish the records and run the command again. `waiting`: DNS lacks records.
    /// `activated`: the new keys sign.
    done: &'static str,
    keys: Vec<KeyRow>,
    /// The records to publish.
    records: Vec<WantedRecord>,
    /// What DNS has instead.
    problems: Vec<String>,
}

pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let domain = name(&args.domain)?;
    let data_dir = DataDir::open(global).await?;
    let none = || Error::not_found(format!("{domain} has no keys; sealpost domain add {domain} makes them"));
    let keys = domain_keys(&data_dir)?.ok_or_else(none)?;
    let (now, random) = (data_dir.clock.now(), &data_dir.random);
    let is_new = !keys.list(domain.as_str()).await?.iter().any(is_waiting);
    let waiting: Vec<KeyInfo> = keys.rotate(domain.as_str(), now, random).await?;
    let waiting: Vec<KeyInfo> = waiting.into_iter().filter(is_waiting).collect();
    let told = |done, keys: &[KeyInfo], problems| Rotated {
        domain: domain.to_string(),
        done,
        keys: keys.iter().map(KeyRow::from).collect(),
        records: records(&data_dir, &domain, &waiting).unwrap_or_default(),
        problems,
    };
    if is_new && !args.now {
        global.output().show(&told("made", &waiting, Vec::new()), Rotated::lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.now {
        let resolver = resolver(&data_dir, args.resolver)?;
        let (problems, is_certain) = missing(&*resolver, &domain, &waiting).await;
        if !problems.is_empty() {
            global.output().show(&told("waiting", &waiting, problems), Rotated::lines)?;
            return Ok(ExitCode::from(if is_certain { FAILED } else { TEMPORARY }));
        }
    }
    let active = keys.activate(domain.as_str(), now, random).await?;
    global.output().show(&told("activated", &active, Vec::new()), Rotated::lines)?;
    Ok(ExitCode::SUCCESS)
}

fn is_waiting(key: &KeyInfo) -> bool {
    matches!(key.stage, Stage::Waiting(_))
}

/// The records that DNS lacks, and whether that is certain.
async fn missing(resolver: &dyn Resolver, domain: &DnsName, keys: &[KeyInfo]) -> (Vec<String>, bool) {
    let resolver = &DeadlineResolver::new(resolver, DOMAIN_CHECK_TIME);
    let (mut problems, mut is_certain) = (Vec::new(), true);
    for key in keys {
        let Some(name) = key_name(domain, &key.selector) else { continue };
        let found = resolver.txt(&name).await;
        is_certain &= found.as_ref().err().is_none_or(LookupError::is_negative);
        let problem = match found {
            Ok(found) => match judge_key(&found.records, &key.record) {
                Key::Published => continue,
                Key::Cut => "it is cut off: enter the value in pieces of 255 characters".to_owned(),
                Key::Other => "another value is there".to_owned(),
            },
            Err(e) => e.to_string(),
        };
        problems.push(format!("{name}: {problem}"));
    }
    (problems, is_certain)
}

/// The records of keys.
fn records(data_dir: &DataDir, domain: &DnsName, keys: &[KeyInfo]) -> Result<Vec<WantedRecord>> {
    let records = wanted(domain, &plan::hosts(data_dir)?, keys, data_dir.clock.now());
    Ok(records.into_iter().filter(|record| record.purpose == super::records::Purpose::Dkim).collect())
}

impl Rotated {
    fn lines(&self) -> String {
        let mut text = match self.done {
            "made" => format!("Made keys for {}. Publish these records:\n\n", self.domain),
            "waiting" => {
                let problems: String = self.problems.iter().map(|problem| format!("  {problem}\n")).collect();
                format!(
                    "DNS does not show the new keys of {} yet:\n{problems}\nPublish these records:\n\n",
                    self.domain
                )
            }
            _ => {
                let mut text = format!("The new keys of {} sign within a minute:\n", self.domain);
                self.keys.iter().for_each(|key| text.push_str(&key.line()));
                return text;
            }
        };
        for record in &self.records {
            text.push_str(&format!("{}\n  {}\n\n{}\n\n", record.name, record.value, record.zone));
        }
        text.push_str(&format!("Then run again: sealpost domain rotate {}\n", self.domain));
        text
    }
}

#[cfg(test)]
mod tests {
    use sealpost_base::Timestamp;
    use sealpost_dns::Record;
    use sealpost_dns::scripted::{Script, ScriptedResolver};
    use sealpost_submission::domain_keys::ALGORITHMS;

    use super::*;

    #[tokio::test]
    async fn new_keys_wait_until_dns_shows_each_of_them() {
        let key = |n: usize| KeyInfo {
            selector: format!("s{n}"),
            algorithm: ALGORITHMS[n],
            record: format!("v=DKIM1; k=rsa; p=AAAA{n}"),
            stage: Stage::Waiting(Timestamp(0)),
        };
        let (dns, domain, keys) =
            (ScriptedResolver::new(), DnsName::new("example.org").unwrap(), [key(0), key(1)]);
        let txt = |text: &str| Record::Txt(text.as_bytes().to_vec());
        dns.add("s0._domainkey.example.org", txt("v=DKIM1; k=rsa; p=AAAA0"));
        let (problems, is_certain) = missing(&dns, &domain, &keys).await;
        assert!(
            is_certain && problems.len() == 1 && problems[0].starts_with("s1._domainkey"),
            "{problems:?}"
        );
        dns.script("s1._domainkey.example.org", Script::Fail);
        assert!(matches!(missing(&dns, &domain, &keys).await, (problems, false) if problems.len() == 1));
        dns.remove("s1._domainkey.example.org");
        dns.add("s1._domainkey.example.org", txt("v=DKIM1; k=rsa; p=AAAA1"));
        assert_eq!(missing(&dns, &domain, &keys).await, (Vec::new(), true));
    }
}
