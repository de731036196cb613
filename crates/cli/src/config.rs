//! What is in force: defaults, the configuration file, options; in this order, the last one wins.
//!
//! One table, [`keys::KEYS`], says everything about every key: its name, its form, its default
//! (which is the server's), what it means. The parser, `sealpost config show` and `default`, and
//! the guide's page are all made from it.

pub mod file;
pub mod form;
pub mod keys;
pub mod memory;
mod read;
pub mod reference;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sealpost_directory::Address;
use sealpost_files::owner;
use sealpost_server::Settings;
use sealpost_server::settings::sending::Via;
use sealpost_server::settings::{Listen, TlsSource};

use crate::exit::{Usage, named};
use crate::global::Global;
use crate::inspection::Inspection;
use crate::log::Log;
use crate::store::StoreConfig;
use file::{ConfigFile, NamedBy};
use keys::KEYS;
use memory::MemoryOption;

/// The default data directory.
pub const DEFAULT_DIRECTORY: &str = "./sealpost-data";

/// Largest configuration file that is read, in bytes.
const FILE_BYTES: u64 = 1024 * 1024;

/// The smallest cache, in bytes: it has to hold what is on its way into it.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// What is in force.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the data is.
    pub directory: PathBuf,
    /// The settings of the server.
    pub settings: Settings,
    /// Where objects are.
    pub store: StoreConfig,
    /// What is logged.
    pub log: Log,
    /// Whether the server's process may be looked into.
    pub inspection: Inspection,
    /// The file with the certificate; empty: a self-signed one.
    certificate: PathBuf,
    /// The file with its key.
    certificate_key: PathBuf,
    /// The file that was read.
    pub file: Option<ConfigFile>,
    /// Where each key's value came from, in the order of [`KEYS`].
    origins: Vec<Origin>,
}

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Not set.
    Default,
    /// The configuration file, at this line.
    File(usize),
    /// This option of the command line.
    Flag(&'static str),
}

impl Default for Config {
    fn default() -> Self {
        let address = |port| std::net::SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port));
        let listen = Listen {
            smtp: vec![address(25)],
            imap: vec![address(143)],
            imaps: vec![address(993)],
            ..Listen::default()
        };
        let mut config = Config {
            directory: DEFAULT_DIRECTORY.into(),
            settings: Settings { listen, ..Settings::default() },
            store: StoreConfig::default(),
            log: Log::default(),
            inspection: Inspection::default(),
            certificate: PathBuf::new(),
            certificate_key: PathBuf::new(),
            file: None,
            origins: vec![Origin::Default; KEYS.len()],
        };
        config.settings.tls = config.tls();
        config
    }
}

impl Config {
    /// Reads the file that the options, the environment or custom name ([`ConfigFile::of`]), and
    /// puts the options over it.
    ///
    /// # Errors
    /// `Usage` with everything that is wrong in it, each with its line.
    pub fn load(global: &Global) -> Result<Self> {
        Self::of(ConfigFile::of(global), global)
    }

