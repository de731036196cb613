//! MTA-STS records and policies as text (RFC 8461 §3.1, §3.2).

use std::time::Duration;

use sealpost_base::limits::{STS_MX_PATTERNS, STS_POLICY_BYTES};
use sealpost_dns::DnsName;

/// Longest time that a policy may be cached, about a year (RFC 8461 §3.2).
const LONGEST_AGE: u64 = 31_557_600;
/// Characters of an id (RFC 8461 §3.1).
const ID_CHARS: usize = 32;

/// How to treat a server that does not match (RFC 8461 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Do not deliver to it.
    Enforce,
    /// Deliver, and report.
    Testing,
    /// The domain has no policy any more.
    None,
}

impl Mode {
    /// The word in a policy.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Testing => "testing",
            Mode::None => "none",
        }
    }
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How strict it is.
    pub mode: Mode,
    /// How long it may be cached.
    pub max_age: Duration,
    /// The servers that it allows; not empty unless the mode is [`Mode::None`].
    pub mx: Vec<MxPattern>,
}

/// Names of servers: one, or all one label below a domain (RFC 8461 §4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MxPattern {
    /// `mx.example.org`
    Host(DnsName),
    /// `*.example.org`
    Below(DnsName),
}

impl MxPattern {
    fn parse(text: &str) -> Option<Self> {
        let below = text.strip_prefix("*.");
        // RFC 8461 §3.2: a wildcard is the whole leftmost label, and stands nowhere else.
        let name = DnsName::new(below.unwrap_or(text)).filter(|name| !name.as_str().contains('*'))?;
        Some(if below.is_some() { MxPattern::Below(name) } else { MxPattern::Host(name) })
    }

    fn matches(&self, host: &DnsName) -> bool {
        match self {
            MxPattern::Host(name) => name == host,
            MxPattern::Below(domain) => {
                host.as_str().split_once('.').is_some_and(|(_, rest)| rest == domain.as_str())
            }
        }
    }
}

impl std::fmt::Display for MxPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MxPattern::Host(name) => f.write_str(name.as_str()),
            MxPattern::Below(domain) => write!(f, "*.{domain}"),
        }
    }
}

impl Policy {
    /// Parses the body of a policy. `None` if it is not a valid one.
    pub fn parse(body: &[u8]) -> Option<Self> {
        if body.len() > STS_POLICY_BYTES {
            return None;
        }
        let text = std::str::from_utf8(body).ok()?;
        let (mut version, mut mode, mut age, mut mx) = (None, None, None, Vec::new());
        // RFC 8461 §3.2: lines end in LF or CRLF.
        for line in text.split('\n') {
            let line = line.trim_matches([' ', '\t', '\r']);
            if line.is_empty() {
                continue;
            }
            let (key, value) = line.split_once(':')?;
            let (key, value) = (key.trim_end_matches([' ', '\t']), value.trim_matches([' ', '\t']));
            // RFC 8461 §3.2: of a field that is there twice, the first counts, except for mx.
            match key {
                "version" => _ = version.get_or_insert(value),
                "mode" => _ = mode.get_or_insert(value),
                "max_age" => _ = age.get_or_insert(value),
                "mx" if mx.len() < STS_MX_PATTERNS => mx.push(MxPattern::parse(value)?),
                "mx" => return None,
                // Extension fields.
                _ => {}
            }
        }
        let mode = match mode? {
            "enforce" => Mode::Enforce,
            "testing" => Mode::Testing,
            "none" => Mode::None,
            _ => return None,
        };
        let age = age.filter(|age| age.len() <= 10 && age.bytes().all(|b| b.is_ascii_digit()))?;
        let age: u64 = age.parse().ok()?;
        let complete = version? == "STSv1" && (mode == Mode::None || !mx.is_empty());
        complete.then(|| Policy { mode, max_age: Duration::from_secs(age.min(LONGEST_AGE)), mx })
    }

    /// The policy as the body that [`Policy::parse`] reads.
    pub fn to_text(&self) -> String {
        let mx: String = self.mx.iter().map(|pattern| format!("mx: {pattern}\n")).collect();
        let (mode, age) = (self.mode.name(), self.max_age.as_secs());
        format!("version: STSv1\nmode: {mode}\n{mx}max_age: {age}\n")
    }

