//! Routes as an operator writes them: `DESTINATION [from SENDER] via SMARTHOST`, one line each.
//!
//! ```text
//! * via smtp.relay.example:587 credentials relay.secret
//! .example.org from example.net direct
//! * direct then [192.0.2.1]:465
//! ```

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A way for some mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Domains of recipients that it is for.
    pub destination: Domains,
    /// Domains of senders that it is for.
    pub sender: Domains,
    /// The destination of the mail.
    pub via: Via,
}

/// A set of domains, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Domains {
    /// All: `*`.
    Any,
    /// One.
    One(String),
    /// One and all below it: `.example.org`.
    Below(String),
}

/// The destination of mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Via {
    /// To the servers of its destination.
    Direct,
    /// To a smarthost.
    Smarthost(Smarthost),
    /// To the servers of its destination, and to a smarthost if they refuse this server.
    DirectThen(Smarthost),
}

/// A server that takes mail for everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Smarthost {
    /// Its name, or its address in brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How connections to it are secured.
    pub tls: SmarthostTls,
    /// The file with user and password, a line each; empty: none.
    pub credentials: PathBuf,
}

/// How connections to a smarthost are secured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmarthostTls {
    /// Not at all.
    None,
    /// STARTTLS if offered, with any certificate.
    Opportunistic,
    /// STARTTLS, with a certificate for its name.
    StartTls,
    /// TLS from the first byte, with such a certificate.
    Implicit,
}

const TLS: [(&str, SmarthostTls); 4] = [
    ("none", SmarthostTls::None),
    ("opportunistic", SmarthostTls::Opportunistic),
    ("starttls", SmarthostTls::StartTls),
    ("tls", SmarthostTls::Implicit),
];
/// The port of submission with TLS (RFC 8314 §3.3) and with STARTTLS (RFC 6409 §3.1).
const PORTS: (u16, u16) = (465, 587);

impl Smarthost {
    /// The default security of a port.
    fn usual_tls(port: u16) -> SmarthostTls {
        if port == PORTS.0 { SmarthostTls::Implicit } else { SmarthostTls::StartTls }
    }
}

impl FromStr for Domains {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            let is_label = |label: &str| {
                let fits =
                    (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-');
                fits && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            };
            name.len() <= 253 && name.split('.').all(is_label)
        };
        let wrong = || format!("{text:?} is no domain (in ASCII), nor * for all or .domain for all below it");
        match text {
            "*" => Ok(Domains::Any),
            _ => match text.strip_prefix('.') {
                Some(name) if is_name(name) => Ok(Domains::Below(name.to_ascii_lowercase())),
                None if is_name(text) => Ok(Domains::One(text.to_ascii_lowercase())),
                _ => Err(wrong()),
            },
        }
    }
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace().peekable();
        let form = || {
            format!(
                "{text:?} is no route: \"DESTINATION [from SENDER] via HOST:PORT\", \"... direct\" or \
                 \"... direct then HOST:PORT\""
            )
        };
        let destination = words.next().ok_or_else(form)?.parse()?;
        let sender = match words.next_if_eq(&"from") {
            Some(_) => words.next().ok_or_else(form)?.parse()?,
            None => Domains::Any,
        };
        let via = match (words.next(), words.next()) {
            (Some("direct"), None) => Via::Direct,
            (Some("direct"), Some("then")) => {
                Via::DirectThen(smarthost(words.next().ok_or_else(form)?, &mut words)?)
            }
            (Some("via"), Some(host)) => Via::Smarthost(smarthost(host, &mut words)?),
            _ => return Err(form()),
        };
        match words.next() {
            None => Ok(Route { destination, sender, via }),
            Some(word) => Err(format!(
                "{word:?} is not expected: after the smarthost come none, opportunistic, starttls or tls, and \
                 \"credentials FILE\""
            )),
        }
    }
}

fn smarthost<'a>(
    host: &str,
    words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
) -> Result<Smarthost, String> {
    let wrong = || format!("{host:?} is no smarthost: a name or an address in brackets, and a port");
    let (name, port) = match host.rsplit_once(':').filter(|(name, _)| !name.is_empty()) {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().map_err(|_| wrong())?),
        _ => (host, PORTS.1),
    };
    let is_address = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::IpAddr>().is_ok(),
        None => matches!(name.parse(), Ok(Domains::One(_))),
    };
    if !is_address || port == 0 {
        return Err(wrong());
    }
    let word = words.next_if(|word| TLS.iter().any(|(name, _)| name == word));
    let tls = word.and_then(|word| TLS.iter().find(|(name, _)| *name == word)).map(|(_, tls)| *tls);
    let tls = tls.unwrap_or_else(|| Smarthost::usual_tls(port));
    let credentials = match words.next_if_eq(&"credentials") {
        Some(_) => words.next().ok_or("credentials needs a file: user and password, a line each")?.into(),
        None => PathBuf::new(),
    };
    let verified = matches!(tls, SmarthostTls::StartTls | SmarthostTls::Implicit);
    if !verified && !credentials.as_os_str().is_empty() {
        return Err(format!("a password goes to {host} over starttls or tls only"));
    }
    Ok(Smarthost { host: name.to_ascii_lowercase(), port, tls, credentials })
}

impl fmt::Display for Domains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Domains::Any => f.write_str("*"),
            Domains::One(name) => f.write_str(name),
            Domains::Below(name) => write!(f, ".{name}"),
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.destination)?;
        if self.sender != Domains::Any {
            write!(f, " from {}", self.sender)?;
        }
        match &self.via {
            Via::Direct => f.write_str(" direct"),
            Via::Smarthost(smarthost) => write!(f, " via {smarthost}"),
            Via::DirectThen(smarthost) => write!(f, " direct then {smarthost}"),
        }
    }
}

impl fmt::Display for Smarthost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)?;
        if self.tls != Self::usual_tls(self.port) {
            let word = TLS.iter().find(|(_, tls)| *tls == self.tls).map_or("", |(word, _)| word);
            write!(f, " {word}")?;
        }
        if !self.credentials.as_os_str().is_empty() {
            write!(f, " credentials {}", self.credentials.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_as_they_are_written() {
        for text in [
            "* via smtp.relay.example:587",
            "example.org direct",
            ".example.org from example.net via smtp.relay.example:465 credentials /etc/relay.secret",
            "* direct then [192.0.2.1]:25 opportunistic",
            "* via [2001:db8::1]:587 none",
        ] {
            assert_eq!(text.parse::<Route>().unwrap().to_string(), text);
        }
        let short: Route = "Example.ORG via Smart.example".parse().unwrap();
        assert_eq!(short.to_string(), "example.org via smart.example:587");
    }

    #[test]
    fn errors_of_routes_name_the_cause() {
        for (text, why) in [
            ("", "is no route"),
            ("example.org", "is no route"),
            ("exa mple.org via a:25", "is no route"),
            ("grüße.example direct", "is no domain"),
            ("* via smart.example:0", "is no smarthost"),
            ("* via 2001:db8::1", "is no smarthost"),
            ("* via [smart]:25", "is no smarthost"),
            ("* direct then", "is no route"),
            ("* via smart.example:587 always", "is not expected"),
            ("* via smart.example:25 none credentials f", "over starttls or tls only"),
            ("* via smart.example:465 credentials", "needs a file"),
        ] {
            let wrong = text.parse::<Route>().unwrap_err();
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
    }
}
