//! Notifications to systemd (`sd_notify(3)`, `Type=notify`): that the server is ready, that it
//! stops, and while it is alive that it is (`WatchdogSec=`).
//!
//! A datagram to the socket that `NOTIFY_SOCKET` names is the whole protocol, so no library is
//! needed. Nothing here waits, and a service manager that does not listen is no reason to stop.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use sealpost_server::Context;
use tokio::time::{MissedTickBehavior, interval};

/// The service manager of this process, if it wants notifications.
#[derive(Clone)]
pub struct ServiceManager(Option<Arc<NotifySocket>>);

struct NotifySocket {
    socket: UnixDatagram,
    to: SocketAddr,
    /// How often it has to hear from us.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// As the environment says.
    pub fn from_environment() -> Self {
        Self::named(|name| std::env::var_os(name)?.into_string().ok())
    }

    fn named(variable: impl Fn(&str) -> Option<String>) -> Self {
        let Some(to) = variable("NOTIFY_SOCKET").and_then(|name| address(&name)) else {
            return ServiceManager(None);
        };
        let socket = UnixDatagram::unbound().and_then(|socket| {
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        // Children have the variables too, and are not meant.
        let is_for_us = variable("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(std::process::id()));
        let period = variable("WATCHDOG_USEC").filter(|_| is_for_us).and_then(|micros| micros.parse().ok());
        let watchdog = period.filter(|micros| *micros > 0).map(Duration::from_micros);
        ServiceManager(socket.ok().map(|socket| Arc::new(NotifySocket { socket, to, watchdog })))
    }

    /// Connections are accepted.
    pub fn ready(&self) {
        self.notify("READY=1");
    }

    /// The server stops.
    pub fn stopping(&self) {
        self.notify("STOPPING=1");
    }

    /// Notifies at the required interval that the server is alive, as long as every accept loop
    /// answers. Ends at once without a watchdog.
    ///
    /// It is a task of the runtime that serves: if that runs no tasks, it sends nothing.
    pub async fn watch(self, ctx: Arc<Context>) {
        let Some(period) = self.0.as_ref().and_then(|notify_socket| notify_socket.watchdog) else { return };
        // As sd_watchdog_enabled(3) advises.
        let mut beat = interval(period / 2);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            // Loops that have ended because the server stops are no reason to be killed before its
            // grace time is over.
            match ctx.health.check(period / 4).await {
                Err(error) if !ctx.shutdown.is_stopping() => {
                    tracing::error!(%error, "cannot send the watchdog notification to the service manager");
                }
                _ => self.notify("WATCHDOG=1"),
            }
        }
    }

    fn notify(&self, what: &str) {
        let Some(notify_socket) = &self.0 else { return };
        if let Err(error) = notify_socket.socket.send_to_addr(what.as_bytes(), &notify_socket.to) {
            tracing::warn!(%error, what, "cannot notify the service manager");
        }
    }
}

/// A path, or a name in the abstract namespace after `@`.
fn address(name: &str) -> Option<SocketAddr> {
    let address = match name.strip_prefix('@') {
        Some(name) => abstract_address(name),
        None if name.starts_with('/') => SocketAddr::from_pathname(name),
        // `vsock:` of virtual machines.
        None => Err(io::ErrorKind::Unsupported.into()),
    };
    address
        .inspect_err(|error| {
            tracing::warn!(%error, name, "NOTIFY_SOCKET cannot be used: the service manager gets no \
                                          notifications");
        })
        .ok()
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &str) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &str) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(address: &str, more: &[(&str, String)]) -> ServiceManager {
        ServiceManager::named(|name| match name {
            "NOTIFY_SOCKET" => Some(address.to_owned()),
            name => more.iter().find(|(n, _)| *n == name).map(|(_, value)| value.clone()),
        })
    }

    fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 100];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn paths_and_abstract_names_are_notified() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let listens = UnixDatagram::bind(&path).unwrap();
        let by_path = manager(path.to_str().unwrap(), &[]);
        by_path.ready();
        by_path.stopping();
        assert_eq!([heard(&listens), heard(&listens)], ["READY=1", "STOPPING=1"]);
        let name = format!("sealpost-test-{}", std::process::id());
        let listens = UnixDatagram::bind_addr(&address(&format!("@{name}")).unwrap()).unwrap();
        manager(&format!("@{name}"), &[]).ready();
        assert_eq!(heard(&listens), "READY=1");
    }

    #[test]
    fn a_manager_that_does_not_listen_is_no_obstacle() {
        for name in ["/nowhere/notify", "vsock:2:1234", "", "relative"] {
            manager(name, &[]).ready();
        }
        ServiceManager::named(|_| None).stopping();
    }

    #[test]
    fn the_watchdog_is_for_one_process() {
        let period = |more: &[(&str, String)]| manager("@x", more).0.unwrap().watchdog;
        let micros = ("WATCHDOG_USEC", "30000000".to_owned());
        let pid = |pid: u32| ("WATCHDOG_PID", pid.to_string());
        assert_eq!(period(std::slice::from_ref(&micros)), Some(Duration::from_secs(30)));
        assert_eq!(period(&[micros.clone(), pid(std::process::id())]), Some(Duration::from_secs(30)));
        assert_eq!(period(&[micros, pid(std::process::id() + 1)]), None);
        assert_eq!(period(&[("WATCHDOG_USEC", "0".to_owned())]), None);
        assert_eq!(period(&[]), None);
    }
}
