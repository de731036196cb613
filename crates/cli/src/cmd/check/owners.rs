//! File owners, when root checks the store of a service. Root reads every file; the service only
//! its own, and its clients get errors for some messages.

use std::io;
use std::path::{Path, PathBuf};

use sealpost_files::owner::Owner;
use sealpost_vault::local_store_owner;

use super::report::{Location as At, Report, Trouble};
use crate::data_dir::DataDir;

/// Files that are named; the others are counted.
const NAMED: usize = 10;

/// Reports files that belong to another user than the store. Only for root: for others an
/// unreadable file shows when it is read.
pub fn check(data_dir: &DataDir, report: &mut Report) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let elsewhere = data_dir.store.directory().filter(|directory| !directory.starts_with(&data_dir.dir));
    for directory in std::iter::once(data_dir.dir.as_path()).chain(elsewhere) {
        if let Err(e) = below(directory, report) {
            report.found(At::Account, Trouble::unread(format!("{}: {e}", directory.display())));
        }
    }
}

fn below(directory: &Path, report: &mut Report) -> io::Result<()> {
    let owner = local_store_owner(directory)?;
    let mut foreign = Foreign::default();
    foreign.walk(directory, owner)?;
    let Foreign { named, count } = foreign;
    let advice = format!("chown -R --reference={0} {0}", directory.display());
    for (path, other) in &named {
        let path = path.display();
        report.found(
            At::Account,
            Trouble::unread(format!(
                "{path} belongs to {other}: a server that runs as {owner} cannot read it; change the file owner ({advice})"
            )),
        );
    }
    if count > named.len() {
        let more = count - named.len();
        report.found(
            At::Account,
            Trouble::unread(format!("{more} more files do not belong to {owner} ({advice})")),
        );
    }
    Ok(())
}

#[derive(Default)]
struct Foreign {
    named: Vec<(PathBuf, Owner)>,
    count: usize,
}

impl Foreign {
    fn walk(&mut self, directory: &Path, owner: Owner) -> io::Result<()> {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // Removed since it was listed.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            let of = Owner::from(&metadata);
            if !of.is_same_user(owner) {
                self.count += 1;
                if self.named.len() < NAMED {
                    self.named.push((entry.path(), of));
                }
            }
            if metadata.is_dir() {
                match self.walk(&entry.path(), owner) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    looked => looked?,
                }
            }
        }
        Ok(())
    }
}
