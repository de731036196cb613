//! Files and directories on this machine's disk, for every crate that uses some: owners of new
//! ones, durable writes, symbolic links that are not followed, and errors that name the file, the
//! missing permission and the file owner.
//!
//! Nothing here depends on the content of files.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod durable;
mod error;
mod no_follow;
pub mod owner;

pub use durable::{in_place_of, length, longer, make_directory, replace, sync_directory, sync_directory_of};
pub use error::io_error;
pub use no_follow::{leads_elsewhere, make_directory_in, open_file, open_file_with};

/// Where systems keep the certificates that they trust.
pub const SYSTEM_CERTIFICATES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];