    /// The same with the file that `--config` names, and no other.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_named(global: &Global) -> Result<Self> {
        Self::of(ConfigFile::named(global), global)
    }

    fn of(file: Option<ConfigFile>, global: &Global) -> Result<Self> {
        let mut config = match &file {
            Some(file) => Self::read(file)?,
            None => Self::default(),
        };
        config.file = file;
        if let Some(dir) = &global.dir {
            config.directory.clone_from(dir);
            config.set_origin("directory", Origin::Flag("--dir"));
        }
        if let Some(level) = global.log_level {
            config.log.level = level;
            config.set_origin("log.level", Origin::Flag("--log-level"));
        }
        config.settings.tls = config.tls();
        Ok(config)
    }

    /// Whether the command line itself names the file.
    pub fn is_named(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.named_by == NamedBy::Option)
    }

    /// Puts an option over the bound on memory.
    pub fn bound_memory(&mut self, option: &MemoryOption) {
        if let Some(memory) = option.memory {
            self.settings.memory = memory;
            self.set_origin("memory", Origin::Flag("--memory"));
        }
    }

    fn read(file: &ConfigFile) -> Result<Self> {
        let path = file.path.as_path();
        let text = read_file(path).with_context(|| format!("the configuration {file}")).map_err(named)?;
        let base = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, base).map_err(|wrong| {
            let wrong = wrong.into_iter().map(|wrong| format!("{}:{wrong}", path.display()));
            Usage(wrong.collect::<Vec<_>>().join("\n")).into()
        })
    }

    /// Reads a configuration. Paths in it start at `base`, the directory of the file.
    ///
    /// # Errors
    /// Everything that is wrong, each as `line: what`.
    pub fn parse(text: &str, base: &Path) -> Result<Self, Vec<String>> {
        let mut config = Config::default();
        let mut wrong = read::apply(&mut config, text);
        config.rebase(base);
        if wrong.is_empty() {
            wrong = config.contradictions();
        }
        config.settings.tls = config.tls();
        if wrong.is_empty() { Ok(config) } else { Err(wrong) }
    }

    /// Whether a key is not set.
    pub fn is_default(&self, name: &str) -> bool {
        self.origin(name) == Origin::Default
    }

    /// Where the value of a key came from.
    pub fn origin(&self, name: &str) -> Origin {
        keys::position(name).map_or(Origin::Default, |at| self.origins[at])
    }

    fn set_origin(&mut self, name: &str, origin: Origin) {
        if let Some(at) = keys::position(name) {
            self.origins[at] = origin;
        }
    }

    fn tls(&self) -> TlsSource {
        if self.certificate.as_os_str().is_empty() {
            return TlsSource::SelfSigned { directory: self.directory.clone() };
        }
        TlsSource::Files { certificate: self.certificate.clone(), key: self.certificate_key.clone() }
    }

    /// Paths that the file gave are meant from where the file is, wherever the program was started.
    fn rebase(&mut self, base: &Path) {
        let from_file = |origin: Origin| matches!(origin, Origin::File(_));
        let join = |path: &mut PathBuf| {
            if !path.as_os_str().is_empty() {
                *path = base.join(&path);
            }
        };
        if from_file(self.origin("directory")) {
            join(&mut self.directory);
        }
        // These have no default.
        join(&mut self.certificate);
        join(&mut self.certificate_key);
        join(&mut self.store.credentials);
        join(&mut self.settings.bus.secret_file);
        join(&mut self.settings.bus.ca);
        self.settings.listen.lmtp_unix.iter_mut().for_each(join);
        let sending = &mut self.settings.sending;
        join(&mut sending.trust_anchor);
        join(&mut sending.root_hints);
        join(&mut sending.ca);
        for route in &mut sending.routes {
            if let Via::Smarthost(smarthost) | Via::DirectThen(smarthost) = &mut route.via {
                join(&mut smarthost.credentials);
            }
        }
    }

    /// What no single key shows.
    fn contradictions(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut when = |is_wrong: bool, key: &str, why: &str| {
            if is_wrong {
                let line = match self.origin(key) {
                    Origin::File(line) => line,
                    Origin::Default | Origin::Flag(_) => 1,
                };
                wrong.push(format!("{line}: {key}: {why}"));
            }
        };
        let (certificate, key) = (&self.certificate, &self.certificate_key);
        let settings = &self.settings;
        let wrong_bus = sealpost_server::bus::check(&settings.bus).and_then(|wrong| wrong.split_once(": "));
        when(
            wrong_bus.is_some(),
            wrong_bus.map_or("bus.url", |(key, _)| key),
            wrong_bus.map_or("", |(_, why)| why),
        );
        let wrong_memory = memory::check(&settings.memory);
        let (wrong_url, wrong_endpoint) = (self.store.wrong_url(), self.store.wrong_endpoint());
        when(
            certificate.as_os_str().is_empty() != key.as_os_str().is_empty(),
            if certificate.as_os_str().is_empty() { "tls.key" } else { "tls.certificate" },
            "tls.certificate and tls.key belong together; without both, a self-signed certificate is made",
        );
        when(
            settings.listen.takes_submissions() && !settings.sends(),
            "sending.enabled",
            "users submit mail at listen.submission, and it would not be sent; empty that list too",
        );
        let wrong_sending = settings.sending.check();
        when(
            wrong_sending.is_some(),
            wrong_sending.as_ref().map_or("sending.enabled", |(key, _)| key),
            wrong_sending.as_ref().map_or("", |(_, why)| why),
        );
        when(wrong_memory.is_some(), "memory", &wrong_memory.unwrap_or_default());
        when(wrong_url.is_some(), "store.url", &wrong_url.unwrap_or_default());
        when(wrong_endpoint.is_some(), "store.endpoint", &wrong_endpoint.unwrap_or_default());
        let cache = self.store.cache;
        when(cache > 0 && cache < CACHE_BYTES, "store.cache", "at least \"64MiB\", or \"0\" for none");
        when(settings.recipients < 100, "recipients", "at least 100 (RFC 5321 §4.5.3.1.8)");
        when(settings.message_size < 64 * 1024, "message_size", "at least \"64KiB\" (RFC 5321 §4.5.3.1.7)");
        when(self.directory.as_os_str().is_empty(), "directory", "a directory is needed");
        let wrong_domain = |name: &str| Address::from_parts("postmaster", name).err().map(|e| e.to_string());
        let wrong_hostname = wrong_domain(&settings.hostname);
        when(wrong_hostname.is_some(), "hostname", &wrong_hostname.unwrap_or_default());
        let domain = settings.domain.as_deref();
        let wrong_domain = domain.and_then(wrong_domain);
        when(wrong_domain.is_some(), "domain", wrong_domain.as_deref().unwrap_or_default());
        if wrong_domain.is_none() {
            let postmaster = settings.postmaster.as_deref();
            let wrong = postmaster.and_then(|name| Address::parse_in(name, domain).err());
            when(wrong.is_some(), "postmaster", &wrong.map(|e| e.to_string()).unwrap_or_default());
        }
        wrong
    }
}

fn read_file(path: &Path) -> io::Result<String> {
    let read = || {
        let mut text = String::new();
        File::open(path)?.take(FILE_BYTES + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|e| owner::explained(path, e))?;
    match text.len() as u64 > FILE_BYTES {
        true => Err(io::Error::other("it is larger than 1 MiB")),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests;
