//! From what the operator decides to what delivery needs.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use sealpost_base::{Error, Result};
use sealpost_delivery::envelope::TlsDemand;
use sealpost_delivery::routes::{self, Credentials, Routes};
use sealpost_delivery::settings;
use sealpost_dns::DnsName;
use sealpost_files::owner;
use sealpost_queue::envelope;
use sealpost_session::Context;
use sealpost_session::settings::sending::{Domains, Family, Route, Smarthost, SmarthostTls, Via};
use sealpost_smtp::types::{ClientName, Host, Notify, Return, Secret};
use zeroize::Zeroizing;

/// Bytes of a file with credentials.
const CREDENTIALS_BYTES: u64 = 4096;

/// How this node delivers.
pub(super) fn settings(ctx: &Context) -> Result<settings::Settings> {
    let sending = &ctx.settings.sending;
    let name = sending.ehlo_name.as_ref().unwrap_or(&ctx.hostname);
    let wrong = || Error::invalid(format!("sending.ehlo_name: {name:?} is no host name"));
    let mut settings = settings::Settings::new(ClientName::new(name).ok_or_else(wrong)?);
    // Mail for these domains is delivered here; servers of other domains that have these names are
    // this server, and mail to them would come back.
    settings.own_names.extend(DnsName::new(&ctx.hostname));
    let listens = ctx.settings.listen.smtp.iter().map(std::net::SocketAddr::ip);
    settings.own_addresses = listens.filter(|address| !address.is_unspecified()).collect();
    settings.own_addresses.extend(sending.source_ipv4.map(std::net::IpAddr::V4));
    settings.own_addresses.extend(sending.source_ipv6.map(std::net::IpAddr::V6));
    if sending.allow_private {
        // Tests have other servers on the addresses of this one.
        settings.own_addresses.clear();
    }
    (settings.source_ipv4, settings.source_ipv6) = (sending.source_ipv4, sending.source_ipv6);
    settings.family = family(sending.family);
    for of in &sending.family_of {
        settings.family_of.insert(domain(&of.domain)?, family(of.family));
    }
    settings.port = sending.port;
    settings.allow_private = sending.allow_private;
    (settings.dane, settings.mta_sts) = (sending.dane, sending.mta_sts);
    Ok(settings)
}

fn family(family: Family) -> settings::Family {
    match family {
        Family::PreferIpv6 => settings::Family::PreferIpv6,
        Family::PreferIpv4 => settings::Family::PreferIpv4,
        Family::Ipv4Only => settings::Family::Ipv4Only,
        Family::Ipv6Only => settings::Family::Ipv6Only,
    }
}

/// The routes, with the credentials that their files hold.
pub(super) fn routes(routes: &[Route]) -> Result<Routes> {
    let route = |route: &Route| {
        let via = match &route.via {
            Via::Direct => routes::Via::Direct,
            Via::Smarthost(host) => routes::Via::Smarthost(smarthost(host)?),
            Via::DirectThen(host) => routes::Via::DirectThen(smarthost(host)?),
        };
        let (destination, sender) = (domains(&route.destination)?, domains(&route.sender)?);
        Ok(routes::Route { destination, sender, via })
    };
    Ok(Routes { routes: routes.iter().map(route).collect::<Result<_>>()? })
}

fn domains(domains: &Domains) -> Result<routes::Domains> {
    Ok(match domains {
        Domains::Any => routes::Domains::Any,
        Domains::One(name) => routes::Domains::One(domain(name)?),
        Domains::Below(name) => routes::Domains::Below(domain(name)?),
    })
}

fn domain(name: &str) -> Result<DnsName> {
    DnsName::new(name).ok_or_else(|| Error::invalid(format!("sending: {name:?} is no domain")))
}

