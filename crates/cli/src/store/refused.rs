//! Explains why a store cannot be used, and the remedy, for the operator who sets it up.

use sealpost_base::Error;
use sealpost_vault::Refusal;

use super::{Location, StoreConfig};
use crate::exit::Usage;

/// What has to be known of a store to speak of it.
struct Named<'a> {
    config: &'a StoreConfig,
    /// `bucket named mail`.
    bucket: String,
    /// Where it is: the endpoint, or whose.
    at: String,
    /// What names it: the configuration, or the command line.
    url: &'static str,
    /// The access key and its secret: what they are called, and where they are.
    key: [String; 2],
    /// What to do if something else is there, or nothing.
    elsewhere: &'static str,
}

impl StoreConfig {
    /// The same failure of the store at `url`, in terms of the configuration if a remote store has
    /// refused a request or cannot be reached; its own message is logged.
    pub fn explained(&self, url: &str, e: anyhow::Error) -> anyhow::Error {
        let failure = e.chain().find_map(|cause| cause.downcast_ref::<Error>());
        let (Some(refusal), Some(named)) = (failure.and_then(Refusal::of), self.named(url)) else { return e };
        tracing::debug!(store = url, error = format!("{e:#}"), "the store failed");
        named.error(refusal)
    }

    fn named(&self, url: &str) -> Option<Named<'_>> {
        let whose = |owner: &str| self.endpoint.clone().unwrap_or_else(|| owner.to_owned());
        let values = |key, secret| [self.place_of(key), self.place_of(secret)];
        let mut elsewhere = match self.endpoint {
            Some(_) => "correct [store] endpoint",
            None => "name the store's server with [store] endpoint",
        };
        let (bucket, at, key) = match Location::parse(url).ok()? {
            Location::Directory(_) => return None,
            Location::S3 { bucket, .. } => (
                format!("bucket named {bucket}"),
                whose("Amazon S3"),
                values("aws_access_key_id", "aws_secret_access_key"),
            ),
            Location::Gcs { bucket, .. } => {
                elsewhere = "check the network of this machine";
                let key = || "the key of the service account".to_owned();
                (format!("bucket named {bucket}"), "Google Cloud Storage".to_owned(), [key(), key()])
            }
            Location::Azure { container, .. } => (
                format!("container named {container}"),
                whose("Azure"),
                values("azure_storage_account_name", "azure_storage_account_key"),
            ),
        };
        let url = if url == self.url { "[store] url" } else { "the URL" };
        Some(Named { config: self, bucket, at, url, key, elsewhere })
    }

    /// The value of that name, and where it is.
    fn place_of(&self, name: &str) -> String {
        match self.credentials.as_os_str().is_empty() {
            true => format!("{} in the environment", name.to_ascii_uppercase()),
            false => format!("{name} in {}", self.credentials.display()),
        }
    }
}

impl Named<'_> {
    /// The exit status is that of a wrong configuration if no waiting helps, that of a temporary
    /// failure if it may.
    fn error(&self, refusal: Refusal) -> anyhow::Error {
        let Named { config, bucket, at, url, key: [key, secret], elsewhere } = self;
        let region = &config.region;
        let temporary = |text: String| Error::retry(text).into();
        let wrong = |text: String| Usage(text).into();
        match refusal {
            Refusal::NoBucket => {
                Error::not_found(format!("no {bucket} at {at}; create it, or correct {url}")).into()
            }
            Refusal::UnknownKey => wrong(format!("{at} does not know this access key; correct {key}")),
            Refusal::WrongSecret => {
                wrong(format!("{at} rejects the secret of the access key; correct {secret}"))
            }
            Refusal::NotAllowed => Error::invalid(format!(
                "the access key has no permission for the {bucket} at {at}; allow it to read, write, list and \
                 delete objects there"
            ))
            .into(),
            Refusal::WrongRegion(Some(other)) => wrong(format!(
                "{at} requires the region {other:?}, not {region:?}; correct [store] region"
            )),
            Refusal::WrongRegion(None) => wrong(format!(
                "the {bucket} is not in the region {region:?} of {at}; correct [store] region, or [store] endpoint"
            )),
            Refusal::WrongClock => {
                temporary(format!("the clocks of this machine and of {at} are too far apart; set them"))
            }
            Refusal::ConnectionRefused => {
                temporary(format!("no server listens at {at}; start the store, or {elsewhere}"))
            }
            Refusal::NoHost => temporary(format!("unknown host {at}; {elsewhere}")),
            Refusal::NoTls => {
                wrong(format!("the server at {at} does not speak TLS; begin [store] endpoint with http://"))
            }
            Refusal::BadCertificate(why) => {
                wrong(format!(
                    "the certificate of {at} is not trusted ({why}); install a valid one, make this system \
                     trust its issuer (SSL_CERT_FILE names a file of trusted issuers), or {elsewhere}"
                ))
            }
            Refusal::AuthorityCertificate => wrong(format!(
                "the certificate of {at} is an authority's own (CA:TRUE), which is for signing others; \
                 install one without CA:TRUE"
            )),
            Refusal::NoLength => wrong(format!(
                "responses of {at} lack the size of objects (Content-Length); configure a proxy in between to \
                 pass responses unchanged with HTTP/1.1, or {elsewhere}"
            )),
            Refusal::NoAnswer => temporary(format!(
                "timeout: no response from {at}; check that the store runs and is reachable from here, or \
                 {elsewhere}"
            )),
            Refusal::NoConnection(why) => temporary(format!(
                "no connection to {at} ({why}); check that the store runs and is reachable from here, or \
                 {elsewhere}"
            )),
            Refusal::NoStore(status) => {
                wrong(format!("the server at {at} replies {status:?} and is not a store; {elsewhere}"))
            }
            Refusal::Fails(status) => {
                temporary(format!("{at} replies {status:?}, a failure of the store itself; check its log, and \
                                   retry"))
            }
            Refusal::Other(said) => Error::invalid(format!("{at} rejects the request: {said}")).into(),
        }
    }
}
