//! Azure Blob Storage, through the `object_store` crate.

use std::fmt;
use std::sync::Arc;

use object_store::azure::MicrosoftAzureBuilder;
use sealpost_base::{Error, Random, Result};
use zeroize::Zeroizing;

use super::http::Bounded;
use super::{Conflict, Remote, RetryPolicy, client};

/// The address of a container, and the identity that requests use.
#[derive(Clone)]
pub struct Azure {
    /// The container's name.
    pub container: String,
    /// What every path begins with; empty: the whole container.
    pub prefix: String,
    /// The server, such as `http://127.0.0.1:10000`, with the account in the path; `None`: Azure's,
    /// with the account in the host's name.
    pub endpoint: Option<String>,
    /// The storage account.
    pub account: String,
    /// One of its access keys, in base64.
    pub key: Zeroizing<String>,
}

impl Azure {
    /// Reads `az://container` or `az://container/prefix`: the container and the prefix.
    ///
    /// # Errors
    /// `Invalid`, with what is wrong with it.
    pub fn parse_url(url: &str) -> Result<(String, String)> {
        client::parse_url("az", url)
    }

    /// The container's URL.
    pub fn url(&self) -> String {
        client::url("az", &self.container, &self.prefix)
    }

    pub(crate) fn connect(&self, retry_policy: RetryPolicy, random: Arc<dyn Random>) -> Result<Remote> {
        let wrong = |e| Error::invalid(format!("the store {}", self.url())).with_source(e);
        let prefix = client::path(&self.prefix, &self.url())?;
        let mut builder = MicrosoftAzureBuilder::new()
            .with_container_name(&self.container)
            .with_account(&self.account)
            .with_access_key(self.key.as_str())
            .with_retry(client::once())
            .with_http_connector(Bounded(retry_policy));
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(format!("{}/{}", endpoint.trim_end_matches('/'), self.account));
        }
        let bucket = Arc::new(builder.build().map_err(wrong)?);
        Ok(Remote::new(self.url(), bucket, prefix, Conflict::Exists, true, retry_policy, random))
    }
}

impl fmt::Debug for Azure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Azure({} at {})", self.url(), self.endpoint.as_deref().unwrap_or("Azure"))
    }
}
