//! tmp
use crate::server::Target;
use anyhow::Result;
/// tmp
pub async fn main(_t: Target, _a: u64, _b: u64, _d: &std::path::Path) -> Result<()> {
    Ok(())
}
