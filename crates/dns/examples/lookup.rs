//! Looks names up as the server does, for comparison with other resolvers.
//!
//!     lookup [--root ADDRESS] [--server ADDRESS] [--anchor FILE] NAME:TYPE...
//!
//! Without `--server` it asks from the root downwards. One line for each question: its answer, and
//! whether DNSSEC validated that.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program of its own")]

use std::net::IpAddr;
use std::process::ExitCode;

use sealpost_dns::hickory::{ForwardingResolver, RecursionSettings, RecursiveResolver};
use sealpost_dns::{DnsName, LookupError, Record, RecordType, Resolver};

const TYPES: [RecordType; 8] = [
    RecordType::A,
    RecordType::Aaaa,
    RecordType::Mx,
    RecordType::Txt,
    RecordType::Tlsa,
    RecordType::Srv,
    RecordType::Ptr,
    RecordType::Cname,
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), String> {
    let mut settings = RecursionSettings::default();
    let (mut servers, mut questions): (Vec<IpAddr>, Vec<(DnsName, RecordType)>) = Default::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--root" => {
                settings.ipv6 = false;
                settings.roots.push(value()?.parse().map_err(|_| "--root needs an address")?);
            }
            "--server" => servers.push(value()?.parse().map_err(|_| "--server needs an address")?),
            "--anchor" => {
                let text = std::fs::read_to_string(value()?).map_err(|e| e.to_string())?;
                settings.trust_anchor = Some(text);
            }
            _ => questions.push(question(&argument).ok_or(format!("{argument} is not NAME:TYPE"))?),
        }
    }
    let resolver: Box<dyn Resolver> = match servers.is_empty() {
        true => Box::new(RecursiveResolver::new(&settings).map_err(|e| e.to_string())?),
        false => {
            let anchor = settings.trust_anchor.as_deref();
            Box::new(ForwardingResolver::new(&servers, 53, anchor).map_err(|e| e.to_string())?)
        }
    };
    for (name, kind) in questions {
        let answer = match resolver.lookup(&name, kind).await {
            Ok(answer) => {
                let mut records: Vec<_> = answer.records.iter().map(show).collect();
                records.sort();
                let security = if answer.secure { "secure" } else { "insecure" };
                format!("{security} {}", records.join(" | "))
            }
            Err(LookupError::NoSuchName { .. }) => "no such name".to_owned(),
            Err(LookupError::NoData { .. }) => "no data".to_owned(),
            Err(LookupError::Bogus) => "bogus".to_owned(),
            Err(error) => format!("failed: {error}"),
        };
        println!("{name}:{kind} {answer}");
    }
    Ok(())
}

fn question(argument: &str) -> Option<(DnsName, RecordType)> {
    let (name, kind) = argument.rsplit_once(':')?;
    let kind = TYPES.into_iter().find(|known| known.to_string() == kind)?;
    Some((DnsName::new(name)?, kind))
}

fn show(record: &Record) -> String {
    match record {
        Record::A(address) => address.to_string(),
        Record::Aaaa(address) => address.to_string(),
        Record::Mx(mx) => format!("{} {}", mx.preference, mx.exchange.as_str()),
        Record::Txt(text) => String::from_utf8_lossy(text).into_owned(),
        Record::Srv(srv) => format!("{} {} {} {}", srv.priority, srv.weight, srv.port, srv.target.as_str()),
        Record::Tlsa(tlsa) => {
            let data: String = tlsa.data.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{} {} {} {data}", tlsa.usage, tlsa.selector, tlsa.matching)
        }
        Record::Ptr(name) | Record::Cname(name) => name.to_string(),
    }
}
