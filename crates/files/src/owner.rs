//! File owners: files that root creates in another user's directory belong to that user, and an
//! error about a permission names the file owner.
//!
//! Administrators run commands with `sudo` on the data of a service that runs as a user of its own.
//! A file that stays root's there is sound, and the service cannot read it. So root gives every new
//! file and directory to the owner and group of the directory that it is for. SQLite does the same
//! with its `-wal` and `-shm` files.
//!
//! Only files that this process has just created change owner, and only through their open
//! descriptor: the owner of the directory may have replaced the path by a link to any file.

use std::error::Error as StdError;
use std::fmt;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

/// Mode of new directories: only the owner may read mail.
const DIRECTORY_MODE: u32 = 0o700;
/// Mode of new files.
const FILE_MODE: u32 = 0o600;
/// Where the system keeps the names of its users, and how much of that is read.
const USERS: &str = "/etc/passwd";
const USERS_BYTES: u64 = 1024 * 1024;

/// A user and a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// The owner of the file or directory at `path`.
    ///
    /// # Errors
    /// File system errors.
    pub fn of(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|metadata| Owner::from(&metadata))
    }

    /// Whether it is root.
    pub fn is_root(self) -> bool {
        Uid::from_raw(self.uid).is_root()
    }

    /// Whether it is the same user, in whatever group.
    pub fn is_same_user(self, other: Self) -> bool {
        self.uid == other.uid
    }

    /// The owner of a new file at `path`: that of its directory.
    ///
    /// # Errors
    /// File system errors.
    pub fn for_new(path: &Path) -> io::Result<Self> {
        Self::of(directory_of(path))
    }

    /// Creates a file for this owner alone, to be read and written.
    ///
    /// # Errors
    /// `AlreadyExists` if `path` exists; file system errors.
    pub fn create(self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(FILE_MODE).open(path)?;
        self.adopt(&file).inspect_err(|_| drop(std::fs::remove_file(path)))?;
        Ok(file)
    }

    /// Creates a directory for this owner alone.
    ///
    /// # Errors
    /// `AlreadyExists` if `path` exists; file system errors.
    pub fn create_directory(self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(DIRECTORY_MODE).create(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::open(path, flags, Mode::empty())?;
        self.adopt(&File::from(made)).inspect_err(|_| drop(std::fs::remove_dir(path)))
    }

    /// Gives the socket at `path`, which this process has just bound, to this owner, as
    /// [`Owner::adopt`] does with files.
    ///
    /// # Errors
    /// As [`Owner::adopt`].
    pub fn adopt_socket(self, path: &Path) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let socket = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        if !socket.metadata()?.file_type().is_socket() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.take(&socket, |uid, gid| rustix::fs::chownat(&socket, "", uid, gid, AtFlags::EMPTY_PATH))
    }

    /// Gives `new`, which this process has just created, to this owner if the process is root's.
    /// Other users own what they create.
    ///
    /// # Errors
    /// `PermissionDenied` if root may not, as in some containers: the owner could not read the
    /// file.
    pub fn adopt(self, new: &File) -> io::Result<()> {
        self.take(new, |uid, gid| rustix::fs::fchown(new, uid, gid))
    }

    fn take(
        self,
        new: &File,
        chown: impl FnOnce(Option<Uid>, Option<Gid>) -> Result<(), Errno>,
    ) -> io::Result<()> {
        if !rustix::process::geteuid().is_root() || Owner::from(&new.metadata()?) == self {
            return Ok(());
        }
        match chown(Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid))) {
            // No such user in this container, or no owners on this file system.
            Ok(()) | Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
            Err(e) => Err(io::Error::new(
                io::Error::from(e).kind(),
                format!(
                    "cannot change the owner of new files to {self}, the owner of the directory; run the \
                     command as {self}"
                ),
            )),
        }
    }
}

impl From<&Metadata> for Owner {
    fn from(metadata: &Metadata) -> Self {
        Owner { uid: metadata.uid(), gid: metadata.gid() }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match user_name(self.uid) {
            Some(name) => f.write_str(&name),
            None => write!(f, "user {}", self.uid),
        }
    }
}

/// Creates a file for the owner of its directory.
///
/// # Errors
/// As [`Owner::create`].
pub fn create(path: &Path) -> io::Result<File> {
    Owner::for_new(path)?.create(path)
}

/// As [`create`], replacing a file that an earlier run may have left.
///
/// # Errors
/// File system errors.
pub fn create_anew(path: &Path) -> io::Result<File> {
    match create(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            std::fs::remove_file(path)?;
            create(path)
        }
        created => created,
    }
}

