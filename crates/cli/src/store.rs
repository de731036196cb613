//! `[store]`: where objects are, and how to get at them.

mod refused;

use std::io::{self, ErrorKind};
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use sealpost_base::limits::STORE_RESERVE_BYTES;
use sealpost_base::{Kind, SystemClock, SystemRandom};
use sealpost_directory::{Watermarks, watermarks};
use sealpost_files::owner;
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::store::{MarkMemory, StoreMark};
use sealpost_vault::{Addressing, Azure, Credentials, Gcs, RetryPolicy, S3, Store};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::data_dir::KEY_FILE;
use crate::exit::{Usage, named};
use crate::output::warn;

/// What the configuration says of the store.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// `s3://…`, `gs://…`, `az://…`, `file:///…`; empty: the data directory.
    pub url: String,
    /// The server of an `s3://` or `az://` URL.
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: String,
    /// The place of the bucket's name.
    pub addressing: Addressing,
    /// The file with the access key; empty: the environment.
    pub credentials: PathBuf,
    /// Requests under way at a time.
    pub requests: usize,
    /// For one request.
    pub timeout: Duration,
    /// What the cache of a bucket may take on the disk, in bytes; 0: there is none.
    pub cache: u64,
    /// What a local store keeps of its disk for removing, in bytes; 0: nothing.
    pub reserve: u64,
}

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To serve: with a cache if it is a bucket.
    Serve,
    /// For a command that changes something.
    Change,
    /// For a command that only reads: where nothing can be written, a local store is read as it is.
    Read,
}

impl Default for StoreConfig {
    fn default() -> Self {
        let RetryPolicy { requests, timeout, .. } = RetryPolicy::default();
        StoreConfig {
            url: String::new(),
            endpoint: None,
            region: "us-east-1".to_owned(),
            addressing: Addressing::Auto,
            credentials: PathBuf::new(),
            requests,
            timeout,
            cache: 2 << 30,
            reserve: STORE_RESERVE_BYTES,
        }
    }
}

/// The directory of a bucket's cache, in the data directory.
const CACHE: &str = "cache";
/// How long a store may be unusable before the first message.
const NOTICE_AFTER: Duration = Duration::from_secs(3);
/// Largest file with an access key that is read, in bytes.
const CREDENTIALS_BYTES: u64 = 64 * 1024;

/// A place for objects, named by a URL.
enum Location {
    Directory(PathBuf),
    S3 { bucket: String, prefix: String },
    Gcs { bucket: String, prefix: String },
    Azure { container: String, prefix: String },
}

impl Location {
    /// Reads a URL; a string without a scheme is a directory.
    fn parse(url: &str) -> Result<Self, String> {
        if url.starts_with("s3://") {
            let (bucket, prefix) = S3::parse_url(url).map_err(|e| e.to_string())?;
            return Ok(Location::S3 { bucket, prefix });
        }
        if url.starts_with("gs://") {
            let (bucket, prefix) = Gcs::parse_url(url).map_err(|e| e.to_string())?;
            return Ok(Location::Gcs { bucket, prefix });
        }
        if url.starts_with("az://") {
            let (container, prefix) = Azure::parse_url(url).map_err(|e| e.to_string())?;
            return Ok(Location::Azure { container, prefix });
        }
        if let Some(path) = url.strip_prefix("file://") {
            if !path.starts_with('/') {
                return Err(format!(
                    "{url:?}: the path of a file:// URL begins with /, as in file:///var/lib/mail"
                ));
            }
            return Ok(Location::Directory(path.into()));
        }
        match url.split_once("://") {
            Some((scheme, _)) => Err(format!(
                "there are no stores at {scheme}:// URLs, but at s3://, gs://, az:// and file://"
            )),
            None => Ok(Location::Directory(url.into())),
        }
    }
}

/// Whether it is a host's name or address, with a port or without.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) if address.parse::<Ipv6Addr>().is_ok() => ("v6", port),
        Some(_) => return false,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let in_a_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_port = |port: &str| port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    !host.is_empty() && host.chars().all(in_a_name) && (port.is_empty() || is_port(port))
}

/// What a node knows of its bucket, in its data directory.
pub struct NodeMemory {
    /// The installation's keys.
    pub keys: ServerKeys,
    watermarks: Watermarks,
}

impl NodeMemory {
    /// Of the data directory `data`; `None` if no server has begun there.
    ///
    /// # Errors
    /// `Retry` if a file cannot be read, `Corrupt` if the key file is none.
    pub fn load(data: &Path) -> Result<Option<Self>> {
        let keys = match ServerKeys::load(&data.join(KEY_FILE)) {
            Err(e) if e.kind() == Kind::NotFound => return Ok(None),
            keys => keys?,
        };
        let watermarks = Watermarks::load(&data.join(watermarks::FILE), &keys)?;
        Ok(Some(NodeMemory { keys, watermarks }))
    }

