//! Parameters of MAIL FROM and RCPT TO that are given one by one and decoded, as JMAP has them (RFC 8621
//! §7): those of the extensions that the queue does what they promise of.

use std::time::Duration;

use sealpost_base::Timestamp;
use sealpost_queue::envelope::{Notify, Recipient, Ret};
use sealpost_queue::retry::MAX_HOLD;

/// Bytes of ORCPT, decoded, with the type of the address (RFC 3461 §4.2).
const ORCPT_BYTES: usize = 500;

/// Extensions whose parameters are taken, with the arguments that EHLO has for them (RFC 3461 §4 for DSN,
/// RFC 1870 §4 for SIZE). FUTURERELEASE has the longest time alone (RFC 4865 §4): the latest date would be
/// another one at each moment.
pub fn extensions(message_size: u64) -> Vec<(&'static str, Vec<String>)> {
    vec![
        ("DSN", Vec::new()),
        ("FUTURERELEASE", vec![MAX_HOLD.as_secs().to_string()]),
        ("SIZE", vec![message_size.to_string()]),
    ]
}

/// What the parameters of MAIL FROM say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MailParameters {
    /// RET.
    pub ret: Option<Ret>,
    /// ENVID.
    pub envid: Option<String>,
    /// Not before this time (RFC 4865).
    pub release: Option<Timestamp>,
}

/// Why a parameter is not taken: its keyword, and what would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongParameter {
    /// The keyword.
    pub keyword: String,
    /// What is wrong.
    pub why: String,
}

fn wrong(keyword: &str, why: impl Into<String>) -> WrongParameter {
    WrongParameter { keyword: keyword.to_owned(), why: why.into() }
}

/// Reads parameters of MAIL FROM. `now` is when the client gave them, and `time` reads a date and time
/// (RFC 3339).
///
/// # Errors
/// The first one that is not taken.
pub fn of_mail<'a>(
    parameters: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    now: Timestamp,
    time: impl Fn(&str) -> Option<Timestamp>,
) -> Result<MailParameters, WrongParameter> {
    let mut read = MailParameters::default();
    for (keyword, value) in parameters {
        let needed = || value.ok_or_else(|| wrong(keyword, "the parameter needs a value"));
        match &*keyword.to_ascii_uppercase() {
            // RFC 3461 §4.3.
            "RET" => {
                read.ret = Some(match &*needed()?.to_ascii_uppercase() {
                    "FULL" => Ret::Full,
                    "HDRS" => Ret::Headers,
                    _ => return Err(wrong(keyword, "RET is FULL or HDRS")),
                });
            }
            // RFC 3461 §4.4: at most 100 characters, and printable.
            "ENVID" => {
                let id = needed()?;
                if id.is_empty() || id.len() > 100 || !id.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                    return Err(wrong(keyword, "ENVID is at most 100 printable ASCII characters"));
                }
                read.envid = Some(id.to_owned());
            }
            // RFC 4865 §5: one of the two.
            "HOLDFOR" | "HOLDUNTIL" if read.release.is_some() => {
                return Err(wrong(keyword, "a message has HOLDFOR or HOLDUNTIL, not both"));
            }
            "HOLDFOR" => {
                // RFC 4865 §6: one to nine digits.
                let digits = needed()?;
                let is_number = digits.len() <= 9 && digits.bytes().all(|byte| byte.is_ascii_digit());
                let seconds = digits.parse().ok().filter(|_| is_number);
                let seconds: u64 = seconds.ok_or_else(|| wrong(keyword, "HOLDFOR is a number of seconds"))?;
                read.release = Some(held(keyword, now, now.after(Duration::from_secs(seconds)))?);
            }
            "HOLDUNTIL" => {
                let until = time(needed()?);
                let until = until.ok_or_else(|| wrong(keyword, "HOLDUNTIL is a date and time (RFC 3339)"))?;
                read.release = Some(held(keyword, now, until)?);
            }
            // RFC 1870: the message itself says how large it is.
            "SIZE" => {}
            _ => return Err(wrong(keyword, "no extension of this server has the parameter")),
        }
    }
    Ok(read)
}

