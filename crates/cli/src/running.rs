//! A server that runs until a signal stops it, or until it can no longer accept connections.
//!
//! SIGTERM or SIGINT: every session says goodbye (BYE, 421) and the process ends within the
//! `timeouts.shutdown_grace` of the configuration. A second one: it ends at once; what was
//! acknowledged is safe in either case. SIGHUP: a changed certificate is loaded. A listening socket
//! that is lost ends the process too, as a failure, so that the service manager starts another.
//!
//! Signals have a thread of their own ([`signals`]): a runtime that runs nothing any more must not
//! keep the process.

mod service_manager;
mod signals;

use std::process::ExitCode;

use sealpost_server::Server;

use crate::exit;
pub use service_manager::ServiceManager;
use signals::Action;
pub use signals::Signals;

/// Serves until a signal says stop, then stops.
pub async fn until_stopped(server: Server, mut signals: Signals, manager: ServiceManager) -> ExitCode {
    let ctx = server.context().clone();
    tokio::spawn(manager.clone().watch(ctx.clone()));
    manager.ready();
    let code = loop {
        tokio::select! {
            said = signals.next() => match said {
                Action::Stop => break ExitCode::SUCCESS,
                Action::Reload => reload(&server).await,
            },
            protocol = ctx.health.lost() => {
                tracing::error!(protocol, "a listener has ended: the server exits, so that the service \
                                           manager restarts it");
                break ExitCode::from(exit::FAILED);
            }
        }
    };
    tracing::info!("stopping");
    manager.stopping();
    let grace = ctx.settings.timeouts.shutdown_grace;
    signals.begin_end();
    let cut_off = server.stop(grace).await;
    if cut_off > 0 {
        tracing::warn!(
            sessions = cut_off,
            "sessions that did not end within timeouts.shutdown_grace were \
                                            disconnected"
        );
    }
    code
}

async fn reload(server: &Server) {
    match server.reload().await {
        Ok(true) => tracing::info!("the certificate was replaced"),
        Ok(false) => tracing::info!("the certificate has not changed"),
        Err(e) => tracing::warn!(error = %e, "the certificate cannot be used; the old one stays"),
    }
}