fn smarthost(smarthost: &Smarthost) -> Result<Arc<routes::Smarthost>> {
    let name = &smarthost.host;
    let host = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => match address.parse() {
            Ok(std::net::IpAddr::V4(address)) => Some(Host::Ipv4(address)),
            Ok(std::net::IpAddr::V6(address)) => Some(Host::Ipv6(address)),
            Err(_) => None,
        },
        None => Host::domain(name),
    };
    let host = host.ok_or_else(|| Error::invalid(format!("sending.routes: {name:?} is no smarthost")))?;
    let tls = match smarthost.tls {
        SmarthostTls::None => routes::SmarthostTls::None,
        SmarthostTls::Opportunistic => routes::SmarthostTls::Opportunistic,
        SmarthostTls::StartTls => routes::SmarthostTls::StartTls,
        SmarthostTls::Implicit => routes::SmarthostTls::Implicit,
    };
    let path = &smarthost.credentials;
    let credentials = match path.as_os_str().is_empty() {
        true => None,
        false => Some(credentials(path)?),
    };
    routes::Smarthost::new(host, smarthost.port, tls, credentials).map(Arc::new)
}

/// User and password, a line each.
fn credentials(path: &Path) -> Result<Credentials> {
    let mut text = Zeroizing::new(String::with_capacity(CREDENTIALS_BYTES as usize));
    let read = File::open(path).and_then(|file| file.take(CREDENTIALS_BYTES).read_to_string(&mut text));
    let unusable = |e| {
        let e = owner::explained(path, e);
        Error::invalid(format!("sending.routes: the credentials in {}: {e}", path.display()))
    };
    read.map_err(unusable)?;
    let mut lines = text.lines();
    match (lines.next(), lines.next()) {
        (Some(user), Some(password)) if !user.is_empty() && !password.is_empty() => {
            Ok(Credentials { user: user.to_owned(), password: Secret::new(password) })
        }
        _ => Err(Error::invalid(format!(
            "sending.routes: {} needs two lines: the user, and the password",
            path.display()
        ))),
    }
}

/// RET as the queue has it.
pub(super) fn ret(ret: Return) -> envelope::Ret {
    match ret {
        Return::Full => envelope::Ret::Full,
        Return::Headers => envelope::Ret::Headers,
    }
}

/// What is demanded of TLS, as the queue has it.
pub(super) fn tls(demand: TlsDemand) -> envelope::TlsDemand {
    match demand {
        TlsDemand::Policy => envelope::TlsDemand::Policy,
        TlsDemand::Require => envelope::TlsDemand::Require,
        TlsDemand::Waive => envelope::TlsDemand::Waive,
    }
}

/// The reports that are wanted of an address that mail is forwarded to. Success is reported by this
/// server, unless the address stands for the recipient alone (RFC 3461 §5.2.7.2, §5.2.7.3).
pub(super) fn notify(notify: Option<Notify>, is_alone: bool) -> Option<envelope::Notify> {
    let Notify::On { success, failure, delay } = notify? else { return Some(envelope::Notify::NEVER) };
    let wanted = [
        (success && is_alone, envelope::Notify::SUCCESS),
        (failure, envelope::Notify::FAILURE),
        (delay, envelope::Notify::DELAY),
    ];
    let wanted = wanted.into_iter().filter(|(is_wanted, _)| *is_wanted);
    Some(wanted.fold(envelope::Notify::NEVER, |all, (_, one)| all.and(one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_two_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("relay.secret");
        let route = || format!("* via smart.example:465 credentials {}", path.display()).parse().unwrap();
        assert!(routes(&[route()]).unwrap_err().to_string().contains("relay.secret"));
        std::fs::write(&path, "user\n").unwrap();
        assert!(routes(&[route()]).unwrap_err().to_string().contains("needs two lines"));
        std::fs::write(&path, "user\nsecret\n").unwrap();
        let made = routes(&[route()]).unwrap();
        let routes::Via::Smarthost(smarthost) = &made.routes[0].via else { panic!("{made:?}") };
        let credentials = smarthost.credentials.as_ref().unwrap();
        assert_eq!((smarthost.port, credentials.user.as_str()), (465, "user"));
    }
}
