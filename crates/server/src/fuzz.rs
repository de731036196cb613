//! Entry functions of fuzz targets.

pub use crate::bus::fuzz::fuzz_bus;
pub use crate::listener::proxy::fuzz::fuzz_proxy_header;
