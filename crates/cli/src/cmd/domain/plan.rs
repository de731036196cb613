//! Everything that is to be published for a domain, as text, JSON and a zone file.

use anyhow::Result;
use sealpost_dns::DnsName;
use sealpost_submission::domain_keys::KeyInfo;
use serde::Serialize;

use super::KeyRow;
use super::records::{Hosts, Policy, WantedRecord, policy, wanted};
use crate::data_dir::DataDir;
use crate::exit::Usage;

/// What is to be published for a domain.
#[derive(Serialize)]
pub(super) struct Plan {
    domain: String,
    /// The mail server.
    host: String,
    keys: Vec<KeyRow>,
    pub records: Vec<WantedRecord>,
    mta_sts_policy: Policy,
    /// What is not in this domain's zone.
    notes: Vec<String>,
    /// What is wrong with the configuration.
    pub warning: Option<String>,
}

impl Plan {
    /// For a domain whose keys are `keys`.
    ///
    /// # Errors
    /// `Usage` if the host name of the configuration is none.
    pub fn of(data_dir: &DataDir, domain: &DnsName, keys: &[KeyInfo]) -> Result<Self> {
        let hosts = hosts(data_dir)?;
        let host = &hosts.mail;
        let is_public = host.as_str().contains('.');
        let warning = (!is_public).then(|| {
            format!(
                "`hostname` is not set in the configuration, and others cannot find {host:?}: set it first"
            )
        });
        Ok(Plan {
            domain: domain.to_string(),
            host: host.to_string(),
            keys: keys.iter().map(KeyRow::from).collect(),
            records: wanted(domain, &hosts, keys, data_dir.clock.now()),
            mta_sts_policy: policy(domain, host),
            notes: vec![
                format!("{host} needs A and AAAA records with the public addresses of this server."),
                format!(
                    "PTR: each of these addresses needs a reverse name {host}; the provider of the address sets it. \
                     Large receivers refuse mail without it."
                ),
                "SPF: if mail goes through a smarthost, add what its provider names (include:…).".to_owned(),
                format!("Reports go to postmaster@{domain}: it needs an account or alias."),
            ],
            warning,
        })
    }

    /// As lines of a zone file.
    pub fn zone(&self) -> String {
        self.records.iter().map(|record| format!("{}\n", record.zone)).collect()
    }

    /// For people.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        if !self.keys.is_empty() {
            text.push_str(&format!("Keys of {}\n", self.domain));
            self.keys.iter().for_each(|key| text.push_str(&key.line()));
            text.push('\n');
        }
        text.push_str("DNS records\n");
        for record in &self.records {
            let optional = if record.required { "" } else { " (optional)" };
            let (purpose, kind) = (record.purpose.name(), record.kind);
            text.push_str(&format!("\n{purpose}{optional}: {}\n", record.why));
            text.push_str(&format!("  name   {}\n  type   {kind}\n  value  {}\n", record.name, record.value));
            if record.pieces.len() > 1 {
                text.push_str(
                    "  If the form takes at most 255 characters, enter these strings, each in quotes:\n",
                );
                record.pieces.iter().for_each(|piece| text.push_str(&format!("    \"{piece}\"\n")));
            }
        }
        let Policy { url, text: policy } = &self.mta_sts_policy;
        text.push_str(&format!("\nPolicy of MTA-STS (optional), to be served at {url}\n"));
        policy.lines().for_each(|line| text.push_str(&format!("  {line}\n")));
        text.push_str("\nAlso\n");
        self.notes.iter().for_each(|note| text.push_str(&format!("  {note}\n")));
        text.push_str(&format!("\nAs a zone file\n\n{}", self.zone()));
        text.push_str(&format!("\nThen run: sealpost domain check {}\n", self.domain));
        text
    }
}

/// The name of this mail server.
///
/// # Errors
/// `Usage` if the configuration names none.
fn host(data_dir: &DataDir) -> Result<DnsName> {
    let settings = &data_dir.settings;
    let name = settings.sending.ehlo_name.as_deref().unwrap_or(&settings.hostname);
    let wrong = || Usage(format!("`hostname` in the configuration is {name:?}, which is no host name"));
    DnsName::new(name).ok_or_else(|| wrong().into())
}

/// This mail server, and where JMAP is.
///
/// # Errors
/// As [`host`].
pub(super) fn hosts(data_dir: &DataDir) -> Result<Hosts> {
    let jmap = data_dir.settings.jmap_host().and_then(|(host, port)| Some((DnsName::new(&host)?, port)));
    Ok(Hosts { mail: host(data_dir)?, jmap })
}
