//! Keeping keys and mail, which are in memory while they are used, out of core dumps and from other
//! processes.

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};

/// Whether this process may be looked into.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Inspection {
    /// It leaves no core dumps, and other processes of its user can neither read its memory nor
    /// what `/proc` says of its files.
    #[default]
    Off,
    /// As the system has it.
    On,
}

impl Inspection {
    /// Sees to it.
    ///
    /// # Errors
    /// What the system says; everything is as it was then.
    pub fn apply(self) -> io::Result<()> {
        match self {
            Inspection::Off => {
                leave_no_cores()?;
                hide()
            }
            Inspection::On => Ok(()),
        }
    }
}

/// Lets this process, and those that it starts, leave no core dumps in files.
///
/// # Errors
/// What the system says.
pub fn leave_no_cores() -> io::Result<()> {
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}

/// No core dump for a program that the system pipes them to either, for any limit, and no debugger.
#[cfg(target_os = "linux")]
fn hide() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

#[cfg(not(target_os = "linux"))]
fn hide() -> io::Result<()> {
    Ok(())
}