    /// The mark that it saw last of the bucket of that name.
    pub fn mark(&self, name: &str) -> Option<StoreMark> {
        self.watermarks.store_mark(name).and_then(StoreMark::from_number)
    }

    /// The bucket of that name has this mark now.
    ///
    /// # Errors
    /// `Retry` if the file cannot be written.
    pub fn keep(&self, name: &str, mark: StoreMark) -> Result<()> {
        self.watermarks.saw_store_mark(name, mark.to_number());
        Ok(self.watermarks.save()?)
    }
}

impl StoreConfig {
    /// What is wrong with the URL, if something is.
    pub fn wrong_url(&self) -> Option<String> {
        if self.url.is_empty() || self.url.contains("://") {
            return Location::parse(&self.url).err();
        }
        Some(format!("{:?} is no URL, such as s3://bucket/prefix or file:///directory", self.url))
    }

    /// What is wrong with the endpoint, if something is.
    pub fn wrong_endpoint(&self) -> Option<String> {
        let endpoint = self.endpoint.as_ref()?;
        let host = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://"));
        match host.map(|host| host.trim_end_matches('/')) {
            Some(host) if is_host(host) => None,
            _ => Some(
                "it begins with https:// or http://, and ends with the host (in ASCII) or its port"
                    .to_owned(),
            ),
        }
    }

    /// Whether the URL is one of a bucket.
    pub fn is_bucket(&self) -> bool {
        Location::parse(&self.url).is_ok_and(|location| !matches!(location, Location::Directory(_)))
    }

    /// The directory that the objects are in, if they are in one: `data` unless the URL says otherwise.
    pub fn directory(&self, data: &Path) -> Option<PathBuf> {
        match Location::parse(&self.url) {
            _ if self.url.is_empty() => Some(data.to_owned()),
            Ok(Location::Directory(directory)) => Some(directory),
            _ => None,
        }
    }

    /// The directory of the store at `url`, if it is a local one.
    ///
    /// # Errors
    /// `Usage` if there can be no such store.
    pub fn directory_of(&self, url: &str) -> Result<Option<PathBuf>> {
        Ok(match Location::parse(url).map_err(Usage)? {
            Location::Directory(directory) => Some(directory),
            Location::S3 { .. } | Location::Gcs { .. } | Location::Azure { .. } => None,
        })
    }

    /// Opens the store of the data directory `data`.
    ///
    /// # Errors
    /// `Usage` if there are no credentials; what the store says.
    pub async fn open(&self, data: &Path, purpose: Purpose) -> Result<Store> {
        if let Some(dir) = self.directory(data) {
            let opened = || format!("the data directory {}", dir.display());
            return local(&dir, purpose).await.with_context(opened);
        }
        let store = self.unused(&self.url, purpose).await?;
        let memory = NodeMemory::load(data)?;
        let seen = memory.as_ref().and_then(|memory| memory.mark(&self.mark_name()));
        let pinned =
            store.pin_append_mode(memory.as_ref().map(|memory| MarkMemory { keys: &memory.keys, seen }));
        let pinned = pinned.await.with_context(|| format!("the store {}", self.url));
        let (store, mark) = pinned.map_err(|e| self.explained(&self.url, e))?;
        if let (Some(memory), Some(mark)) =
            (memory, mark.filter(|mark| Some(*mark) != seen && purpose != Purpose::Read))
        {
            memory.keep(&self.mark_name(), mark)?;
        }
        match purpose {
            Purpose::Serve if self.cache == 0 => Store::remove_cache(&data.join(CACHE)).await,
            Purpose::Serve => {
                let (dir, clock) = (data.join(CACHE), Arc::new(SystemClock::new()));
                return Ok(store.cached(&dir, self.cache, clock).await?);
            }
            _ => {}
        }
        Ok(store)
    }

    /// Makes the bucket's mark authentic that this node follows, and remembers it: once it is
    /// certain that the bucket belongs to this installation. Does nothing for a local store.
    ///
    /// # Errors
    /// What the store says.
    pub async fn authenticate(
        &self,
        store: &Store,
        keys: &ServerKeys,
        watermarks: &Watermarks,
    ) -> Result<()> {
        let mark = store.authenticate_append_mode(keys).await;
        if let Some(mark) = mark.map_err(|e| self.explained(&self.url, e.into()))? {
            watermarks.saw_store_mark(&self.mark_name(), mark.to_number());
            watermarks.wrote();
        }
        Ok(())
    }

