//! `sealpost domain check`: the DNS records of a domain, the required ones, and how to correct
//! them.

mod found;
mod judge;
#[cfg(test)]
mod tests;
mod texts;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use futures::stream::{self, StreamExt, TryStreamExt};
use sealpost_base::Timestamp;
use sealpost_base::limits::DOMAIN_CHECKS;
use sealpost_dns::{DnsName, Resolver};
use sealpost_server::sending;
use sealpost_server::settings::sending::Resolver as ResolverSetting;
use sealpost_submission::domain_keys::DomainKeys;
use serde::Serialize;

use super::records::{Hosts, wanted};
use super::{name, plan, served};
use crate::data_dir::DataDir;
use crate::exit::{FAILED, TEMPORARY, Usage};
use crate::global::Global;
use crate::output::warn;
use crate::queues::domain_keys;
use found::Checked;
use judge::check;
pub(super) use texts::{Key, judge_key};

/// Arguments of `sealpost domain check`.
#[derive(clap::Args)]
#[command(
    after_help = "By default the command asks DNS as the server does, from the root downwards. Name servers remember old \
                  answers for as long as the record's TTL says; ask the name server of the domain itself \
                  (--resolver) to see a change at once.\n
Exit status: 0 all that is required is right; 1 something is missing or wrong; 75 DNS did not answer.\n
Examples:
  sealpost domain check example.org
  sealpost domain check --json
  sealpost domain check example.org --resolver 192.0.2.53"
)]
pub(super) struct Args {
    /// The domain [default: all that have accounts, aliases or keys]
    #[arg(value_name = "DOMAIN")]
    domain: Option<String>,
    /// Ask this name server, or "system" or "recursive" [default: sending.resolver of the
    /// configuration]
    #[arg(long, value_name = "ADDRESS")]
    resolver: Option<ResolverSetting>,
}

/// What was found of one domain.
#[derive(Serialize)]
struct Report {
    domain: String,
    /// Whether everything is right that is required.
    ok: bool,
    checks: Vec<Checked>,
}

/// DNS, as the configuration or the command line says.
///
/// # Errors
/// What the configuration says.
pub(super) fn resolver(data_dir: &DataDir, named: Option<ResolverSetting>) -> Result<Arc<dyn Resolver>> {
    let mut settings = data_dir.settings.sending.clone();
    if let Some(named) = named {
        if named != ResolverSetting::Recursive {
            settings.root_hints = Default::default();
        }
        settings.resolver = named;
    }
    Ok(sending::resolver(&settings, &data_dir.settings.memory, &data_dir.clock)?)
}

pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open_to_read(global).await?;
    let hosts = plan::hosts(&data_dir)?;
    let resolver = resolver(&data_dir, args.resolver)?;
    let domains = match args.domain {
        Some(domain) => vec![name(&domain)?],
        None => all(&data_dir).await?,
    };
    if domains.is_empty() {
        return Err(Usage("there is no domain yet: sealpost domain add example.org".to_owned()).into());
    }
    let keys = domain_keys(&data_dir)?;
    let now = data_dir.clock.now();
    let reports = domains.iter().map(|domain| report(&*resolver, keys.as_ref(), domain, &hosts, now));
    let reports: Vec<Report> = stream::iter(reports).buffered(DOMAIN_CHECKS).try_collect().await?;
    global.output().show(&reports, |reports| reports.iter().map(Report::lines).collect())?;
    let any = |is: fn(&Checked) -> bool| reports.iter().flat_map(|report| &report.checks).any(is);
    Ok(match (any(Checked::is_certainly_wrong), any(Checked::is_wrong)) {
        (true, _) => ExitCode::from(FAILED),
        (false, true) => ExitCode::from(TEMPORARY),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// What was found of a domain with these servers.
async fn report(
    resolver: &dyn Resolver,
    keys: Option<&DomainKeys>,
    domain: &DnsName,
    hosts: &Hosts,
    now: Timestamp,
) -> Result<Report> {
    let keys = match keys {
        Some(keys) => keys.list(domain.as_str()).await?,
        None => Vec::new(),
    };
    if keys.is_empty() {
        warn(format_args!(
            "sealpost: {domain} has no keys, so its mail is not signed: sealpost domain add {domain} makes them"
        ));
    }
    let records = wanted(domain, hosts, &keys, now);
    let checks = check(resolver, domain, &hosts.mail, &records, &keys).await;
    let ok = !checks.iter().any(Checked::is_wrong);
    Ok(Report { domain: domain.to_string(), ok, checks })
}

/// The domains that have accounts, aliases or keys.
async fn all(data_dir: &DataDir) -> Result<Vec<DnsName>> {
    let mut domains: Vec<DnsName> =
        served(data_dir).await?.into_keys().filter_map(|domain| DnsName::new(&domain)).collect();
    if let Some(keys) = domain_keys(data_dir)? {
        domains.extend(keys.domains().await?);
    }
    domains.sort();
    domains.dedup();
    Ok(domains)
}

impl Report {
    fn lines(&self) -> String {
        let mut text = format!("{}: {}\n", self.domain, if self.ok { "all right" } else { "not right yet" });
        self.checks.iter().for_each(|check| text.push_str(&check.lines()));
        text
    }
}
