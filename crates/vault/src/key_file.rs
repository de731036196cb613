//! Files that hold the keys of an installation: complete or absent, whenever the machine stops, and
//! only their owner's to read.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use sealpost_base::Random;
use sealpost_files::owner;
use zeroize::Zeroizing;

/// At most `limit` bytes of the file at `path`.
pub(crate) fn read(path: &Path, limit: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(limit));
    File::open(path)?.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes `bytes` to `path` unless there is a file: of several processes that start at once, one is first.
pub(crate) fn create(path: &Path, bytes: &[u8], random: &dyn Random) -> io::Result<()> {
    write(path, bytes, random, |temporary| match std::fs::hard_link(temporary, path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    })
}

/// Writes `bytes` to `path`, in place of what is there.
pub(crate) fn replace(path: &Path, bytes: &[u8], random: &dyn Random) -> io::Result<()> {
    write(path, bytes, random, |temporary| std::fs::rename(temporary, path))
}

/// Written whole under another name first. Durable when it returns.
fn write(
    path: &Path,
    bytes: &[u8],
    random: &dyn Random,
    place: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:016x}.tmp", random.next_u64()));
    let temporary = path.with_file_name(name);
    let mut file = owner::create(&temporary)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| place(&temporary));
    match std::fs::remove_file(&temporary) {
        // It was renamed.
        Err(e) if e.kind() != ErrorKind::NotFound => placed.and(Err(e)),
        _ => placed,
    }?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}
