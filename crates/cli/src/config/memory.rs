//! The bound on memory: `--memory`, its minimum, and how its division is printed.

use sealpost_base::MemoryDivision;

use super::form;

/// An option of commands that serve.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct MemoryOption {
    /// Bound the memory of the server by SIZE, such as 64MiB [default: the configuration's `memory`]
    #[arg(long, value_name = "SIZE", value_parser = read)]
    pub memory: Option<MemoryDivision>,
}

fn read(text: &str) -> Result<MemoryDivision, String> {
    let division = form::size(text)?;
    check(&division).map_or(Ok(division), Err)
}

/// What is wrong with it, if anything is.
pub fn check(division: &MemoryDivision) -> Option<String> {
    let least = MemoryDivision::LEAST_BOUND;
    (division.bound < least).then(|| {
        format!("at least \"{}MiB\" are required: for the process itself and one password check", mib(least))
    })
}

/// The parts, for people.
pub fn division(division: &MemoryDivision) -> String {
    let parts = division.parts().map(|(name, bytes)| format!("{name} {}", mib(bytes)));
    format!("{} MiB: {}", mib(division.bound), parts.join(", "))
}

fn mib(bytes: usize) -> String {
    let tenths = (bytes * 10).div_ceil(1 << 20);
    if tenths.is_multiple_of(10) {
        (tenths / 10).to_string()
    } else {
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_said_with_its_parts() {
        assert_eq!(
            division(&read("256MiB").unwrap()),
            "256 MiB: process 32, connections 52.7, accounts 79, caches 16.5, work 76"
        );
    }

    #[test]
    fn too_little_is_refused() {
        assert!(read("48MiB").is_ok());
        assert_eq!(
            read("47MiB").unwrap_err(),
            "at least \"48MiB\" are required: for the process itself and one password check"
        );
        assert!(read("64").is_err());
    }
}
