//! Load generator and reporter for mail servers.
