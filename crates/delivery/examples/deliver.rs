//! Delivers one message to one server and prints the outcome, for tests against foreign servers.
//!
//!     deliver HOST ADDRESS PORT RECIPIENT MESSAGE-FILE [--tlsa "3 1 1 HEX"] [--require-tls] [--mails N]
//!
//! HOST is taken for the only mail server of the recipient's domain. With --tlsa its zone counts as
//! signed and has that record. One line for each mail: the outcome, the TLS mode, whether the
//! server was verified.

use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;

use rustls::RootCertStore;
use sealpost_base::{SystemClock, SystemRandom};
use sealpost_delivery::deliverer::{Deliverer, Parts};
use sealpost_delivery::dial::TcpDialer;
use sealpost_delivery::envelope::{Envelope, MessageFacts, MessageInMemory, Recipient, TlsDemand};
use sealpost_delivery::outcome::Outcome;
use sealpost_delivery::reports::NoReports;
use sealpost_delivery::routes::Routes;
use sealpost_delivery::settings::Settings;
use sealpost_delivery::sts::PoliciesInMemory;
use sealpost_delivery::tls::TlsClient;
use sealpost_delivery::transport::{Choice, Transport};
use sealpost_dns::scripted::ScriptedResolver;
use sealpost_dns::{DnsName, Mx, Record, Tlsa};
use sealpost_smtp::types::{ClientName, Host, LocalPart, Mailbox, ReversePath};

struct Arguments {
    host: String,
    address: IpAddr,
    port: u16,
    recipient: Mailbox,
    message: Vec<u8>,
    tlsa: Option<Tlsa>,
    demand: TlsDemand,
    mails: usize,
}

fn parse() -> Option<Arguments> {
    let mut words = std::env::args().skip(1);
    let mut arguments = Arguments {
        host: words.next()?,
        address: words.next()?.parse().ok()?,
        port: words.next()?.parse().ok()?,
        recipient: mailbox(&words.next()?)?,
        message: std::fs::read(words.next()?).ok()?,
        tlsa: None,
        demand: TlsDemand::Policy,
        mails: 1,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--tlsa" => arguments.tlsa = Some(tlsa(&words.next()?)?),
            "--require-tls" => arguments.demand = TlsDemand::Require,
            "--mails" => arguments.mails = words.next()?.parse().ok()?,
            _ => return None,
        }
    }
    Some(arguments)
}

fn mailbox(address: &str) -> Option<Mailbox> {
    let (local, host) = address.rsplit_once('@')?;
    Some(Mailbox { local: LocalPart::new(local)?, host: Host::domain(host)? })
}

fn tlsa(text: &str) -> Option<Tlsa> {
    let mut words = text.split(' ');
    let mut number = || words.next()?.parse::<u8>().ok();
    let (usage, selector, matching) = (number()?, number()?, number()?);
    let hex = words.next()?;
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let data = (0..hex.len()).step_by(2).map(byte).collect::<Option<_>>()?;
    Some(Tlsa { usage, selector, matching, data })
}

fn deliverer(arguments: &Arguments) -> Option<Deliverer> {
    let zone = ScriptedResolver::new();
    let domain = arguments.recipient.host.to_string();
    let mx = Record::Mx(Mx { preference: 10, exchange: DnsName::new(&arguments.host)? });
    let address = match arguments.address {
        IpAddr::V4(v4) => Record::A(v4),
        IpAddr::V6(v6) => Record::Aaaa(v6),
    };
    match &arguments.tlsa {
        None => {
            zone.add(&domain, mx);
            zone.add(&arguments.host, address);
        }
        Some(tlsa) => {
            zone.add_secure(&domain, mx);
            zone.add_secure(&arguments.host, address);
            let name = format!("_{}._tcp.{}", arguments.port, arguments.host);
            zone.add_secure(&name, Record::Tlsa(tlsa.clone()));
        }
    }
    let mut settings = Settings::new(ClientName::new("client.example")?);
    (settings.port, settings.allow_private, settings.mta_sts) = (arguments.port, true, false);
    Some(Deliverer::new(Parts {
        settings,
        routes: Routes::default(),
        resolver: Arc::new(zone),
        dialer: Arc::new(TcpDialer),
        tls: TlsClient::new(RootCertStore::empty()).ok()?,
        policies: Arc::new(PoliciesInMemory::default()),
        reports: Arc::new(NoReports),
        clock: Arc::new(SystemClock::new()),
        random: Arc::new(SystemRandom),
    }))
}

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a command")]
async fn main() -> ExitCode {
    let Some((arguments, deliverer)) = parse().and_then(|a| deliverer(&a).map(|d| (a, d))) else {
        eprintln!(
            "usage: deliver HOST ADDRESS PORT RECIPIENT MESSAGE-FILE [--tlsa RECORD] [--require-tls] [--mails N]"
        );
        return ExitCode::from(2);
    };
    let sender = ReversePath::Mailbox(Mailbox {
        local: arguments.recipient.local.clone(),
        host: arguments.recipient.host.clone(),
    });
    let envelope = Envelope {
        sender: sender.clone(),
        recipients: vec![Recipient::new(arguments.recipient.clone())],
        ret: None,
        envid: None,
        facts: MessageFacts { eight_bit: !arguments.message.is_ascii(), utf8_header: false },
        tls: arguments.demand,
    };
    let resolved = deliverer.resolve(&sender, &arguments.recipient.host, Choice::First).await;
    let connected = match resolved {
        Some(Ok(destination)) => destination.connect(arguments.demand).await,
        Some(Err(failure)) => Err(failure),
        None => return ExitCode::from(2),
    };
    let mut connection = match connected {
        Ok(connection) => connection,
        Err(failure) => {
            println!("failed: {failure}");
            return ExitCode::FAILURE;
        }
    };
    let message = MessageInMemory(arguments.message.into());
    let mut all = ExitCode::SUCCESS;
    for _ in 0..arguments.mails {
        let attempt = connection.send(&envelope, &message).await;
        let (mode, verified) = (attempt.tls.mode.name(), attempt.tls.verified);
        match &attempt.recipients[0] {
            Outcome::Delivered(delivered) => {
                println!(
                    "delivered: {} [{mode} verified={verified} {}]",
                    delivered.reply, attempt.tls.parameters
                );
            }
            Outcome::Deferred(failure) | Outcome::Failed(failure) => {
                println!("failed: {failure} [{mode} verified={verified}]");
                all = ExitCode::FAILURE;
            }
        }
    }
    connection.quit().await;
    all
}
