//! The server as a whole: started from settings and a store, stopped in an orderly way.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use sealpost_base::limits::{DATABASE_START_TIME, OPERATOR_CONNECTIONS};
use sealpost_base::{Clock, Error, MemoryDivision, Random, Result, Timestamp};
use sealpost_directory::RecordsMaintained;
use sealpost_vault::Store;
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::store::Extent;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::bus::Ears;
use crate::http;
use crate::listener::{self, Listener, Serve, Service};
use crate::sending::Sending;
use crate::survive::survive;
use crate::tls::Tls;
use sealpost_http::HttpShared;
use sealpost_imap_session::ImapShared;
use sealpost_session::Context;
use sealpost_session::Shutdown;
use sealpost_session::admission::Admission;
use sealpost_session::settings::{Connections, Listen, Settings};
use sealpost_smtp_session::{Service as SmtpService, SmtpShared};

#[cfg(test)]
mod tests;

/// How often certificates are looked at and expired logins wiped.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_secs(60);
/// How often it is looked for accounts that nobody uses.
const UNLOAD_PERIOD: Duration = Duration::from_secs(5);
/// How often what this node has seen of the store is written down.
const WATERMARKS_PERIOD: Duration = Duration::from_secs(15);
/// How long it may take at the end to write down what accounts hold.
const WRITE_DOWN: Duration = Duration::from_secs(5);

/// Age at which nobody receives a spooled message any more.
const SPOOL_AGE: Duration = Duration::from_secs(24 * 3600);
/// Every so many of those periods, it is said that the certificate has expired.
const DAY_PERIODS: u64 = 24 * 60;
/// Every so many of those periods, accounts removed longer ago than the retention period are deleted.
const RETIREMENT_PERIODS: u64 = 60;

/// A server that runs. Dropping it cuts everything off; [`Server::stop`] is the polite way.
pub struct Server {
    addresses: Listen,
    ctx: Arc<Context>,
    tls: Option<Arc<Tls>>,
    admission: Admission,
    listeners: JoinSet<()>,
    housekeeping: JoinSet<()>,
    /// The bus, which ends when no session has anything more to tell.
    bus: JoinSet<()>,
    bus_ends: Shutdown,
    sending: Option<Sending>,
}

