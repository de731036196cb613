//! Tests of all stores.

mod contract;
mod faults;
