//! Which mail a command is about, on its command line.

use std::time::Duration;

use sealpost_queue::MailId;
use sealpost_queue::event::Selector;

/// Which mail; all that is given has to match.
#[derive(clap::Args, Debug, Default)]
pub(super) struct SelectorArgs {
    /// Mail from this address, @DOMAIN for all of a domain, or "<>" for reports
    #[arg(long, value_name = "ADDRESS", value_parser = criterion)]
    pub sender: Option<String>,
    /// Mail with a recipient in this domain
    #[arg(long, value_name = "DOMAIN", value_parser = criterion)]
    pub domain: Option<String>,
    /// Mail that goes to this mail server: the one of the last attempt, or that DNS named since the server
    /// started
    #[arg(long, value_name = "HOST", value_parser = criterion)]
    pub site: Option<String>,
}

/// Mail by ids, or selected.
#[derive(clap::Args, Debug, Default)]
pub(super) struct MailArgs {
    /// Mail by its ids, such as Q1f4
    #[arg(value_name = "ID")]
    pub ids: Vec<MailId>,
    #[command(flatten)]
    pub selector: SelectorArgs,
    /// On the queue of this node [default: on all]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
}

impl SelectorArgs {
    /// As requests have it.
    pub fn selector(&self) -> Selector {
        let lower = |text: &Option<String>| text.as_ref().map(|text| text.trim().to_lowercase());
        let host = |text: &Option<String>| lower(text).map(|host| host.trim_end_matches('.').to_owned());
        Selector {
            sender: lower(&self.sender),
            domain: host(&self.domain),
            site: host(&self.site),
            ..Selector::default()
        }
    }

    /// In words: `from @example.org to example.com at mx.example.com`.
    pub fn words(selector: &Selector) -> String {
        let part = |word: &str, text: &Option<String>| text.as_ref().map(|text| format!("{word} {text}"));
        let parts =
            [part("from", &selector.sender), part("to", &selector.domain), part("at", &selector.site)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

impl MailArgs {
    /// As requests have it.
    pub fn selector(&self) -> Selector {
        let mails = (!self.ids.is_empty()).then(|| self.ids.clone());
        Selector { mails, ..self.selector.selector() }
    }
}

/// Bytes of an address, a domain or a host, at most.
const CRITERION_BYTES: usize = 320;

/// An address, a domain or a host. An empty one, as of a variable that is not set, selects nothing: as a
/// sender it would be that of all reports.
fn criterion(text: &str) -> Result<String, String> {
    let trimmed = text.trim().trim_end_matches('.');
    if trimmed.is_empty() {
        return Err("it is empty; \"<>\" is the sender of reports".to_owned());
    }
    if trimmed.len() > CRITERION_BYTES || trimmed.contains(char::is_control) {
        return Err("it is no address and no name of a domain or host".to_owned());
    }
    Ok(text.to_owned())
}

/// A time such as `90s`, `30m`, `2h` or `3d`.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time such as 30m, 2h or 3d");
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(seconds).filter(|seconds| *seconds > 0).ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("2h", 7200), ("3d", 259_200)] {
            assert_eq!(span(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "5", "h", "0m", "-1h", "1.5h", "2 h", "99999999999999999999d", "1w"] {
            assert!(span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn empty_criteria_are_refused() {
        for text in ["<>", "@example.org", "example.org.", " x ", "localhost"] {
            assert!(criterion(text).is_ok(), "{text}");
        }
        for text in ["", " ", "\n", ".", "a\nb", &"x".repeat(400)] {
            assert!(criterion(text).is_err(), "{text}");
        }
    }

    #[test]
    fn selectors_are_in_the_form_of_requests() {
        let args = MailArgs {
            ids: vec![MailId(7)],
            selector: SelectorArgs {
                sender: Some(" @Example.ORG".to_owned()),
                domain: Some("Example.COM.".to_owned()),
                site: None,
            },
            node: None,
        };
        let selector = args.selector();
        assert_eq!(selector.mails, Some(vec![MailId(7)]));
        assert_eq!(SelectorArgs::words(&selector), "from @example.org to example.com");
        assert!(!MailArgs::default().selector().is_given());
    }
}