impl Server {
    /// Loads the certificate, listens on every address of the settings, and serves. Must be called
    /// inside a tokio runtime. If anything fails nothing is left behind.
    ///
    /// # Errors
    /// `Invalid` for settings that contradict themselves, or name what is not there or may not be
    /// used; `Retry` if it may work later, such as an address that another server listens on. The
    /// message names what it was.
    pub async fn start(
        settings: Settings,
        store: Store,
        key: ServerKeys,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self> {
        if let Some(wrong) = crate::bus::check(&settings.bus) {
            return Err(Error::invalid(wrong));
        }
        let (source, hostname) = (settings.tls.clone(), settings.hostname.clone());
        let tls = blocking(move || Tls::load(&source, &hostname)).await?.map(Arc::new);
        if let Some(wrong) = tls.as_ref().and_then(|tls| tls.out_of_date(clock.now())) {
            tracing::warn!("{wrong}");
        }
        let listen = settings.listen.clone();
        let with_tls = [&listen.smtps, &listen.submissions, &listen.imaps, &listen.https];
        let needs_tls = with_tls.iter().any(|all| !all.is_empty());
        if tls.is_none() && needs_tls {
            return Err(Error::invalid("listening with TLS needs a certificate"));
        }
        let takes_mail = [&listen.submission, &listen.submissions].iter().any(|all| !all.is_empty());
        if takes_mail && !settings.sends() {
            return Err(Error::invalid(
                "listen.submission takes mail to send: set sending.enabled to \"auto\" or \"on\"",
            ));
        }
        let is_sound = is_database_sound(&store).await;
        let ctx = Arc::new(Context::new(
            settings,
            store,
            key.clone(),
            tls.as_ref().map(|tls| tls.config().clone()),
            clock,
            random,
        )?);
        let written = written_last(&ctx.store).await;
        watch_clock(&ctx, Some(written)).await;
        let mut connections = ctx.settings.connections;
        let room = crate::files::room_for_connections();
        if room < connections.total {
            tracing::warn!(
                room,
                wanted = connections.total,
                "the limit of open files allows fewer connections"
            );
            connections.total = room;
        }
        log_memory(&ctx.settings.memory);
        let memory = &ctx.settings.memory;
        let accounts = ctx.accounts.clone();
        let admission =
            Admission::with_loan(connections, memory.connections, accounts, memory.lent_to_connections());
        let sending = match ctx.settings.sends() {
            true => match Sending::start(ctx.clone(), &key).await {
                Ok(sending) => Some(sending),
                // What can be read is served all the same.
                Err(error) if !is_sound => {
                    tracing::error!(%error, "nothing is sent, and submissions wait, until the database is repaired");
                    None
                }
                Err(error) => return Err(error),
            },
            false => None,
        };
        let (plaintext, tls_only) = (admission.places(), admission.places_with_tls());
        tracing::info!(plaintext, tls = tls_only, "room for connections");
        let mut addresses = Listen::default();
        let serve = session_services(&ctx, &key, sending.as_ref());
        let bound = bind_all(&listen, &mut addresses, serve, &ctx).and_then(|mut users| {
            users.extend(bind_http(&listen, &mut addresses, &ctx, tls.as_deref(), sending.as_ref())?);
            Ok((users, bind_operators(&listen, &mut addresses, sending.as_ref())?))
        });
        let (users, operators) = match (bound, &sending) {
            (Ok(bound), _) => bound,
            (Err(error), Some(sending)) => {
                sending.stop(Instant::now()).await;
                return Err(error);
            }
            (Err(error), None) => return Err(error),
        };
        let mut listeners = JoinSet::new();
        for (socket, service) in users {
            listeners.spawn(listener::run(socket, service, Arc::clone(&ctx), admission.clone()));
        }
        for (socket, service) in operators {
            // Mail and those who watch do not take each other's places.
            let few = Connections { total: OPERATOR_CONNECTIONS, per_address: OPERATOR_CONNECTIONS };
            listeners.spawn(listener::run(
                socket,
                service,
                Arc::clone(&ctx),
                // What these take is part of what the process does.
                Admission::new(few, usize::MAX),
            ));
        }
        let mut housekeeping = JoinSet::new();
        let of_tls = tls.clone();
        housekeeping
            .spawn(survive("housekeeping", Arc::clone(&ctx), move |ctx| keep_house(ctx, of_tls.clone())));
        housekeeping.spawn(survive("unloading", Arc::clone(&ctx), evict_idle));
        housekeeping.spawn(survive("watermarks", Arc::clone(&ctx), save_watermarks));
        let (mut bus, bus_ends) = (JoinSet::new(), Shutdown::new());
        let settings = ctx.settings.bus.clone();
        if !settings.url.is_empty() {
            let ends = bus_ends.clone();
            bus.spawn(survive("bus", Arc::clone(&ctx), move |ctx| {
                let ears = Ears { accounts: ctx.accounts.clone(), standings: ctx.auth.standings().clone() };
                crate::bus::run(settings.clone(), ears, ctx.random.clone(), ends.clone())
            }));
        }
        Ok(Server { addresses, ctx, tls, admission, listeners, housekeeping, bus, bus_ends, sending })
    }

    /// Where it listens; port 0 in the settings has become the port that was free.
    pub fn addresses(&self) -> &Listen {
        &self.addresses
    }

    /// What its sessions are given.
    pub fn context(&self) -> &Arc<Context> {
        &self.ctx
    }

    /// Its certificate; `None` without TLS.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_deref()
    }

    /// What sends mail; `None` if the settings say that it does not.
    pub fn sending(&self) -> Option<&Sending> {
        self.sending.as_ref()
    }

    /// Connections served now.
    pub fn connections(&self) -> usize {
        self.admission.total()
    }

