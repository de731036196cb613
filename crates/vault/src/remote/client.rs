//! What requests to all kinds of buckets have in common.

use std::time::Duration;

use object_store::path::Path;
use object_store::{BackoffConfig, RetryConfig};
use sealpost_base::{Error, Result};

/// For a connection to come about.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Makes each request once. [`super::Retrier`] repeats requests: repetitions of the crate would not
/// check whose object they find.
pub(super) fn once() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: 0, retry_timeout: Duration::ZERO }
}

/// Reads `{scheme}://bucket` or `{scheme}://bucket/prefix`: the bucket and the prefix.
///
/// # Errors
/// `Invalid`, with what is wrong with it.
pub(super) fn parse_url(scheme: &str, url: &str) -> Result<(String, String)> {
    let rest = url.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
    let rest = rest.ok_or_else(|| Error::invalid(format!("{url:?} is no {scheme}:// URL")))?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    // https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html; other servers
    // allow `_` and capitals.
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(allowed) || bucket.starts_with('.') {
        return Err(Error::invalid(format!("{bucket:?} cannot be the name of a bucket")));
    }
    let prefix = prefix.trim_end_matches('/');
    if !prefix.is_empty() {
        path(prefix, prefix)?;
    }
    Ok((bucket.to_owned(), prefix.to_owned()))
}

/// What is written for the bucket and the prefix that [`parse_url`] read.
pub(super) fn url(scheme: &str, bucket: &str, prefix: &str) -> String {
    match prefix {
        "" => format!("{scheme}://{bucket}"),
        prefix => format!("{scheme}://{bucket}/{prefix}"),
    }
}

/// The prefix as a path; `of` says whose it is.
pub(super) fn path(prefix: &str, of: &str) -> Result<Path> {
    Path::parse(prefix).map_err(|e| Error::invalid(format!("{of:?}: not a prefix")).with_source(e))
}
