//! Google Cloud Storage, through the `object_store` crate.

use std::fmt;
use std::sync::Arc;

use object_store::gcp::GoogleCloudStorageBuilder;
use sealpost_base::{Error, Random, Result};
use zeroize::Zeroizing;

use super::http::Bounded;
use super::{Conflict, Remote, RetryPolicy, client};

/// The address of a bucket, and the identity that requests use.
#[derive(Clone)]
pub struct Gcs {
    /// The bucket's name.
    pub bucket: String,
    /// What every path begins with; empty: the whole bucket.
    pub prefix: String,
    /// The key of a service account, as Google gives it out: JSON. It may name another server
    /// (`gcs_base_url`).
    pub key: Zeroizing<String>,
}

impl Gcs {
    /// Reads `gs://bucket` or `gs://bucket/prefix`: the bucket and the prefix.
    ///
    /// # Errors
    /// `Invalid`, with what is wrong with it.
    pub fn parse_url(url: &str) -> Result<(String, String)> {
        client::parse_url("gs", url)
    }

    /// The bucket's URL.
    pub fn url(&self) -> String {
        client::url("gs", &self.bucket, &self.prefix)
    }

    pub(crate) fn connect(&self, retry_policy: RetryPolicy, random: Arc<dyn Random>) -> Result<Remote> {
        let wrong = |e| Error::invalid(format!("the store {}", self.url())).with_source(e);
        let prefix = client::path(&self.prefix, &self.url())?;
        let builder = GoogleCloudStorageBuilder::new()
            .with_bucket_name(&self.bucket)
            .with_service_account_key(self.key.as_str())
            .with_retry(client::once())
            .with_http_connector(Bounded(retry_policy));
        let bucket = Arc::new(builder.build().map_err(wrong)?);
        // Generations number everything here, kept or not.
        Ok(Remote::new(self.url(), bucket, prefix, Conflict::Exists, false, retry_policy, random))
    }
}

impl fmt::Debug for Gcs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gcs({})", self.url())
    }
}