    /// Loads a changed certificate now rather than within a minute (for SIGHUP); says whether it did.
    ///
    /// # Errors
    /// As [`Tls::load`]; the old certificate stays in use.
    pub async fn reload(&self) -> Result<bool> {
        match self.tls.clone() {
            Some(tls) => {
                let (now, changed) = (self.ctx.clock.now(), tls.clone());
                let changed = blocking(move || changed.reload_if_changed()).await;
                if let Some(wrong) = tls.out_of_date(now) {
                    tracing::warn!("{wrong}");
                }
                changed
            }
            None => Ok(false),
        }
    }

    /// Takes no more connections, has every session say goodbye (BYE, 421), begins no other delivery,
    /// and returns when all have ended, or after `grace` with those that have not cut off. Says how
    /// many sessions those were.
    pub async fn stop(mut self, grace: Duration) -> usize {
        let deadline = Instant::now() + grace;
        self.ctx.shutdown.begin();
        if let Some(sending) = &self.sending {
            sending.begin_stop();
        }
        let all_ended = async { while self.listeners.join_next().await.is_some() {} };
        let left = match tokio::time::timeout(grace, all_ended).await {
            Ok(()) => 0,
            Err(_) => self.admission.total(),
        };
        self.listeners.shutdown().await;
        if let Some(sending) = &self.sending {
            sending.stop(deadline).await;
        }
        // Sessions have left what they know, and nothing is delivered any more.
        if tokio::time::timeout(WRITE_DOWN, self.ctx.usage.write_down()).await.is_err() {
            tracing::warn!("cannot write all usage records before the exit");
        }
        save(&self.ctx).await;
        self.bus_ends.begin();
        while self.bus.join_next().await.is_some() {}
        self.housekeeping.shutdown().await;
        left
    }
}

/// Whether the database of a local store lists what it has, before anything is written there.
/// Damage is no reason to serve nothing: what can be read is read, and what comes is told to come
/// again after a repair.
async fn is_database_sound(store: &Store) -> bool {
    let found = match store.inspect(Extent::Newest, DATABASE_START_TIME).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, "cannot check the database for damage");
            return true;
        }
    };
    store.write_only_if_sound(&found);
    if found.unfinished {
        tracing::info!(
            objects = found.rows,
            "only part of the database was checked; sealpost check checks all of it"
        );
    }
    found.is_sound()
}

/// When something was written to the store last, if that can be told.
async fn written_last(store: &Store) -> Option<Timestamp> {
    store.written_last().await.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot tell when the store was written last");
        None
    })
}

/// Looks at the clock, for the first time when the server begins; nothing is removed for good while
/// it is not believed.
async fn watch_clock(ctx: &Context, begins: Option<Option<Timestamp>>) {
    let (watch, now) = (ctx.clock_watch.clone(), ctx.clock.now());
    let look = move || match begins {
        Some(written) => watch.begin(now, written),
        None => watch.look(now),
    };
    let is_believed = tokio::task::spawn_blocking(look).await.unwrap_or(false);
    ctx.accounts.remove_for_good(is_believed);
}

/// One line, in bytes.
fn log_memory(memory: &MemoryDivision) {
    let MemoryDivision { bound, process, connections, accounts, caches, work } = *memory;
    tracing::info!(bound, process, connections, accounts, caches, work, "memory is divided");
}

