//! `sealpost try`: a server of one's own, to try things out and for programs that test against a mail server.
//!
//! Everything is in one directory that is kept between runs. It listens on this machine alone (for
//! `/metrics` where the configuration says), with a self-signed certificate.

mod accounts;
mod ports;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use sealpost_base::MemoryDivision;
use sealpost_server::settings::{Listen, TlsSource};

use crate::cmd::serve;
use crate::config::Config;
use crate::config::memory::MemoryOption;
use crate::data_dir::DataDir;
use crate::global::Global;
use crate::log;
use crate::running::{self, ServiceManager, Signals};
use crate::samples;
use ports::Ports;
use report::Ready;

/// Memory for a trial that no configuration says anything about: enough for a few dozen clients at once.
const MEMORY: usize = 64 * 1024 * 1024;

/// Arguments of `sealpost try`.
#[derive(clap::Args)]
#[command(
    after_help = "Runs until SIGTERM or SIGINT. With --json it prints one line once it accepts connections.\n
Examples:
  sealpost try
  sealpost try --ports free --account jane@localhost --password-file jane.password"
)]
pub struct Args {
    /// Which ports to listen on
    #[arg(long, value_enum, default_value_t)]
    ports: Ports,
    #[command(flatten)]
    memory: MemoryOption,
    /// Deliver no sample mail
    #[arg(long)]
    no_samples: bool,
    /// Create this account instead of me@localhost; may be repeated. Requires --password-file
    #[arg(long = "account", value_name = "NAME", requires = "password_file")]
    accounts: Vec<String>,
    /// Read the password of these accounts, or of me@localhost, from FILE; a line end after it does
    /// not count [default: generated]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// Serves until a signal stops it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let mut config = Config::load_named(global)?;
    config.bound_memory(&args.memory);
    log::start(config.log);
    args.ports.check_free()?;
    let memory_is_default = config.is_default("memory");
    let settings = &mut config.settings;
    settings.listen = Listen { metrics: settings.listen.metrics.clone(), ..args.ports.listen() };
    settings.hostname = "localhost".to_owned();
    settings.domain = Some("localhost".to_owned());
    settings.tls = TlsSource::SelfSigned { directory: config.directory.clone() };
    if memory_is_default {
        settings.memory = MemoryDivision::of(MEMORY);
    }
    let mut data_dir = DataDir::of(&config).await?;
    data_dir.store.keep_reserve(config.store.reserve).await?;
    data_dir.dir = std::fs::canonicalize(&data_dir.dir).context("the data directory")?;

    let login = match &args.password_file {
        Some(file) => accounts::named(&data_dir, &args.accounts, file).await?,
        None => accounts::remembered(&data_dir).await?,
    };
    if let Some((record, root)) = login.opened.as_ref().filter(|_| !args.no_samples) {
        samples::deliver(&data_dir.accounts(), record, root).await.context("the sample mail")?;
        accounts::keep_samples_here(&data_dir, &login.account).await.context("the sample mail")?;
    }
    data_dir.settings.postmaster = Some(login.account.to_string());
    let signals = Signals::listen(data_dir.settings.timeouts.shutdown_grace)?;
    let server = serve::start(&data_dir).await.map_err(|e| ports::explain(e, args.ports))?;
    global.output().show(&Ready::new(&data_dir, &login, server.addresses()), Ready::to_text)?;
    drop(login);
    Ok(running::until_stopped(server, signals, ServiceManager::from_environment()).await)
}
