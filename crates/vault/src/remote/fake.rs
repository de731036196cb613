//! How tests reach the fake of S3.

use sealpost_testkit::fake_s3::{BUCKET, FakeS3};

use super::{Addressing, Credentials, S3};

/// The fake's bucket, below `prefix`.
pub fn s3(server: &FakeS3, prefix: &str) -> S3 {
    S3 {
        bucket: BUCKET.into(),
        prefix: prefix.into(),
        endpoint: Some(server.endpoint()),
        region: "test".into(),
        addressing: Addressing::Auto,
        credentials: Credentials {
            key_id: "id".into(),
            secret: "secret".to_owned().into(),
            session_token: None,
        },
    }
}
