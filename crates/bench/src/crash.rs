//! tmp
use crate::server::Target;
use anyhow::Result;
/// tmp
pub async fn main(_t: Target, _a: u32, _b: Option<u64>, _d: Option<std::path::PathBuf>) -> Result<()> {
    Ok(())
}
