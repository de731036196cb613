//! `sealpost serve`: the server, as the configuration says.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use sealpost_archive::refetch::Anywhere;
use sealpost_base::Kind;
use sealpost_server::Server;
use sealpost_server::settings::{Listen, TlsSource};
use sealpost_server::tls::Tls;
use serde::Serialize;

use super::archive::origin;
use crate::config::Config;
use crate::config::memory::{self, MemoryOption};
use crate::data_dir::DataDir;
use crate::exit::{Usage, named};
use crate::global::Global;
use crate::log;
use crate::running::{self, ServiceManager, Signals};

/// Arguments of `sealpost serve`.
#[derive(clap::Args)]
#[command(after_help = "Runs until SIGTERM or SIGINT; SIGHUP loads a changed certificate.\n
Example:
  sealpost serve --config /etc/sealpost.toml")]
pub struct Args {
    #[command(flatten)]
    memory: MemoryOption,
}

/// What it says once it accepts connections.
#[derive(Serialize)]
struct Ready {
    dir: PathBuf,
    pid: u32,
    smtp: Vec<Endpoint>,
    smtps: Vec<Endpoint>,
    submission: Vec<Endpoint>,
    submissions: Vec<Endpoint>,
    lmtp: Vec<Endpoint>,
    lmtp_unix: Vec<PathBuf>,
    imap: Vec<Endpoint>,
    imaps: Vec<Endpoint>,
    http: Vec<Endpoint>,
    https: Vec<Endpoint>,
    metrics: Vec<Endpoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    admin: Option<PathBuf>,
    memory: BTreeMap<&'static str, usize>,
    #[serde(skip)]
    division: String,
}

/// Where something is served.
#[derive(Debug, Clone, Serialize)]
pub struct Endpoint {
    /// The address.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Endpoint { host: address.ip().to_string(), port: address.port() }
    }
}

/// Serves until a signal stops it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let mut config = Config::load(global)?;
    config.bound_memory(&args.memory);
    log::start(config.log);
    if let Err(error) = config.inspection.apply() {
        tracing::warn!(%error, "cannot turn off core dumps, which would contain keys and mail");
    }
    if config.settings.listen == Listen::default() {
        return Err(Usage("no listeners: every list in [listen] is empty".into()).into());
    }
    // Before anything is made: a certificate that cannot be used is a wrong configuration.
    if let TlsSource::Files { .. } = &config.settings.tls {
        let (source, hostname) = (config.settings.tls.clone(), config.settings.hostname.clone());
        tokio::task::spawn_blocking(move || Tls::load(&source, &hostname)).await?.map_err(named)?;
    }
    let data_dir = DataDir::of(&config).await?;
    data_dir.store.keep_reserve(config.store.reserve).await?;
    let signals = Signals::listen(data_dir.settings.timeouts.shutdown_grace)?;
    let server = start(&data_dir).await?;
    if let Some(refetch) = origin::refetch(&data_dir.dir, &data_dir.store, data_dir.random.clone()) {
        server.context().accounts.set_bodies(Arc::new(Anywhere(refetch)));
    }
    let ready = Ready::of(&data_dir, server.addresses());
    if let Err(error) = global.output().done(&ready, |ready| ready.to_text()) {
        // A full disk behind standard output, or a closed pipe, does not stop the server.
        tracing::warn!(%error, "cannot write the listening addresses to standard output");
    }
    Ok(running::until_stopped(server, signals, ServiceManager::from_environment()).await)
}

/// Starts the server of a data directory.
///
/// # Errors
/// As [`Server::start`]; what is wrong with the settings, or what they name, as `Usage`.
pub async fn start(data_dir: &DataDir) -> Result<Server> {
    let (mut settings, store, key) =
        (data_dir.settings.clone(), data_dir.store.clone(), data_dir.key.clone());
    settings.listen.admin = Some(data_dir.dir.clone());
    settings.bus.node = Some(data_dir.dir.clone());
    settings.data = Some(data_dir.dir.clone());
    if store.keeps_removed() {
        tracing::warn!(
            "the bucket keeps versions of removed objects, withdrawn passwords and removed mail among them; turn versioning off, or let \
             versions expire"
        );
    }
    let started = Server::start(settings, store, key, data_dir.clock.clone(), data_dir.random.clone()).await;
    let server = started.map_err(|e| match e.kind() {
        Kind::Invalid => named(e),
        _ => e.into(),
    })?;
    if let Some(log) = log::metrics() {
        server.context().metrics.observe_log(log);
    }
    Ok(server)
}

impl Ready {
    fn of(data_dir: &DataDir, listen: &Listen) -> Self {
        let all = |addresses: &[SocketAddr]| addresses.iter().copied().map(Endpoint::from).collect();
        Ready {
            dir: data_dir.dir.clone(),
            pid: std::process::id(),
            smtp: all(&listen.smtp),
            smtps: all(&listen.smtps),
            submission: all(&listen.submission),
            submissions: all(&listen.submissions),
            lmtp: all(&listen.lmtp),
            lmtp_unix: listen.lmtp_unix.clone(),
            imap: all(&listen.imap),
            imaps: all(&listen.imaps),
            http: all(&listen.http),
            https: all(&listen.https),
            metrics: all(&listen.metrics),
            admin: listen.admin.clone(),
            memory: data_dir.settings.memory.parts().into(),
            division: memory::division(&data_dir.settings.memory),
        }
    }

    fn to_text(&self) -> String {
        let mut text = format!("Serving {}", self.dir.display());
        let lists = [
            ("smtp", &self.smtp),
            ("smtps", &self.smtps),
            ("submission", &self.submission),
            ("submissions", &self.submissions),
            ("lmtp", &self.lmtp),
            ("imap", &self.imap),
            ("imaps", &self.imaps),
            ("http", &self.http),
            ("https", &self.https),
            ("metrics", &self.metrics),
        ];
        for (name, endpoints) in lists {
            for Endpoint { host, port } in endpoints {
                text.push_str(&format!("\n  {name:<12}{host} port {port}"));
            }
        }
        for path in &self.lmtp_unix {
            text.push_str(&format!("\n  lmtp        {}", path.display()));
        }
        text.push_str(&format!("\nMemory {}", self.division));
        text
    }
}