    /// What a node calls its bucket in what it remembers: after a move to another one, what it saw
    /// of the first says nothing.
    pub fn mark_name(&self) -> String {
        format!("{} {}", self.endpoint.as_deref().unwrap_or_default(), self.url).trim().to_owned()
    }

    /// Opens the store at `url` with the settings here for servers, in the append mode of its
    /// nodes. A local one is created if there is none.
    ///
    /// # Errors
    /// As [`StoreConfig::open`].
    pub async fn at(&self, url: &str, purpose: Purpose) -> Result<Store> {
        let store = self.unused(url, purpose).await?.pin_append_mode(None).await;
        let store = store.with_context(|| format!("the store {url}")).map_err(|e| self.explained(url, e))?;
        Ok(store.0)
    }

    /// As [`StoreConfig::at`], for a check of its behaviour.
    ///
    /// # Errors
    /// As [`StoreConfig::open`].
    pub async fn unused(&self, url: &str, purpose: Purpose) -> Result<Store> {
        let mut connected = pin!(self.connected(url, purpose));
        let store = match timeout(NOTICE_AFTER, &mut connected).await {
            Ok(store) => store,
            Err(_) => {
                warn(format!("sealpost: the store {url} cannot be used yet; still trying"));
                connected.await
            }
        };
        store.map_err(|e| self.explained(url, e))
    }

    async fn connected(&self, url: &str, purpose: Purpose) -> Result<Store> {
        let retry_policy =
            RetryPolicy { requests: self.requests, timeout: self.timeout, ..RetryPolicy::default() };
        let random = Arc::new(SystemRandom);
        let store = match Location::parse(url).map_err(Usage)? {
            Location::Directory(directory) => local(&directory, purpose).await,
            Location::S3 { bucket, prefix } => {
                let s3 = S3 {
                    bucket,
                    prefix,
                    endpoint: self.endpoint.clone(),
                    region: self.region.clone(),
                    addressing: self.addressing,
                    credentials: self.access_key()?,
                };
                Store::s3(&s3, retry_policy, random).await
            }
            Location::Gcs { bucket, prefix } => {
                let gcs = Gcs { bucket, prefix, key: self.service_account()? };
                Store::gcs(&gcs, retry_policy, random).await
            }
            Location::Azure { container, prefix } => {
                let (account, key) = self.storage_account()?;
                let azure = Azure { container, prefix, endpoint: self.endpoint.clone(), account, key };
                Store::azure(&azure, retry_policy, random).await
            }
        };
        store.with_context(|| format!("the store {url}"))
    }

    fn access_key(&self) -> Result<Credentials> {
        self.named_values("aws_access_key_id", "aws_secret_access_key", key_of)
    }

    /// The name and a key of a storage account of Azure.
    fn storage_account(&self) -> Result<(String, Zeroizing<String>)> {
        let (name, key) = ("azure_storage_account_name", "azure_storage_account_key");
        self.named_values(name, key, |value| {
            let value = |name| value(name).filter(|value| !value.is_empty());
            Some((value(name)?.to_string(), value(key)?))
        })
    }

    /// What `found` makes of values by their names: of the file with the credentials, or, if there
    /// is none, of the environment, where they have the same names in capitals. `first` and
    /// `second` are what it needs.
    fn named_values<T>(
        &self,
        first: &str,
        second: &str,
        found: impl Fn(&dyn Fn(&str) -> Option<Zeroizing<String>>) -> Option<T>,
    ) -> Result<T> {
        let named = |name: &str| std::env::var_os(name).and_then(|value| value.into_string().ok());
        let (value, place) = if self.credentials.as_os_str().is_empty() {
            let (first, second) = (first.to_ascii_uppercase(), second.to_ascii_uppercase());
            let place = format!("the environment ({first}, {second}), or store.credentials names no file");
            (found(&|name| named(&name.to_ascii_uppercase()).map(Zeroizing::new)), place)
        } else {
            let text = read_key_file(&self.credentials)?;
            let place = format!("{} ({first} = …, {second} = …)", self.credentials.display());
            (found(&|name| value_in(&text, name)), place)
        };
        value.ok_or_else(|| Usage(format!("there is no access key for the store in {place}")).into())
    }

    /// The key of a service account of Google: the file with the credentials, or the one that the
    /// environment names.
    fn service_account(&self) -> Result<Zeroizing<String>> {
        const NAME: &str = "GOOGLE_APPLICATION_CREDENTIALS";
        if !self.credentials.as_os_str().is_empty() {
            return read_key_file(&self.credentials);
        }
        let file = std::env::var_os(NAME).filter(|file| !file.is_empty());
        let none =
            || Usage(format!("neither store.credentials nor {NAME} names the key of a service account"));
        read_key_file(Path::new(&file.ok_or_else(none)?))
    }
}

