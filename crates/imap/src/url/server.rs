//! `imap://` and the server part up to the path (RFC 5092 §3, §4).

use super::{InvalidUrl, UrlServer, decoded};

const SCHEME: &str = "imap://";

/// The server part, if there is one, and the path, which begins with `/`.
pub(super) fn split(text: &str) -> Result<(Option<UrlServer>, &str), InvalidUrl> {
    let absolute = text.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME));
    if !absolute {
        return match text.as_bytes() {
            [b'/', b'/', ..] => Err(InvalidUrl("the URL is of another server")),
            [b'/', ..] => Ok((None, text)),
            // RFC 5092 §7.2: relative-path references are neither made nor taken.
            _ => Err(InvalidUrl("the URL must begin with imap:// or /")),
        };
    }
    let rest = &text[SCHEME.len()..];
    let (authority, path) = rest.split_at(rest.find('/').ok_or(InvalidUrl("the URL names no mailbox"))?);
    Ok((Some(server(authority)?), path))
}

/// `iserver = [iuserinfo "@"] host [":" port]`
fn server(authority: &str) -> Result<UrlServer, InvalidUrl> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (userinfo(user)?, host),
        None => (None, authority),
    };
    let bracket = host.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match host[bracket..].split_once(':') {
        Some((name, port)) => {
            let port = port.parse().map_err(|_| InvalidUrl("a port is a number"))?;
            (&host[..bracket + name.len()], Some(port))
        }
        None => (host, None),
    };
    if host.is_empty() {
        return Err(InvalidUrl("the URL has no host"));
    }
    Ok(UrlServer { user, host: decoded(host)?.to_ascii_lowercase(), port })
}

/// `iuserinfo = enc-user [iauth] / [enc-user] iauth`, `iauth = ";AUTH=" ("*" / enc-auth-type)`
fn userinfo(text: &str) -> Result<Option<String>, InvalidUrl> {
    let (user, auth) = text.split_once(';').map_or((text, None), |(user, auth)| (user, Some(auth)));
    let known =
        |auth: &str| auth.len() > 5 && auth.get(..5).is_some_and(|name| name.eq_ignore_ascii_case("AUTH="));
    if auth.is_some_and(|auth| !known(auth)) || user.contains([':', '@', '/']) {
        return Err(InvalidUrl("the URL's user is malformed"));
    }
    match (user, auth) {
        ("", None) => Err(InvalidUrl("the URL's user is empty")),
        ("", Some(_)) => Ok(None),
        (user, _) => decoded(user).map(Some),
    }
}
