//! Inputs that fuzzing kept, in `tests/corpus/TARGET/` of a crate: tests replay them on any toolchain.

use std::fs;
use std::path::Path;

/// The inputs of a target, in the order of their names. `crate_dir` is `env!("CARGO_MANIFEST_DIR")`
/// of the crate.
///
/// # Panics
/// If there are none, or they cannot be read.
pub fn inputs(crate_dir: &str, target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(crate_dir).join("tests/corpus").join(target);
    let shown = directory.display();
    let entries = fs::read_dir(&directory).unwrap_or_else(|e| panic!("{shown}: {e}"));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a directory is read").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no inputs in {shown}");
    paths.iter().map(|path| fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).collect()
}

/// Runs `run` with every input of a target.
///
/// # Panics
/// As [`inputs`].
pub fn replay(crate_dir: &str, target: &str, run: impl FnMut(&[u8])) {
    let mut run = run;
    inputs(crate_dir, target).iter().for_each(|input| run(input));
}

/// Runs `run` with every input of a target, whole, cut at some fifty places, and with a byte
/// changed at each of them.
///
/// # Panics
/// As [`inputs`].
pub fn replay_variants(crate_dir: &str, target: &str, mut run: impl FnMut(&[u8])) {
    for input in inputs(crate_dir, target) {
        run(&input);
        for at in (0..input.len()).step_by(1 + input.len() / 50) {
            run(&input[..at]);
            let mut changed = input.clone();
            changed[at] = changed[at].wrapping_add(1);
            run(&changed);
        }
    }
}

/// Runs `run` with every input of a target, whose first byte says how the rest is cut, and with
/// some other cuts.
///
/// # Panics
/// As [`inputs`].
pub fn replay_cuts(crate_dir: &str, target: &str, mut run: impl FnMut(&[u8])) {
    for input in inputs(crate_dir, target) {
        run(&input);
        for cut in [0, 1, 2, 6, 30] {
            run(&[&[cut], input.get(1..).unwrap_or_default()].concat());
        }
    }
}