/// Opens every socket and writes down where; all or none.
fn bind_all(
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

/// The sockets of HTTP.
fn bind_http(
    listen: &Listen,
    addresses: &mut Listen,
    ctx: &Arc<Context>,
    tls: Option<&Tls>,
    sending: Option<&Sending>,
) -> Result<Vec<(Listener, Service)>> {
    let shared = Arc::new(HttpShared::new(ctx.clone(), http::router(ctx.clone(), sending.cloned(), None)));
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

/// The sockets of those who watch the server.
fn bind_operators(
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

/// What serves each protocol.
struct SessionServices {
    smtp: Serve,
    lmtp: Serve,
    submission: Serve,
    imap: Serve,
}

fn session_services(ctx: &Arc<Context>, key: &ServerKeys, sending: Option<&Sending>) -> SessionServices {
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

async fn sweep_spool(ctx: &Context) {
    // What a server that was killed had spooled cannot be opened any more; another one running now
    // has nothing that old.
    match sealpost_vault::spool::sweep(&ctx.store, before(ctx.clock.now(), SPOOL_AGE)).await {
        Ok(0) => {}
        Ok(objects) => tracing::info!(objects, "spooled messages of an earlier run were removed"),
        Err(e) => tracing::warn!(error = %e, "cannot look for spooled messages of an earlier run"),
    }
}

/// Deletes removed accounts whose retention period is over, if the clock that says so is believed,
/// and what processes that were killed left of passwords and app passwords that were withdrawn.
async fn maintain_records(ctx: &Context) {
    let is_believed = !ctx.clock_watch.is_doubted();
    let removed_before = is_believed.then(|| before(ctx.clock.now(), ctx.settings.retention));
    match ctx.directory.maintain_records(removed_before).await {
        Ok(RecordsMaintained { deleted, finished }) => {
            if deleted > 0 {
                tracing::info!(accounts = deleted, "removed accounts were deleted permanently");
            }
            if finished > 0 {
                let accounts = finished;
                tracing::info!(
                    accounts,
                    "copies of withdrawn secrets were removed: a change was interrupted"
                );
            }
        }
        Err(e) => tracing::warn!(error = %e, "cannot look for removed accounts and withdrawn secrets"),
    }
    match ctx.store.erase_left_slots().await {
        Ok(0) => {}
        Ok(files) => {
            tracing::info!(files, "files of removed account records were erased: a process was killed")
        }
        Err(e) => tracing::warn!(error = %e, "cannot look for files of removed account records"),
    }
}

async fn keep_house(ctx: Arc<Context>, tls: Option<Arc<Tls>>) {
    if !ctx.clock_watch.is_doubted() {
        sweep_spool(&ctx).await;
    }
    for minute in 0u64.. {
        if minute.is_multiple_of(RETIREMENT_PERIODS) {
            maintain_records(&ctx).await;
        }
        tokio::select! {
            () = ctx.shutdown.wait() => return,
            () = tokio::time::sleep(HOUSEKEEPING_PERIOD) => {}
        }
        watch_clock(&ctx, None).await;
        ctx.failed_logins.sweep();
        let Some(tls) = tls.clone() else { continue };
        if minute % DAY_PERIODS == DAY_PERIODS - 1
            && let Some(wrong) = tls.out_of_date(ctx.clock.now())
        {
            tracing::warn!("{wrong}");
        }
        match blocking(move || tls.reload_if_changed()).await {
            Ok(true) => tracing::info!("the certificate was replaced"),
            Ok(false) => {}
            Err(e) => {
                tracing::warn!(error = %e, "the certificate changed but cannot be used; the old one stays")
            }
        }
    }
}

async fn evict_idle(ctx: Arc<Context>) {
    loop {
        tokio::select! {
            () = ctx.shutdown.wait() => return,
            () = tokio::time::sleep(UNLOAD_PERIOD) => {}
        }
        ctx.auth.sweep();
        ctx.accounts.evict_idle();
        sealpost_vault::wipe_scratch();
    }
}

/// What this node has seen is written now and then: what it forgets if it is killed is a short while.
async fn save_watermarks(ctx: Arc<Context>) {
    loop {
        tokio::select! {
            () = ctx.shutdown.wait() => return,
            () = tokio::time::sleep(WATERMARKS_PERIOD) => save(&ctx).await,
        }
    }
}

async fn save(ctx: &Context) {
    let watermarks = ctx.watermarks.clone();
    if let Err(e) = blocking(move || watermarks.save()).await {
        tracing::warn!(error = %e, "cannot write the watermarks of this node");
    }
}

fn before(now: Timestamp, by: Duration) -> Timestamp {
    Timestamp(now.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(Error::internal("reading the certificate did not finish").with_source(e)))
}