    /// Whether it allows `host`.
    pub fn allows(&self, host: &DnsName) -> bool {
        self.mx.iter().any(|pattern| pattern.matches(host))
    }
}

/// The id in the TXT records of `_mta-sts.DOMAIN`. `None` if they are not exactly one valid record
/// (RFC 8461 §3.1).
pub fn record_id(records: &[Vec<u8>]) -> Option<String> {
    let texts = records.iter().filter_map(|record| std::str::from_utf8(record).ok());
    let mut ours = texts.filter(|text| text.starts_with("v=STSv1;"));
    let (record, None) = (ours.next()?, ours.next()) else { return None };
    let id = record.split(';').find_map(|field| {
        let (key, value) = field.split_once('=')?;
        (key.trim() == "id").then(|| value.trim())
    })?;
    let valid = (1..=ID_CHARS).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric());
    valid.then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> DnsName {
        DnsName::new(text).unwrap()
    }

    #[test]
    fn the_example_of_the_rfc() {
        let text = "version: STSv1\r\nmode: enforce\r\nmx: mail.example.com\r\nmx: *.example.net\r\n\
                    mx: backupmx.example.com\r\nmax_age: 604800\r\n";
        let policy = Policy::parse(text.as_bytes()).unwrap();
        assert_eq!((policy.mode, policy.max_age.as_secs()), (Mode::Enforce, 604_800));
        for (name, allowed) in [
            ("mail.example.com", true),
            ("MAIL.example.com.", true),
            ("a.example.net", true),
            ("a.b.example.net", false),
            ("example.net", false),
            ("example.com", false),
        ] {
            assert_eq!(policy.allows(&host(name)), allowed, "{name}");
        }
        assert_eq!(Policy::parse(policy.to_text().as_bytes()), Some(policy));
    }

    #[test]
    fn invalid_policies_are_refused() {
        let good = "version: STSv1\nmode: testing\nmx: a.example\nmax_age: 1\n";
        assert!(Policy::parse(good.as_bytes()).is_some());
        assert!(Policy::parse(b"version:STSv1\nmode:none\nmax_age:86400").is_some());
        for (from, to) in [
            ("STSv1", "STSv2"),
            ("testing", "strict"),
            ("mx: a.example\n", ""),
            ("a.example", "*.*.example"),
            ("a.example", "a*.example"),
            ("max_age: 1", "max_age: -1"),
            ("max_age: 1", "max_age: 99999999999"),
            ("mode: testing\n", "mode\n"),
        ] {
            let text = good.replace(from, to);
            assert_eq!(Policy::parse(text.as_bytes()), None, "{text:?}");
        }
        let many = good.replace("mx: a.example\n", &"mx: a.example\n".repeat(STS_MX_PATTERNS + 1));
        assert_eq!(Policy::parse(many.as_bytes()), None);
        let large = format!("{good}x: {}\n", "y".repeat(STS_POLICY_BYTES));
        assert_eq!(Policy::parse(large.as_bytes()), None);
        assert_eq!(Policy::parse(b"\xff"), None);
    }

    #[test]
    fn record_ids() {
        let id = |records: &[&str]| {
            let records: Vec<Vec<u8>> = records.iter().map(|r| r.as_bytes().to_vec()).collect();
            record_id(&records)
        };
        assert_eq!(id(&["v=STSv1; id=20160831085700Z;"]).as_deref(), Some("20160831085700Z"));
        assert_eq!(id(&["other", "v=STSv1;id=1;x=y"]).as_deref(), Some("1"));
        for bad in [
            &["v=STSv1; id=1;", "v=STSv1; id=2;"][..],
            &["v=STSv1;"],
            &["v=STSv1; id=;"],
            &["v=STSv1; id=a-b;"],
            &["v=STSv10; id=1"],
            &["id=1; v=STSv1;"],
            &[],
        ] {
            assert_eq!(id(bad), None, "{bad:?}");
        }
    }
}
