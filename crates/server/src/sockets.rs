//! The sockets of every protocol, and the function that serves each.

use std::sync::Arc;

use futures::FutureExt;
use sealpost_base::Result;
use sealpost_http::HttpShared;
use sealpost_imap_session::ImapShared;
use sealpost_session::Context;
use sealpost_session::settings::Listen;
use sealpost_smtp_session::{Service as SmtpService, SmtpShared};
use sealpost_vault::server_key::ServerKeys;

use crate::http;
use crate::http::jmap::Jmap;
use crate::listener::{Listener, Serve, Service};
use crate::sending::Sending;
use crate::tls::Tls;

/// Opens the sockets of SMTP, LMTP and IMAP: all or none. Adds the address of each to `addresses`,
/// with the port that the system chose for port 0.
///
/// # Errors
/// Those of [`Listener::tcp`] and [`Listener::unix`].
pub(crate) fn bind_all(
    listen: &Listen,
    addresses: &mut Listen,
    serve: SessionServices,
    ctx: &Context,
) -> Result<Vec<(Listener, Service)>> {
    let mut bound = Vec::new();
    // RFC 3463 §3.4: 4.3.2, the system does not accept messages now.
    let smtp_refusal: Arc<str> =
        format!("421 4.3.2 {} Too many connections, try again later\r\n", ctx.hostname).into();
    let imap_refusal: Arc<str> = "* BYE [UNAVAILABLE] Too many connections, try again later\r\n".into();
    let service = |protocol, tls, serve: &Serve| {
        let refusal = if protocol == "imap" { imap_refusal.clone() } else { smtp_refusal.clone() };
        let tls = if tls { ctx.tls.clone() } else { None };
        Service { protocol, tls, refusal, serve: serve.clone() }
    };
    for (wanted, got, service) in [
        (&listen.smtp, &mut addresses.smtp, service("smtp", false, &serve.smtp)),
        (&listen.smtps, &mut addresses.smtps, service("smtp", true, &serve.smtp)),
        (&listen.submission, &mut addresses.submission, service("submission", false, &serve.submission)),
        (&listen.submissions, &mut addresses.submissions, service("submission", true, &serve.submission)),
        (&listen.lmtp, &mut addresses.lmtp, service("lmtp", false, &serve.lmtp)),
        (&listen.imap, &mut addresses.imap, service("imap", false, &serve.imap)),
        (&listen.imaps, &mut addresses.imaps, service("imap", true, &serve.imap)),
    ] {
        for &address in wanted {
            let listener = Listener::tcp(address)?;
            got.push(listener.address().unwrap_or(address));
            bound.push((listener, service.clone()));
        }
    }
    for path in &listen.lmtp_unix {
        bound.push((Listener::unix(path, 0o660)?, service("lmtp", false, &serve.lmtp)));
        addresses.lmtp_unix.push(path.clone());
    }
    Ok(bound)
}

/// Opens the sockets of HTTP, as [`bind_all`].
///
/// # Errors
/// Those of [`Listener::tcp`].
pub(crate) fn bind_http(
    listen: &Listen,
    addresses: &mut Listen,
    ctx: &Arc<Context>,
    tls: Option<&Tls>,
    sending: Option<&Sending>,
) -> Result<Vec<(Listener, Service)>> {
    let jmap = Arc::new(Jmap::new(ctx.clone(), sending.map(Sending::outbox).cloned()));
    let shared = Arc::new(HttpShared::new(ctx.clone(), http::router(ctx.clone(), sending.cloned(), &jmap)));
    let serve: Serve = Arc::new(move |stream, _| sealpost_http::serve(stream, shared.clone()).boxed());
    let mut bound = Vec::new();
    for (wanted, got, tls) in [
        (&listen.http, &mut addresses.http, None),
        (&listen.https, &mut addresses.https, tls.map(Tls::http_config)),
    ] {
        for &address in wanted {
            let listener = Listener::tcp(address)?;
            got.push(listener.address().unwrap_or(address));
            let (refusal, serve) = (http::REFUSAL.into(), serve.clone());
            bound.push((listener, Service { protocol: "http", tls: tls.clone(), refusal, serve }));
        }
    }
    Ok(bound)
}

/// Opens the sockets of operators: metrics and the admin socket, as [`bind_all`].
///
/// # Errors
/// Those of [`Listener::tcp`]. A server without its admin socket starts all the same.
pub(crate) fn bind_operators(
    listen: &Listen,
    addresses: &mut Listen,
    sending: Option<&Sending>,
) -> Result<Vec<(Listener, Service)>> {
    let mut bound = Vec::new();
    let (sending, watched) = (sending.cloned(), sending.cloned());
    let serve_metrics = move |stream, ctx| crate::metrics::http::serve(stream, ctx, watched.clone()).boxed();
    let refusal = http::REFUSAL.into();
    let service = Service { protocol: "metrics", tls: None, refusal, serve: Arc::new(serve_metrics) };
    for &address in &listen.metrics {
        let listener = Listener::tcp(address)?;
        addresses.metrics.push(listener.address().unwrap_or(address));
        bound.push((listener, service.clone()));
    }
    if let Some((listener, path)) = listen.admin.as_deref().and_then(crate::admin::listen) {
        addresses.admin = Some(path);
        let refusal = "{\"error\":\"too many connections\"}\n".into();
        let serve = move |stream, ctx| crate::admin::serve(stream, ctx, sending.clone()).boxed();
        bound.push((listener, Service { protocol: "admin", tls: None, refusal, serve: Arc::new(serve) }));
    }
    Ok(bound)
}

/// The function that serves a connection, for each protocol.
pub(crate) struct SessionServices {
    smtp: Serve,
    lmtp: Serve,
    submission: Serve,
    imap: Serve,
}

/// What the sessions of each protocol share, and the functions that serve them.
pub(crate) fn session_services(
    ctx: &Arc<Context>,
    key: &ServerKeys,
    sending: Option<&Sending>,
) -> SessionServices {
    let imap = Arc::new(ImapShared::new(ctx.clone(), key));
    let mut smtp = SmtpShared::new(ctx.clone(), sending.map(Sending::outbox).cloned());
    let listen = &ctx.settings.listen;
    // RFC 4468 §3.3: URLs are made in IMAP.
    if !listen.imap.is_empty() || !listen.imaps.is_empty() {
        smtp = smtp.with_content_urls(imap.clone());
    }
    let smtp = Arc::new(smtp);
    let serve_smtp = |service| -> Serve {
        let smtp = smtp.clone();
        Arc::new(move |stream, _| sealpost_smtp_session::serve(stream, smtp.clone(), service).boxed())
    };
    SessionServices {
        smtp: serve_smtp(SmtpService::Smtp),
        lmtp: serve_smtp(SmtpService::Lmtp),
        submission: serve_smtp(SmtpService::Submission),
        imap: Arc::new(move |stream, _| sealpost_imap_session::serve(stream, imap.clone()).boxed()),
    }
}
