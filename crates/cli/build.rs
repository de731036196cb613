//! The commit that the binary is built from, for `sealpost --version`.
//!
//! Only this crate is built again when the commit changes. A tree that is no clone, such as a
//! source archive, has no commit to name, even if it lies in a clone of another project.

#![allow(clippy::print_stdout, reason = "that is how a build script speaks to cargo")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of a commit's name.
const DIGITS: &str = "12";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = commit().unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=SEALPOST_COMMIT={commit}");
}

fn commit() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().ok()?;
    let clone = PathBuf::from(git(&root, &["rev-parse", "--show-toplevel"])?).canonicalize().ok()?;
    if clone != root {
        return None;
    }
    // What changes with the commit: which branch it is, where that is, and what is noted of both.
    let branch = git(&root, &["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        let file = root.join(git(&root, &["rev-parse", "--git-path", name])?);
        if file.exists() {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    git(&root, &["rev-parse", &format!("--short={DIGITS}"), "HEAD"])
}

/// One line of git's; `None` if there is no git, or it fails.
fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !line.trim().is_empty()).then(|| line.trim().to_owned())
}