async fn local(directory: &Path, purpose: Purpose) -> sealpost_base::Result<Store> {
    match purpose {
        Purpose::Read => Store::local_to_read(directory).await,
        Purpose::Serve | Purpose::Change => Store::local(directory).await,
    }
}

/// Whether a local store is in `directory`. To open it would make one.
///
/// # Errors
/// If this user may not look.
pub fn is_store(directory: &Path) -> std::io::Result<bool> {
    is_file(&directory.join("objects.sqlite"))
}

/// Whether there is a file at `path`. That one may not look is no answer.
///
/// # Errors
/// What the file system says.
pub fn is_file(path: &Path) -> std::io::Result<bool> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(e) => Err(owner::explained(path, e)),
    }
}

fn key_of(value: &dyn Fn(&str) -> Option<Zeroizing<String>>) -> Option<Credentials> {
    let value = |name| value(name).filter(|value| !value.is_empty());
    Some(Credentials {
        key_id: value("aws_access_key_id")?.to_string(),
        secret: value("aws_secret_access_key")?,
        session_token: value("aws_session_token"),
    })
}

fn read_key_file(path: &Path) -> Result<Zeroizing<String>> {
    let name = || format!("the access key in {}", path.display());
    let read = || {
        if std::fs::metadata(path)?.len() > CREDENTIALS_BYTES {
            return Err(io::Error::other("it is larger than 64 KiB"));
        }
        std::fs::read_to_string(path)
    };
    read().map(Zeroizing::new).map_err(|e| owner::explained(path, e)).with_context(name).map_err(named)
}

/// The value of `name` in a file as Amazon's programs write it: `name = value`, one a line. Of
/// several sections the first one that has it counts.
fn value_in(text: &str, name: &str) -> Option<Zeroizing<String>> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let found = pairs.map(|(n, value)| (n.trim(), value.trim())).find(|(n, _)| *n == name);
    found.map(|(_, value)| Zeroizing::new(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_buckets_and_directories() {
        let data = Path::new("/data");
        let directory = |url: &str| StoreConfig { url: url.into(), ..StoreConfig::default() }.directory(data);
        assert_eq!(directory(""), Some("/data".into()));
        assert_eq!(directory("file:///mail"), Some("/mail".into()));
        for url in ["s3://bucket/a/b", "gs://bucket", "az://container/a"] {
            assert_eq!(directory(url), None);
        }
        let wrong = |url: &str| StoreConfig { url: url.into(), ..StoreConfig::default() }.wrong_url();
        for url in ["", "s3://bucket", "s3://bucket/a/b", "gs://bucket/a", "az://container", "file:///mail"] {
            assert_eq!(wrong(url), None, "{url}");
        }
        for url in
            ["mail", "file://mail", "ftp://mail", "s3://", "s3://no", "s3://buck et", "gs://", "az://n"]
        {
            assert!(wrong(url).is_some(), "{url}");
        }
    }

    #[test]
    fn endpoints_are_hosts() {
        let wrong = |endpoint: &str| {
            StoreConfig { endpoint: Some(endpoint.into()), ..StoreConfig::default() }.wrong_endpoint()
        };
        assert_eq!(StoreConfig::default().wrong_endpoint(), None);
        for endpoint in ["https://s3.example.org", "http://127.0.0.1:3900", "http://[::1]:3900/"] {
            assert_eq!(wrong(endpoint), None, "{endpoint}");
        }
        let wrong_hosts = [
            "https://host:99999",
            "https://bücket:1",
            "https://lo cal:1",
            "https://:1",
            "http://[::1",
            "http://[x]:1",
            "http://a:1:2",
            "http://me@host",
        ];
        for endpoint in
            ["s3.example.org", "https://", "https://host/path", "ftp://host"].into_iter().chain(wrong_hosts)
        {
            assert!(wrong(endpoint).is_some(), "{endpoint}");
        }
    }

    #[test]
    fn access_keys_are_read_as_others_write_them() {
        let text = "[default]\naws_access_key_id=AK\naws_secret_access_key = s=/+\n\n[other]\naws_access_key_id = BK\n";
        let key = key_of(&|name| value_in(text, name)).unwrap();
        assert_eq!((key.key_id.as_str(), key.secret.as_str()), ("AK", "s=/+"));
        assert!(key.session_token.is_none());
        assert!(key_of(&|name| value_in("aws_access_key_id = AK", name)).is_none());
        assert!(key_of(&|name| value_in("aws_access_key_id =\naws_secret_access_key = x", name)).is_none());
    }
}