/// Creates an empty file for the owner of its directory if there is none. An existing file is not
/// opened: SQLite's locks end when any descriptor of their file is closed.
///
/// # Errors
/// File system errors.
pub fn ensure(path: &Path) -> io::Result<()> {
    match create(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        created => created.map(drop),
    }
}

/// Opens a file to read and write; creates it for the owner of its directory if there is none.
///
/// # Errors
/// File system errors.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    let existing = || OpenOptions::new().read(true).write(true).open(path);
    match existing() {
        Err(e) if e.kind() == ErrorKind::NotFound => match create(path) {
            // Another process was first.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => existing(),
            created => created,
        },
        opened => opened,
    }
}

/// Opens a file to read and append; creates it for the owner of its directory if there is none.
///
/// # Errors
/// File system errors.
pub fn append_or_create(path: &Path) -> io::Result<File> {
    ensure(path)?;
    OpenOptions::new().read(true).append(true).open(path)
}

/// Creates a directory, and missing ones above it; each for the owner of its parent directory.
///
/// # Errors
/// File system errors.
pub fn make_directory(path: &Path) -> io::Result<()> {
    let above = directory_of(path);
    let make = || Owner::of(above)?.create_directory(path);
    let made = match make() {
        Err(e) if e.kind() == ErrorKind::NotFound && above != path && above != Path::new(".") => {
            make_directory(above)?;
            make()
        }
        made => made,
    };
    match made {
        Err(e) if e.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// The error `e` of the file at `path`; if a permission is missing, one that names the path without
/// it, and the owner.
pub fn explained(path: &Path, e: io::Error) -> io::Error {
    if e.kind() != ErrorKind::PermissionDenied || e.get_ref().is_some_and(|inner| inner.is::<Denied>()) {
        return e;
    }
    match Denied::at(path) {
        Some(denied) => io::Error::new(ErrorKind::PermissionDenied, denied),
        None => e,
    }
}

/// The path that denies this process access to `path`, and its owner: the file, or a directory
/// above it that may not be entered.
pub fn obstacle(path: &Path) -> Option<(PathBuf, Owner)> {
    Denied::at(path).map(|denied| (denied.path, denied.owner))
}

/// An error about the first of these files that exists and that this process may not read or, with
/// `write`, write.
pub fn denied_among<'a>(paths: impl IntoIterator<Item = &'a Path>, write: bool) -> Option<io::Error> {
    let wanted = if write { Access::READ_OK | Access::WRITE_OK } else { Access::READ_OK };
    let mut denied = paths
        .into_iter()
        .filter(|path| matches!(rustix::fs::access(*path, wanted), Err(Errno::ACCESS | Errno::PERM)));
    let e = io::Error::from(ErrorKind::PermissionDenied);
    denied.next().map(|path| explained(path, e))
}

/// Whether this process may write to the file at `path`: its mode, and how the file system is
/// mounted.
pub fn may_write(path: &Path) -> bool {
    !matches!(rustix::fs::access(path, Access::WRITE_OK), Err(Errno::ACCESS | Errno::PERM | Errno::ROFS))
}

/// Whether the error, or one that caused it, is about a permission on a file: that is never damage.
pub fn is_denied(error: &(dyn StdError + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |&e| e.source());
    let mut errors = causes.filter_map(|cause| cause.downcast_ref::<io::Error>());
    errors.any(|e| e.kind() == ErrorKind::PermissionDenied)
}

/// A path that denies this process access.
#[derive(Debug)]
struct Denied {
    path: PathBuf,
    owner: Owner,
    mode: u32,
}

impl Denied {
    /// `path`, or the directory above it that may not be entered.
    fn at(path: &Path) -> Option<Self> {
        path.ancestors().find_map(|path| {
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            let metadata = std::fs::metadata(path).ok()?;
            let owner = Owner::from(&metadata);
            Some(Denied { path: path.to_owned(), owner, mode: metadata.mode() & 0o7777 })
        })
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Denied { path, owner, mode } = self;
        let path = path.display();
        if owner.uid == rustix::process::geteuid().as_raw() {
            return write!(
                f,
                "permission denied: {path} has mode {mode:o} and belongs to {owner}, the user of this \
                 command; change its mode, or check SELinux, AppArmor and the sandbox of the systemd unit"
            );
        }
        write!(
            f,
            "permission denied: {path} belongs to {owner}; run the command as {owner}, or change the file owner"
        )
    }
}

impl StdError for Denied {}

/// The name of a user of this machine; `None` for one that a directory service knows.
fn user_name(uid: u32) -> Option<String> {
    let mut text = String::new();
    File::open(USERS).ok()?.take(USERS_BYTES).read_to_string(&mut text).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    /// A number that no user need have.
    const SOMEBODY: u32 = 54_321;

    fn owner(path: &Path) -> (u32, u32) {
        let metadata = std::fs::symlink_metadata(path).unwrap();
        (metadata.uid(), metadata.gid())
    }

    /// A directory of another user, if this one may give files away.
    fn of_another() -> Option<tempfile::TempDir> {
        let dir = tempfile::tempdir().unwrap();
        chown(dir.path(), Some(SOMEBODY), Some(SOMEBODY)).ok()?;
        Some(dir)
    }

    #[test]
    fn new_files_belong_to_the_owner_of_the_directory() {
        let Some(dir) = of_another() else { return };
        let below = dir.path().join("a/b/c");
        make_directory(&below).unwrap();
        make_directory(&below).unwrap();
        drop(create(&below.join("d")).unwrap());
        drop(open_or_create(&below.join("e")).unwrap());
        ensure(&below.join("f")).unwrap();
        for text in ["one", "two"] {
            append_or_create(&below.join("g")).unwrap().write_all(text.as_bytes()).unwrap();
        }
        assert_eq!(std::fs::read(below.join("g")).unwrap(), b"onetwo");
        let files = ["a/b/c/d", "a/b/c/e", "a/b/c/f", "a/b/c/g"];
        for path in [&["a", "a/b", "a/b/c"][..], &files].concat() {
            assert_eq!(owner(&dir.path().join(path)), (SOMEBODY, SOMEBODY), "{path}");
        }
        assert_eq!(std::fs::metadata(&below).unwrap().permissions().mode() & 0o7777, 0o700);
        for file in files {
            assert_eq!(
                std::fs::metadata(dir.path().join(file)).unwrap().permissions().mode() & 0o7777,
                0o600,
                "{file}"
            );
        }
    }

    #[test]
    fn a_socket_changes_hands_and_nothing_else_does() {
        let Some(dir) = of_another() else { return };
        let (socket, file) = (dir.path().join("socket"), dir.path().join("file"));
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::fs::write(&file, "").unwrap();
        symlink(&socket, dir.path().join("link")).unwrap();
        let somebody = Owner::of(dir.path()).unwrap();
        assert!(somebody.adopt_socket(&file).is_err());
        assert!(somebody.adopt_socket(&dir.path().join("link")).is_err());
        assert_ne!(owner(&socket).0, SOMEBODY);
        somebody.adopt_socket(&socket).unwrap();
        assert_eq!(owner(&socket), (SOMEBODY, SOMEBODY));
    }

    #[test]
    fn existing_files_keep_their_owner() {
        let Some(dir) = of_another() else { return };
        let mine = tempfile::NamedTempFile::new().unwrap();
        let before = owner(mine.path());
        symlink(mine.path(), dir.path().join("link")).unwrap();
        drop(open_or_create(&dir.path().join("link")).unwrap());
        ensure(&dir.path().join("link")).unwrap();
        assert!(create(&dir.path().join("link")).is_err());
        assert_eq!(owner(mine.path()), before);
    }

    #[test]
    fn directories_are_made_below_links_but_not_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(make_directory(&dir.path().join("file")).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(make_directory(&dir.path().join("file/a")).unwrap_err().kind(), ErrorKind::NotADirectory);
        symlink(dir.path(), dir.path().join("link")).unwrap();
        make_directory(&dir.path().join("link")).unwrap();
        make_directory(Path::new("/")).unwrap();
        make_directory(Path::new(".")).unwrap();
    }

    #[test]
    fn a_missing_permission_names_the_file_and_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "").unwrap();
        let denied = || io::Error::from(ErrorKind::PermissionDenied);
        let text = explained(&path, denied()).to_string();
        assert!(text.starts_with("permission denied: ") && text.contains(path.to_str().unwrap()), "{text}");
        if chown(&path, Some(SOMEBODY), None).is_ok() {
            let text = explained(&path, denied()).to_string();
            assert!(
                text.ends_with(
                    "belongs to user 54321; run the command as user 54321, or change the file owner"
                )
            );
            // A missing path leads to the directory.
            let below = explained(&path.join("b/c"), denied()).to_string();
            assert_eq!(below, text);
        }
        let again = explained(&path, explained(&path, denied()));
        assert!(is_denied(&again) && again.get_ref().is_some_and(|inner| inner.is::<Denied>()));
        let other = explained(&path, ErrorKind::NotFound.into());
        assert!(!is_denied(&other));
        assert!(is_denied(&sealpost_base::Error::retry("a").with_source(denied())));
    }

    #[test]
    fn users_have_names() {
        assert_eq!(user_name(0).as_deref(), Some("root"));
        assert_eq!(user_name(SOMEBODY), None);
    }
}
