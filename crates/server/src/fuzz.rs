//! Entry functions of fuzz targets.

pub use crate::bus::fuzz::fuzz_bus;
