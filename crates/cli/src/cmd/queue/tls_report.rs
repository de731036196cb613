//! `sealpost queue tls-report`: TLS sessions with other servers, as reports of RFC 8460.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use sealpost_base::Timestamp;
use sealpost_mailformat::date::rfc3339;
use sealpost_server::sending::tls_sessions::{self, AppliedPolicy, Day, PolicyKind, PolicySessions, TlsDay};
use serde::Serialize;

use crate::data_dir::DataDir;
use crate::global::Global;
use crate::output::counted;

const DAY_SECONDS: i64 = 24 * 3600;

/// Arguments of `sealpost queue tls-report`.
#[derive(clap::Args)]
#[command(
    after_help = "The counts are those of this node, up to a few seconds ago. Days are in UTC. With --json, there is \
                  one report for each day and domain, in the form that RFC 8460 asks for; a domain that wants \
                  them says where in the TXT record _smtp._tls.DOMAIN. A report is complete when its day is over.\n
Examples:
  sealpost queue tls-report
  sealpost queue tls-report --day 2026-11-26 --domain example.com --json | jq '.[0]' > report.json"
)]
pub(super) struct Args {
    /// Of this day, YYYY-MM-DD [default: all that are kept, a week]
    #[arg(long, value_name = "DAY", value_parser = day)]
    day: Option<Day>,
    /// Of mail for this domain
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
}

fn day(text: &str) -> Result<Day, String> {
    Day::named(text).ok_or_else(|| "write the day as YYYY-MM-DD".to_owned())
}

/// Who reports.
struct Reporter {
    organization: String,
    contact: String,
    host: String,
}

/// A report (RFC 8460 §4.4).
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Report {
    organization_name: String,
    date_range: DateRange,
    contact_info: String,
    report_id: String,
    policies: Vec<PolicyReport>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct DateRange {
    start_datetime: String,
    end_datetime: String,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct PolicyReport {
    policy: Policy,
    summary: Summary,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failure_details: Vec<FailureDetails>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Policy {
    policy_type: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policy_string: Vec<String>,
    policy_domain: String,
    /// A policy may name several patterns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mx_host: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Summary {
    total_successful_session_count: u64,
    total_failure_session_count: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct FailureDetails {
    result_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sending_mta_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receiving_mx_hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receiving_ip: Option<String>,
    failed_session_count: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    failure_reason_code: String,
}

pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open_to_read(global).await?;
    let days = match args.day {
        Some(day) => vec![day],
        None => tls_sessions::days(&data_dir.dir)?,
    };
    let domain = args.domain.map(|domain| domain.trim().trim_end_matches('.').to_lowercase());
    let reporter = Reporter::of(&data_dir);
    let (mut reports, mut text) = (Vec::new(), String::new());
    for day in days {
        let mut found = tls_sessions::read(&data_dir.dir, day)?;
        if let Some(domain) = &domain {
            found.policies.retain(|policy, _| policy.domain == *domain);
            found.others = (0, 0);
        }
        if global.output().is_json() {
            reports.extend(reporter.reports(day, found));
        } else {
            text.push_str(&lines(day, &found));
        }
    }
    if text.is_empty() && reports.is_empty() {
        global.output().note("no TLS session with another server was counted");
    }
    global.output().show(&reports, |_| text)?;
    Ok(ExitCode::SUCCESS)
}

impl Reporter {
    fn of(data_dir: &DataDir) -> Self {
        let settings = &data_dir.settings;
        let domain = settings.domain.clone().unwrap_or_else(|| settings.hostname.clone());
        let contact = settings.postmaster.clone().unwrap_or_else(|| format!("postmaster@{domain}"));
        Reporter { organization: domain, contact, host: settings.hostname.clone() }
    }

    /// One for each domain.
    fn reports(&self, day: Day, sessions: TlsDay) -> Vec<Report> {
        let mut by_domain: BTreeMap<String, Vec<PolicyReport>> = BTreeMap::new();
        for (policy, sessions) in sessions.policies {
            by_domain.entry(policy.domain.clone()).or_default().push(PolicyReport::of(policy, sessions));
        }
        let start = Timestamp::from_seconds(day.0.saturating_mul(DAY_SECONDS));
        let end = Timestamp::from_seconds(start.seconds().saturating_add(DAY_SECONDS - 1));
        let reports = by_domain.into_iter().map(|(domain, policies)| Report {
            organization_name: self.organization.clone(),
            date_range: DateRange { start_datetime: rfc3339(start), end_datetime: rfc3339(end) },
            contact_info: self.contact.clone(),
            report_id: format!("{}.{domain}@{}", day.name(), self.host),
            policies,
        });
        reports.collect()
    }
}

impl PolicyReport {
    fn of(policy: AppliedPolicy, sessions: PolicySessions) -> Self {
        let failures = sessions.failures.values().sum();
        let mx_host = match policy.kind {
            PolicyKind::Sts => {
                let patterns = policy.text.iter().filter_map(|line| line.strip_prefix("mx:"));
                patterns.map(|pattern| pattern.trim().to_owned()).collect()
            }
            PolicyKind::Tlsa => policy.host.clone().into_iter().collect(),
            PolicyKind::NotFound => Vec::new(),
        };
        // RFC 8460 §1.1: of DANE, the name that the TLSA records are of.
        let policy_domain = policy.host.unwrap_or(policy.domain);
        let failure_details = sessions.failures.into_iter().map(|(failure, count)| FailureDetails {
            result_type: failure.result,
            sending_mta_ip: failure.source,
            receiving_mx_hostname: failure.host,
            receiving_ip: failure.address,
            failed_session_count: count,
            failure_reason_code: failure.reason,
        });
        PolicyReport {
            policy: Policy {
                policy_type: policy.kind.name(),
                policy_string: policy.text,
                policy_domain,
                mx_host,
            },
            summary: Summary {
                total_successful_session_count: sessions.successes,
                total_failure_session_count: failures,
            },
            failure_details: failure_details.collect(),
        }
    }
}

fn lines(day: Day, sessions: &TlsDay) -> String {
    let mut text = String::new();
    for (policy, sessions) in &sessions.policies {
        let failures: u64 = sessions.failures.values().sum();
        let host = policy.host.as_ref().map_or_else(String::new, |host| format!(" of {host}"));
        text += &format!(
            "{}  {}: {}{host}: {} succeeded, {failures} failed\n",
            day.name(),
            policy.domain,
            policy.kind.name(),
            counted(sessions.successes, "session", "sessions"),
        );
        for (failure, count) in &sessions.failures {
            let reason =
                if failure.reason.is_empty() { String::new() } else { format!(" ({})", failure.reason) };
            let server: Vec<&str> =
                [&failure.host, &failure.address].into_iter().flatten().map(String::as_str).collect();
            text += &format!("    {count} {}{reason}  {}\n", failure.result, server.join(" "));
        }
    }
    let (successes, failures) = sessions.others;
    if successes + failures > 0 {
        text += &format!(
            "{}  domains beyond the limit of a day: {} succeeded, {failures} failed\n",
            day.name(),
            counted(successes, "session", "sessions"),
        );
    }
    text
}
