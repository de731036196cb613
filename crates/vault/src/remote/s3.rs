//! S3 and what speaks its protocol, through the `object_store` crate, which signs requests and reads answers.

use std::fmt;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use sealpost_base::{Error, Random, Result};
use zeroize::Zeroizing;

use super::http::Bounded;
use super::{Conflict, Remote, RetryPolicy, client};

/// The address of a bucket, and the identity that requests use.
#[derive(Clone)]
pub struct S3 {
    /// The bucket's name.
    pub bucket: String,
    /// What every path begins with; empty: the whole bucket.
    pub prefix: String,
    /// The server, such as `https://s3.example.org`; `None`: Amazon's.
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: String,
    /// The place of the bucket's name in a request.
    pub addressing: Addressing,
    /// The access key.
    pub credentials: Credentials,
}

/// The place of the bucket's name in a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Addressing {
    /// In the path if an endpoint is named, else in the host's name.
    #[default]
    Auto,
    /// `https://endpoint/bucket/…`
    Path,
    /// `https://bucket.endpoint/…`
    Virtual,
}

/// An access key.
#[derive(Clone)]
pub struct Credentials {
    /// Its id.
    pub key_id: String,
    /// The secret that requests are signed with.
    pub secret: Zeroizing<String>,
    /// The token of temporary keys.
    pub session_token: Option<Zeroizing<String>>,
}

impl S3 {
    /// Reads `s3://bucket` or `s3://bucket/prefix`: the bucket and the prefix.
    ///
    /// # Errors
    /// `Invalid`, with what is wrong with it.
    pub fn parse_url(url: &str) -> Result<(String, String)> {
        client::parse_url("s3", url)
    }

    /// The bucket's URL.
    pub fn url(&self) -> String {
        client::url("s3", &self.bucket, &self.prefix)
    }

    pub(crate) fn connect(&self, retry_policy: RetryPolicy, random: Arc<dyn Random>) -> Result<Remote> {
        let wrong = |e| Error::invalid(format!("the store {}", self.url())).with_source(e);
        let prefix = client::path(&self.prefix, &self.url())?;
        let virtual_host = match self.addressing {
            Addressing::Auto => self.endpoint.is_none(),
            Addressing::Path => false,
            Addressing::Virtual => true,
        };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&self.bucket)
            .with_region(&self.region)
            .with_virtual_hosted_style_request(virtual_host)
            .with_access_key_id(&self.credentials.key_id)
            .with_secret_access_key(self.credentials.secret.as_str())
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_retry(client::once())
            .with_http_connector(Bounded(retry_policy));
        if let Some(token) = &self.credentials.session_token {
            builder = builder.with_token(token.as_str());
        }
        if let Some(endpoint) = &self.endpoint {
            let endpoint = endpoint.trim_end_matches('/');
            let endpoint = match (virtual_host, endpoint.split_once("://")) {
                // The crate takes it as it is then.
                (true, Some((scheme, host))) => format!("{scheme}://{}.{host}", self.bucket),
                _ => endpoint.to_owned(),
            };
            builder = builder.with_endpoint(endpoint);
        }
        let bucket = Arc::new(builder.build().map_err(wrong)?);
        Ok(Remote::new(self.url(), bucket, prefix, Conflict::Open, true, retry_policy, random))
    }
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3({} at {})", self.url(), self.endpoint.as_deref().unwrap_or("Amazon"))
    }
}
