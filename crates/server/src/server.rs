//! The server as a whole: started from settings and a store, stopped in an orderly way.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::limits::{DATABASE_START_TIME, OPERATOR_CONNECTIONS};
use sealpost_base::{Clock, Error, MemoryDivision, Random, Result, Timestamp};
use sealpost_push::Pusher;
use sealpost_vault::Store;
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::store::Extent;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::blocking::blocking;
use crate::bus::Ears;
use crate::housekeeping::{evict_idle, keep_house, save, save_watermarks, watch_clock};
use crate::listener;
use crate::sending::Sending;
use crate::sockets::{bind_all, bind_http, bind_operators, session_services};
use crate::survive::survive;
use crate::tls::Tls;
use sealpost_session::Context;
use sealpost_session::Shutdown;
use sealpost_session::admission::Admission;
use sealpost_session::settings::{Connections, Listen, Settings};

#[cfg(test)]
mod tests;

/// The longest time that a stopping server takes to write usage records.
const WRITE_DOWN: Duration = Duration::from_secs(5);

/// A running server. Dropping it closes all connections at once; [`Server::stop`] lets them end.
pub struct Server {
    addresses: Listen,
    ctx: Arc<Context>,
    tls: Option<Arc<Tls>>,
    admission: Admission,
    listeners: JoinSet<()>,
    housekeeping: JoinSet<()>,
    /// The bus, which ends after the last session, so that it sends their last notifications.
    bus: JoinSet<()>,
    bus_ends: Shutdown,
    sending: Option<Sending>,
    push: Option<Pusher>,
}

impl Server {
    /// Loads the certificate, listens on every address of the settings, and serves. Must be called
    /// inside a tokio runtime. After an error no socket stays open.
    ///
    /// # Errors
    /// `Invalid` for settings that contradict each other, or name a file that is missing or not
    /// permitted; `Retry` if it may work later, such as an address that another server listens on.
    /// The message names the setting or file.
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
        if listen.takes_submissions() && !settings.sends() {
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
                // A damaged database still serves its readable objects.
                Err(error) if !is_sound => {
                    tracing::error!(%error, "sending and submission stay off until the database is repaired");
                    None
                }
                Err(error) => return Err(error),
            },
            false => None,
        };
        let push = crate::push::start(&ctx, &key, sending.as_ref()).await;
        let (plaintext, tls_only) = (admission.places(), admission.places_with_tls());
        tracing::info!(plaintext, tls = tls_only, "connection limits");
        let mut addresses = Listen::default();
        let serve = session_services(&ctx, &key, sending.as_ref());
        let bound = bind_all(&listen, &mut addresses, serve, &ctx).and_then(|mut users| {
            users.extend(bind_http(
                &listen,
                &mut addresses,
                &ctx,
                tls.as_deref(),
                sending.as_ref(),
                push.as_ref(),
            )?);
            Ok((users, bind_operators(&listen, &mut addresses, sending.as_ref(), push.as_ref())?))
        });
        let (users, operators) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                if let Some(sending) = &sending {
                    sending.stop(Instant::now()).await;
                }
                if let Some(push) = &push {
                    push.stop().await;
                }
                return Err(error);
            }
        };
        let mut listeners = JoinSet::new();
        for (socket, service) in users {
            listeners.spawn(listener::run(socket, service, Arc::clone(&ctx), admission.clone()));
        }
        for (socket, service) in operators {
            // Connections of operators and of clients have separate limits.
            let few = Connections { total: OPERATOR_CONNECTIONS, per_address: OPERATOR_CONNECTIONS };
            listeners.spawn(listener::run(
                socket,
                service,
                Arc::clone(&ctx),
                // Their memory belongs to the part for the process.
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
        Ok(Server { addresses, ctx, tls, admission, listeners, housekeeping, bus, bus_ends, sending, push })
    }

    /// The addresses it listens on, with the port that the system chose for port 0.
    pub fn addresses(&self) -> &Listen {
        &self.addresses
    }

    /// The context that its sessions share.
    pub fn context(&self) -> &Arc<Context> {
        &self.ctx
    }

    /// Its certificate; `None` without TLS.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_deref()
    }

    /// The sender of outbound mail; `None` if the settings turn sending off.
    pub fn sending(&self) -> Option<&Sending> {
        self.sending.as_ref()
    }

    /// Connections served now.
    pub fn connections(&self) -> usize {
        self.admission.total()
    }

    /// Loads a changed certificate now rather than within a minute (for SIGHUP). Returns whether it
    /// changed.
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

    /// Accepts no more connections, ends every session with BYE or 421, begins no other delivery, and
    /// returns when all have ended. After `grace` it closes the remaining connections and returns
    /// their number.
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
        // All sessions and deliveries have ended: nothing is appended any more.
        if let Some(push) = &self.push {
            push.stop().await;
        }
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

/// Checks the indexes of a local store's database before anything is written there. With a damaged
/// database the server still starts: it serves readable objects, and refuses writes with a temporary
/// error until the repair.
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

/// When the store was written last; `None` if the store does not record it.
async fn written_last(store: &Store) -> Option<Timestamp> {
    store.written_last().await.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot tell when the store was written last");
        None
    })
}

/// Logs the parts of the memory, in bytes.
fn log_memory(memory: &MemoryDivision) {
    let MemoryDivision { bound, process, connections, accounts, caches, work } = *memory;
    tracing::info!(bound, process, connections, accounts, caches, work, "memory is divided");
}