fn held(keyword: &str, now: Timestamp, until: Timestamp) -> Result<Timestamp, WrongParameter> {
    if until > now.after(MAX_HOLD) {
        return Err(wrong(keyword, format!("mail is held for at most {} seconds", MAX_HOLD.as_secs())));
    }
    Ok(until)
}

/// Reads parameters of RCPT TO for a recipient (RFC 3461 §4.1, §4.2).
///
/// # Errors
/// The first one that is not taken.
pub fn of_recipient<'a>(
    address: &str,
    parameters: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> Result<Recipient, WrongParameter> {
    let mut read = Recipient::new(address);
    for (keyword, value) in parameters {
        let needed = || value.ok_or_else(|| wrong(keyword, "the parameter needs a value"));
        match &*keyword.to_ascii_uppercase() {
            "NOTIFY" => read.notify = Some(notify(keyword, needed()?)?),
            "ORCPT" => {
                let orcpt = needed()?;
                // The type is written as it is, so it must not end the parameter.
                let is_type = |kind: &str| {
                    !kind.is_empty() && kind.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                };
                let is_typed =
                    orcpt.split_once(';').is_some_and(|(kind, of)| is_type(kind) && !of.is_empty());
                if !is_typed || orcpt.len() > ORCPT_BYTES || orcpt.contains(char::is_control) {
                    return Err(wrong(keyword, "ORCPT is a type, a semicolon and an address"));
                }
                read.orcpt = Some(orcpt.to_owned());
            }
            _ => return Err(wrong(keyword, "no extension of this server has the parameter")),
        }
    }
    Ok(read)
}

/// `NEVER`, or a list of what is to be reported.
fn notify(keyword: &str, value: &str) -> Result<Notify, WrongParameter> {
    if value.eq_ignore_ascii_case("NEVER") {
        return Ok(Notify::NEVER);
    }
    value.split(',').try_fold(Notify::NEVER, |all, one| match &*one.to_ascii_uppercase() {
        "SUCCESS" => Ok(all.and(Notify::SUCCESS)),
        "FAILURE" => Ok(all.and(Notify::FAILURE)),
        "DELAY" => Ok(all.and(Notify::DELAY)),
        _ => Err(wrong(keyword, "NOTIFY is NEVER, or a list of SUCCESS, FAILURE and DELAY")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_795_176_000_000);

    fn mail(parameters: &[(&str, Option<&str>)]) -> Result<MailParameters, WrongParameter> {
        of_mail(parameters.iter().copied(), NOW, |text| text.parse().ok().map(Timestamp::from_seconds))
    }

    #[test]
    fn mail_is_held_for_a_month_at_most() {
        let read = mail(&[("holdfor", Some("60")), ("RET", Some("hdrs")), ("SIZE", Some("1"))]).unwrap();
        assert_eq!(read.release, Some(NOW.after(Duration::from_secs(60))));
        assert_eq!(read.ret, Some(Ret::Headers));
        for bad in ["", "x", "-1", "+1", "2592001", "1234567890"] {
            assert!(mail(&[("HOLDFOR", Some(bad))]).is_err(), "{bad}");
        }
        assert_eq!(mail(&[("HOLDFOR", Some("2592000"))]).unwrap().release, Some(NOW.after(MAX_HOLD)));
        assert!(mail(&[("HOLDFOR", Some("1")), ("HOLDUNTIL", Some("1795176001"))]).is_err());
        assert!(mail(&[("HOLDUNTIL", Some("2000000000"))]).is_err());
    }

    #[test]
    fn parameters_of_no_extension_are_refused() {
        for bad in [("BODY", Some("8BITMIME")), ("RET", None), ("RET", Some("ALL")), ("ENVID", Some(""))] {
            assert_eq!(mail(&[bad]).unwrap_err().keyword, bad.0);
        }
        let recipient = of_recipient("a@b.example", [("NOTIFY", Some("success,delay"))]).unwrap();
        assert_eq!(recipient.notify, Some(Notify::SUCCESS.and(Notify::DELAY)));
        let injected = ("ORCPT", Some("rfc822 NOTIFY=NEVER;a@b.example"));
        for bad in [("NOTIFY", Some("NEVER,SUCCESS")), ("ORCPT", Some("a@b")), injected, ("X", None)] {
            assert!(of_recipient("a@b.example", [bad]).is_err(), "{bad:?}");
        }
    }
}
